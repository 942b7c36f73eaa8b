"""Messages of the two sides of a conversation."""

from typing import Any


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any, **others: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **others}
