"""JSON text in a cell: no deeper than a row may be, since it is written again with its row."""

from typing import Any

import orjson

from tasks.ingestion.formats.json_rows import MAX_DEPTH, too_deep_at


def json_value(text: str) -> Any:
    """What the text says.

    Raises:
        orjson.JSONDecodeError: it is no JSON, or has more levels than a row may have.
    """
    value = orjson.loads(text)
    if text.count("{") + text.count("[") > MAX_DEPTH and too_deep_at(text.encode()):
        raise orjson.JSONDecodeError(f"it has more than {MAX_DEPTH} levels", text, 0)
    return value
