"""Rewards from a registered reward model: travels inside it, and needs only torch and transformers.

    model = load_reward_model(directory)                      a downloaded version
    model.rewards([[{"role": "user", ...}, ...], "text"])     float32 [N], raw logits

Conversations go through the model's own chat template and get nothing added. Text gets the end
token unless it ends in it, and the tokenizer's special tokens. The reward is read at the last
token by length, in float32. MLflow loads this file through `_load_pyfunc`; it must not import any
other part of the project.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

BATCH_TOKENS = 16_384
"""Padded tokens in one forward pass."""
CONVERSATION, TEXT = "messages", "text"
OPTIONS = ("tools", "chat_template_kwargs")


class ServedModel:
    """A reward model and its tokenizer, on one device."""

    def __init__(self, directory: str | Path, device: str | None = None) -> None:
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
        model: Any = AutoModelForSequenceClassification.from_pretrained(
            directory, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )
        self.model: Any = model.to(self.device).eval()
        self.pad_id = int(model.config.pad_token_id or 0)

    def rewards(self, rows: Iterable[Any]) -> np.ndarray:
        """float32 `[N]`: one reward per row.

        A row is a list of messages, a text, or a mapping with `messages` (and `tools`,
        `chat_template_kwargs`) or `text`.
        """
        return self.rewards_of_ids([self.token_ids(row) for row in rows])

    def token_ids(self, row: Any) -> list[int]:
        """The token ids that the model reads for a row.

        Raises:
            ValueError: the row is none of the forms above, or comes out empty.
        """
        messages, options = _content(row)
        if isinstance(messages, str):
            end = self.tokenizer.eos_token or ""
            text = messages if messages.endswith(end) else messages + end
            ids = self.tokenizer(text)["input_ids"]
        else:
            text = self.tokenizer.apply_chat_template(
                messages, tools=options.get("tools"), tokenize=False,
                **(options.get("chat_template_kwargs") or {}),
            )  # fmt: skip
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if not ids:
            raise ValueError(f"row {str(row)[:80]!r} has no token; expected text to be scored")
        return ids

    def rewards_of_ids(self, sequences: Sequence[Sequence[int]]) -> np.ndarray:
        """float32 `[N]`: the reward of each sequence of token ids."""
        rewards = np.empty(len(sequences), dtype=np.float32)
        order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
        with torch.inference_mode():
            while order:
                size = max(1, BATCH_TOKENS // len(sequences[order[0]]))
                batch, order = order[:size], order[size:]
                rewards[batch] = self._forward([sequences[i] for i in batch])
        return rewards

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> np.ndarray:  # noqa: ARG002
        """What MLflow calls: a DataFrame with a column `messages` or `text`, or a list of rows."""
        return self.rewards(_rows(data))

    def _forward(self, sequences: list[Sequence[int]]) -> np.ndarray:
        lengths = torch.tensor([len(ids) for ids in sequences])  # (B)
        input_ids = torch.full((len(sequences), int(lengths.max())), self.pad_id)  # (B, T)
        for row, ids in enumerate(sequences):
            input_ids[row, : len(ids)] = torch.as_tensor(np.asarray(ids, dtype=np.int64))
        mask = (torch.arange(input_ids.shape[1]) < lengths[:, None]).long()
        given = {
            "input_ids": input_ids.to(self.device),
            "attention_mask": mask.to(self.device),
        }
        if not hasattr(self.model, "score"):  # an encoder pools by itself
            return self.model(**given).logits[:, 0].cpu().numpy()
        body = getattr(self.model, self.model.base_model_prefix)
        hidden = body(**given, use_cache=False)[0]  # (B, T, H)
        last = hidden[torch.arange(len(sequences)), lengths.to(self.device) - 1]  # (B, H)
        return self.model.score(last)[:, 0].cpu().numpy()


def load_reward_model(directory: str | Path, device: str | None = None) -> ServedModel:
    """The reward model in a downloaded directory."""
    return ServedModel(directory, device)


def _load_pyfunc(  # pyright: ignore[reportUnusedFunction]
    path: str, model_config: Mapping[str, Any] | None = None
) -> ServedModel:
    """MLflow's entry; `model_config={"device": "cpu"}` chooses the device."""
    return ServedModel(path, (model_config or {}).get("device"))


def _content(row: Any) -> tuple[Any, Mapping[str, Any]]:
    """The text or the messages of a row, and its options."""
    if isinstance(row, str):
        return row, {}
    if isinstance(row, Mapping):
        options = {name: _json(row.get(name)) for name in OPTIONS}
        if _given(row.get(CONVERSATION)):
            return _messages(_json(row[CONVERSATION])), options
        if _given(row.get(TEXT)):
            return row[TEXT], options
    elif isinstance(row, list | tuple | np.ndarray):
        return _messages(row), {}
    raise ValueError(
        f"a row is {str(row)[:80]!r}; expected a text, a list of messages with role and content, "
        f"or a mapping with {CONVERSATION!r} or {TEXT!r}"
    )


def _messages(value: Any) -> list[dict[str, Any]]:
    messages = [dict(m) if isinstance(m, Mapping) else m for m in value]
    if not messages or not all(isinstance(m, dict) and "role" in m for m in messages):
        raise ValueError(
            f"messages are {str(value)[:80]!r}; expected a list of mappings with role and content"
        )
    return messages


def _rows(data: Any) -> list[Any]:
    if hasattr(data, "columns"):  # a DataFrame
        if not {CONVERSATION, TEXT} & set(data.columns):
            raise ValueError(
                f"the columns are {list(data.columns)}; expected {CONVERSATION!r} or {TEXT!r}"
            )
        return data.to_dict("records")
    if isinstance(data, str) or (isinstance(data, Mapping) and {CONVERSATION, TEXT} & set(data)):
        return [data]
    rows: list[Any] = data.tolist() if isinstance(data, np.ndarray) else list(data)
    # One conversation alone, not a list of them.
    alone = bool(rows) and all(isinstance(r, Mapping) and "role" in r for r in rows)
    return [rows] if alone else rows


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value if _given(value) else None


def _given(value: Any) -> bool:
    """Whether a cell holds something: an absent one is None or NaN in a DataFrame."""
    return value is not None and not (isinstance(value, float) and value != value)
