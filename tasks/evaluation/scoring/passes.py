"""All that the model itself is run for: whole pairs, pairs cut short, probes. Leaves the tables.

    tokenization eval/*.arrow  ->  scores.parquet, truncated.parquet
    conversion pairs/*.parquet ->  texts.parquet (no model needed), probes.parquet

Window by window: what an earlier, killed attempt has finished is not computed again.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Workspace
from tasks.errors import DataError
from tasks.evaluation.params import EvaluationParams
from tasks.evaluation.scoring import score, truncation, windows
from tasks.evaluation.tables import texts
from tasks.evaluation.tables.scores import SCHEMA, scores_of

SPLIT = "eval"
SCORES, TRUNCATED = "scores", "truncated"


class Passes:
    """The passes of one evaluation.

    Raises:
        DataError: no pair is held out.
        ModelError: the model cannot be loaded.
    """

    def __init__(
        self, params: EvaluationParams, model: Path, tokenization: Path, workspace: Workspace
    ) -> None:
        import torch

        self.params, self.model, self.workspace = params, model, workspace
        self.files = windows.split_files(tokenization, SPLIT)
        self.scorer = score.RewardScorer(model, batch_size=params.batch_size, device=params.device)
        self.how: dict[str, Any] = {
            "device": self.scorer.device,
            "batch_size": params.batch_size,
            "threads": torch.get_num_threads(),
        }

    def run(self, conversion: Path | None) -> None:
        """Writes every table that the params ask for; those of texts where `conversion` is given.

        Raises:
            DataError: no pair is held out, or a pair is not among those of `conversion`.
            ModelError: a reward is no finite number.
        """
        parts = self._score()
        self._join(SCORES, parts, SCHEMA)
        if self.params.first_tokens is not None:
            self._join(TRUNCATED, parts, truncation.SCHEMA)
        if conversion is not None:
            self._texts(conversion)

    def _score(self) -> int:
        """Leaves both tables' parts, one per window, in the scratch directory; returns how many."""
        from tqdm import tqdm

        first = self.params.first_tokens
        closing = truncation.closing_tokens(self.files) if first is not None else {}
        count = 0
        with tqdm(desc="evaluation", unit=" pairs", disable=None, leave=False) as progress:
            for window in windows.read_windows(self.files):
                unit = f"{SCORES}-{count:05d}"
                if self.workspace.finished(unit) is None:
                    scored = score.score_window(self.scorer, window, SPLIT)
                    self._write_part(SCORES, count, scored)
                    if first is not None:
                        short = truncation.truncated_window(
                            self.scorer, window, scored, first, closing
                        )
                        self._write_part(TRUNCATED, count, short)
                    self.workspace.finish(unit, {"pairs": len(window)})
                count += 1
                progress.update(len(window))
        if not count:
            raise DataError(
                f"{self.files[0].parent} holds no pair, expected at least one to evaluate on; "
                "raise conversion.eval_fraction or add data"
            )
        return count

    def _write_part(self, name: str, index: int, part: pa.Table) -> None:
        with self.workspace.writing(f"scratch/{name}-{index:05d}.parquet") as path:
            pq.write_table(part, path)

    def _join(self, name: str, parts: int, schema: pa.Schema) -> None:
        with (
            self.workspace.writing(f"{name}.parquet") as path,
            pq.ParquetWriter(path, schema, compression="zstd") as writer,
        ):
            for index in range(parts):
                part = self.workspace.scratch / f"{name}-{index:05d}.parquet"
                writer.write_table(pq.read_table(part))

    def _texts(self, conversion: Path) -> None:
        from transformers import AutoTokenizer

        from tasks.evaluation.scoring.probes import probe_table

        scored = pq.read_table(self.workspace.path / f"{SCORES}.parquet")
        keys = zip(scored["pair_id"].to_pylist(), scored["source"].to_pylist(), strict=True)
        described = texts.text_table(conversion, keys)
        self._write("texts", described)
        if self.params.probe_prompts:
            tokenizer: Any = AutoTokenizer.from_pretrained(self.model)
            scores = replace(scores_of(scored), group=texts.texts_of(described).group)
            prompts = self.params.probe_prompts
            self._write("probes", probe_table(self.scorer, tokenizer, conversion, scores, prompts))

    def _write(self, name: str, found: pa.Table) -> None:
        with self.workspace.writing(f"{name}.parquet") as path:
            pq.write_table(found, path, compression="zstd")
