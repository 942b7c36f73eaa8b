"""A `tokenizer.json`, read and built once in a process for all who ask.

Templating wants its special tokens and what it puts around a text; tokenization wants the same
encoder as its reference, and the parts that it is made of. The file may have megabytes, and
building its encoder takes as long as encoding thousands of rows. It is known by its bytes, so a
copy of the file is the same tokenizer.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TokenizerFile:
    """What a tokenizer.json says, but for its vocabulary, and the encoder that it makes."""

    def __init__(self, content: bytes) -> None:
        state = cast(dict[str, Any], orjson.loads(content))
        self.added = cast(list[dict[str, Any]], state.get("added_tokens") or [])
        self.parts = {n: state.get(n) for n in ("normalizer", "pre_tokenizer", "post_processor")}
        self.dropout = bool(cast(dict[str, Any], state["model"]).get("dropout"))
        self._content = content
        self._fast: Future[Any] | None = None

    @cached_property
    def backend(self) -> "Tokenizer":
        """The encoder of tokenizers, without padding and truncation; nobody changes it."""
        from tokenizers import Tokenizer

        made = cast(Any, Tokenizer).from_buffer(self._content)
        made.no_truncation()
        made.no_padding()
        return made

    def begin(self) -> None:
        """Starts to build the encoder of fastokens, if that is installed, in a thread.

        It takes as long as rendering thousands of pairs, and lets other threads run.
        """
        if self._fast is None and find_spec("fastokens") is not None:
            pool = ThreadPoolExecutor(1)
            self._fast = pool.submit(_fastokens, self._content)
            pool.shutdown(wait=False)

    def fast(self) -> Any:
        """The encoder of fastokens, without padding and truncation; raises what its loader says."""
        self.begin()
        assert self._fast is not None, "asked for only where fastokens is installed"
        return self._fast.result()


def _fastokens(content: bytes) -> Any:
    from fastokens import Tokenizer

    made = Tokenizer.from_json_str(content.decode())
    made.no_truncation()
    made.no_padding()
    return made


@lru_cache(maxsize=2)
def _made(content: bytes) -> TokenizerFile:
    return TokenizerFile(content)


def tokenizer_file(directory: Path) -> TokenizerFile | None:
    """The tokenizer.json of a directory, or None where there is none that can be read."""
    try:
        return _made((directory / "tokenizer.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
