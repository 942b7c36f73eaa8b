"""The curves of an evaluation, as PNG: calibration, accuracy by length, best of n.

In: figures of `metrics.json`. What cannot be drawn (nobody has several answers to a prompt) is
left out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.evaluation.measures.calibration import CALIBRATION_BINS
from tasks.evaluation.report.plots import (
    DARK,
    LIGHT,
    Theme,
    canvas,
    legend,
    plot_margins,
    plot_rewards,
    save,
)
from tasks.evaluation.tables.scores import Scores

if TYPE_CHECKING:
    from tasks.artifact import Workspace

THEMES = {"": LIGHT, "dark/": DARK}
"""Where below `plots/` each theme's pictures are."""

HISTOGRAMS = {"rewards": plot_rewards, "margins": plot_margins}


def draw_all(scores: Scores, metrics: Mapping[str, Any], bins: int, workspace: "Workspace") -> None:
    """Writes every plot that the figures give, for light and for dark pages; pairs without a better
    side are in none."""
    scores = scores.take(scores.decided)
    for place, theme in THEMES.items():
        for name, histogram in HISTOGRAMS.items():
            with workspace.writing(f"plots/{place}{name}.png") as path:
                histogram(scores, path, bins, theme)
        with workspace.writing(f"plots/{place}calibration.png") as path:
            plot_calibration(metrics["calibration"], path, theme)
        with workspace.writing(f"plots/{place}length_ratio.png") as path:
            plot_length_ratio(metrics["slices"]["length_ratio"], path, theme)
        if metrics["readiness"]["best_of_n"]:
            with workspace.writing(f"plots/{place}best_of_n.png") as path:
                plot_best_of_n(metrics["readiness"]["best_of_n"], path, theme)


def plot_calibration(bins: Sequence[Mapping[str, Any]], path: Path, theme: Theme = LIGHT) -> None:
    """Writes the reliability diagram: on the dashed line, confidence is right as often as it
    says. Bars in the background: the share of pairs."""
    figure, axes = canvas("How far confidence can be trusted", "confidence of the model", theme)
    total = sum(each["pairs"] for each in bins)
    confidence = [each["confidence"] for each in bins]
    axes.plot([0.5, 1], [0.5, 1], color=theme.pale, linestyle="--", linewidth=1.2, label="ideal")
    axes.bar(
        confidence,
        [each["pairs"] / total for each in bins],
        width=0.4 / CALIBRATION_BINS,
        color=theme.pale,
        alpha=0.35,
        label="share of pairs",
    )
    axes.plot(
        confidence,
        [each["accuracy"] for each in bins],
        color=theme.good,
        marker="o",
        linewidth=1.6,
        label="accuracy",
    )
    axes.set_xlim(0.49, 1.01)
    _shares(axes)
    legend(axes, theme)
    save(figure, path)


def plot_length_ratio(
    slices: Sequence[Mapping[str, Any]], path: Path, theme: Theme = LIGHT
) -> None:
    """Writes the accuracy by how long the chosen answer is beside the rejected one: a model that
    goes by length climbs or falls."""
    seen = [each for each in slices if each["accuracy"] is not None]
    title = "Accuracy by length: chosen over rejected"
    figure, axes = canvas(
        title, "tokens of the chosen answer over those of the rejected one", theme
    )
    places = list(range(len(seen)))
    heights = [each["accuracy_ties_half"] for each in seen]
    axes.bar(places, heights, width=0.62, color=theme.good, alpha=0.55, label="accuracy")
    for place, each, height in zip(places, seen, heights, strict=True):
        low, high = each["accuracy_ties_half_interval"] or (height, height)
        axes.plot([place, place], [low, high], color=theme.ink, linewidth=1.4)
    axes.axhline(0.5, color=theme.bad, linestyle="--", linewidth=1.2, label="by chance")
    axes.set_xticks(places, [f"{each['slice']}\n{each['pairs']:,} pairs" for each in seen])
    _shares(axes)
    legend(axes, theme)
    save(figure, path)


def plot_best_of_n(curve: Sequence[Mapping[str, Any]], path: Path, theme: Theme = LIGHT) -> None:
    """Writes how good the answer is that the reward picks out of n, beside the best possible pick
    and a random one."""
    figure, axes = canvas("Best of n: quality of the answer that is picked", "n", theme)
    n = [each["n"] for each in curve]
    lines = (
        ("best possible", "oracle", theme.pale, "--"),
        ("the model", "model", theme.good, "-"),
        ("random", "random", theme.bad, ":"),
    )
    for name, key, colour, style in lines:
        heights = [each[key] for each in curve]
        axes.plot(n, heights, color=colour, linestyle=style, marker="o", linewidth=1.6, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(n, [str(each) for each in n])
    axes.minorticks_off()
    axes.set_ylabel("share of comparisons won", color=theme.ink)
    _shares(axes)
    legend(axes, theme)
    save(figure, path)


def _shares(axes: Any) -> None:
    """A vertical axis from 0 to 1."""
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
