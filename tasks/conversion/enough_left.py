"""Whether enough pairs are left of a conversion, and if not, what left them out and what to do."""

from tasks.artifact import Ledger
from tasks.conversion.params import ConversionParams
from tasks.conversion.tolerance import Examples, frequent
from tasks.errors import DataError

_OVERRIDDEN = "conversion.overrides left them out: correct that file"
_WHAT_TO_DO = {
    "excluded": "they have prompts of a source with use: exclude: give other data, or correct that "
    "source",
    "held_out_elsewhere": "their prompts are held out by a source with use: eval: give other data, "
    "or correct that source",
    "overridden_drop": _OVERRIDDEN,
    "overridden_tie": _OVERRIDDEN,
    "contradiction": "they stand in the data both ways round: correct them, or see "
    "conversion.contradictions",
    "tie": "neither answer is better: give pairs of which one is, or set conversion.ties: keep",
}
"""By the reason for which pairs were left out, where that is no fault of their rows."""


def check_enough_left(ledger: Ledger, examples: Examples, params: ConversionParams) -> None:
    """Raises DataError when every row was dropped, or fewer pairs than `min_rows` are left."""
    if ledger.rows_out >= params.min_rows:
        return
    if ledger.rows_out:
        raise DataError(
            f"conversion: {ledger.rows_out} pairs are left of {ledger.rows_in} rows, fewer than "
            f"conversion.min_rows {params.min_rows}; dropped: {ledger.dropped}. Add rows, or lower "
            "min_rows"
        )
    sentence = f"conversion: no pair is left of {ledger.rows_in} rows; dropped: {ledger.dropped}."
    reasons = [frequent(ledger, source, examples) for source in ledger.accounts]
    known = [f"{reason}: {do}." for reason, do in _WHAT_TO_DO.items() if ledger.dropped.get(reason)]
    otherwise = [] if known else ["Add rows that can be used"]
    sentences = [sentence, *filter(None, reasons), *known, *otherwise]
    raise DataError(" ".join(sentences).removesuffix("."))


def check_splits(ledger: Ledger, train: int, held_out: int, params: ConversionParams) -> None:
    """Raises DataError when train is empty, or eval although `eval_fraction` asks for it; `train`
    and `held_out` count prompt groups."""
    if train and (held_out or not params.eval_fraction):
        return
    empty = "eval" if train else "train"
    elsewhere = ledger.dropped.get("held_out_elsewhere", 0)
    if elsewhere and not train:
        raise DataError(
            f"conversion: the train split is empty: {elsewhere} pairs were left out: "
            f"{_WHAT_TO_DO['held_out_elsewhere']}"
        )
    seed = " or try another seed" if train + held_out > 1 else ""
    if params.split_by == "opening":
        seed += "; split_by opening holds whole openings out"
    raise DataError(
        f"conversion: the {empty} split is empty: {train + held_out} prompt groups at "
        f"eval_fraction {params.eval_fraction} and seed {params.seed} gave {train} to train "
        f"and {held_out} to eval; add data, change eval_fraction (0 holds nothing out, for "
        f"runs --until training; `use: eval` in a source holds all of it out){seed}"
    )
