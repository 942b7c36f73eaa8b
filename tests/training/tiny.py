"""A tiny tokenizer, tiny models, and pairs with their tokenizer as tokenization leaves them."""

import random
from pathlib import Path

import pyarrow as pa
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen3Config,
)
from transformers.utils import logging as transformers_logging

from tasks.tokenization.shards import TOKENIZER_DIRECTORY

VOCABULARY = 64
PAD, EOS = 0, 1
QUIET = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "save_strategy": "no",
    "report_to": "none",
}
"""Fields of a RewardConfig that shows and keeps nothing."""

transformers_logging.disable_progress_bar()
torch.set_num_threads(1)


def make_tokenizer(pad: str | None = "<|pad|>") -> PreTrainedTokenizerFast:
    words = ["<|pad|>", "<eos>", "<unk>", *(f"w{i}" for i in range(VOCABULARY - 3))]
    if pad is None:
        words[0] = "nothing"
    vocabulary = {word: i for i, word in enumerate(words)}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<eos>", unk_token="<unk>", pad_token=pad
    )


def make_model(directory: Path, family: str = "qwen3", seed: int = 0, layers: int = 2) -> Path:
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
    }
    config = Qwen3Config(head_dim=8, **sizes) if family == "qwen3" else LlamaConfig(**sizes)
    torch.manual_seed(seed)
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return directory


def make_rows(count: int, seed: int = 0, margin: bool = False) -> list[dict]:
    """Pairs that can be learned: the chosen answer holds more of the tokens 40 and above."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        prompt = [draw.randrange(3, 20) for _ in range(draw.randrange(1, 8))]
        chosen = [draw.randrange(40, 60) for _ in range(draw.randrange(1, 9))]
        rejected = [draw.randrange(20, 40) for _ in range(draw.randrange(1, 9))]
        row = {
            "pair_id": f"pair{number:04d}",
            "source": "made",
            "chosen_input_ids": [*prompt, *chosen, EOS],
            "rejected_input_ids": [*prompt, *rejected, EOS],
            "shared_prefix_length": len(prompt),
            "weight": 1.0,
        }
        if margin:
            row["margin"] = round(draw.random(), 3)
        rows.append(row)
    return rows


def write_pairs(directory: Path, rows: list[dict], split: str, shards: int = 2) -> Path:
    (directory / split).mkdir(parents=True, exist_ok=True)
    make_tokenizer().save_pretrained(directory / TOKENIZER_DIRECTORY)
    ids = pa.list_(pa.int32())
    fields = {
        "pair_id": pa.string(),
        "source": pa.string(),
        "chosen_input_ids": ids,
        "rejected_input_ids": ids,
        "shared_prefix_length": pa.int32(),
        "weight": pa.float32(),
        "margin": pa.float32(),
    }
    schema = pa.schema([(name, kind) for name, kind in fields.items() if name in rows[0]])
    size = -(-len(rows) // shards)
    for shard in range(shards):
        table = pa.Table.from_pylist(rows[shard * size : (shard + 1) * size], schema=schema)
        path = directory / split / f"{shard:05d}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            writer.write_table(table)
    return directory
