"""From which pairs a model came: the pairs behind a tokenization, and a version's train prompts.

Which prompts a version was trained on is a file of its MLflow run, so that other checkouts on one
tracking server know it too: `lineage/trained_on.parquet`, a column `group`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Artifact
from tasks.errors import RegistrationError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

TRAINED_ON = "trained_on.parquet"
LINEAGE = "lineage"


def prompts_of(tokenization: Artifact, split: str) -> dict[str, str]:
    """`{pair_id: group}` of a split's pairs, as conversion had them."""
    rows = conversion_rows(conversion_directory(tokenization), ("pair_id", "group", "split"))
    return {str(r["pair_id"]): str(r["group"]) for r in rows if r["split"] == split}


def write_trained_on(tokenization: Artifact, directory: Path) -> Path:
    """Writes the prompts of the train split, sorted, and returns the file."""
    groups = sorted(set(prompts_of(tokenization, "train").values()))
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / TRAINED_ON
    pq.write_table(pa.table({"group": pa.array(groups, pa.string())}), path, compression="zstd")
    return path


def read_trained_on(
    client: "MlflowClient", version: "ModelVersion", directory: Path
) -> set[str] | None:
    """The prompts that a version was trained on; None where its run does not say, or is gone.

    Raises:
        OSError, MlflowException: what the run says cannot be read now.
    """
    from mlflow.exceptions import MlflowException

    if not version.run_id:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{LINEAGE}/{TRAINED_ON}"
    try:
        if name not in {e.path for e in client.list_artifacts(version.run_id, LINEAGE)}:
            return None
        path = client.download_artifacts(version.run_id, name, str(directory))
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    return {str(group) for group in pq.read_table(path)["group"].to_pylist()}


def conversion_directory(tokenization: Artifact) -> Path:
    """Where the pairs lie that were tokenized.

    Raises:
        RegistrationError: they are gone.
    """
    path = tokenization.path
    for stage in ("templating", "conversion"):
        record = path / "record.json"
        inputs = json.loads(record.read_bytes())["inputs"] if record.is_file() else {}
        if stage not in inputs:
            raise RegistrationError(
                f"{record} names no {stage}, whose pairs are needed to compare with the champion; "
                "run the pipeline again"
            )
        path = input_directory(path, inputs[stage])
    return path


def conversion_rows(directory: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """These columns of the pairs of conversion, row by row."""
    for file in sorted((directory / "pairs").glob("*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches(batch_size=1024, columns=list(columns)):
            yield from batch.to_pylist()


def input_directory(artifact: Path, entry: Mapping[str, Any]) -> Path:
    """Where an input of an artifact stands now, also after the store was moved as a whole."""
    shelf, key = Path(entry["path"]).parts[-2:]
    return artifact.parent.parent / shelf / key
