"""Layout `scored`: answers with a score each, several in a row or one per row.

    {"prompt": "Hi", "responses": ["Hello.", "No.", "Hm."], "scores": [3, 1, 1]}

is two pairs, "Hello." over "No." and over "Hm.", each with margin 2, and one tie. One per row,

    {"prompt": "Hi", "response": "Hello.", "score": 3}
    {"prompt": "Hi", "response": "No.", "score": 1}

are one pair: rows are joined by their prompt, in whichever of the source's files they stand, or by
the column that `by` names, in which case a row may leave out the prompt or the answer. An answer
that several rows rate is one answer, worth their mean. A row that
names its answers, such as

    {"question": "1+1", "small": {"text": "3", "ok": false}, "large": {"text": "2", "ok": true}}

is read with `columns: {prompt: question}` and `options: {responses: [small.text, large.text],
scores: [small.ok, large.ok]}`; true and false are labels and give no margin. A whole number in such
a path is a place in a list, from 0: `scores: [scores.0, scores.1]`. For ranks, where 1 is the best,
say `better: lower`.
"""

from decimal import Decimal
from typing import Any, Literal

from tasks.conversion.conversation.turns import as_messages, listed
from tasks.conversion.layouts.columns import Row, at_path, head_of, required
from tasks.conversion.options import RankingOptions
from tasks.conversion.preference.answers import Answer, Item, check_completion, ranked
from tasks.conversion.preference.fields import exact_number, template_kwargs_of, tools_of
from tasks.conversion.unusable import Unusable, not_as_expected

READ = ("prompt", "response", "score", "responses", "scores", "tools", "chat_template_kwargs")


class ScoredOptions(RankingOptions):
    """Where answers and scores stand, and which score is better."""

    by: str | None = None
    """The column whose value joins rows; None: the prompt does."""
    responses: list[str] | None = None
    """Where each answer of a row stands: a column, or a dotted path into one."""
    scores: list[str] | None = None
    """Where each answer's score stands, in the same order."""
    better: Literal["higher", "lower"] = "higher"
    """`lower` for ranks and losses."""

    def missing(self) -> str:
        """Paths to both, one score for each answer, or to neither."""
        if len(self.responses or ()) != len(self.scores or ()):
            return "one path in options.scores for each path in options.responses"
        return ""

    def named(self) -> list[str]:
        """Of a dotted path both: a column of that very name, and the one that it leads into."""
        paths = [*(self.responses or ()), *(self.scores or ())]
        return [*([] if self.by is None else [self.by]), *paths, *map(head_of, paths)]


def fits(columns: set[str], row: Row) -> bool:
    """A prompt with lists of responses and scores, or with one of each."""
    if {"prompt", "responses", "scores"} <= columns:
        return isinstance(row.get("responses"), list) and isinstance(row.get("scores"), list)
    return {"prompt", "response", "score"} <= columns


def read(row: Row, options: ScoredOptions) -> list[Item]:
    """The row's pairs, or its answer with its score.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_score, unrated, unpaired_alone,
            empty_response, or the reason of a single value.
    """
    context = {
        "tools": tools_of(row.get("tools")),
        "chat_template_kwargs": template_kwargs_of(row.get("chat_template_kwargs")),
    }
    if options.responses is not None and options.scores is not None:
        places = zip(options.responses, options.scores, strict=True)
        answers = [(a, at_path(row, a), score, at_path(row, score)) for a, score in places]
        return _ranked(row, answers, options, context)
    if options.by is None and "responses" in row:
        return _ranked(row, _lists(row), options, context)
    group = None if options.by is None else _group(required(row, options.by), options.by)
    if group is None:
        prompt, response = required(row, "prompt"), required(row, "response")
    else:
        prompt, response = row.get("prompt"), row.get("response")
        if response is None and prompt is not None and "response" not in row:
            return [Answer(as_messages(prompt), None, Decimal(0), group, **context)]
    response = as_messages(response)
    check_completion(response, "response")
    score = _score(required(row, "score"), "score", options)
    if score is None:
        raise Unusable("unrated", "score", "found no score, expected a number: left out")
    return [Answer(as_messages(prompt), response, score, group, **context)]


def _group(value: Any, column: str) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        return str(value)
    raise not_as_expected(value, column, "the id that joins rows, a text or a whole number")


def _lists(row: Row) -> list[tuple[str, Any, str, Any]]:
    """Each answer and its score, each behind the name of its place."""
    responses = listed(row["responses"], "responses", "a list of answers")
    scores = listed(required(row, "scores"), "scores", "a list of numbers")
    if len(responses) != len(scores):
        raise Unusable(
            "bad_score",
            "scores",
            f"found {len(scores)} scores for {len(responses)} answers, expected one for each",
        )
    both = enumerate(zip(responses, scores, strict=True))
    return [(f"responses[{i}]", response, f"scores[{i}]", score) for i, (response, score) in both]


def _ranked(
    row: Row,
    answers: list[tuple[str, Any, str, Any]],
    options: ScoredOptions,
    context: dict[str, str | None],
) -> list[Item]:
    judged: list[tuple[str, Any, Decimal | bool | Unusable | None]] = []
    for field, response, place, value in answers:
        try:
            score = _score(value, place, options)
        except Unusable as problem:
            score = problem
        judged.append((field, as_messages(response), score))
    return [*ranked(judged, as_messages(required(row, "prompt")), options, **context)]


def _score(value: Any, field: str, options: ScoredOptions) -> Decimal | bool | None:
    """Higher is better; None where there is none."""
    if isinstance(value, bool):
        return value if options.better == "higher" else not value
    score = exact_number(value, "bad_score", field)
    return -score if score is not None and options.better == "lower" else score
