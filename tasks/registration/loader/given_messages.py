"""A caller's messages in the form that training's messages had.

    [{"role": "Human", "content": [{"type": "text", "text": "Hi"}], "tool_calls": null, "id": 7}]
    ->  [{"role": "user", "content": "Hi"}]

Conversion brings every message into one form before it is rendered: other names of a role are
mapped, keys that are null or that no chat template reads are left out, text parts are joined.
Clients and tables write such keys into every message, and a template that tests whether a message
has a key would render other text than in training. A role or content that is no text is refused, as
in conversion, and so are calls that are no list of mappings: some templates would fail on them,
others would print them. So is a `function_call`, which no template reads: its message would be
scored as empty. Whatever else conversion refuses is left to the template. Travels inside the
registered model: it may import only modules that travel, too.
"""

from typing import Any

from tasks.conversion.conversation.message_names import KEYS, ROLE_MAP, ROLES, TEXT_KEYS
from tasks.conversion.conversation.printed_nulls import without_nulls


def as_in_training(messages: list[Any]) -> list[Any]:
    """The messages (of JSON's own types) as conversion would have written them.

    Raises:
        ValueError: a role, name or reasoning is no text; a content is absent, or neither text nor
            parts of it; a call does not stand in a list of mappings, `tool_calls`.
    """
    return [_message(number, message) for number, message in enumerate(messages)]


def _message(number: int, message: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in message.items() if key in KEYS and value is not None}
    kept["role"] = _role(message["role"], f"messages[{number}]")
    for key in TEXT_KEYS:
        if not isinstance(text := kept.get(key, ""), str):
            raise ValueError(f"messages[{number}].{key} is {str(text)[:80]!r}; expected text")
    if without_nulls(legacy := message.get("function_call")):
        raise _no_calls(f"messages[{number}].function_call", legacy)
    if calls := kept.pop("tool_calls", None):
        if not isinstance(calls, list) or not all(map(_is_call, calls)):
            raise _no_calls(f"messages[{number}].tool_calls", calls)
        kept["tool_calls"] = [_call(call) for call in calls]
    content = _content(message.get("content"), f"messages[{number}]", calls=bool(calls))
    return kept if content is None else {**kept, "content": content}


def _role(role: Any, where: str) -> str:
    if not isinstance(role, str):
        raise ValueError(f"{where}.role is {str(role)[:80]!r}; expected text, such as 'user'")
    plain = role.strip().lower()
    return plain if plain in ROLES else ROLE_MAP.get(plain, role)


def _content(content: Any, where: str, *, calls: bool) -> str | None:
    if isinstance(content, str) or (content is None and calls):
        return content
    if content is None:
        raise ValueError(
            f"{where} has neither content nor tool_calls; expected its text: give it "
            '"content": "" if it says nothing'
        )
    if isinstance(content, list) and all(map(_is_text, content)):
        return "".join([part["text"] for part in content])
    parts: list[Any] = content if isinstance(content, list) else [content]
    other = next((part for part in parts if not _is_text(part)), content)
    raise ValueError(
        f"{where}.content is or holds {str(other)[:80]!r}; expected text, or a list of "
        "parts of it ({'type': 'text', 'text': ...}): the model reads nothing else"
    )


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and type(part.get("text")) is str


def _is_call(call: Any) -> bool:
    return isinstance(call, dict) and isinstance(call.get("function") or {}, dict)


def _no_calls(where: str, value: Any) -> ValueError:
    return ValueError(
        f"{where} is {str(value)[:80]!r}; expected the calls in tool_calls: "
        '[{"type": "function", "function": {"name": ..., "arguments": ...}}]'
    )


def _call(call: Any) -> dict[str, Any]:
    """A call without the keys that are null; its arguments stay, templates print them."""
    return {
        key: _call(value) if key == "function" else value
        for key, value in call.items()
        if value is not None or key == "arguments"
    }
