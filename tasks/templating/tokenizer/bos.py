"""The BOS that a tokenizer itself puts before every text, and the template beside it.

Conversations are tokenized without the tokenizer's own additions, so their BOS is the template's
affair; plain text gets the tokenizer's. A tokenizer that begins every text with a BOS has seen
one on all that it was trained on: then every conversation begins with exactly one, too.
"""

from typing import Any

from tasks.errors import TemplateError
from tasks.templating.render import Messages, render
from tasks.templating.tokenizer.own_tokens import own_tokens

WRITE = "{{- %s }}"
_TURNS: Messages = [
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": "b"},
]


def with_one_bos(tokenizer: Any) -> str:
    """The tokenizer's chat template, so completed that a conversation begins with the BOS once.

    It is as it was where the tokenizer has no BOS of its own to put before text.

    Raises:
        TemplateError: the template writes the BOS twice.
    """
    template: str = tokenizer.chat_template
    own = own_tokens(tokenizer)
    bos = own.bos
    if bos is None:
        return template
    try:
        text = render(_TURNS, tokenizer)
    except TemplateError:  # the rows tell, each for itself, what the template refuses
        return template
    if bos not in text:
        return WRITE % own.bos_name + template
    problem = bos_problem(text, bos)
    if problem:
        raise TemplateError(problem)
    return template


def bos_problem(text: str, bos: str) -> str | None:
    """What is wrong with the beginning of a rendered conversation, in a sentence, or None."""
    if bos not in text:
        return (
            f"the chat template writes no {bos} here, though it does elsewhere and the tokenizer "
            "begins every text with it; write it for every conversation"
        )
    if text.lstrip().startswith(bos) and text.lstrip()[len(bos) :].lstrip().startswith(bos):
        return f"the chat template writes {bos} twice at the beginning; write it once"
    return None


def begins_badly(text: bytes, bos: str) -> bool:
    """Whether something is wrong with the BOS at the beginning of a text."""
    first = bos.encode()
    after = text[len(first) : len(first) + 1]
    if text.startswith(first) and b"!" <= after <= b"~" and not text.startswith(first, len(first)):
        return False  # as nearly always: it stands there once, and no white space after it
    return bos_problem(text.decode(), bos) is not None
