"""The golden rows of the score contract: every shape of row that a template or a tokenizer may read
in a way of its own. `{EOS}` stands for the tokenizer's end token.
"""

import json
from typing import Any

Message = dict[str, Any]

TOOL = {
    "type": "function",
    "function": {
        "name": "tide_table",
        "description": "High and low water of a harbour.",
        "parameters": {
            "type": "object",
            "properties": {"harbour": {"type": "string", "description": "Name of the harbour"}},
            "required": ["harbour"],
        },
    },
}
CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "tide_table", "arguments": {"harbour": "Husum"}},
}


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def _assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


def _row(prompt: Any, chosen: Any, rejected: Any, tools: Any = None) -> dict[str, Any]:
    return {
        "format": "standard" if isinstance(chosen, str) else "conversational",
        "prompt": json.dumps(prompt),
        "chosen": json.dumps(chosen),
        "rejected": json.dumps(rejected),
        "tools": json.dumps(tools) if tools else None,
        "chat_template_kwargs": None,
    }


def _talk(prompt: list[Message], chosen: str, rejected: str, tools: Any = None) -> dict[str, Any]:
    return _row(prompt, [_assistant(chosen)], [_assistant(rejected)], tools)


_ASKED = [
    _user("When is high water in Husum?"),
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
]
_ANSWERED = {"role": "tool", "name": "tide_table", "tool_call_id": "call00001", "content": "06:12"}

GOLDEN: dict[str, dict[str, Any]] = {
    "one turn": _talk([_user("What is 2 + 2?")], "4", "Five, I think."),
    "system": _talk(
        [{"role": "system", "content": "Answer in one word."}, _user("Capital of Peru?")],
        "Lima",
        "It is a beautiful country with many cities.",
    ),
    "several turns": _talk(
        [_user("Name a bird."), _assistant("Heron."), _user("And a fish?")], "Pike.", "Heron."
    ),
    "tools": _talk([*_ASKED, _ANSWERED], "At 06:12.", "I do not know.", [TOOL]),
    "unicode and space": _talk(
        [_user("  naïve 🦩\n\n\t\u200bمرحبا 你好 e\u0301 ")], " ok \n", "No\u00a0way…"
    ),
    "text": _row("The sky is", " blue.", " green, or so they say."),
    "text that is closed": _row("", "It is so.{EOS}", "It is not.{EOS}"),
    "special token in a text": _talk([_user("What does {EOS} mean?")], "An end.", "{EOS}"),
}
