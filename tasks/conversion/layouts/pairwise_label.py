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

A meaning may have several values, `tie: [tie, "both bad"]`, and `ignore: [skipped]` leaves labels
out that say nothing. `columns` may name a `system`, a `margin` and a `weight`, too.
"""

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field, JsonValue

from tasks.conversion.conversation.turns import as_messages
from tasks.conversion.layouts.columns import Row, at_path, head_of, required, with_system
from tasks.conversion.options import TextOptions
from tasks.conversion.preference.answers import Item
from tasks.conversion.preference.fields import exact_number, margin_of, weight_of
from tasks.conversion.preference.labels import plain
from tasks.conversion.preference.pair import pair_of
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable, found

ONLY_IF_MAPPED = ("system", "margin", "weight")
READ = ("prompt", "input", "response_a", "response_b", *ONLY_IF_MAPPED)


class PairwiseLabelOptions(TextOptions):
    """What the values of the label mean."""

    first: JsonValue = None
    """The label's value where `response_a` is better, or a list of such values."""
    second: JsonValue = None
    """The label's value, or values, where `response_b` is better."""
    tie: JsonValue = None
    """The label's value, or values, where neither is; null: there is none."""
    ignore: JsonValue = None
    """Values that say nothing, such as that of a skipped row: counted as `unrated`."""
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
        meant: dict[str | None, tuple[str, JsonValue]] = {}
        for name, value in _meanings(self):
            if isinstance(value, list | dict):
                return f"values of the label as options.{name}, found {found(value)}"
            other, same = meant.setdefault(plain(value), (name, value))
            if other != name:
                return (
                    f"a value of its own for each meaning: options.{other} is {found(same)} and "
                    f"options.{name} {found(value)}, the same label"
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
    margin, weight = margin_of(row.get("margin")), weight_of(row.get("weight"))
    values = [at_path(row, name) for name in options.labels]
    if options.preference is not None:
        lead, judgement = _lead(values, options), f"{[*map(found, values)]}"
    else:
        votes = _votes(values, options)
        if not votes:
            listed = ", ".join(map(found, values))
            raise Unusable("unrated", options.labels[0], f"found {listed}, declared to say nothing")
        lead, judgement = _share(votes) if options.soft else _majority(votes), f"{dict(votes)}"
    pair = pair_of(prompt, responses, lead >= 0, margin=margin, weight=weight)
    if lead == 0:
        message = f"found {judgement}: a tie, or as many for one as for another, prefers neither"
        return [Tie(options.labels[0], message, [pair])]
    if options.soft:
        return [replace(pair, preference=float((1 + abs(lead)) / 2))]
    if options.preference is not None and margin is None:
        return [replace(pair, margin=float(abs(lead)))]
    return [pair]


def _prompt(row: Row) -> Any:
    prompt = as_messages(required(row, "prompt"))
    below = row.get("input")
    if below is not None and below != "":
        if not isinstance(prompt, str) or not isinstance(below, str):
            message = f"found {found(below)}, expected text under a text"
            raise Unusable("wrong_type", "input", message)
        prompt = f"{prompt}\n\n{below}"
    return with_system(row["system"], prompt) if "system" in row else prompt


def _votes(values: list[Any], options: PairwiseLabelOptions) -> Counter[str]:
    """How many labels say first, second and tie; empty where all of them are ignored."""
    meanings = _meanings(options)
    meaning_of = {plain(value): name for name, value in meanings}
    votes: Counter[str] = Counter()
    for name, value in zip(options.labels, values, strict=True):
        meaning = meaning_of.get(plain(value)) if value is not None else None
        if meaning is None:
            listing = ", ".join(f"{value!r} ({name})" for name, value in meanings)
            raise Unusable(
                "bad_label" if value is not None else "null",
                name,
                f"found {found(value)}, expected one of the declared values: {listing}",
            )
        if meaning != "ignore":
            votes[meaning] += 1
    return votes


def _meanings(options: PairwiseLabelOptions) -> list[tuple[str, JsonValue]]:
    """The declared values of the label, each as (meaning, value)."""
    declared = {name: getattr(options, name) for name in ("first", "second", "tie", "ignore")}
    return [
        (name, value)
        for name, values in declared.items()
        if values is not None
        for value in (values if isinstance(values, list) else [values])
    ]


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
