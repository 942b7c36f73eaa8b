"""The two encoders of a `tokenizer.json`: equal ids at different speeds.

fastokens      native BPE over all cores; caches texts between special tokens. It does not load
               every tokenizer, and `encoder` checks its ids.
tokenizers     the reference. If no part of the tokenizer looks across a special token, each
               distinct text between special tokens is encoded once:

    <|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\nYes<|im_end|>      chosen
    <|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\nNo<|im_end|>       rejected
    -> encoded: "user\\nHi", "\\n", "assistant\\nYes", "assistant\\nNo"
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tasks.errors import DataError, shown
from tasks.templating.tokenizer.one_of import one_of
from tasks.templating.tokenizer.tokenizer_file import TokenizerFile
from tasks.tokenization.encode import Ids
from tasks.tokenization.flat import FlatIds, join

CACHE_BYTES = 32 * 2**20
CACHED_PIECES = 1 << 16
LOCAL = frozenset(
    {
        *("ByteLevel", "Split", "Sequence", "Digits", "Whitespace", "WhitespaceSplit"),
        *("Punctuation", "BertPreTokenizer", "UnicodeScripts", "Replace"),
        *("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "BertNormalizer"),
        *("ByteFallback", "Precompiled"),
    }
)
"""Normalizers and pre-tokenizers whose result for a text between special tokens does not depend on
its place. Metaspace is none of them: it marks the beginning of a text."""


class Engine(Protocol):
    """Token ids of texts, never truncated, never padded."""

    def __call__(self, texts: Sequence[str], *, add_special_tokens: bool) -> FlatIds:
        """The ids of every text."""
        ...


class FastokensEngine:
    """Encodes with fastokens; texts that it would split in other places, with `reference`."""

    def __init__(self, file: TokenizerFile, reference: "TokenizersEngine") -> None:
        self.backend = file.fast()
        self.backend.enable_segment_cache(CACHE_BYTES)
        self.reference = reference
        self.elsewhere = _split_elsewhere(file)

    def __call__(self, texts: Sequence[str], *, add_special_tokens: bool) -> FlatIds:
        """The ids of every text."""
        found = self._encoded(texts, add_special_tokens)
        where = self.elsewhere
        odd = [i for i, text in enumerate(texts) if where.search(text)] if where else []
        if not odd:
            return found
        lists = found.lists()
        wanted = self.reference.whole(
            [texts[i] for i in odd], add_special_tokens=add_special_tokens
        )
        for i, ids in zip(odd, wanted.lists(), strict=True):
            lists[i] = ids
        return join(lists)

    def _encoded(self, texts: Sequence[str], add_special_tokens: bool) -> FlatIds:
        ids, offsets = self.backend.encode_batch_flat(list(texts), add_special_tokens)
        return FlatIds(
            np.frombuffer(ids, np.uint32).view(np.int32),
            np.frombuffer(offsets, np.uint64).astype(np.int64),
        )


class TokenizersEngine:
    """Encodes with tokenizers: by pieces, if `boundaries` split texts."""

    def __init__(self, file: TokenizerFile) -> None:
        self.backend = file.backend
        self.boundaries = _boundaries(file)
        self._known: dict[str, Ids] = {}

    def __call__(self, texts: Sequence[str], *, add_special_tokens: bool) -> FlatIds:
        """The ids of every text."""
        if add_special_tokens or self.boundaries is None:
            return self.whole(texts, add_special_tokens=add_special_tokens)
        return self._by_pieces(texts, self.boundaries)

    def whole(self, texts: Sequence[str], *, add_special_tokens: bool) -> FlatIds:
        """The ids of every text, encoded as it is: the reference for all else."""
        try:
            found = self.backend.encode_batch_fast(
                list(texts), add_special_tokens=add_special_tokens
            )
        except BaseException as error:
            if not panicked(error):
                raise
            if len(texts) > 1:
                for text in texts:
                    self.whole([text], add_special_tokens=add_special_tokens)
                raise
            raise DataError(
                f"tokenizers fails on the text {shown(texts[0], 200)}: {error}; no ids of this "
                "tokenizer exist for it: leave its row out, or mend the tokenizer's added tokens"
            ) from None
        return join([np.asarray(encoding.ids, np.int32) for encoding in found])

    def _by_pieces(self, texts: Sequence[str], boundaries: "re.Pattern[str]") -> FlatIds:
        split = [[piece for piece in boundaries.split(text) if piece] for text in texts]
        new = list({piece: None for pieces in split for piece in pieces} - self._known.keys())
        if len(self._known) + len(new) > CACHED_PIECES:
            self._known = {}
            new = list(dict.fromkeys(piece for pieces in split for piece in pieces))
        for piece, ids in zip(new, self.whole(new, add_special_tokens=False).lists(), strict=True):
            self._known[piece] = ids.copy()
        known = self._known
        parts = [known[piece] for pieces in split for piece in pieces]
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        counts = np.cumsum([0, *map(len, split)])
        return FlatIds(np.concatenate([np.empty(0, np.int32), *parts]), ends[counts])


def panicked(error: BaseException) -> bool:
    """Whether native code panicked: its error is no Exception, and its class cannot be imported."""
    return type(error).__name__ == "PanicException"


def failed(error: BaseException) -> bool:
    """Whether native code failed or panicked, and was not interrupted."""
    return isinstance(error, Exception) or panicked(error)


def _split_elsewhere(file: TokenizerFile) -> "re.Pattern[str] | None":
    """Finds tokens that take in the white space beside them, where white space is a token as well
    (ModernBERT's): fastokens would keep that token beside them. None: there are no such tokens."""
    taking = [str(t["content"]) for t in file.added if t["lstrip"] or t["rstrip"]]
    blank = any(str(token["content"]).isspace() for token in file.added)
    return re.compile(one_of(taking)) if taking and blank else None


def _boundaries(file: TokenizerFile) -> "re.Pattern[str] | None":
    """An expression that splits a text into pieces that can be encoded apart; None: there is none.

    It finds special tokens as the tokenizer does: the leftmost one, and of several the longest.
    """
    flags = ("lstrip", "rstrip", "single_word", "normalized")
    if not file.added or any(token[flag] for token in file.added for flag in flags):
        return None
    if file.dropout or not _local(file.parts):
        return None
    return re.compile(f"({one_of([str(token['content']) for token in file.added])})")


def _local(parts: Mapping[str, Any]) -> bool:
    kinds: set[str] = set()
    waiting: list[Any] = [parts["normalizer"], parts["pre_tokenizer"]]
    while waiting:
        part = waiting.pop()
        if part:
            kinds.add(str(part["type"]))
            waiting += part.get("normalizers") or part.get("pretokenizers") or []
    return kinds <= LOCAL
