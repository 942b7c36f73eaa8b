"""A model directory that serves everybody: MLflow's and Hugging Face's files in one root.

    MLmodel requirements.txt code/reward_*_<hash>.py            mlflow.pyfunc.load_model
    config.json model*.safetensors tokenizer.json ...           from_pretrained
    reward_contract.json README.md                              as training wrote them
    normalization.json evaluation/                              scale, figures, plots, report
    registration/                                               decision, report, champion's scale

Only files on an allow-list travel, and none of them runs code on loading but the inference modules,
whose names hold their hash: two versions in one process do not take each other's code.
"""

import json
import shutil
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tasks.artifact import digest_json, file_digest
from tasks.errors import RegistrationError
from tasks.registration.loader import reward_scale
from tasks.registration.loader.allowed_files import UNNAMED, shipped_digest
from tasks.registration.loader.champion_scale import PLACE
from tasks.registration.quiet import quietly

CARRIED = (".json", ".safetensors", ".jinja", ".txt", ".model", ".codes", ".md")
_LOADER = Path(__file__).parents[1] / "loader"
SHIPPED = {
    **{p.stem: f"tasks.registration.loader.{p.stem}" for p in _LOADER.glob("[a-z]*.py")},
    "message_names": "tasks.conversion.conversation.message_names",
    "printed_nulls": "tasks.conversion.conversation.printed_nulls",
    "schema_nulls": "tasks.conversion.conversation.schema_nulls",
    "one_of": "tasks.templating.tokenizer.one_of",
    "own_tokens": "tasks.templating.tokenizer.own_tokens",
    "special_tokens": "tasks.templating.tokenizer.special_tokens",
    "stand_ins": "tasks.templating.tokenizer.stand_ins",
    "encode": "tasks.tokenization.encode",
    "literal": "tasks.tokenization.literal",
    "contract_file": "tasks.training.handover.contract_file",
    "device": "tasks.training.model.device",
    "positions": "tasks.training.model.positions",
    "products": "tasks.training.model.products",
    "whole": "tasks.training.model.whole",
}
"""The modules that travel, by the name they get; they import of the project only each other."""
REQUIRED = ("config.json", "tokenizer_config.json")
SETTINGS = {"device": None, "scale": "raw", "special_tokens_in_text": None, "too_long": "error"}
"""What `mlflow.pyfunc.load_model(uri, model_config={...})` may set: MLflow passes on no other."""
REQUIREMENTS = ("torch", "transformers", "tokenizers", "safetensors", "jinja2", "numpy", "pandas")
MLFLOW = ("MLmodel", "requirements.txt", "conda.yaml", "python_env.yaml", "registered_model_meta")
EVALUATION = "evaluation"
ENCLOSED = ("metrics.json", "report.html", "plots/*.png", "benchmarks.json")
"""Of the evaluation, where it has them."""


def package(model_directory: Path, destination: Path, evaluation: Path | None = None) -> None:
    """Writes the model directory that MLflow takes; replaces what an earlier attempt left.

    `evaluation`: the artifact's directory, for the scale of the rewards and the figures.

    Raises:
        RegistrationError: a file is missing, or the model would run code of its own.
        OSError: the disk takes no more.
    """
    names = carried_files(model_directory)
    _check_no_code(model_directory)
    shutil.rmtree(destination, ignore_errors=True)
    destination.parent.mkdir(parents=True, exist_ok=True)
    sources = shipped_sources()
    for name, text in sources.items():
        destination.with_name(f"{name}.py").write_text(text, "utf-8")
    _save(destination, sources)
    for name in names:
        target = destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model_directory / name, target)
    if evaluation:
        _enclose(evaluation, destination)
    for path in destination.rglob("*"):
        if path.is_file():  # transformers saves weights readable for their owner alone
            path.chmod(0o644)


def _save(destination: Path, sources: Iterable[str]) -> None:
    """MLflow's files, and the modules of these names, which stand beside the destination."""
    with quietly():
        from mlflow import pyfunc
        from mlflow.exceptions import MlflowException

        try:
            pyfunc.save_model(
                path=str(destination),
                loader_module=next(name for name in sources if "_inference_" in name),
                code_paths=[str(destination.with_name(f"{name}.py")) for name in sources],
                pip_requirements=requirements(),
                model_config=SETTINGS,
            )
        except MlflowException as error:
            if isinstance(error.__cause__, OSError):  # MLflow blames the modules for a full disk
                raise error.__cause__ from None
            raise


def _enclose(evaluation: Path, destination: Path) -> None:
    """Puts the scale of the held-out rewards and the evaluation's figures beside the weights."""
    scores = pq.read_table(
        evaluation / "scores.parquet", columns=["reward_chosen", "reward_rejected"]
    )
    rewards = np.concatenate([column.to_numpy() for column in scores.columns])
    if np.ptp(rewards) > 0:  # rewards that are all equal have no scale
        reward_scale.write(reward_scale.fit(rewards), destination)
    for pattern in ENCLOSED:
        for source in sorted(evaluation.glob(pattern)):
            target = destination / EVALUATION / source.relative_to(evaluation)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def identity(model_directory: Path) -> str:
    """The digest of a model's own files: the same where it was trained and where it is downloaded.

    What registration puts beside them (MLflow's files, the loader, scale and figures) does not
    count: a new evaluation of one model is no new model.
    """
    return digest_json(
        {n: file_digest(model_directory / n) for n in carried_files(model_directory)}
    )


def shipped_sources() -> dict[str, str]:
    """`{module name: source}` of the inference modules, which import each other by these names."""
    root = Path(__file__).parents[3]

    def named(digest: str) -> dict[str, str]:
        sources: dict[str, str] = {}
        for name, module in sorted(SHIPPED.items()):
            text = (root / f"{module.replace('.', '/')}.py").read_text("utf-8")
            for other, home in SHIPPED.items():
                new = f"reward_{other}_{digest}"
                text = text.replace(f"from {home} import", f"from {new} import")
                text = text.replace(
                    f"from tasks.registration.loader import {other}\n", f"import {new} as {other}\n"
                )
            sources[f"reward_{name}_{digest}"] = text
        return sources

    return named(shipped_digest(list(named(UNNAMED).values())))


def carried_files(model_directory: Path) -> list[str]:
    """The names of the files that travel, sorted.

    Raises:
        RegistrationError: one is missing without which there is no model.
    """
    names = sorted(
        path.relative_to(model_directory).as_posix()
        for path in model_directory.rglob("*")
        if path.is_file() and path.suffix in CARRIED and not _is_added(path, model_directory)
    )
    missing = [name for name in REQUIRED if name not in names]
    if not any(name.endswith(".safetensors") for name in names):
        missing.append("*.safetensors")
    if missing:
        raise RegistrationError(
            f"{model_directory} has no {', '.join(missing)}; expected a complete reward model "
            "with its tokenizer; run training again"
        )
    return names


def _check_no_code(model_directory: Path) -> None:
    for name in REQUIRED:
        if "auto_map" in json.loads((model_directory / name).read_bytes()):
            raise RegistrationError(
                f"{model_directory / name} has 'auto_map': the model would run code from its own "
                "directory wherever it is loaded; expected an architecture of transformers"
            )


def _is_added(path: Path, directory: Path) -> bool:
    """Whether a file came in at registration, or is one of the downloader's own."""
    name = path.relative_to(directory)
    return name.parts[0] in (*MLFLOW, EVALUATION, PLACE, reward_scale.FILE, "code", ".cache")


def requirements() -> list[str]:
    """What inference needs, pinned to what is installed, without a build's local label."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in REQUIREMENTS]
