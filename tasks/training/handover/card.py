"""The model card: what a reward model was made from, by which settings, and how to read it.

Holds no path of the machine and no clock: equal runs leave equal cards.
"""

import json
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets import Dataset
from peft import PeftModel

from tasks.templating.tokenizer.own_tokens import own_tokens
from tasks.training.checkpoints.checkpoint import versions
from tasks.training.handover.determinism import determinism, promise
from tasks.training.settings.config import RewardConfig

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer

TAGS = ("reward-trainer", "reward-model", "reward-pipeline")
HUB_NAME = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(@(?P<commit>[0-9a-f]{40}))?")
SHOWN = ("loss", "accuracy", "margin", "mean_reward", "num_tokens")

LOAD_WHOLE = """from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForSequenceClassification.from_pretrained("{name}", dtype=torch.float32).eval()
"""
LOAD_ADAPTER = """from peft import AutoPeftModelForSequenceClassification
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoPeftModelForSequenceClassification.from_pretrained(
    "{name}", num_labels=1, dtype=torch.float32
).eval()
"""
READ = """with torch.no_grad():
    reward = model(ids).logits[0, 0].item()
"""
CONVERSATION = """messages = [
    {"role": "user", "content": "What color is the sky?"},
    {"role": "assistant", "content": "It is blue."},
]
ids = tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=False)"""
TEXT = """text = "What color is the sky?" + " It is blue."{end}  # prompt, and answer
ids = tokenizer(text, return_tensors="pt")["input_ids"]"""


def model_card(
    trainer: "RewardTrainer",
    history: list[dict[str, Any]],
    name: str,
    tags: tuple[str, ...] = (),
    *,
    merged: bool = False,
) -> str:
    """The card as Markdown with YAML front matter; `history` holds the logged records, `merged`
    says that adapters are added into the weights where the card stands.
    """
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    adapter = isinstance(model, PeftModel)
    base = base_name(trainer)
    hub = HUB_NAME.fullmatch(base)
    pinned = determinism(trainer)
    alone = adapter and not merged
    load = LOAD_ADAPTER if alone else LOAD_WHOLE
    lines = [
        "---",
        f"library_name: {'peft' if alone else 'transformers'}",
        "pipeline_tag: text-classification",
        *([f"base_model: {hub['repository']}"] if hub else []),
        "tags:",
        *(f"- {tag}" for tag in dict.fromkeys((*TAGS, *tags))),
        "---",
        "",
        f"# {name}",
        "",
        f"A reward model: one float32 number per conversation, higher for the answer that people "
        f"prefer. Trained from `{base}`, with a head that was {_head(trainer)}"
        + (" and low-rank adapters." if adapter else "."),
        "",
        "## Load",
        f"```python\nimport torch\n{load.format(name=name)}{_read(trainer)}\n{READ}```",
        "The reward is read at the last token of a sequence and is no probability: only the "
        "differences between answers to one prompt have a meaning.",
        "",
        "## Data",
        *_table(("source", "training pairs"), _sources(trainer.train_dataset)),
        "",
        "## Results",
        *_results(history),
        "",
        "## Settings",
        *_table(("setting", "value"), _settings(trainer)),
        "",
        "## Reproduction",
        promise(pinned),
        "",
        *_table(("pinned", "as"), pinned.items()),
        "",
        "## Versions",
        *_table(("library", "version"), versions().items()),
    ]
    return "\n".join(lines) + "\n"


def base_name(trainer: "RewardTrainer") -> str:
    """What the base model is called: as it was given, but of a directory the last part alone."""
    given = Path(trainer.base_name)
    return given.name if given.is_absolute() or given.is_dir() else trainer.base_name


def _sources(rows: Any) -> list[tuple[str, Any]]:
    """Training pairs of each source, the most first; those of a stream have no known number."""
    if not isinstance(rows, Dataset):
        return [("(a stream)", "not counted")] if rows is not None else []
    if "source" not in rows.column_names:
        return [("(not named)", len(rows))]
    return Counter(map(str, rows["source"])).most_common()


def _read(trainer: "RewardTrainer") -> str:
    """How what is judged becomes ids, in code: as training read it."""
    tokenizer: Any = trainer.processing_class
    if tokenizer.chat_template and trainer.formats != ("standard",):
        return CONVERSATION
    end = own_tokens(tokenizer).end
    return TEXT.format(end=f" + {end!r}" if end else "")


def _head(trainer: "RewardTrainer") -> str:
    kept = "kept from there" if trainer.head.origin == "loaded" else "drawn from the seed"
    return f"{kept} (SHA-256 `{trainer.head.sha256[:16]}`)"


def _results(history: list[dict[str, Any]]) -> list[str]:
    """The last training record and the last of every evaluation."""
    found: dict[str, dict[str, Any]] = {}
    for record in history:
        if "loss" in record:
            found["training, last record"] = record
        for name in record:
            if name.endswith("_accuracy") and name.startswith("eval_"):
                prefix = name.removesuffix("accuracy")
                found[prefix.rstrip("_")] = {
                    k.removeprefix(prefix): v for k, v in record.items() if k.startswith(prefix)
                }
    rows = [
        (title, *(f"{record[k]:.6g}" if k in record else "" for k in SHOWN))
        for title, record in found.items()
    ]
    return _table(("", *SHOWN), rows)


def _settings(trainer: "RewardTrainer") -> list[tuple[str, str]]:
    """What is not transformers' or RewardConfig's default.

    The defaults are read from the fields: a config that is made resets accelerate's state, which
    the trainer goes on with.
    """
    defaults = {field.name: field.default for field in fields(RewardConfig)}
    given: Any = trainer.job.get("args") or trainer.job.get("params") or {}
    adapted = trainer.batch_adapted()
    more = [] if adapted is None else [("batch_adapted", json.dumps(adapted))]
    return [
        (name, json.dumps(value, default=str))
        for name, value in sorted(given.items())
        if value is not None and value != (default := defaults.get(name))
        if value or default is not None  # a default of None decides for itself
    ] + more


def _table(head: tuple[str, ...], rows: Any) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return lines + [f"| {' | '.join(row)} |" for row in cells]
