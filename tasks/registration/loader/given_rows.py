"""The rows that a caller may give a registered model, in any of their forms.

    "text" · [{"role": "user", ...}, ...] · {"messages": ..., "tools": ...} · {"text": ...}
    {"prompt": ..., "completion": ...} · a list of them · a table with such columns

A table gives every row the keys of all others, null in them: in calls' arguments and in template
settings such keys are left out, as conversion leaves them out of tables.

Travels inside the registered model: it may import only modules that travel with it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tasks.conversion.conversation.printed_nulls import without_printed_nulls

CONVERSATION, TEXT, ANSWER = "messages", "text", "completion"
KEYS = f"{CONVERSATION!r}, {TEXT!r}, or 'prompt' and {ANSWER!r}"
OPTIONS = ("tools", "chat_template_kwargs")
FILLED = ("arguments", "chat_template_kwargs")
"""Where a table's nulls would be printed; those of tools go from every row (row_text.py)."""
EXPECTED = {
    CONVERSATION: (
        list,
        f"a list of messages with role and content (a plain text is given as {TEXT!r})",
    ),
    "tools": (list, "a list of tools"),
    "chat_template_kwargs": (dict, "a mapping of settings"),
}


def conversations(rows: Iterable[tuple[Any, Any, Mapping[str, Any]]]) -> Iterator[Any]:
    """The rows of prompts with their answers and options.

    Raises:
        ValueError: as `conversation`; the row is named by its number, from 0.
    """
    for number, (prompt, answer, options) in enumerate(rows):
        try:
            yield conversation(prompt, answer, options)
        except ValueError as error:
            raise ValueError(f"row {number}: {error}") from error


def conversation(prompt: Any, answer: Any, options: Mapping[str, Any] | None = None) -> Any:
    """The row of a prompt with its answer: text with text, messages with messages or a text.

    Raises:
        ValueError: one is text and the other messages, or they are neither.
    """
    if isinstance(prompt, str):
        if not isinstance(answer, str):
            raise ValueError(f"the prompt is text, but the answer is {str(answer)[:80]!r}")
        return prompt + answer
    turns = [{"role": "assistant", "content": answer}] if isinstance(answer, str) else answer
    return {CONVERSATION: [*_messages(prompt), *_messages(turns)], **(options or {})}


def check_options(options: Mapping[str, Any]) -> None:
    """Raises ValueError: an option that no row has."""
    if unknown := sorted(options.keys() - set(OPTIONS)):
        raise ValueError(f"there is no option {unknown[0]!r}; expected one of {OPTIONS}")


def options_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The options among a row's fields; None for those that it has not.

    Raises:
        ValueError: one is no JSON, or of another kind.
    """
    return {name: _json(name, plain(row.get(name))) for name in OPTIONS}


def content(row: Any) -> tuple[Any, Mapping[str, Any]]:
    """The text or the messages of a row, and its options.

    Raises:
        ValueError: the row is of no form, or has an answer that would not be scored.
    """
    row = plain(row)
    if isinstance(row, str):
        return row, {}
    if isinstance(row, Mapping):
        options = options_of(row)
        if _is_filled(row.get(CONVERSATION)):
            messages = _messages(_json(CONVERSATION, row[CONVERSATION]))
            if _is_filled(row.get(ANSWER)) and messages[-1]["role"] != "assistant":
                raise ValueError(
                    f"a row has {CONVERSATION!r} that end in a turn of role "
                    f"{messages[-1]['role']!r}, and {ANSWER!r} beside them, which would not be "
                    "scored; call the messages 'prompt', or end them in the answer"
                )
            return messages, options
        if isinstance(row.get(TEXT), str):
            if isinstance(answer := row.get(ANSWER), str) and answer.strip() not in row[TEXT]:
                raise ValueError(
                    f"a row has {TEXT!r} without the {ANSWER!r} that stands beside it, which would "
                    "not be scored; call the text 'prompt', or leave out one of them"
                )
            return row[TEXT], options
        if _is_filled(row.get("prompt")) and _is_filled(row.get(ANSWER)):
            return content(conversation(row["prompt"], row[ANSWER], options))
    elif isinstance(row, list):
        return _messages(row), {}
    raise ValueError(
        f"a row is {str(row)[:80]!r}; expected a text, a list of messages with role and content, "
        f"or a mapping with {KEYS}"
    )


def rows_of(data: Any) -> list[Any]:
    """The rows of a list or table; a single text, mapping or conversation is one row.

    Raises:
        ValueError: a table without a column of rows, or nothing that holds rows.
    """
    for names in ("column_names", "columns"):
        if hasattr(data, names):
            return _rows_of_table(data, getattr(data, names))
    if isinstance(data, np.ndarray):  # of no dimension: MLflow's server got a text
        data = data.tolist()
    if isinstance(data, str | Mapping):
        return [data]
    if not isinstance(data, Iterable):
        raise ValueError(f"the rows are {str(data)[:80]!r}; expected a list of them")
    rows: list[Any] = list(data)
    # One conversation alone, not a list of them.
    alone = bool(rows) and isinstance(rows[0], Mapping) and "role" in rows[0]
    return [rows] if alone else rows


def _rows_of_table(table: Any, columns: Iterable[str] | None) -> list[Any]:
    """The rows of a table of pandas, polars or Arrow, or of a Dataset, whose columns a stream may
    not know."""
    if columns is not None and not {CONVERSATION, TEXT, ANSWER} & {*columns}:
        raise ValueError(f"the columns are {[*columns]}; expected {KEYS}")
    if hasattr(table, "to_pylist"):
        table = table.to_pylist()
    elif hasattr(table, "to_dicts"):
        table = table.to_dicts()
    elif hasattr(table, "notna"):  # pandas has several values for a blank cell
        table = table.astype(object).where(table.notna(), None).to_dict("records")
    return [without_printed_nulls(plain(row), FILLED) for row in table]


def plain(value: Any) -> Any:
    """The value in JSON's own types: tables hold lists as arrays, MLflow's server texts as well."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _messages(value: Any) -> list[dict[str, Any]]:
    items = value if isinstance(value, Iterable) else ()
    messages = [dict(m) if isinstance(m, Mapping) else m for m in items]
    if not messages or not all(isinstance(m, dict) and "role" in m for m in messages):
        raise ValueError(
            f"messages are {str(value)[:80]!r}; expected a list of mappings with role and content"
        )
    return messages


def _json(name: str, value: Any) -> Any:
    """A field's value, parsed where a table holds it as JSON; None for an absent or blank one."""
    if not _is_filled(value) or (isinstance(value, str) and not value.strip()):
        return None
    kind, expected = EXPECTED[name]
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(
            f"{name!r} is the text {value[:80]!r}, which is no JSON ({error}); expected "
            f"{expected}, or JSON of that"
        ) from error
    if parsed is not None and not isinstance(parsed, kind):
        raise ValueError(f"{name!r} is {str(value)[:80]!r}; expected {expected}")
    return parsed


def _is_filled(value: Any) -> bool:
    """Whether a cell holds a value; in a DataFrame an absent one is None or NaN."""
    return value is not None and not (isinstance(value, float) and value != value)
