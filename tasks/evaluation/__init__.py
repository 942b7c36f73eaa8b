"""How good is the reward model: per-pair scores of held-out pairs, and every figure from them.

In: the reward model, the tokenized pairs, (for what needs texts) the pairs of conversion, (for
slices by their columns) the rows of ingestion, and files of public benchmarks. Out:

    scores.parquet      a row per pair, see `tables/scores.py`; other tables are in the same order
    texts.parquet       what each pair looks like (`tables/texts.py`)
    row_columns.parquet what the rows' own columns say (`tables/row_columns.py`); only if asked for
    truncated.parquet   rewards of answers cut short (`scoring/truncation.py`)
    probes.parquet      rewards of extreme answers (`scoring/probes.py`)
    suspects.parquet, suspects.csv   labels worth a second look (`measures/suspects.py`)
    samples.parquet     a few pairs to read: right, wrong, close (`report/samples.py`)
    benchmarks.json, benchmarks/   figures, items and official forms (`benchmarks`)
    metrics.json        every figure; plots/*.png, for dark pages plots/dark/*.png
    report.html         all of it on one page (`report`)

    scoring/       all that the model itself is run for
    tables/        the tables that every figure comes from
    measures/      figures, each from the tables alone; `figures` puts them together
    benchmarks/    public benchmarks, by their own definitions
    report/        the page, its plots, and the pairs it shows

metrics.json. `format` is its version: 2. One family of figures per name. `x_interval` is the 95 %
interval `[low, high]` of x; a figure that cannot be computed is null. Shares lie in 0 to 1.

    overall      pairs (with a better side), undecided, groups (prompts), correct, ties, accuracy
                 (strict), accuracy_ties_half, length_baseline, margin, loss (with the pairs' own
                 margins; loss_without_margins beside it where any has one), brier: each of these
                 with its interval; ece (its interval over all pairs only: not of sources and
                 slices), min_/mean_/max_/std_reward
    sources      {source: as overall}
    slices       {length_ratio | prompt_tokens | turns | language | format: [{slice, as overall}]}
    columns      {column: [{slice, as overall}]}: by the values that `slice_by` asks for
    calibration  [{pairs, confidence, accuracy}]: the reliability diagram
    rewards      levels (of the quantiles); chosen, rejected, margin (of pairs with a better side),
                 all: {mean, std, quantiles}
    bias         null_models {name: decides, accuracy, ...}, the model first (`note`: why one cannot
                 judge); leanings {feature: pairs, data, model}; length {matched, chosen_longer,
                 chosen_shorter: {pairs, accuracy}, balanced_accuracy, partial_correlation};
                 prompt {groups, share_of_variance, intraclass_correlation}
    readiness    groups {groups, answers, largest, within_std_*, zero_advantage*}; bfloat16
                 {tie_rate, ...}; best_of_n [{n, groups, model, oracle, random}]; probes {case:
                 prompts, degenerate, mean_reward, z, above_median, beats_chosen}
    suspects     contradicted, confident, confident_at, confident_by_source
    benchmarks   {label: benchmark, title, overall, complete, missing, unknown, sections, subsets,
                 details (see `benchmarks/results.py`), items, answers, max_length, truncated,
                 special_tokens_in_text, unscored, unscored_items, contamination}; only if declared
    warnings     [{figure: dotted place in this file, message}]

`champion.against_champion` gives three more (agreement, drift, scale) once a champion has scored
the same pairs. Names are handed out lazily, so that importing the package does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.evaluation.measures.champion import against_champion
    from tasks.evaluation.measures.metrics import all_metrics, metrics_of
    from tasks.evaluation.params import BenchmarkParams, EvaluationParams
    from tasks.evaluation.report import render_report, report_of
    from tasks.evaluation.scoring.score import RewardScorer, score_pairs
    from tasks.evaluation.task import step

__all__ = [
    "BenchmarkParams",
    "EvaluationParams",
    "RewardScorer",
    "against_champion",
    "all_metrics",
    "metrics_of",
    "render_report",
    "report_of",
    "score_pairs",
    "step",
]

_HOMES = {
    "BenchmarkParams": "params",
    "EvaluationParams": "params",
    "RewardScorer": "scoring.score",
    "against_champion": "measures.champion",
    "all_metrics": "measures.metrics",
    "metrics_of": "measures.metrics",
    "render_report": "report.page",
    "report_of": "report.page",
    "score_pairs": "scoring.score",
    "step": "task",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
