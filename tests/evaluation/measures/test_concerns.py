"""Each warning at its limit, where nothing is said, and just beyond it."""

from typing import Any

import pytest

from tasks.evaluation.measures.concerns import warnings_of
from tasks.evaluation.measures.distribution import QUANTILES


def coin(pairs: int = 100, high: float | None = 0.6, slice: str = "") -> dict[str, Any]:
    """The figures of a set of pairs, of which the model gets 2 in 5 right."""
    interval = None if high is None else (0.3, high)
    found = {"pairs": pairs, "undecided": 0, "accuracy_ties_half": 0.4}
    return found | {"accuracy_ties_half_interval": interval, "slice": slice}


def judges(longer: float | None) -> dict[str, Any]:
    """The model's accuracy is 0.75; of the other judges, two are none of an answer's surface."""
    others = {"longer_tokens": longer, "first_tokens": 0.9, "position": 0.9}
    return {name: {"accuracy": each} for name, each in {"model": 0.75, **others}.items()}


def place(data: float, interval: tuple[float, float] | None) -> dict[str, Any]:
    return {"pairs": 40, "data": data, "data_interval": interval}


def spread(zero_advantage: float) -> dict[str, Any]:
    return {"zero_advantage": zero_advantage}


def probe(mean: float, *, degenerate: bool = True) -> dict[str, Any]:
    return {"empty": {"degenerate": degenerate, "mean_reward": mean}}


def metrics(**changes: Any) -> dict[str, Any]:
    """What `metrics.json` holds of what is looked at, with nothing to be warned of."""
    given = {"sources": {}, "columns": {}, "judges": judges(0.7), "first": None, "prompt": None}
    given |= {"false_ties": 0, "pairs": 100, "undecided": 0, "groups": None, "probes": None}
    given |= changes
    return {
        "overall": {"pairs": given["pairs"], "undecided": given["undecided"]},
        "sources": given["sources"],
        "columns": given["columns"],
        "bias": {
            "null_models": given["judges"],
            "leanings": {"first": given["first"]} if given["first"] else {},
            "prompt": {"share_of_variance": given["prompt"]},
        },
        "readiness": {
            "bfloat16": {"false_ties": given["false_ties"], "largest_step": 0.25},
            "groups": given["groups"],
            "probes": given["probes"],
        },
        "rewards": {"all": {"quantiles": [level * 2 for level in QUANTILES]}},
    }


RARE = "(9 other values)"


@pytest.mark.parametrize(
    ("within", "beyond", "figure", "said"),
    [
        (
            [{"sources": {"a": coin(high=0.5)}}, {"sources": {"a": coin(0, None)}}],
            {"sources": {"a": coin(high=0.49)}},
            "sources.a",
            "of source 'a' the model gets 40% right (95% 30% to 49%), worse than a coin",
        ),
        (
            [{"columns": {"kind": [coin(high=0.5, slice="math")]}}],
            {"columns": {"kind": [coin(high=0.49, slice="math")]}},
            "columns.kind",
            "of the pairs whose rows have kind = math the model gets 40% right",
        ),
        (
            [{"columns": {"title": [coin(1, slice=RARE), coin(1, slice="news")]}}],
            {"columns": {"title": [coin(2, slice=RARE), coin(1, slice="news")]}},
            "columns.title",
            "2 of 3 pairs have a value of title that hardly repeats",
        ),
        (
            [{"judges": judges(0.749)}, {"judges": judges(None)}],
            {"judges": judges(0.75)},
            "bias.null_models.longer_tokens",
            "longer_tokens alone reaches 0.750, the model 0.750: on these pairs nothing shows",
        ),
        (
            # Not far from 1/2; perhaps by chance; too few to say.
            [{"first": place(*each)} for each in ((0.6, (0.55, 0.65)), (0.9, (0.5, 1)), (1, None))],
            {"first": place(0.39, (0.3, 0.49))},
            "bias.leanings.first",
            "of 40 pairs whose rows have an order, the answer that stood first is the chosen one "
            "in 39%",
        ),
        (
            [{"prompt": 0.5}],
            {"prompt": 0.51},
            "bias.prompt.share_of_variance",
            "the prompt alone explains 51% of the reward's variance",
        ),
        (
            [{"false_ties": 1}, {"false_ties": 2, "pairs": 150, "undecided": 50}, {"pairs": 0}],
            {"false_ties": 2},
            "readiness.bfloat16.false_ties",
            "bfloat16 makes 2 of 100 pairs equal that are not (its step is 0.25 at the largest",
        ),
        (
            [{"groups": spread(0.1)}],
            {"groups": spread(0.11)},
            "readiness.groups.zero_advantage",
            "in 11% of the groups all answers earn the same",
        ),
        (
            [{"probes": probe(1.0)}, {"probes": probe(1.5, degenerate=False)}],
            {"probes": probe(1.5)},
            "readiness.probes",
            "answers that reply nothing earn more on average than the median answer (1.00)",
        ),
    ],
)
def test_a_figure_at_its_limit_is_no_warning_and_one_beyond_it_is(within, beyond, figure, said):
    assert [warnings_of(metrics(**each)) for each in within] == [[]] * len(within)
    [warning] = warnings_of(metrics(**beyond))
    assert warning["figure"] == figure
    assert warning["message"].startswith(said)


def test_columns_that_an_evaluation_lacks_are_nothing_to_warn_of():
    found = metrics()
    del found["columns"]
    assert warnings_of(found) == []
