"""Columns that say the same in two ways: where a source maps one way, the other is not read.

layout distilabel, columns: {rating: mine}
{"instruction": "q", "generations": ["a", "b"], "ratings": [1, 2], "mine": [5, 3]}
    ->  "a" is the better answer, by `mine`; `ratings` is reported as not read
"""

from collections.abc import Mapping

Ways = tuple[tuple[str, ...], ...]
ALTERNATIVES: dict[str, tuple[Ways, ...]] = {
    "arena": (
        (
            *(("response_a", "response_b"), ("response_1", "response_2")),
            ("conversation_a", "conversation_b"),
        ),
        (("winner",), ("winner_model_a", "winner_model_b", "winner_tie")),
    ),
    "distilabel": (
        (("instruction",), ("input",), ("prompt",)),
        (("ratings",), ("rating",)),
        (("system",), ("system_prompt",)),
    ),
    "helpsteer": (
        (("prompt",), ("context",)),
        (("preference_strength",), ("overall_preference",)),
        (("response_1", "response_2"), ("response1", "response2")),
        (
            ("response",),
            (
                *("preference_strength", "overall_preference"),
                *("response_1", "response_2", "response1", "response2"),
            ),
        ),
    ),
    "ms_swift": ((("rejected_response",), ("rejected_messages",)),),
    "scored": ((("response", "score"), ("responses", "scores")),),
    "sharegpt_ranking": ((("conversations",), ("messages",)),),
    "stepwise": (
        (("labels",), ("error_steps",)),
        (
            ("completions", "labels"),
            ("original_process", "modified_process", "original_question", "modified_question"),
        ),
    ),
    "unpaired": ((("prompt", "completion"), ("messages",)),),
}


def passed_over(layout: str, mapping: Mapping[str, str]) -> set[str]:
    """The layout's names that are not read, since the mapping names another way to say the same."""
    left: set[str] = set()
    for ways in ALTERNATIVES.get(layout, ()):
        mapped = [way for way in ways if any(name in mapping for name in way)]
        if len(mapped) == 1:
            left.update(name for way in ways if way not in mapped for name in way)
    return left - {*mapping}
