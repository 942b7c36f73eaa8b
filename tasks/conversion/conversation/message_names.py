"""Names in messages: of roles, here and in other conventions, and of keys; and beside them.

Travels inside the registered model, which reads messages as conversion does: it must not import any
other part of the project.
"""

from typing import Literal, get_args

Role = Literal["system", "developer", "user", "assistant", "tool"]
ROLES = frozenset(get_args(Role))
ROLE_MAP = {
    "human": "user",
    "prompter": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "observation": "tool",
    "function": "tool",
}
"""Role names of other conventions, and what they mean here. Nothing else is guessed."""

REASONING = ("reasoning_content", "thinking", "reasoning")
"""Names that a message's reasoning is passed under; the first is what templates read."""

TEXT_KEYS = ("name", *REASONING)
"""Keys whose value is text, where a message has them."""

KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id", *TEXT_KEYS})
"""What a message may hold; a key that is null says nothing and is left out."""

RENDERING = frozenset(
    {
        *("messages", "conversation", "tools", "chat_template", "tokenize", "return_dict"),
        *("add_generation_prompt", "continue_final_message"),
    }
)
"""Arguments of `apply_chat_template` that say what is rendered, with what, and how far: none that a
row may bring along."""
