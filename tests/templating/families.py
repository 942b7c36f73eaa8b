"""A tokenizer for each model family's template: its special tokens, its BOS, its way of splitting.

The vocabularies are tiny and learned here; only what is around the text is in the families' style.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.model import BaseModel
from tasks.model.directory import tokenizer_digest
from tasks.templating.params import TemplatingParams
from tasks.templating.template import with_effective_template

TEMPLATES = Path(__file__).parent / "templates"
CORPUS = ["The sky is blue. What color is the sky? It is green, or so they say. see and go"] * 20


@dataclass(frozen=True)
class Family:
    """What differs from family to family."""

    tokens: tuple[str, ...]
    eos: str
    bos: str | None = None
    adds_bos: bool = False
    metaspace: bool = False
    rstrip: bool = False


IM = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
FAMILIES = {
    "chatml": Family(IM, "<|im_end|>"),
    "llama3": Family(
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "<|eot_id|>",
        "<|begin_of_text|>",
        adds_bos=True,
    ),
    "mistral": Family(
        ("<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        "</s>",
        "<s>",
        adds_bos=True,
        metaspace=True,
    ),
    "gemma": Family(
        ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
        "<eos>",
        "<bos>",
        adds_bos=True,
        metaspace=True,
    ),
    "phi": Family(
        ("<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|endoftext|>"),
        "<|endoftext|>",
        rstrip=True,
    ),
    "zephyr": Family(("<s>", "</s>"), "</s>", "<s>", adds_bos=True, metaspace=True),
    "deepseek": Family(
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        "<｜end▁of▁sentence｜>",
        "<｜begin▁of▁sentence｜>",
        adds_bos=True,
    ),
    "qwen3": Family(IM, "<|im_end|>"),
    "cohere": Family(
        ("<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"),
        "<|END_OF_TURN_TOKEN|>",
        "<BOS_TOKEN>",
        adds_bos=True,
    ),
    "granite": Family(
        ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<|tool_call|>"),
        "<|end_of_text|>",
        "<|end_of_text|>",
    ),
    "harmony": Family(
        ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|call|>", "<|return|>"),
        "<|return|>",
    ),
    "llama2": Family(("<s>", "</s>"), "</s>", "<s>", adds_bos=True, metaspace=True),
    "plain": Family(("<|endoftext|>",), "<|endoftext|>", "<|endoftext|>"),
    "vision": Family((*IM, "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"), "<|im_end|>"),
}
NEEDS_DATE = {"llama3", "granite", "harmony"}


def build_family(name: str, directory: Path) -> BaseModel:
    """The family's tokenizer and template in `directory`, as a base model without weights."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from tokenizers.trainers import BpeTrainer

    family = FAMILIES[name]
    tokenizer = Tokenizer(models.BPE(byte_fallback=family.metaspace, unk_token=None))
    if family.metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
        alphabet = [chr(c) for c in range(33, 127)]
        first = [f"<0x{byte:02X}>" for byte in range(256)]
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet, first = pre_tokenizers.ByteLevel.alphabet(), []
    trainer = BpeTrainer(
        vocab_size=700, special_tokens=first, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if first:  # the bytes are for falling back, and no special tokens
        state = json.loads(tokenizer.to_str()) | {"added_tokens": []}
        tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.add_special_tokens(
        [AddedToken(t, normalized=False, rstrip=family.rstrip) for t in family.tokens]
    )
    if family.adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{family.bos} $A", special_tokens=[(family.bos, _id(tokenizer, family.bos))]
        )
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": family.eos}
    config |= {"bos_token": family.bos} if family.bos else {}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    template = (TEMPLATES / f"{name}.jinja").read_text("utf-8")
    (directory / "chat_template.jinja").write_text(template, "utf-8")
    return BaseModel(directory, tokenizer_digest(directory), "0" * 64, {})


def _id(tokenizer, token):
    return tokenizer.token_to_id(token)


def load_tokenizer(directory: Path, params: TemplatingParams) -> Any:
    """The tokenizer of `directory` as transformers loads it, with the effective chat template."""
    from transformers import AutoTokenizer

    return with_effective_template(AutoTokenizer.from_pretrained(directory), params)
