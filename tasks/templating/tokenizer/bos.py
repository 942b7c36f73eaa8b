"""Exactly one BOS at the beginning of every conversation, if the tokenizer puts one before texts.

Conversations are tokenized without the tokenizer's own special tokens, so the chat template has to
write their BOS; plain texts get it from the tokenizer. If the tokenizer begins every text with a
BOS, the model has seen one on everything that it was trained on, so conversations get one, too.
One that stands further on says nothing: some tokenizers (OPT's) have one token for BOS and EOS.
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
    """The tokenizer's chat template, completed so that a conversation begins with one BOS.

    Unchanged where the tokenizer puts no BOS before texts.

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
    if not text.lstrip().startswith(bos):
        return WRITE % own.bos_name + template
    problem = bos_problem(text, bos)
    if problem:
        raise TemplateError(problem)
    return template


def bos_problem(text: str, bos: str) -> str | None:
    """What is wrong with the beginning of a rendered conversation, in a sentence, or None."""
    begun = text.lstrip()
    if not begun.startswith(bos):
        return (
            f"the chat template writes no {bos} here, though it does elsewhere and the tokenizer "
            "begins every text with it; write it for every conversation"
        )
    if begun[len(bos) :].lstrip().startswith(bos):
        return f"the chat template writes {bos} twice at the beginning; write it once"
    return None


def begins_badly(text: bytes, bos: str) -> bool:
    """Whether something is wrong with the BOS at the beginning of a text."""
    first = bos.encode()
    after = text[len(first) : len(first) + 1]
    if text.startswith(first) and b"!" <= after <= b"~" and not text.startswith(first, len(first)):
        return False  # as nearly always: it stands there once, and no white space after it
    return bos_problem(text.decode(), bos) is not None
