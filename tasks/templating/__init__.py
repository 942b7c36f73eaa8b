"""Messages and text as the exact text that the model reads.

render, renderer   one conversation; both sides of a pair, or why they have no text
template, environment, sandbox, limits    the chat template, compiled and held within bounds
template_faults    what it does wrong whatever the rows are
parts, pictures, turn_order    what of a conversation many templates drop or refuse
tokenizer/         its file, its special tokens, what it puts around texts itself
traced/            the template run once with symbols in place of words
replay/            conversations of a structure that was traced, without the template
shards/            the rows of one shard: in columns where they are plain, else one by one
task, text_shards  the stage, and where its texts stand
"""

from tasks.conversion.preference.shapes import is_conversational
from tasks.templating.params import TemplatingParams
from tasks.templating.render import apply_chat_template, render

__all__ = ["TemplatingParams", "apply_chat_template", "is_conversational", "render"]
