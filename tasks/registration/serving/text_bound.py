"""A lower bound on the tokens of a text from its bytes alone, without running the tokenizer.

    text of 15 MB, longest token of 128 bytes   ->   117,188 tokens or more

This holds for byte-level BPE, and for BPE that falls back to bytes: there every byte of a text is
in a token. Where a tokenizer may leave parts of a text out, or make one token of any number of
unknown characters (WordPiece, Unigram), nothing is known.
"""

import json
from dataclasses import dataclass
from typing import Any, Self

from tokenizers.pre_tokenizers import ByteLevel

COMPOSING = 4
"""Bound on how many times longer, in bytes, a text may be than its NFC form: at most 3.5 (U+0390,
from U+1FBE and two marks); 1 for ASCII."""
FALLBACKS = {f"<0x{byte:02X}>" for byte in range(256)}
KEEPING = ("ByteLevel", "Split", "Digits", "Metaspace")
"""Pre-tokenizers that leave nothing of a text out."""


@dataclass(frozen=True)
class TextBound:
    """The lower bound on tokens for one tokenizer."""

    longest: int
    """Bytes of the longest token."""
    composes: bool
    """Whether texts are brought into NFC first."""
    absorbing: tuple[str, ...]
    """Tokens that take the white space beside them, however much that is."""

    @classmethod
    def of(cls, tokenizer: Any) -> Self | None:
        """The bound of a tokenizer; None if it may drop or merge any number of bytes."""
        if not getattr(tokenizer, "is_fast", False):
            return None
        state: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
        normalizers, splitters = (_parts(state[n]) for n in ("normalizer", "pre_tokenizer"))
        model, added = state["model"], state["added_tokens"]
        if model["type"] != "BPE" or not all(map(_shortens_nothing, normalizers)):
            return None
        if any(p["type"] not in KEEPING or p.get("behavior") == "Removed" for p in splitters):
            return None
        of_bytes = any(part["type"] == "ByteLevel" for part in splitters)
        needed = {*ByteLevel.alphabet()} if of_bytes else FALLBACKS
        if not (of_bytes or model.get("byte_fallback")) or not needed <= model["vocab"].keys():
            return None
        sizes = (len(token) if of_bytes else len(token.encode()) for token in model["vocab"])
        return cls(
            max([*sizes, *(len(token["content"].encode()) for token in added)]),
            any(part["type"] == "NFC" for part in normalizers),
            tuple(t["content"] for t in added if t["lstrip"] or t["rstrip"]),
        )

    def least(self, text: str) -> int:
        """Tokens that the text has at least."""
        if any(token in text for token in self.absorbing):
            return 0
        composed = COMPOSING if self.composes and not text.isascii() else 1
        return -(-len(text.encode()) // (self.longest * composed))


def _parts(component: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The parts of a normalizer or pre-tokenizer that is a sequence; else that one alone."""
    if component is None:
        return []
    inner = component.get("normalizers") or component.get("pretokenizers")
    return [component] if inner is None else [part for each in inner for part in _parts(each)]


def _shortens_nothing(normalizer: dict[str, Any]) -> bool:
    """Whether it makes no text shorter, but for NFC, which `COMPOSING` bounds."""
    if normalizer["type"] == "Replace":
        old, new = normalizer["pattern"].get("String"), normalizer["content"]
        return old is not None and len(new.encode()) >= len(old.encode())
    return normalizer["type"] in ("NFC", "Prepend")
