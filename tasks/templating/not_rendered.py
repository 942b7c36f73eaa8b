"""What conversion kept of the rows but the rendered text does not hold, so the model never sees it.

    reasoning               ChatML's template, and many others, write none
    text beside tool calls  Llama 3.1's template writes the call alone
    tools beside text       a pair of texts goes through no template

Such rows are rendered all the same; one warning says how many there may be.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tasks.conversion.conversation.messages import BESIDE_CALLS, REASONED
from tasks.conversion.preference.pair import BESIDE_TEXT
from tasks.errors import TemplateError
from tasks.templating.render import render
from tasks.templating.template_faults import ANSWER, USER

logger = logging.getLogger(__name__)

MARK = "unseenmark"
WORDS = {
    REASONED: "the chat template writes no reasoning",
    BESIDE_CALLS: "the chat template writes no text beside tool calls",
    BESIDE_TEXT: "plain text goes through no chat template, so its tools are not written",
}
CALL = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"a": "b"}}}
PROBES = {
    REASONED: {**ANSWER, "reasoning_content": MARK},
    BESIDE_CALLS: {"role": "assistant", "content": MARK, "tool_calls": [CALL]},
}


def not_rendered(tokenizer: Any, notes: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """What the texts lack, and in how many pairs at most.

    `notes`: conversion's counts of what pairs have, for each source.
    """
    counts = sum(map(Counter, notes.values()), Counter[str]())
    lacking = [note for note in PROBES if counts[note] and _is_dropped(tokenizer, PROBES[note])]
    pairs_lacking = {note: counts[note] for note in (*lacking, BESIDE_TEXT) if counts[note]}
    for note, pairs in pairs_lacking.items():
        logger.warning(
            "%s: up to %d pairs have some, which the model never sees", WORDS[note], pairs
        )
    return pairs_lacking


def _is_dropped(tokenizer: Any, answer: dict[str, Any]) -> bool:
    if tokenizer.chat_template is None:
        return False
    try:
        return MARK not in render([USER, answer], tokenizer)
    except TemplateError:  # such rows are refused, each with this error
        return False
