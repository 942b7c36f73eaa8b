"""Chooses the encoder of a shard, and checks that its ids are the tokenizer's own.

In:  the saved tokenizer, `tokenization.encoder`, and each shard's first texts.
Out: an encoder, its name, and why no faster one was chosen.

    once            fixed texts ─┬─ fastokens   ─┐
    for each shard  first texts ─┼─ by pieces   ─┼─ equal ids? the first of them whose are
                                 └─ as they are ─┘

The reference is `tokenizers` with each text as it is. Every other encoder is compared with it: once
on fixed texts (every added token in context, other scripts, white space), and on the first texts of
every shard. After one difference, the next encoder is tried; the last is the reference itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from tasks.errors import DataError, shown
from tasks.templating.tokenizer.tokenizer_file import TokenizerFile, has_fastokens, tokenizer_file
from tasks.tokenization.encode import Encoder
from tasks.tokenization.engines import Engine, FastokensEngine, TokenizersEngine, failed
from tasks.tokenization.flat import FlatIds, join
from tasks.tokenization.params import Choice

PROBED_ROWS = 4
PROBED_BYTES = 8 * 2**10
"""First rows of every shard that both encoders encode: at most this many, and beyond the first two
no more text than this. They take the reference as long as 120 rows take fastokens."""
MOST_TOKENS = 64
CASES = (
    *("", " ", "  ", "\n", "\n\n\n", "\t", "\r\n", "a", " a", "a ", "  a  b   ", "a\n b\n\n  c\t"),
    *("naïve café — “quoted”", "e\u0301 o\u0308 \u1e9b\u0323 ﬁ ﷺ Å", "🦩👩‍👩‍👧🏽 flags 🇨🇭", "İıſß"),
    *(
        "天空是什么颜色？",
        "ท้องฟ้าสีอะไร",
        "ما لون السماء",
        "צבע",
        "Привет, мир",
        "\u200b\u00a0\u3000\ufeff x",
    ),
    *(
        "3.14159 1234567890 1,000,000 ½ ²",
        "I'll you've DON'T it's",
        "def f(x):\n    return x ** 2\n",
    ),
    *("https://a.b/c?d=e&f=%20#g", "!!!???...---___***", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    *(
        "\U000f0001 private \ue000",
        "\x00\x01\x7f control",
        "<|not_a_token|> </s <",
        "\u0e33 \u1100\u1161",
    ),
)


@dataclass
class StageEncoder:
    """The encoders of one saved tokenizer; made by `stage_encoder`."""

    choice: Choice
    reference: TokenizersEngine
    fast: Engine | None
    why: str
    """Why there is no fast one; empty if there is."""

    def engine_for(
        self, texts: Sequence[str], *, add_special_tokens: bool
    ) -> tuple[Engine, str, str]:
        """The encoder for a shard that begins with these texts, its name, and why no faster one is
        used.

        Raises:
            DataError: the params require fastokens, and its ids differ.
        """
        why = self.why
        wanted = self.reference.whole(texts, add_special_tokens=add_special_tokens)
        if self.fast is not None:
            why = _difference(self.fast, texts, wanted, add_special_tokens)
            if not why:
                return self.fast, "fastokens", ""
            if self.choice == "fastokens":
                raise DataError(f"tokenization.encoder: fastokens: {why}; use auto or tokenizers")
        if self.reference.boundaries is not None:
            apart = _difference(self.reference, texts, wanted, add_special_tokens)
            if not apart:
                return self.reference, "tokenizers by pieces", why
            why = "; ".join(filter(None, (why, f"by pieces: {apart}")))
        return self.reference.whole, "tokenizers", why


def stage_encoder(directory: Path, choice: Choice) -> StageEncoder | None:
    """The encoders of the tokenizer saved in `directory`; None if it has no tokenizer.json.

    Raises:
        DataError: `choice` is fastokens, which is not installed, does not load the tokenizer, or
            gives other ids for the fixed texts.
    """
    file = tokenizer_file(directory)
    return None if file is None else encoders_of(file, choice)


@lru_cache(maxsize=2)
def encoders_of(file: TokenizerFile, choice: Choice) -> StageEncoder:
    """The encoders of a tokenizer.json, compared on the fixed texts; cached for all shards and
    stages of a process."""
    if choice != "tokenizers":
        file.begin()
    reference = TokenizersEngine(file)
    cases = _cases([str(token["content"]) for token in file.added])
    wanted = {
        special: reference.whole(cases, add_special_tokens=special) for special in (False, True)
    }
    fast, why = (None, "") if choice == "tokenizers" else _fast(file, reference, cases, wanted)
    if choice == "fastokens" and fast is None:
        raise DataError(f"tokenization.encoder: fastokens: {why}; use auto or tokenizers")
    if reference.boundaries is not None and _difference(reference, cases, wanted[False], False):
        reference.boundaries = None
    return StageEncoder(choice, reference, fast, why)


def slow_engine(tokenizer: object) -> Engine:
    """The encoder of a tokenizer without tokenizer.json."""
    encode = Encoder(tokenizer)

    def engine(texts: Sequence[str], *, add_special_tokens: bool) -> FlatIds:
        return join(encode(list(texts), add_special_tokens=add_special_tokens))

    return engine


def _fast(
    file: TokenizerFile,
    reference: TokenizersEngine,
    cases: list[str],
    wanted: Mapping[bool, FlatIds],
) -> tuple[FastokensEngine | None, str]:
    if not has_fastokens():
        return None, "fastokens is not installed (extra `fast`)"
    words = [token for token in file.added if token["single_word"] and token["normalized"]]
    if words:  # differs in one text of a thousand, which a probe may miss
        named = shown(str(words[0]["content"]), 40)
        return None, f"fastokens looks for {named}, a single word and normalized, in other places"
    try:
        fast = FastokensEngine(file, reference)
    except BaseException as error:  # a native loader may raise anything for an unknown tokenizer
        if not failed(error):
            raise
        return None, f"fastokens does not load the tokenizer: {shown(str(error), 200)}"
    for special, ids in wanted.items():
        if why := _difference(fast, cases, ids, special):
            return None, why
    return fast, ""


def _difference(engine: Engine, texts: Sequence[str], wanted: FlatIds, special: bool) -> str:
    """Names the first text whose ids are not those wanted; empty if there is none."""
    try:
        found = engine(texts, add_special_tokens=special)
    except BaseException as error:
        if not failed(error):
            raise
        return f"fails on a probed text: {shown(str(error), 200)}"
    if np.array_equal(found.offsets, wanted.offsets) and np.array_equal(found.ids, wanted.ids):
        return ""
    for text, a, b in zip(texts, found.lists(), wanted.lists(), strict=True):
        if not np.array_equal(a, b):
            return f"other ids than the tokenizer's for {shown(text, 60)}"
    return "other ids than the tokenizer's"


def _cases(tokens: list[str]) -> list[str]:
    """The fixed texts, and texts with every added token alone, in text, in white space and
    twice."""
    some = tokens[:MOST_TOKENS] + tokens[-MOST_TOKENS:]
    around = [
        f
        for t in some
        for f in (t, f"a{t}b", f" a {t} b ", f"a  {t}  b", f"\n{t}\n\n{t}{t}", t[:-1] + " " + t)
    ]
    return [*CASES, *around, "".join(some), " x ".join(some)]
