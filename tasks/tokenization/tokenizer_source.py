"""Where a tokenizer and its encoders come from: a saved folder, or a tokenizer in memory.

In:  the folder of a stage, or a script's tokenizer of transformers.
Out: the same encoders, compared with the same reference.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from tasks.templating.tokenizer.loaded import loaded
from tasks.templating.tokenizer.tokenizer_file import TokenizerFile, of_content
from tasks.tokenization.encoder import StageEncoder, encoders_of, stage_encoder
from tasks.tokenization.params import Choice


class TokenizerSource(Protocol):
    """What encoding needs of a tokenizer."""

    def encoder(self, choice: Choice) -> StageEncoder | None:
        """Its encoders; None if it has no tokenizer.json."""
        ...

    def whole(self) -> Any:
        """The tokenizer as transformers has it."""
        ...


@dataclass(frozen=True)
class SavedTokenizer:
    """The tokenizer of a folder."""

    directory: Path

    def encoder(self, choice: Choice) -> StageEncoder | None:
        """As `TokenizerSource.encoder`."""
        return stage_encoder(self.directory, choice)

    def whole(self) -> Any:
        """As `TokenizerSource.whole`; needed for few texts only."""
        return loaded(self.directory)


@dataclass
class GivenTokenizer:
    """A tokenizer in memory; later changes to it do not reach encoders that were built.

    `as_it_is`: no encoders are built, which takes seconds for usual vocabularies.
    """

    tokenizer: Any
    as_it_is: bool = False

    def encoder(self, choice: Choice) -> StageEncoder | None:
        """As `TokenizerSource.encoder`."""
        if self.as_it_is or self._file is None:
            return None
        return encoders_of(self._file, choice)

    @cached_property
    def _file(self) -> TokenizerFile | None:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None:
            with suppress(Exception):  # a part that is written in Python cannot be serialised
                return of_content(backend.to_str(pretty=True).encode())
        return None

    def whole(self) -> Any:
        """As `TokenizerSource.whole`."""
        return self.tokenizer
