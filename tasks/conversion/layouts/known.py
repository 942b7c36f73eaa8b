"""All layouts, by name: how each reads a row, and what its rows look like."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks.conversion.layouts import (
    alpaca,
    arena,
    columns,
    context_ranking,
    distilabel,
    helpsteer,
    hh_rlhf,
    json_cells,
    message_trees,
    ms_swift,
    nectar,
    openai_dpo,
    pairwise_label,
    prm800k,
    rewardbench,
    rewardbench2,
    scored,
    sharegpt_ranking,
    shp,
    stepwise,
    summaries,
    trl,
    typed_parts,
    ultrafeedback,
    unpaired,
    webgpt,
)
from tasks.conversion.layouts.columns import Row
from tasks.conversion.options import CellOptions, LabelOptions, Options, RankingOptions
from tasks.conversion.preference.answers import Item

Sides = tuple[Any, Any, Any, float | None]
"""Prompt (`IMPLICIT` where there is none), chosen and rejected, as the row has them; margin."""


@dataclass(frozen=True)
class Layout:
    """One way in which a row holds its pairs."""

    read: Callable[..., Sequence[Item]]
    fits: Callable[[set[str], Row], bool]
    reads: tuple[str, ...]
    """The columns that `read` looks at, beside those that options name (`Options.named`)."""
    options: type[Options] | None = None
    """What `read` takes beside the row; None: nothing."""
    only_if_mapped: tuple[str, ...] = ()
    """Columns that are read only if the mapping names them: a source's column may have such a name
    for other reasons."""
    joins: bool = False
    """Whether a pair may need several rows, wherever they stand."""
    sides: Callable[[Row], Sides | None] | None = None
    """A quick way for rows with nothing but these `Sides`, and without options. Where it returns
    None or raises, `read` has to read the row."""
    json_columns: tuple[str, ...] = ()
    """Columns that were found to hold messages as JSON text."""


_LAYOUTS = {
    "trl": Layout(trl.read, trl.fits, trl.READ, trl.TrlOptions, sides=trl.sides),
    "hh_rlhf": Layout(hh_rlhf.pairs, hh_rlhf.fits, hh_rlhf.READ, sides=hh_rlhf.sides),
    "columns": Layout(
        columns.read, columns.fits, columns.FIELDS, CellOptions, columns.ONLY_IF_MAPPED
    ),
    "sharegpt_ranking": Layout(
        sharegpt_ranking.pairs, sharegpt_ranking.fits, sharegpt_ranking.READ
    ),
    "alpaca": Layout(alpaca.pairs, alpaca.fits, alpaca.READ),
    "ms_swift": Layout(ms_swift.pairs, ms_swift.fits, ms_swift.READ),
    "openai_dpo": Layout(openai_dpo.pairs, openai_dpo.fits, openai_dpo.READ),
    "typed_parts": Layout(typed_parts.pairs, typed_parts.fits, typed_parts.READ),
    "context_ranking": Layout(context_ranking.pairs, context_ranking.fits, context_ranking.READ),
    "arena": Layout(arena.pairs, arena.fits, arena.READ),
    "ultrafeedback": Layout(
        ultrafeedback.read,
        ultrafeedback.fits,
        ultrafeedback.READ,
        ultrafeedback.UltrafeedbackOptions,
    ),
    "helpsteer": Layout(
        helpsteer.read, helpsteer.fits, helpsteer.READ, helpsteer.HelpsteerOptions, joins=True
    ),
    "shp": Layout(shp.read, shp.fits, shp.READ, shp.ShpOptions),
    "unpaired": Layout(unpaired.read, unpaired.fits, unpaired.READ, LabelOptions, joins=True),
    "stepwise": Layout(
        stepwise.read, stepwise.fits, stepwise.READ, stepwise.StepwiseOptions, joins=True
    ),
    "pairwise_label": Layout(
        pairwise_label.read,
        pairwise_label.fits,
        pairwise_label.READ,
        pairwise_label.PairwiseLabelOptions,
        pairwise_label.ONLY_IF_MAPPED,
    ),
    "scored": Layout(scored.read, scored.fits, scored.READ, scored.ScoredOptions, joins=True),
    "rewardbench": Layout(rewardbench.pairs, rewardbench.fits, rewardbench.READ),
    "rewardbench2": Layout(rewardbench2.read, rewardbench2.fits, rewardbench2.READ, LabelOptions),
    "distilabel": Layout(distilabel.read, distilabel.fits, distilabel.READ, RankingOptions),
    "nectar": Layout(nectar.read, nectar.fits, nectar.READ, RankingOptions),
    "message_trees": Layout(
        message_trees.read, message_trees.fits, message_trees.READ, RankingOptions
    ),
    "webgpt": Layout(webgpt.read, webgpt.fits, webgpt.READ, webgpt.WebgptOptions),
    "summaries": Layout(summaries.pairs, summaries.fits, summaries.READ),
    "prm800k": Layout(
        prm800k.read, prm800k.fits, prm800k.READ, stepwise.StepwiseOptions, joins=True
    ),
}
NAMES = tuple(_LAYOUTS)
"""What `layout` may be in a params file."""


def with_json(layout: str, json_columns: Sequence[str]) -> str:
    """The name of the layout that reads these columns as JSON; only `recognise` returns such."""
    return f"{layout}, JSON in {' and '.join(json_columns)}" if json_columns else layout


LAYOUTS = _LAYOUTS | {
    with_json(name, opened): replace(
        _LAYOUTS[name], fits=columns.fits, sides=None, json_columns=opened
    )
    for name in ("trl", "columns")
    for opened in json_cells.CHOICES
}
"""By name; beyond `NAMES` those that parse the JSON cells of some columns."""


def columns_of(layout: str, options: Options) -> list[str]:
    """The columns that a layout reads with these options, under its own names."""
    return list(dict.fromkeys([*LAYOUTS[layout].reads, *options.named()]))
