"""Layout `pairwise_label`: two answers, and a label that names the better one.

With `columns: {response_a: output_1, response_b: output_2, prompt: input}` and
`options: {first: 1, second: 2}` the row

    {"input": "Hi", "output_1": "No.", "output_2": "Hello.", "label": 2}

is one pair: prompt "Hi", chosen "Hello.", rejected "No.". What the label's values mean is declared
and never guessed: `first`, `second` and `tie` are values of the label (1, "A>B", "tie" ...). With
`labels: [annotator1, annotator2, annotator3]` the label is what more of these columns say than
anything else; without such a majority it is a tie. With `preference: second` the label is a number
from 0 to 1 instead, how sure it is that the second answer is better: 0.5 is a tie, and the margin
is what it is away from that, doubled. With `soft: true` the pair's preference is that number
instead, or the share of the annotators, of whom one who sees a tie is half for each answer: two
for the second answer and one tie are 2.5 / 3. An `input` beside the prompt is put below it.
"""

from collections import Counter
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field, JsonValue

from tasks.conversion.conversation.turns import as_messages
from tasks.conversion.layouts.columns import Row, at_path, head_of, required
from tasks.conversion.options import TextOptions
from tasks.conversion.preference.answers import Item
from tasks.conversion.preference.fields import exact_number
from tasks.conversion.preference.labels import plain
from tasks.conversion.preference.pair import Pair
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable, found

READ = ("prompt", "input", "response_a", "response_b")


class PairwiseLabelOptions(TextOptions):
    """What the values of the label mean."""

    first: JsonValue = None
    """The label's value where `response_a` is better."""
    second: JsonValue = None
    """The label's value where `response_b` is better."""
    tie: JsonValue = None
    """The label's value where neither is; null: there is none."""
    labels: list[str] = Field(default=["label"], min_length=1)
    """Where the label stands: a column or a dotted path into one, or one for each annotator."""
    preference: Literal["first", "second"] | None = None
    """The label is the probability that this answer is better."""
    soft: bool = False
    """Label or annotators' share become the pair's preference, in place of a majority or margin."""

    def missing(self) -> str:
        """The meaning of both values, each its own, unless the label is a probability."""
        if self.preference is None and (self.first is None or self.second is None):
            return (
                "what the label means: options {first: 1, second: 2} (the label's value where the "
                "first, the second answer is better; also tie), or {preference: second}"
            )
        meanings = _meanings(self)
        for name, value in meanings.items():
            if isinstance(value, list | dict):
                return f"one value of the label as options.{name}, found {found(value)}"
            if same := [n for n, other in meanings.items() if plain(other) == plain(value)][1:]:
                return (
                    f"a value of its own for each meaning: options.{name} is {found(value)} and "
                    f"options.{same[0]} {found(meanings[same[0]])}, the same label"
                )
        return ""

    def named(self) -> list[str]:
        """The columns of the label, and those that paths to it lead into."""
        return [*self.labels, *map(head_of, self.labels)]


def fits(columns: set[str], row: Row) -> bool:  # noqa: ARG001
    """Never: what a label means cannot be seen in the columns."""
    return False


def read(row: Row, options: PairwiseLabelOptions) -> list[Item]:
    """The row's one pair, or its tie.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_label.
    """
    responses = [as_messages(required(row, f"response_{side}")) for side in "ab"]
    prompt = _prompt(row)
    values = [at_path(row, name) for name in options.labels]
    if options.preference is not None:
        lead, says = _lead(values, options), f"{[*map(found, values)]}"
    else:
        votes = _votes(values, options)
        lead, says = _share(votes) if options.soft else _majority(votes), f"{dict(votes)}"
    chosen, rejected = responses if lead > 0 else reversed(responses)
    if lead == 0:
        message = f"found {says}: a tie, or as many for one as for another, prefers neither"
        return [Tie(options.labels[0], message, [Pair(prompt, *responses, chosen_first=True)])]
    if options.soft:
        sure = float((1 + abs(lead)) / 2)
        return [Pair(prompt, chosen, rejected, preference=sure, chosen_first=lead > 0)]
    margin = None if options.preference is None else float(abs(lead))
    return [Pair(prompt, chosen, rejected, margin=margin, chosen_first=lead > 0)]


def _prompt(row: Row) -> Any:
    prompt = as_messages(required(row, "prompt"))
    below = row.get("input")
    if below is None or below == "":
        return prompt
    if not isinstance(prompt, str) or not isinstance(below, str):
        raise Unusable("wrong_type", "input", f"found {found(below)}, expected text under a text")
    return f"{prompt}\n\n{below}"


def _votes(values: list[Any], options: PairwiseLabelOptions) -> Counter[str]:
    """How many of the labels say first, second and tie."""
    meanings = _meanings(options)
    known = {plain(value): name for name, value in meanings.items()}
    votes: Counter[str] = Counter()
    for name, value in zip(options.labels, values, strict=True):
        meaning = known.get(plain(value)) if value is not None else None
        if meaning is None:
            listing = ", ".join(f"{value!r} ({name})" for name, value in meanings.items())
            raise Unusable(
                "bad_label" if value is not None else "null",
                name,
                f"found {found(value)}, expected one of the declared values: {listing}",
            )
        votes[meaning] += 1
    return votes


def _meanings(options: PairwiseLabelOptions) -> dict[str, JsonValue]:
    """The value of the label that is declared for first, second and tie."""
    values = {"first": options.first, "second": options.second, "tie": options.tie}
    return {name: value for name, value in values.items() if value is not None}


def _majority(votes: Counter[str]) -> Decimal:
    """1 for the first answer, -1 for the second, 0 where neither has more votes than all else."""
    (winner, most), *others = votes.most_common()
    if winner == "tie" or (others and others[0][1] == most):
        return Decimal(0)
    return Decimal(1 if winner == "first" else -1)


def _share(votes: Counter[str]) -> Decimal:
    """By how much the first answer leads, as a share of all votes."""
    return Decimal(votes["first"] - votes["second"]) / votes.total()


def _lead(values: list[Any], options: PairwiseLabelOptions) -> Decimal:
    """By how much the first answer leads: from -1 to 1."""
    numbers: list[Decimal] = []
    for name, value in zip(options.labels, values, strict=True):
        number = exact_number(value, "bad_label", name)
        if number is None or not 0 <= number <= 1:
            raise Unusable("bad_label", name, f"found {found(value)}, expected 0 to 1")
        numbers.append(number)
    lead = 2 * sum(numbers, Decimal(0)) / len(numbers) - 1
    return lead if options.preference == "first" else -lead
