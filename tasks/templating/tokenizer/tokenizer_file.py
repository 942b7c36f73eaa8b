"""A `tokenizer.json`, read and built once in a process for all who ask.

Templating wants its special tokens and what it puts around a text; tokenization wants the same
encoder as its reference, and the parts that it is made of. The file may have megabytes, and
building its encoder takes as long as encoding thousands of rows. It is known by its bytes, so a
copy of the file is the same tokenizer.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAMED_FIRST = {"added_tokens", "normalizer", "pre_tokenizer", "post_processor"}
"""What tokenizers writes before the model."""
FIRST_TEXTS = ["a", "b"]
"""Encoding any two takes as long as thousands the first time: memory is taken for all cores."""
FASTOKENS_THREADS = "FASTOKENS_BPE_THREADS"
"""The variable that it reads at its first texts. Its threads wait for each other awake: 4,000 texts
that it never saw took two of them 35 ms on two cores, and one 19."""


class TokenizerFile:
    """What a tokenizer.json says, but for its vocabulary, and the encoder that it makes."""

    def __init__(self, content: bytes) -> None:
        state = _without_vocabulary(content)
        self.added = cast(list[dict[str, Any]], state.get("added_tokens") or [])
        self.parts = {n: state.get(n) for n in ("normalizer", "pre_tokenizer", "post_processor")}
        self.dropout = bool(cast(dict[str, Any], state["model"]).get("dropout"))
        self._content = content
        self._fast: Future[Any] | None = None

    @cached_property
    def backend(self) -> "Tokenizer":
        """The encoder of tokenizers, without padding and truncation; nobody changes it."""
        from tokenizers import Tokenizer

        encoder = cast(Any, Tokenizer).from_buffer(self._content)
        encoder.no_truncation()
        encoder.no_padding()
        return encoder

    def begin(self) -> None:
        """Starts to build the encoder of fastokens, if that is installed, in a thread.

        It takes as long as rendering thousands of pairs, and lets other threads run.
        """
        if self._fast is None and has_fastokens():
            pool = ThreadPoolExecutor(1)
            self._fast = pool.submit(_fastokens, self._content)
            pool.shutdown(wait=False)

    def fast(self) -> Any:
        """The encoder of fastokens, without padding and truncation; raises what its loader says."""
        self.begin()
        assert self._fast is not None, "asked for only where fastokens is installed"
        return self._fast.result()


def has_fastokens() -> bool:
    """Whether fastokens is installed."""
    return find_spec("fastokens") is not None


def _fastokens(content: bytes) -> Any:
    from fastokens import Tokenizer

    encoder = Tokenizer.from_json_str(content.decode())
    encoder.no_truncation()
    encoder.no_padding()
    os.environ.setdefault(FASTOKENS_THREADS, "1")
    encoder.encode_batch_flat(FIRST_TEXTS, False)
    return encoder


def _without_vocabulary(content: bytes) -> dict[str, Any]:
    """The object in `content`; where the file is laid out as tokenizers writes it, its model ends
    before the vocabulary: the rest is nearly all of the file, and not needed.

        {                          The text up to a key is an object once it is closed by a brace:
          "added_tokens": [...],   so the key is one of that very object, and not one within its
          "model": {               values.
            "dropout": null,
            "vocab": ...
    """
    whole, has_model, model = content.partition(b'\n  "model": {')
    settings, has_vocabulary, _ = model.partition(b'\n    "vocab": ')
    if has_model and has_vocabulary:
        with suppress(ValueError):
            state = orjson.loads(whole.rstrip().removesuffix(b",") + b"}")
            state["model"] = orjson.loads(b"{" + settings.rstrip().removesuffix(b",") + b"}")
            if state.keys() >= NAMED_FIRST and "dropout" in state["model"]:
                return state
    return cast(dict[str, Any], orjson.loads(content))


@lru_cache(maxsize=2)
def of_content(content: bytes) -> TokenizerFile:
    """The tokenizer.json of these bytes.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    return TokenizerFile(content)


def tokenizer_file(directory: Path) -> TokenizerFile | None:
    """The tokenizer.json of a directory, or None where there is none that can be read."""
    try:
        return of_content((directory / "tokenizer.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
