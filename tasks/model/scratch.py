"""A small model from a config with seeded weights, and a tokenizer trained on the ingested text.

For tests, demonstrations and controlled experiments: nothing is downloaded, and equal fields give
equal bytes.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow.parquet as pq

from tasks.errors import ModelError, shown
from tasks.model.bars import without_bars
from tasks.model.family import check_family
from tasks.model.params import ScratchParams

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT, START, END, PAD = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}"
    "{%- if message.tool_calls %}{% for call in message.tool_calls %}"
    "{{- '\\n<tool_call>' + (call.function if call.function else call) | tojson + '</tool_call>' }}"
    "{%- endfor %}{% endif %}"
    "{{- '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
"""Turns between markers, tool calls as JSON: every part of a message, and nothing else."""

TOKENIZER_TEXT_BYTES = 100 * 2**20
"""Bounds the time of the training; more text hardly changes a small vocabulary."""

MOST_TOKEN_CHARACTERS = 128
"""A line of 200,000 equal characters made tokens as long as itself, whose merges took fastokens
minutes to load. Tokenizers in use have runs of up to this many spaces."""

LONGEST_RUN = 1000
"""Longer runs of characters of one kind are cut: the time of BPE's training is quadratic in a
word's length, a minute for 262,144 equal characters."""
_RUN = re.compile(rf"(\w{{{LONGEST_RUN}}}|[^\w\s]{{{LONGEST_RUN}}}|\s{{{LONGEST_RUN}}})")


def build_scratch(params: ScratchParams, corpus: Iterator[str], directory: Path) -> None:
    """Writes config, weights, tokenizer and chat template into `directory`.

    Raises:
        ModelError: transformers has no such causal architecture, or refuses the sizes.
    """
    tokenizer = train_tokenizer(corpus, params.vocab_size)
    _save_tokenizer(tokenizer, params, directory)
    _save_weights(params, tokenizer, directory)


def texts(row_shards: list[Path]) -> Iterator[str]:
    """Every string value of the raw rows, in order, up to `TOKENIZER_TEXT_BYTES`."""
    left = TOKENIZER_TEXT_BYTES
    for shard in row_shards:
        for batch in pq.ParquetFile(shard).iter_batches(columns=["raw"]):
            for raw in batch.column("raw").to_pylist():
                for text in _strings(orjson.loads(raw)):
                    yield from _cut(text)
                    left -= len(text)
                if left < 0:
                    return


def _cut(text: str) -> list[str]:
    """The text in pieces, cut where a run is too long."""
    if len(text) < LONGEST_RUN:
        return [text]
    spaces = any(space * LONGEST_RUN in text for space in " \n\t")
    if not spaces and max(map(len, text.split()), default=0) < LONGEST_RUN:
        return [text]
    return [piece for piece in _RUN.split(text) if piece]


def train_tokenizer(corpus: Iterator[str], vocab_size: int) -> "Tokenizer":
    """A byte-level BPE tokenizer: any text has ids, and decoding gives the text back."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT, START, END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=MOST_TOKEN_CHARACTERS,
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def _save_tokenizer(tokenizer: "Tokenizer", params: ScratchParams, directory: Path) -> None:
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": params.max_position_embeddings,
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def _save_weights(params: ScratchParams, tokenizer: "Tokenizer", directory: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    fields = params.model_dump(exclude={"architecture", "vocab_size", "seed"}, exclude_none=True)
    fields.setdefault("head_dim", params.hidden_size // params.num_attention_heads)
    try:
        config = AutoConfig.for_model(
            params.architecture,
            vocab_size=tokenizer.get_vocab_size(),
            bos_token_id=None,
            eos_token_id=tokenizer.token_to_id(END),
            pad_token_id=tokenizer.token_to_id(PAD),
            use_cache=False,
            **fields,
        )
        of_text = config.get_text_config()
        if of_text is not config:
            raise ModelError(
                f"model.scratch.architecture: {params.architecture} reads more than text, and the "
                f"sizes are not those of its text part; expected that alone: {of_text.model_type}"
            )
        check_family("model.scratch.architecture", params.architecture)
        torch.manual_seed(params.seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():  # sizes that do not fit together may show here first
            model.eval()(torch.zeros((1, 2), dtype=torch.long))
    except ModelError:
        raise
    except Exception as error:  # of any class: every architecture checks its config in its own way
        raise ModelError(
            f"model.scratch cannot be built as {params.architecture}: {shown(str(error), 300)}; "
            f"correct it: most architectures need an even multiple of num_attention_heads "
            f"({params.num_attention_heads}) as hidden_size ({params.hidden_size}), and a multiple "
            f"of num_key_value_heads ({params.num_key_value_heads}) as num_attention_heads"
        ) from error
    with without_bars():
        model.save_pretrained(directory)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
