"""What a pair is known by: its id, its prompt group, its split, and what makes it a duplicate.

All of it is a pure function of the pair's content (and of seed and fraction for the split), so a
new row never changes what an old one is called or where it goes.

    pair_id   128 bits over prompt, chosen, rejected, tools and template arguments, to the byte,
              and whether it is a tie
    group     128 bits over the prompt in NFKC, without case, whitespace runs as one space; over
              the comparison, or the two answers, where there is no prompt
    split     "eval" where hash(seed, group), as a fraction of its range, is below eval_fraction
    key       128 bits over context and both answers in NFC, stripped, without regard to which is
              chosen; the lowest bit says which. Equal keys are duplicates; keys that differ in
              that bit alone contradict each other. A tie has keys of its own: it contradicts no
              label and repeats none
"""

import unicodedata
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import orjson

from tasks.conversion.messages import Messages
from tasks.conversion.pair import TIE, Pair, normal

Split = Literal["train", "eval"]
DIGEST_BYTES = 16
_MARK = "\0"
"""Keeps roles and contents apart in a prompt's group."""
_MESSAGE_KEYS = ("role", "content")
_SEPARATOR = b"\0"
"""Cannot occur within JSON text."""


@dataclass(frozen=True)
class Identity:
    """A pair's names, and its texts as the JSON that is stored."""

    pair_id: str
    group: str
    split: Split
    key: bytes
    answers: tuple[bytes, bytes]
    """8 bytes each: chosen and rejected as answers to this prompt, whatever pair they are in."""
    prompt: bytes | None
    chosen: bytes
    rejected: bytes


def identify(pair: Pair, seed: int, eval_fraction: float) -> Identity:
    """The names of a canonical pair."""
    prompt = None if pair.prompt is None else _dumped(pair.prompt)
    chosen, rejected = _dumped(pair.chosen), _dumped(pair.rejected)
    context = [(pair.tools or "").encode(), (pair.chat_template_kwargs or "").encode()]
    if pair.preference == TIE:
        context.append(b"tie")
    group = prompt_group(pair)
    asked = b""
    if pair.prompt is not None and prompt is not None:
        asked = _comparable(pair.prompt, prompt)
    sides = _comparable(pair.chosen, chosen), _comparable(pair.rejected, rejected)
    context_digest = _digest(asked, *context)
    return Identity(
        pair_id=_digest(prompt or b"", chosen, rejected, *context).hex(),
        group=group,
        split=split_of(group, seed, eval_fraction),
        key=_key(asked, *sides, context, pair.preference == TIE),
        answers=(_answer(context_digest, sides[0]), _answer(context_digest, sides[1])),
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
    )


def split_of(group: str, seed: int, eval_fraction: float) -> Split:
    """The split of a whole group: the same in every run, whatever other rows there are.

    A larger fraction only moves groups from train to eval, never back.
    """
    digest = blake2b(f"{seed}:{group}".encode(), digest_size=8).digest()
    return "eval" if int.from_bytes(digest, "big") < eval_fraction * 2**64 else "train"


def prompt_group(pair: Pair) -> str:
    """The unit of splitting, as hex: pairs whose prompts look alike share it.

    A text prompt and a single user turn of the same text are one group. Pairs without a prompt are
    grouped by their two answers, whichever is chosen.
    """
    text = _group_text(pair.prompt) if pair.prompt else ""
    if not text:
        if pair.comparison is not None:
            return _digest(b"comparison", pair.comparison.encode()).hex()
        answers = sorted((_group_text(pair.chosen), _group_text(pair.rejected)))
        return _digest(b"answers", *(a.encode() for a in answers)).hex()
    return _digest(b"prompt", text.encode()).hex()


def _dumped(value: str | Messages) -> bytes:
    """The value's JSON; a message's keys stand in one order, however its file had them."""
    if isinstance(value, str) or all(tuple(m) == _MESSAGE_KEYS for m in value):
        return orjson.dumps(value)
    return orjson.dumps([{k: m[k] for k in sorted(m, key=_message_key_order)} for m in value])


def _message_key_order(key: str) -> tuple[int, str]:
    place = _MESSAGE_KEYS.index(key) if key in _MESSAGE_KEYS else len(_MESSAGE_KEYS)
    return place, key


def _group_text(value: str | Messages) -> str:
    """The value as it is compared; "" for a blank text."""
    if isinstance(value, str):
        text = _alike(value)
        return text and f"user {_MARK} {text} {_MARK}"
    return " ".join([f"{m['role']} {_MARK} {_alike(m['content'] or '')} {_MARK}" for m in value])


def _alike(text: str) -> str:
    """NFKC, casefolded, whitespace runs as one space, none around it."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold()
    if text.isprintable() and "  " not in text:  # the usual case: no whitespace but single spaces
        return text.strip()
    return " ".join(text.split())


def _key(asked: bytes, a: bytes, b: bytes, context: list[bytes], tie: bool) -> bytes:
    """16 bytes; the lowest bit of the last one is 1 where chosen sorts after rejected."""
    digest = _digest(asked, min(a, b), max(a, b), *context)
    return digest[:-1] + bytes([digest[-1] & 0xFE | (a > b and not tie)])


def _answer(context: bytes, answer: bytes) -> bytes:
    return blake2b(context + answer, digest_size=8).digest()


def _comparable(value: str | Messages, dumped: bytes) -> bytes:
    """The value's JSON with every text normalised; `dumped` itself where nothing changes."""
    if isinstance(value, str):
        return orjson.dumps(normal(value))
    for message in value:
        text = message["content"] or ""
        if text != normal(text):
            break
    else:
        return dumped
    return orjson.dumps([m | {"content": normal(m["content"] or "")} for m in value])


def _digest(*parts: bytes) -> bytes:
    return blake2b(_SEPARATOR.join(parts), digest_size=DIGEST_BYTES).digest()
