"""Scores the benchmarks and leaves their files: item tables, figures, official forms.

Items are scored some hundreds at a time; what a killed attempt has finished is not done again.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Workspace
from tasks.errors import ModelError
from tasks.evaluation.benchmarks.catalogue import BENCHMARKS
from tasks.evaluation.benchmarks.combining import mean
from tasks.evaluation.benchmarks.contamination import contamination, training_groups
from tasks.evaluation.benchmarks.encoding import Encoded, ItemReader
from tasks.evaluation.benchmarks.items import Item, Scored
from tasks.evaluation.measures.intervals import Resampling
from tasks.evaluation.params import BenchmarkParams, EvaluationParams
from tasks.evaluation.scoring.score import RewardScorer
from tasks.training.handover.contract import rendering_policy

ITEMS_AT_ONCE = 256
EXAMPLES = 20
MODEL_TYPE = "Seq. Classifier"

PART = pa.schema(
    [
        ("file", pa.string()),
        ("row", pa.int64()),
        ("id", pa.string()),
        ("subset", pa.string()),
        ("group", pa.string()),
        ("correct", pa.int32()),
        ("rewards", pa.list_(pa.float32())),
        ("tokens", pa.list_(pa.int32())),
        ("truncated", pa.int32()),
        ("forged", pa.int32()),
        ("unscored", pa.string()),
    ]
)
"""The first `correct` rewards are those of the right answers; `truncated` and `forged` count
answers."""


class BenchmarkPasses:
    """The benchmarks of one evaluation."""

    def __init__(
        self,
        params: EvaluationParams,
        benchmarks: Sequence[tuple[BenchmarkParams, Sequence[Item]]],
        scorer: RewardScorer,
        tokenization: Path,
        workspace: Workspace,
    ) -> None:
        self.params, self.benchmarks, self.scorer = params, benchmarks, scorer
        self.workspace = workspace
        policy = str(rendering_policy(tokenization)["policy"])
        self.reader = ItemReader(scorer.model_directory, policy)

    def run(self, conversion: Path | None, model: str) -> dict[str, Any]:
        """`{label: figures}`, which is written as `benchmarks.json` as well.

        `model` is what the official files call the model.
        """
        trained_on = training_groups(conversion) if conversion else None
        found: dict[str, Any] = {}
        for params, items in self.benchmarks:
            table = self._scored(params, items)
            figures = self._judged(params, items, table)
            if trained_on is not None:
                figures["contamination"] = contamination(items, trained_on)
            found[params.label] = figures
            if BENCHMARKS[params.name].official:
                scores = {name: each["score"] for name, each in figures["subsets"].items()}
                template = "none" if self.reader.standard else "tokenizer"
                head = {"model": model, "model_type": MODEL_TYPE, "chat_template": template}
                self.workspace.write_json(f"benchmarks/{params.label}.json", head | scores)
        self.workspace.write_json("benchmarks.json", found)
        return found

    def _longest(self, params: BenchmarkParams) -> int | None:
        limits = [n for n in (params.max_length, self.scorer.most_tokens) if n]
        return min(limits) if limits else None

    def _scored(self, params: BenchmarkParams, items: Sequence[Item]) -> pa.Table:
        parts: list[pa.Table] = []
        for number, start in enumerate(range(0, len(items), ITEMS_AT_ONCE)):
            unit = f"benchmark-{params.label}-{number:05d}"
            if self.workspace.finished(unit) is None:
                part = self._part(items[start : start + ITEMS_AT_ONCE], self._longest(params))
                with self.workspace.writing(f"scratch/{unit}.parquet") as path:
                    pq.write_table(part, path)
                self.workspace.finish(unit, {"items": len(part)})
            parts.append(pq.read_table(self.workspace.scratch / f"{unit}.parquet"))
        return pa.concat_tables(parts)

    def _part(self, items: Sequence[Item], longest: int | None) -> pa.Table:
        encoded = [self.reader.encode(item, longest) for item in items]
        flat = [ids for each in encoded for ids in each.ids]
        rewards = iter(self.scorer.rewards(flat).tolist())
        rows = [
            _row(item, each, [next(rewards) for _ in each.ids], longest)
            for item, each in zip(items, encoded, strict=True)
        ]
        for item, row in zip(items, rows, strict=True):
            if not all(map(math.isfinite, row["rewards"])):
                raise ModelError(
                    f"{self.scorer.model_directory}: an answer of {item.place.file} row "
                    f"{item.place.row} earns {row['rewards']}, expected finite numbers; the "
                    "training diverged: lower training.learning_rate"
                )
        return pa.Table.from_pylist(rows, schema=PART)

    def _judged(
        self, params: BenchmarkParams, items: Sequence[Item], table: pa.Table
    ) -> dict[str, Any]:
        """The figures; writes the item table, each item's own score beside its rewards."""
        rows = table.to_pylist()
        places = [i for i, row in enumerate(rows) if row["unscored"] is None]
        scored = [Scored(items[i], tuple(rows[i]["rewards"])) for i in places]
        how = Resampling(self.params.resamples, self.params.seed)
        result = BENCHMARKS[params.name].judge(scored, how)
        values: list[float | None] = [None] * len(rows)
        for place, value in zip(places, result.values, strict=True):
            values[place] = value
        whole = table.append_column("score", pa.array(values, pa.float64()))
        with self.workspace.writing(f"benchmarks/{params.label}.parquet") as path:
            pq.write_table(whole, path, compression="zstd")
        unscored = [r for r in rows if r["unscored"] is not None]
        title, called = BENCHMARKS[params.name].title, params.called
        groups = [each.item.group for each in scored]
        alone = mean(result.values, groups, how) if scored and not result.overall else None
        return {
            "benchmark": params.name,
            "title": f"{title} ({called})" if called else title,
            **result.to_json(),
            **({"item_mean": alone.to_json()} if alone else {}),
            "items": len(rows),
            "answers": sum(len(row["rewards"]) for row in rows),
            "max_length": self._longest(params),
            "truncated": sum(row["truncated"] for row in rows),
            "special_tokens_in_text": sum(row["forged"] for row in rows),
            "unscored": len(unscored),
            "unscored_items": [
                {name: row[name] for name in ("file", "row", "id", "unscored")}
                for row in unscored[:EXAMPLES]
            ],
        }


def _row(item: Item, encoded: Encoded, rewards: list[float], longest: int | None) -> dict[str, Any]:
    cut = [longest is not None and tokens > longest for tokens in encoded.tokens]
    return {
        "file": item.place.file,
        "row": item.place.row,
        "id": item.id,
        "subset": item.subset,
        "group": item.group,
        "correct": item.correct,
        "rewards": rewards,
        "tokens": list(encoded.tokens),
        "truncated": sum(cut),
        "forged": encoded.forged,
        "unscored": encoded.unscored,
    }
