"""The histograms of an evaluation, and the canvas of all its plots: equal scores give equal bytes.

`rewards.png`: where the rewards of chosen and of rejected answers lie. `margins.png`: by how much
the chosen answer wins or loses. Each is drawn for light and for dark pages. Needs no display;
matplotlib is imported when first drawn.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.evaluation.tables.scores import Floats, Scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES = (6.4, 3.8)
DPI = 150


@dataclass(frozen=True)
class Theme:
    """The colours of a page that a plot stands on."""

    paper: str
    ink: str
    pale: str
    grid: str
    good: str
    """Of the chosen answers, and of the model."""
    bad: str
    """Of the rejected ones."""


LIGHT = Theme("#ffffff", "#222222", "#8a8a8a", "#e6e6e6", "#2166ac", "#d6604d")
DARK = Theme("#1a1d21", "#e4e6e8", "#8b9198", "#343a40", "#6cb2f5", "#f08a72")


def plot_rewards(scores: Scores, path: Path, bins: int, theme: Theme = LIGHT) -> None:
    """Writes the histogram of chosen against rejected rewards."""
    figure, axes = canvas("Rewards of chosen and rejected answers", "reward", theme)
    edges = _edges(np.concatenate([scores.chosen, scores.rejected]), bins)
    sides = (
        ("chosen", scores.chosen, theme.good, "-"),
        ("rejected", scores.rejected, theme.bad, "--"),
    )
    for name, rewards, colour, line in sides:
        mean = float(rewards.mean())
        label = f"{name} (mean {_signed(mean)})"
        axes.hist(rewards, edges, color=colour, alpha=0.35, histtype="stepfilled", label=label)
        axes.hist(rewards, edges, color=colour, linewidth=1.4, histtype="step")
        axes.axvline(mean, color=colour, linewidth=1.4, linestyle=line)
    axes.set_ylabel("answers")
    legend(axes, theme)
    save(figure, path)


def plot_margins(scores: Scores, path: Path, bins: int, theme: Theme = LIGHT) -> None:
    """Writes the histogram of margins, split at zero into right and wrong."""
    n = len(scores)
    right = int(np.count_nonzero(scores.margin > 0))
    wrong = int(np.count_nonzero(scores.margin < 0))
    figure, axes = canvas("Margin: reward of chosen minus reward of rejected", "margin", theme)
    edges = _edges_with_zero(scores.margin, bins)
    for name, count, colour, side in (
        ("rejected wins", wrong, theme.bad, scores.margin[scores.margin < 0]),
        ("chosen wins", right, theme.good, scores.margin[scores.margin > 0]),
    ):
        label = f"{name}: {count:,} ({count / n:.1%})"
        axes.hist(side, edges, color=colour, alpha=0.75, edgecolor=theme.paper, label=label)
    if n > right + wrong:
        axes.fill_between([], [], color=theme.pale, label=f"ties: {n - right - wrong:,}")
    mean = float(scores.margin.mean())
    axes.axvline(0.0, color=theme.ink, linewidth=1.0)
    axes.axvline(mean, color=theme.ink, linewidth=1.4, linestyle=":", label=f"mean {_signed(mean)}")
    axes.set_ylabel("pairs")
    legend(axes, theme)
    save(figure, path)


def canvas(title: str, x_label: str, theme: Theme) -> tuple["Figure", "Axes"]:
    """A figure with one plot, titled on the left."""
    # A Figure of its own: no pyplot, so no global state, no backend and no window.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=SIZE_INCHES, dpi=DPI, layout="constrained", facecolor=theme.paper)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(facecolor=theme.paper)
    axes.set_title(title, loc="left", fontsize=13, color=theme.ink, pad=26)
    axes.set_xlabel(x_label, color=theme.ink)
    axes.yaxis.label.set_color(theme.ink)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.grid(axis="y", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(theme.pale)
    axes.tick_params(colors=theme.ink, length=0, labelsize=9)
    return figure, axes


def legend(axes: "Axes", theme: Theme) -> None:
    """One line under the title, where it covers no bar."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.012, 0.995)}
    look: dict[str, Any] = {"frameon": False, "fontsize": 9.5, "labelcolor": theme.ink}
    drawn = axes.legend(
        ncols=4, handlelength=1.3, columnspacing=1.6, borderaxespad=0.2, **look, **place
    )
    drawn.set_in_layout(False)  # a long legend must not squeeze the bars


def _signed(value: float) -> str:
    """Three figures, with a minus as wide as on the axis."""
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def save(figure: "Figure", path: Path) -> None:
    """Writes the figure as PNG, nothing in it that changes between runs."""
    figure.savefig(path, format="png", metadata={"Software": None})


def _edges(values: Floats, bins: int) -> list[float]:
    """`bins + 1` edges over all values; of some width even when all are equal."""
    low, high = float(values.min()), float(values.max())
    room = max((high - low) * 0.02, abs(high) * 1e-3, 1e-3)
    return np.linspace(low - room, high + room, bins + 1).tolist()


def _edges_with_zero(values: Floats, bins: int) -> list[float]:
    """About `bins` edges with one at zero, so that no bar holds both wins and losses."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    width = max((high - low) / bins, 1e-6)
    first, last = np.floor(low / width) - 1, np.ceil(high / width) + 1
    return (np.arange(first, last + 1) * width).tolist()
