"""Prints the texts and rewards of a few pairs as a table on the terminal."""

from typing import TYPE_CHECKING, Any, cast

from datasets import Dataset, IterableDataset
from rich.console import Console
from rich.table import Table

from tasks.errors import ParamsError

if TYPE_CHECKING:
    from tasks.training.metrics.evaluating import EvaluatingTrainer

Sample = tuple[str, str, float, float]
"""Texts of chosen and rejected, then their rewards."""


def samples(trainer: "EvaluatingTrainer", rows: Any, count: int) -> list[Sample]:
    """The first `count` pairs (-1: all) of prepared rows, or of the first data set of a dict.

    Raises:
        ParamsError: `rows` is None.
    """
    if isinstance(rows, dict):
        rows = next(iter(cast(dict[str, Any], rows).values()))
    if rows is None:
        raise ParamsError("there are no samples to show: the trainer has no eval_dataset")
    if isinstance(rows, IterableDataset):
        rows = Dataset.from_list(list(rows if count == -1 else rows.take(count)))
    shown = rows if count == -1 else rows.select(range(min(count, len(rows))))
    if len(shown) == 0:
        return []
    rewards: Any = trainer.predict(shown).predictions  # (N, 2)
    tokenizer: Any = trainer.processing_class
    return [
        (
            tokenizer.decode(pair["chosen_input_ids"]),
            tokenizer.decode(pair["rejected_input_ids"]),
            float(chosen),
            float(rejected),
        )
        for pair, (chosen, rejected) in zip(shown, rewards, strict=True)
    ]


def print_samples(pairs: list[Sample]) -> None:
    """Prints one line per pair: both texts, both rewards."""
    table = Table("chosen", "rejected", "rewards", show_lines=True)
    for chosen, rejected, first, second in pairs:
        table.add_row(chosen, rejected, f"{first:.4f}\n{second:.4f}")
    Console(markup=False, highlight=False, emoji=False).print(table)
