"""What in the figures a person must not overlook before this reward is optimised against."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.evaluation.measures.distribution import QUANTILES
from tasks.evaluation.measures.null_models import best_null_model
from tasks.evaluation.measures.slices import OTHERS

PROMPT_SHARE = 0.5
FALSE_TIES = 0.01
NO_ADVANTAGE = 0.1
PLACE = 0.1
"""How far from 1/2 the share of first answers among the chosen ones may be."""


def warnings_of(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """`[{figure, message}]`; `figure` is the dotted place in `metrics.json`."""
    return [
        {"figure": figure, "message": message}
        for figure, message in (
            *_below_a_coin(metrics["sources"], metrics.get("columns", {})),
            *_rare_values(metrics.get("columns", {})),
            *_null_models(metrics["bias"]["null_models"]),
            *_place(metrics["bias"]["leanings"].get("first")),
            *_prompt(metrics["bias"]["prompt"]["share_of_variance"]),
            *_ties(metrics["readiness"], _scored(metrics["overall"])),
            *_probes(metrics),
        )
    ]


def _below_a_coin(
    sources: Mapping[str, Any], columns: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[tuple[str, str]]:
    """Sources, and values of the rows' columns, that the model judges wrongly beyond chance."""
    sets = [(f"sources.{source}", f"source {source!r}", each) for source, each in sources.items()]
    sets += [
        (f"columns.{name}", f"the pairs whose rows have {name} = {each['slice']}", each)
        for name, slices in columns.items()
        for each in slices
    ]
    return [
        (
            figure,
            f"of {which} the model gets {each['accuracy_ties_half']:.0%} right (95% {low:.0%} to "
            f"{high:.0%}), worse than a coin: look whether its labels are the wrong way round",
        )
        for figure, which, each in sets
        if each["pairs"]
        for low, high in [each["accuracy_ties_half_interval"]]
        if high < 0.5
    ]


def _rare_values(columns: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[tuple[str, str]]:
    """Columns of which most pairs have a value that is too rare for a slice of its own."""
    found: list[tuple[str, str]] = []
    for name, slices in columns.items():
        rare = sum(_scored(each) for each in slices if each["slice"].endswith(OTHERS))
        pairs = sum(map(_scored, slices))
        if 2 * rare > pairs:
            message = (
                f"{rare} of {pairs} pairs have a value of {name} that hardly repeats, and are in "
                "one slice together; name columns of few values, or of numbers, in slice_by"
            )
            found.append((f"columns.{name}", message))
    return found


def _null_models(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The best of the null models, if it is as good as the model."""
    own, best = found["model"]["accuracy"], best_null_model(found)
    if best is None or best[1] < own:
        return []
    name, accuracy = best
    return [
        (
            f"bias.null_models.{name}",
            f"{name} alone reaches {accuracy:.3f}, the model {own:.3f}: on these pairs nothing "
            "shows that it judges more than an answer's surface",
        )
    ]


def _place(found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Labels that follow the order of the answers, beyond chance."""
    if not found or found["data_interval"] is None or abs(found["data"] - 0.5) <= PLACE:
        return []
    low, high = found["data_interval"]
    if low <= 0.5 <= high:
        return []
    return [
        (
            "bias.leanings.first",
            f"of {found['pairs']} pairs whose rows have an order, the answer that stood first is "
            f"the chosen one in {found['data']:.0%}: the labels may follow the place; look whether "
            "the file was sorted, or swap the order when labelling",
        )
    ]


def _prompt(explained: float | None) -> list[tuple[str, str]]:
    if explained is None or explained <= PROMPT_SHARE:
        return []
    return [
        (
            "bias.prompt.share_of_variance",
            f"the prompt alone explains {explained:.0%} of the reward's variance, which no answer "
            "can change; compare answers within a prompt, or subtract a baseline per prompt",
        )
    ]


def _scored(figures: Mapping[str, Any]) -> int:
    """All pairs of a set: those without a better side as well."""
    return int(figures["pairs"] + figures["undecided"])


def _ties(readiness: Mapping[str, Any], pairs: int) -> list[tuple[str, str]]:
    serving, groups = readiness["bfloat16"], readiness["groups"]
    found: list[tuple[str, str]] = []
    if pairs and serving["false_ties"] / pairs > FALSE_TIES:
        found.append(
            (
                "readiness.bfloat16.false_ties",
                f"bfloat16 makes {serving['false_ties']} of {pairs} pairs equal that are not (its "
                f"step is {serving['largest_step']:g} at the largest reward); answer in float32",
            )
        )
    if groups and groups["zero_advantage"] > NO_ADVANTAGE:
        found.append(
            (
                "readiness.groups.zero_advantage",
                f"in {groups['zero_advantage']:.0%} of the groups all answers earn the same",
            )
        )
    return found


def _probes(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    above = hollow_answers(metrics)
    if not above:
        return []
    means = ", ".join(f"{_called(case)} {mean:z.2f}" for case, mean in above.items())
    message = (
        "answers that reply nothing earn more on average than the median answer "
        f"({_median_reward(metrics):z.2f}), and a policy will find them: {means}"
    )
    return [("readiness.probes", message)]


def hollow_answers(metrics: Mapping[str, Any]) -> dict[str, float] | None:
    """The mean rewards of the answers that reply nothing, if they earn more than an answer usually
    does; None where there are no probes."""
    probes: Mapping[str, Any] | None = metrics["readiness"].get("probes")
    if not probes:
        return None
    median = _median_reward(metrics)
    return {
        case: figures["mean_reward"]
        for case, figures in probes.items()
        if figures["degenerate"] and figures["mean_reward"] > median
    }


def _median_reward(metrics: Mapping[str, Any]) -> float:
    return metrics["rewards"]["all"]["quantiles"][QUANTILES.index(0.5)]


def _called(case: str) -> str:
    return "the answer to another prompt" if case == "other_answer" else case.replace("_", " ")
