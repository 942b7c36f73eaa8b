"""What a pair is known by: its id, its prompt group, its split, and what makes it a duplicate.

All of it is a pure function of the pair's content (and of seed and fraction for the split), so a
new row never changes what an old one is called or where it goes.

    pair_id   128 bits over prompt, chosen, rejected, tools, template arguments and images, to the
              byte, and whether it is a tie
    group     128 bits over the prompt in NFKC, without case, whitespace runs as one space; over
              the comparison, or the two answers, where there is no prompt
    split     "eval" where hash(seed, group), as a fraction of its range, is below eval_fraction;
              split_by "opening" takes the group that the prompt's first turns would be
    key       128 bits over context and both answers in NFC, stripped, without regard to which is
              chosen; the lowest bit says which. Equal keys are duplicates; keys that differ in
              that bit alone contradict each other. A tie has keys of its own: it contradicts no
              label and repeats none

This runs on every pair: a text that neither NFC nor case can change (`characters`) is never copied
character by character, and what has been hashed once is hashed no second time.
"""

import unicodedata
from hashlib import blake2b
from typing import NamedTuple

import orjson

from tasks.conversion.conversation.messages import Message, Messages, text_of
from tasks.conversion.options import SplitBy
from tasks.conversion.preference.characters import NONE, SETTLED, beyond_ascii, level_of
from tasks.conversion.preference.folding import folded_bytes
from tasks.conversion.preference.pair import TIE, Pair
from tasks.conversion.preference.sides import normal, normal_content
from tasks.conversion.preference.splits import Split, opening, split_of
from tasks.ingestion.formats.json_bytes import dumped

DIGEST_BYTES = 16
_MARK = "\0"
"""Keeps roles and contents apart in a prompt's group."""
_MESSAGE_KEYS = ("role", "content")
_PLAIN_KEYS = [*_MESSAGE_KEYS]
_SEPARATOR = b"\0"
"""Cannot occur within JSON text."""


class Identity(NamedTuple):
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
    text: bytes
    """All stored texts of the pair, joined, to be searched."""
    level: int
    """The level of the text's characters (`characters`)."""
    turns: bytes
    """The form of the prompt that its group is the hash of; empty where there is no prompt."""
    together: str
    """The group by which the split is drawn."""


def identify(pair: Pair, seed: int, eval_fraction: float, split_by: SplitBy = "prompt") -> Identity:
    """The names of a canonical pair."""
    prompt = None if pair.prompt is None else _stored(pair.prompt)
    chosen, rejected = _stored(pair.chosen), _stored(pair.rejected)
    context = [(pair.tools or "").encode(), (pair.chat_template_kwargs or "").encode()]
    if pair.images is not None:
        context += [b"images", pair.images.encode()]
    tie = pair.preference == TIE
    if tie:
        context.append(b"tie")
    text = _SEPARATOR.join((prompt or b"", chosen, rejected, *context))
    level = NONE if text.isascii() else level_of(beyond_ascii(text))
    settled = level <= SETTLED
    turns = _alike(pair.prompt, settled) if pair.prompt else b""
    comparable = b""
    if pair.prompt is not None and prompt is not None:
        comparable = _comparable(pair.prompt, prompt, settled)
    question = _digest(comparable, *context)
    better = _digest(question, _comparable(pair.chosen, chosen, settled))
    worse = _digest(question, _comparable(pair.rejected, rejected, settled))
    group = _group(pair, turns, settled)
    together = _group(pair, opening(turns), settled) if split_by == "opening" else group
    return Identity(
        pair_id=_digest(text).hex(),
        group=group,
        split=split_of(together, seed, eval_fraction),
        key=_key(better, worse, tie),
        answers=(better[:8], worse[:8]),
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        text=text,
        level=level,
        turns=turns,
        together=together,
    )


def _key(better: bytes, worse: bytes, tie: bool) -> bytes:
    """The duplicate key of two answers, from their digests (each covers the prompt, too).

    Swapping the answers changes the lowest bit alone: it is 1 where chosen sorts after rejected.
    """
    both = int.from_bytes(better, "big") ^ int.from_bytes(worse, "big")
    return (both >> 1 << 1 | (better > worse and not tie)).to_bytes(DIGEST_BYTES, "big")


def prompt_group(pair: Pair) -> str:
    """The unit of splitting, as hex: pairs whose prompts look alike share it.

    A text prompt and a single user turn of the same text are one group. Pairs without a prompt are
    grouped by their two answers, whichever is chosen.
    """
    turns = _alike(pair.prompt, settled=False) if pair.prompt else b""
    return _group(pair, turns, settled=False)


def _group(pair: Pair, turns: bytes, settled: bool) -> str:
    if not turns:
        if pair.comparison is not None:
            return _digest(b"comparison", pair.comparison.encode()).hex()
        answers = sorted((_alike(pair.chosen, settled), _alike(pair.rejected, settled)))
        return _digest(b"answers", *answers).hex()
    return _digest(b"prompt", turns).hex()


def _stored(value: str | Messages) -> bytes:
    """The value's JSON; a message's keys stand in one order, however its file had them."""
    if isinstance(value, str) or all(list(m) == _PLAIN_KEYS for m in value):
        return dumped(value)
    return dumped([{k: m[k] for k in sorted(m, key=_message_key_order)} for m in value])


def _message_key_order(key: str) -> tuple[int, str]:
    place = _MESSAGE_KEYS.index(key) if key in _MESSAGE_KEYS else len(_MESSAGE_KEYS)
    return place, key


def _alike(value: str | Messages, settled: bool) -> bytes:
    """The value as prompts are compared; empty for a blank text.

    NFKC, casefolded, whitespace runs as one space, none around a content. In a settled text only
    ASCII has case and whitespace, so its bytes are folded.
    """
    if isinstance(value, str):
        if not value.strip():
            return b""
        value = [{"role": "user", "content": value}]
    texts = [text_of(message) for message in value]
    if settled:
        pairs = zip(value, texts, strict=True)
        turns = " ".join([f"{m['role']} {_MARK} {text} {_MARK}" for m, text in pairs])
        return folded_bytes(turns.encode())
    turns = [
        f"{m['role']} {_MARK} {_folded(text)} {_MARK}" for m, text in zip(value, texts, strict=True)
    ]
    return " ".join(turns).encode()


def _folded(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def _comparable(value: str | Messages, stored: bytes, settled: bool) -> bytes:
    """The value's JSON with every text normalised; `stored` itself where nothing changes."""
    if isinstance(value, str):
        text = value.strip() if settled else normal(value)
        return stored if text == value else orjson.dumps(text)
    if all(_is_normal(message, settled) for message in value):
        return stored
    return _stored([m | {"content": normal_content(m["content"])} for m in value])


def _is_normal(message: Message, settled: bool) -> bool:
    content = message["content"]
    if settled and isinstance(content, str):
        return content.strip() == content
    return normal_content(content) == (content or "")


def _digest(*parts: bytes) -> bytes:
    return blake2b(_SEPARATOR.join(parts), digest_size=DIGEST_BYTES).digest()
