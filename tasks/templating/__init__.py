"""Messages and text as the exact text that the model reads."""

from tasks.conversion.shapes import is_conversational
from tasks.templating.params import TemplatingParams
from tasks.templating.render import apply_chat_template, render

__all__ = ["TemplatingParams", "apply_chat_template", "is_conversational", "render"]
