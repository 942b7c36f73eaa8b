"""Structures of conversations: all of them but their texts (roles, tools, settings), and what has
been learned of how a template renders each."""

from dataclasses import dataclass, field

import orjson

from tasks.templating.render import parse_tools
from tasks.templating.replay.conversations import Key
from tasks.templating.tokenizer.special_tokens import SpecialTokens, suspicious
from tasks.templating.traced.text import Joint, Replay

SETTINGS_OF_ANOTHER_KIND = frozenset(
    {
        *("chat_template", "tokenize", "documents", "messages", "tools", "add_generation_prompt"),
        *("continue_final_message", "padding", "truncation", "max_length", "return_tensors"),
        *("return_dict", "tokenizer_kwargs", "conversation"),
    }
)


@dataclass
class Structure:
    """How conversations of one structure are rendered: one replay per outcome of the tests."""

    paths: list[Replay] = field(default_factory=list[Replay])
    calm: list[Replay] = field(default_factory=list[Replay])
    """Those for contents that hold no mark, which they need not look for."""
    joint: Joint | None = None
    """What the text of contents is joined of that leave nothing to be asked."""
    closed: bool = False
    """Nothing more is learned."""


def followed(key: Key, special: SpecialTokens | None) -> bool:
    """Whether tools and settings leave nothing to the renderer proper."""
    tools, settings, *_ = key
    if settings and orjson.loads(settings).keys() & SETTINGS_OF_ANOTHER_KIND:
        return False
    return not (tools and special and suspicious(parse_tools(tools), special))
