"""Every failure that this project raises on purpose, as one tree.

    PipelineError                     the root: catch this to catch them all
    ├── ParamsError(ValueError)       a params file or an override is wrong
    ├── DataError(ValueError)         a source, a file or a row is wrong
    ├── TemplateError(ValueError)     a chat template cannot render the data faithfully
    ├── ModelError(ValueError)        a model or tokenizer directory cannot be used
    ├── ArtifactError(RuntimeError)   the store of artifacts cannot keep its promise
    ├── TrainingError(RuntimeError)   the training child failed; the message is the child's own
    ├── RegistrationError(RuntimeError)  the registry does not hold what was trained
    │   └── VersionError              a version was looked at, and is not what was trained
    └── Interrupted(RuntimeError)     stopped from outside after saving; running again continues

A message says what was found, where, what was expected, and what to do. Values out of the data
stand in it through `shown`, so that no escape sequence of theirs reaches a terminal.
"""

from collections.abc import Callable, Iterable, Sequence

EXIT_INTERRUPTED = 75
"""Exit code of a process that saved its work and stopped on request (EX_TEMPFAIL of sysexits.h)."""


class PipelineError(Exception):
    """Root of all errors that are raised on purpose."""


class ParamsError(PipelineError, ValueError):
    """A params file or an override is wrong; no work has been done."""


class DataError(PipelineError, ValueError):
    """A source, a file or too many rows are wrong."""


class TemplateError(PipelineError, ValueError):
    """A chat template cannot render the data faithfully."""


class ModelError(PipelineError, ValueError):
    """A model or tokenizer directory cannot be used as it is."""


class ArtifactError(PipelineError, RuntimeError):
    """The store of artifacts cannot keep its promise."""


class TrainingError(PipelineError, RuntimeError):
    """Training failed."""


class RegistrationError(PipelineError, RuntimeError):
    """The registry does not hold what was trained."""


class VersionError(RegistrationError):
    """A registered version was looked at, and is not what was trained."""


class Interrupted(PipelineError, RuntimeError):
    """Work was saved and stopped on request; running again continues it."""


def shown(value: object, limit: int = 80) -> str:
    """`value` as `repr` would print it, cut to `limit` characters: safe in a terminal or a log."""
    text = ascii(value) if isinstance(value, bytes) else repr(value)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def some(names: Sequence[str], most: int = 6) -> str:
    """`a, b and 7 more`: the names, only the first of many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def meant(name: str, known: Iterable[str], say: Callable[[str], str] = repr) -> str:
    """`; did you mean 'prompt'?` where one of the known names is near to this one, else nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, [*known], n=1)
    return f"; did you mean {say(near[0])}?" if near else ""
