"""The figures of `metrics.json` that are read first, as the tiles at the top of the page."""

from tasks.evaluation.measures.null_models import best_null_model
from tasks.evaluation.report.layout import Figures
from tasks.evaluation.report.wording import count, interval, number, share, share_interval, worded


def headline(metrics: Figures) -> list[tuple[str, str, str]]:
    """`(name, figure, its interval or neighbour)` of what is read first."""
    overall = metrics["overall"]
    undecided = overall["undecided"]
    apart = f" + {count(undecided)} without a better side" if undecided else ""
    name, accuracy = best_null_model(metrics["bias"]["null_models"]) or ("none", None)
    return [
        ("accuracy", share(overall["accuracy"]), share_interval(overall["accuracy_interval"])),
        ("margin", number(overall["margin"]), interval(overall["margin_interval"])),
        _loss_tile(overall),
        ("best null model", share(accuracy), worded(name)),
        ("calibration error", share(overall["ece"]), share_interval(overall["ece_interval"])),
        ("Brier score", number(overall["brier"]), interval(overall["brier_interval"])),
        ("held-out pairs", count(overall["pairs"]), f"{count(overall['groups'])} prompts{apart}"),
    ]


def _loss_tile(overall: Figures) -> tuple[str, str, str]:
    beside = interval(overall["loss_interval"])
    if "loss_without_margins" in overall:
        beside += f"; {number(overall['loss_without_margins'])} without the data's margins"
    return "loss", number(overall["loss"]), beside
