"""What has been learned of how a template renders each structure of conversation.

A structure is everything of a conversation but its texts: roles, tools and settings.
"""

from dataclasses import dataclass, field

import orjson

from tasks.templating.replay.conversations import Key
from tasks.templating.traced.text import Joint, Replay

SETTINGS_OF_ANOTHER_KIND = frozenset(
    {
        *("chat_template", "tokenize", "documents", "messages", "tools", "add_generation_prompt"),
        *("continue_final_message", "padding", "truncation", "max_length", "return_tensors"),
        *("return_dict", "tokenizer_kwargs", "conversation"),
    }
)
"""Arguments of `apply_chat_template` that are no variables of the template: rows that have
one in their settings are rendered without replay."""


@dataclass
class Structure:
    """How conversations of one structure are rendered: one replay per combination of test results.

    See `traced/text.py` for what the replays are.
    """

    paths: list[Replay] = field(default_factory=list[Replay])
    calm: list[Replay] = field(default_factory=list[Replay])
    """The replays for contents that surely hold no marker, without the searches for markers."""
    joint: Joint | None = None
    """The rendering as literals and contents, for contents that need no test."""
    closed: bool = False
    """Whether no further replays are learned."""


def followed(key: Key) -> bool:
    """Whether conversations of this structure may be replayed: no setting needs the renderer."""
    settings = key[1]
    return not (settings and orjson.loads(settings).keys() & SETTINGS_OF_ANOTHER_KIND)
