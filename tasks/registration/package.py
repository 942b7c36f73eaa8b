"""A model directory that serves everybody: MLflow's and Hugging Face's files in one root.

    MLmodel requirements.txt code/reward_inference_<hash>.py    mlflow.pyfunc.load_model
    config.json model*.safetensors tokenizer.json ...           from_pretrained

Only files on an allow-list travel, and none of them runs code on loading but the inference module,
whose name holds its hash: two versions in one process do not take each other's code.
"""

import hashlib
import json
import shutil
from importlib.metadata import version
from pathlib import Path

from tasks.errors import RegistrationError
from tasks.registration import inference
from tasks.registration.tracking import quietly

CARRIED = (".json", ".safetensors", ".jinja", ".txt", ".model", ".md")
REQUIRED = ("config.json", "tokenizer_config.json")
REQUIREMENTS = ("torch", "transformers", "tokenizers", "safetensors", "jinja2", "numpy", "pandas")


def package(model_directory: Path, destination: Path) -> None:
    """Writes the model directory that MLflow takes; replaces what an earlier attempt left.

    Raises:
        RegistrationError: a file is missing, or the model would run code of its own.
    """
    names = carried_files(model_directory)
    shutil.rmtree(destination, ignore_errors=True)
    destination.parent.mkdir(parents=True, exist_ok=True)
    source = Path(inference.__file__).read_text("utf-8")
    module = f"reward_inference_{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    code = destination.with_name(f"{module}.py")
    code.write_text(source, "utf-8")
    with quietly():
        from mlflow import pyfunc

        pyfunc.save_model(
            path=str(destination),
            loader_module=module,
            code_paths=[str(code)],
            pip_requirements=requirements(),
        )
    for name in names:
        target = destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model_directory / name, target)
    for path in destination.rglob("*"):
        if path.is_file():  # transformers saves weights readable for their owner alone
            path.chmod(0o644)


def carried_files(model_directory: Path) -> list[str]:
    """The names of the files that travel, sorted.

    Raises:
        RegistrationError: as `package`.
    """
    names = sorted(
        path.relative_to(model_directory).as_posix()
        for path in model_directory.rglob("*")
        if path.is_file() and path.suffix in CARRIED
    )
    missing = [name for name in REQUIRED if name not in names]
    if not any(name.endswith(".safetensors") for name in names):
        missing.append("*.safetensors")
    if missing:
        raise RegistrationError(
            f"{model_directory} has no {', '.join(missing)}; expected a complete reward model "
            "with its tokenizer; run training again"
        )
    for name in ("config.json", "tokenizer_config.json"):
        if "auto_map" in json.loads((model_directory / name).read_bytes()):
            raise RegistrationError(
                f"{model_directory / name} has 'auto_map': the model would run code from its own "
                "directory wherever it is loaded; expected an architecture of transformers"
            )
    return names


def requirements() -> list[str]:
    """What inference needs, pinned to what is installed, without a build's local label."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in REQUIREMENTS]
