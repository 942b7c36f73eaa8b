"""The special tokens that a tokenizer itself puts around a text, and the template beside them.

Conversations are tokenized without the tokenizer's own additions, so their BOS is the template's
affair; plain text gets the tokenizer's. A tokenizer that begins every text with a BOS has seen
one on all that it was trained on: then every conversation begins with exactly one, too.
"""

from typing import Any

from tasks.errors import TemplateError
from tasks.templating.render import Messages, render

WRITE_BOS = "{{- bos_token }}"
_TURNS: Messages = [
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": "b"},
]


def own_bos(tokenizer: Any) -> str | None:
    """The BOS that the tokenizer puts before every text, or None where it puts none."""
    first, bare = _first_and_bare(tokenizer)
    bos = tokenizer.bos_token_id
    return tokenizer.bos_token if bos is not None and first[:1] == [bos] != bare[:1] else None


def closes_text(tokenizer: Any) -> bool:
    """Whether the tokenizer puts its EOS after every text by itself."""
    whole, bare = _first_and_bare(tokenizer)
    end = [tokenizer.eos_token_id]
    return whole[-1:] == end != bare[-1:]


def how_to_close(tokenizer: Any) -> str:
    """What to do about a tokenizer that names no EOS, in a clause; BERT's ends texts in [SEP]."""
    whole, bare = _first_and_bare(tokenizer)
    own = tokenizer.added_tokens_decoder.get(whole[-1]) if whole[-1:] != bare[-1:] else None
    if own is None:
        return "set eos_token in its tokenizer_config.json"
    return (
        f"it puts {own.content} after every text by itself: set eos_token to that in its "
        "tokenizer_config.json, and give conversations and a chat template that writes it, "
        "since rows of text would end in two"
    )


def with_one_bos(tokenizer: Any) -> str:
    """The tokenizer's chat template, so completed that a conversation begins with the BOS once.

    It is as it was where the tokenizer has no BOS of its own to put before text.

    Raises:
        TemplateError: the template writes the BOS twice.
    """
    template: str = tokenizer.chat_template
    bos = own_bos(tokenizer)
    if bos is None:
        return template
    try:
        text = render(_TURNS, tokenizer)
    except TemplateError:  # the rows tell, each for itself, what the template refuses
        return template
    if bos not in text:
        return WRITE_BOS + template
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


def _first_and_bare(tokenizer: Any) -> tuple[list[int], list[int]]:
    return (
        list(tokenizer("a")["input_ids"]),
        list(tokenizer("a", add_special_tokens=False)["input_ids"]),
    )


def begins_badly(text: bytes, bos: str) -> bool:
    """Whether something is wrong with the BOS at the beginning of a text."""
    first = bos.encode()
    after = text[len(first) : len(first) + 1]
    if text.startswith(first) and b"!" <= after <= b"~" and not text.startswith(first, len(first)):
        return False  # as nearly always: it stands there once, and no white space after it
    return bos_problem(text.decode(), bos) is not None
