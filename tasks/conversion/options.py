"""What a params file may say about one source's layout: `options:` beside `layout:`.

    - {name: judged, path: "*.jsonl", layout: pairwise_label, options: {first: 1, second: 2}}

Each layout has one class of options. What a label means is
declared here and never guessed.
"""

from typing import Literal

from pydantic import Field

from tasks.artifact import Params
from tasks.conversion.conversation.message_names import Role

Rule = Literal["all", "best_worst", "adjacent"]
TurnKey = Literal["role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"]
MAX_PAIRS = 36
"""Every pair of a ranking of nine, the longest that InstructGPT's labelers were given
(arXiv 2203.02155, section 3.5)."""


class Options(Params):
    """Of every layout."""

    tool_turns: Literal["count", "quarantine"] = "count"
    """What becomes of a row with a tool's turn that answers no call made before it: kept and
    counted, or left out as `unmatched_tool_turn`."""
    turns: dict[TurnKey, str] = Field(default={})
    """The source's own names of what a turn holds: `{role: speaker, content: text}`."""
    roles: dict[str, Role] = Field(default={})
    """What the source's own names of roles mean: `{customer: user, agent: assistant}`."""

    def missing(self) -> str:
        """What has to be said and was not, as the end of a sentence; "" when all is said."""
        return ""

    def named(self) -> list[str]:
        """The columns that are read because an option names them."""
        return []


class TextOptions(Options):
    """Of every layout that may hold plain texts."""

    format: Literal["as_is", "conversational"] = "as_is"
    """`conversational`: a text prompt becomes a user's turn, a text answer an assistant's."""


class CellOptions(TextOptions):
    """Of flat rows, whose cells may be JSON text (`layouts.json_cells`)."""

    json_columns: list[Literal["prompt", "chosen", "rejected"]] | None = None
    """Columns whose cells are messages as JSON text; None: as the first rows say."""


SplitBy = Literal["prompt", "opening"]


class RankingOptions(TextOptions):
    """Of layouts that make pairs of several answers to one prompt."""

    pairs: Rule = "all"
    """`all`: every two answers that differ in score; `best_worst`: one pair per prompt;
    `adjacent`: each answer and the next lower one."""
    max_pairs: int = Field(MAX_PAIRS, ge=1)
    """Pairs per prompt at most; further ones are counted as `capped`."""


class LabelOptions(TextOptions):
    """Of layouts whose answers are good or bad."""

    pairs: Literal["all", "best_worst"] = "all"
    """`all`: every good answer with every bad one; `best_worst`: one pair per prompt."""
    max_pairs: int = Field(MAX_PAIRS, ge=1)
    """Pairs per prompt at most; further ones are counted as `capped`."""
