"""Messages of a conversation, checked and brought into one form.

In:  a JSON value that should be a list of messages, as a source wrote it.
Out: messages with a known role, their content, and only the keys that a chat template may read.

    [{"role": " Human ", "content": "Hi", "weight": 1}]  ->  [{"role": "user", "content": "Hi"}]
    with the notes "role human -> user" and "message key 'weight' dropped"

A content that is a list of parts stays one where an image is among them; texts alone are joined.
"""

from typing import Any, cast

from tasks.conversion.conversation.message_names import (
    KEYS,
    REASONING,
    ROLE_MAP,
    ROLES,
    TEXT_KEYS,
)
from tasks.conversion.conversation.printed_nulls import without_nulls
from tasks.conversion.conversation.tool_calls import check_id, checked_calls
from tasks.conversion.unusable import Unusable, found
from tasks.errors import shown

Message = dict[str, Any]
Messages = list[Message]

REASONED = "reasoning kept"
BESIDE_CALLS = "text beside tool calls kept"
_PLAIN = {"role", "content"}
_AS_REASONING = f"write its text as the message's {REASONING[0]}"
_INSTEAD = {
    **dict.fromkeys(("thinking", "reasoning"), _AS_REASONING),
    **dict.fromkeys(("input_text", "output_text"), "write its type as 'text'"),
    "tool_use": "write the call into the message's tool_calls",
    "tool_result": "write it as a message of role 'tool'",
}
"""What to do about parts of other conventions."""


def check_messages(value: list[Any], field: str, notes: list[str]) -> Messages:
    """The messages in their one form; what was changed on the way is appended to `notes`.

    Raises:
        Unusable: empty_messages, bad_message, unknown_role, null_content, wrong_type,
            unknown_part, bad_tool_call.
    """
    if not value:
        raise Unusable(
            "empty_messages", field, "found an empty list, expected at least one message"
        )
    return [
        item if _is_plain(item) else _check_message(item, f"{field}[{i}]", notes)
        for i, item in enumerate(value)
    ]


def text_of(message: Message) -> str:
    """What a message says: its content, or the texts of its parts, or ""."""
    content = message["content"]
    if content is None or isinstance(content, str):
        return content or ""
    return "".join([part["text"] for part in content if part["type"] == "text"])


def is_answer(item: Any) -> bool:
    """Whether it is an assistant's turn, under whatever name of that role."""
    role = item.get("role") if isinstance(item, dict) else None
    plain = role.strip().lower() if isinstance(role, str) else ""
    return ROLE_MAP.get(plain, plain) == "assistant"


def image_parts(messages: Messages) -> list[Message]:
    """The parts of type image, in order."""
    contents = [m["content"] for m in messages if isinstance(m["content"], list)]
    return [part for content in contents for part in content if part["type"] == "image"]


def _is_plain(item: Any) -> bool:
    """The usual message: a known role, text, and nothing else."""
    return (
        type(item) is dict
        and len(item) == 2
        and type(item.get("content")) is str
        and type(role := item.get("role")) is str
        and role in ROLES
    )


def _check_message(item: Any, field: str, notes: list[str]) -> Message:
    if not isinstance(item, dict):
        raise Unusable(
            "bad_message",
            field,
            f"found {found(item)}, expected an object with 'role' and 'content'",
        )
    message = cast(Message, item)
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise _no_role(message, field)
    kept: Message = {"role": _known_role(role, field, notes), "content": content}
    if len(message) == 2 and isinstance(content, str):
        return kept
    for key, setting in message.items():
        if setting is None or key in _PLAIN:
            continue
        if key in TEXT_KEYS and not isinstance(setting, str):
            told = f"found {found(setting)}, expected text; write it so, or leave the key out"
            raise Unusable("wrong_type", f"{field}.{key}", told)
        if key in KEYS:
            kept[key] = setting
        elif key == "function_call" and without_nulls(setting):
            raise Unusable(
                "bad_tool_call",
                f"{field}.{key}",
                f"found {found(setting)}, which chat templates do not read, expected the call in "
                'tool_calls: [{"type": "function", "function": {"name": ..., "arguments": ...}}]',
            )
        else:
            notes.append(f"message key {shown(key, 40)} dropped")
    check_id(kept.get("tool_call_id"), f"{field}.tool_call_id")
    if not kept.get("tool_calls"):
        kept.pop("tool_calls", None)
    else:
        kept["tool_calls"] = checked_calls(kept["tool_calls"], f"{field}.tool_calls", notes)
    kept["content"] = _check_content(kept, f"{field}.content", notes)
    if any(name in kept for name in REASONING):
        notes.append(REASONED)
    if kept["content"] and "tool_calls" in kept:
        notes.append(BESIDE_CALLS)
    return kept


def _no_role(message: Message, field: str) -> Unusable:
    keys = ", ".join(shown(key, 30) for key in message)
    return Unusable(
        "bad_message",
        field,
        f"found the keys {keys or '(none)'} without a text 'role', expected 'role' and 'content'; "
        "say which keys they are with options: {turns: {role: ..., content: ...}}",
    )


def _known_role(role: str, field: str, notes: list[str]) -> str:
    plain = role.strip().lower()
    known = plain if plain in ROLES else ROLE_MAP.get(plain)
    if known is None:
        raise Unusable(
            "unknown_role",
            f"{field}.role",
            f"found {shown(role, 40)}, expected one of {', '.join(sorted(ROLES))} (or "
            f"{', '.join(ROLE_MAP)}, which are mapped); say what it is with options: {{roles: "
            f"{{{shown(role, 40)}: ...}}}}",
        )
    if known != role:
        notes.append(f"role {role if plain == role else shown(role, 40)} -> {known}")
    return known


def _check_content(message: Message, field: str, notes: list[str]) -> str | list[Message] | None:
    content = message["content"]
    if isinstance(content, str):
        return content
    if content is None:
        if "tool_calls" in message:
            return None
        raise Unusable(
            "null_content",
            field,
            "found null in a message without tool_calls, expected its text; drop the message or "
            'give it "content": ""',
        )
    if isinstance(content, list):
        return _checked_parts(cast(list[Any], content), field, notes)
    raise Unusable("wrong_type", field, f"found {found(content)}, expected text")


def _unknown_part(kind: str, field: str) -> Unusable:
    do = _INSTEAD.get(kind, "leave such rows out of the source")
    return Unusable(
        "unknown_part",
        field,
        f"found a part of type {shown(kind, 40)}, expected only parts of type 'text' or 'image'; "
        + do,
    )


def _checked_parts(parts: list[Any], field: str, notes: list[str]) -> str | list[Message]:
    """The parts as they are where one is an image; else their texts joined without a separator."""
    for i, part in enumerate(parts):
        entry = cast(Message, part) if isinstance(part, dict) else {}
        kind = entry.get("type")
        if kind == "image" or (kind == "text" and isinstance(entry.get("text"), str)):
            continue
        if isinstance(kind, str) and kind != "text":
            raise _unknown_part(kind, f"{field}[{i}]")
        raise Unusable(
            "bad_message",
            f"{field}[{i}]",
            f'found {found(part)}, expected {{"type": "text", "text": ...}}',
        )
    if any(part["type"] == "image" for part in parts):
        # A table of all rows has a null wherever another part has a value.
        return [{k: v for k, v in part.items() if v is not None} for part in parts]
    notes.append("text parts joined")
    return "".join([part["text"] for part in parts])
