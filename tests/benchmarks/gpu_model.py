"""The models of the GPU benchmark: shapes of Qwen3, random weights, and what memory they take."""

from typing import Any

SHAPES = {
    # hidden, intermediate, layers, heads, key-value heads
    "tiny": (64, 128, 2, 4, 2),
    "0.6B": (1024, 3072, 28, 16, 8),
    "1.7B": (2048, 6144, 28, 16, 8),
    "4B": (2560, 9728, 36, 32, 8),
}
VOCABULARY = 151_936
SAVED_BYTES = {"tiny": 20e3, "0.6B": 1.4e6, "1.7B": 2.4e6, "4B": 3.6e6}
"""What one token leaves for the backward pass, without checkpointing."""
STATIC_BYTES = 18
"""Of one parameter: weights, gradients and AdamW's states in float32, the weights in bfloat16."""
LEAST_TOKENS = 1024
"""Of one sequence, which a micro-batch has to have room for."""
FILLED = 0.85
"""Of the device's memory, by our largest micro-batch."""


def random_model(size: str) -> Any:
    """A reward model of random weights, drawn where it is to compute."""
    import torch
    from transformers import AutoModelForSequenceClassification, Qwen3Config

    hidden, inner, layers, heads, key_heads = SHAPES[size]
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        head_dim=hidden // heads if size == "tiny" else 128,
        num_labels=1,
        pad_token_id=0,
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        return AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)


def plain_tokenizer() -> Any:
    """A tokenizer with nothing but the tokens that trainers ask for: all rows are ids."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


def token_budget(size: str, model: Any) -> int | None:
    """Tokens of our largest micro-batch on this device."""
    import torch

    if not torch.cuda.is_available():
        return None
    room = FILLED * torch.cuda.get_device_properties(0).total_memory
    room -= STATIC_BYTES * sum(p.numel() for p in model.parameters())
    tokens = int(room / SAVED_BYTES[size])
    if tokens < 2 * LEAST_TOKENS:
        raise RuntimeError(f"{size} without checkpointing does not fit into this device's memory")
    return tokens
