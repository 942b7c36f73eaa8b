"""Layout `distilabel`: an instruction, what several models generated for it, and their ratings.

    {"system": "Be brief.", "instruction": "Hi", "generations": ["Hello.", "No.", "Hey."],
     "ratings": [5, 1, null]}

is one pair: prompt [system "Be brief.", user "Hi"], chosen [assistant "Hello."], rejected
[assistant "No."], margin 4; the third is counted as `unrated`, as is a generation that failed and
is null like its rating. The instruction may be under `input` or `prompt`, the ratings under
`rating`, the system under `system_prompt`, as older releases of that library wrote them. `chosen`
and `rejected` beside them are not read: they were made of the ratings, and name a winner even where
these are equal.
"""

from typing import Any

from tasks.conversion.conversation.turns import as_messages, listed
from tasks.conversion.layouts.columns import Row, required, with_system
from tasks.conversion.options import RankingOptions
from tasks.conversion.preference.answers import Item, ranked
from tasks.conversion.preference.conversational import as_conversation
from tasks.conversion.preference.scores import Score, score_of
from tasks.conversion.unusable import Unusable, not_as_expected

PROMPTS = ("instruction", "input", "prompt")
RATINGS = ("ratings", "rating")
SYSTEMS = ("system", "system_prompt")
READ = (*PROMPTS, "generations", *RATINGS, *SYSTEMS)


def fits(columns: set[str], row: Row) -> bool:
    """Generations and ratings in lists, beside an instruction."""
    lists = [row.get("generations"), row.get(_first(RATINGS, row))]
    return all(isinstance(one, list) for one in lists) and bool(columns & {*PROMPTS})


def read(row: Row, options: RankingOptions) -> list[Item]:
    """The row's pairs, as messages; the generations that cannot be compared, one by one.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_json, bad_score, unpaired_alone.
    """
    name = _first(RATINGS, row)
    generations = listed(required(row, "generations"), "generations", "a list of answers")
    ratings = listed(required(row, name), name, "a list of numbers")
    if len(generations) != len(ratings):
        raise Unusable(
            "bad_score",
            name,
            f"found {len(ratings)} ratings of {len(generations)} generations, expected one of each",
        )
    answers: list[tuple[str, Any, Score]] = []
    failed: list[Item] = []
    for i, (answer, rating) in enumerate(zip(generations, ratings, strict=True)):
        field = f"generations[{i}]"
        if answer is None and rating is None:
            failed.append(Unusable("unrated", field, "found neither an answer nor a rating"))
        else:
            answers.append((field, as_messages(answer), score_of(rating, f"{name}[{i}]")))
    items = ranked(answers, _prompt(row), options)
    return [*(as_conversation(item) for item in items), *failed]


def _first(names: tuple[str, ...], row: Row) -> str:
    return next((name for name in names if name in row), names[0])


def _prompt(row: Row) -> Any:
    name = _first(PROMPTS, row)
    prompt = as_messages(required(row, name))
    if not isinstance(prompt, str | list):
        raise not_as_expected(prompt, name, "text or messages")
    return with_system(row.get(_first(SYSTEMS, row)), prompt)
