"""Rewards from a registered reward model: travels inside it, and needs only torch and transformers.

    model = load_reward_model(directory)                      a downloaded version
    model.rewards([[{"role": "user", ...}, ...], "text"])     float32 [N], raw logits
    model.rewards_of_answers(prompt, ["one", "other"])        float32 [N], the prompt computed once

Rows become ids as in training (row_text.py), special tokens in their words by the policy of the
score contract, and ids rewards in id_rewards.py. No code of the directory is run: it may hold data
files alone. MLflow loads this module through `_load_pyfunc`; it may import only modules that travel
with it, which package.py lists.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from jinja2 import TemplateError

from tasks.registration.loader import reward_scale
from tasks.registration.loader.allowed_files import check_files
from tasks.registration.loader.champion_scale import map_to
from tasks.registration.loader.contract_replay import formats_of, policy_of, replay
from tasks.registration.loader.given_rows import check_options, content, conversations, rows_of
from tasks.registration.loader.id_rewards import IdScorer
from tasks.registration.loader.prompt_reuse import Ids
from tasks.registration.loader.row_text import RowTexts
from tasks.registration.loader.sound_files import model_of, tokenizer_of
from tasks.registration.loader.too_long import TooLong, fitting
from tasks.templating.tokenizer.special_tokens import Policy
from tasks.training.model.device import check_device
from tasks.training.model.positions import longest_row
from tasks.training.model.products import use_onednn

Scale = Literal["raw", "normalized", "champion", "reference"]
"""As the model gives them; mean 0 and deviation 1 over held-out answers (normalization.json); on
the scale of the champion before it, or of the first one (champion_scale.py)."""

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, TemplateError)
"""The errors of a row that the tokenizer or the chat template cannot process."""


class ServedModel:
    """The reward model in a downloaded directory and its tokenizer, on one device.

    `scale`: of the rewards, raw unless asked for otherwise; with `reference`, coefficients of RL
    stay good when the model is retrained. `special_tokens_in_text`: another policy than training's
    (row_text.py): `encode` scores rows that a model trained with `quarantine` refuses. `too_long`:
    `cut_start` scores the end of a row that is longer than the model reads, in place of an error.

    Raises:
        ValueError: the directory holds more than data (allowed_files.py), or not all weights of a
            reward model, damaged ones, or not that scale; or there is no such device.
    """

    def __init__(
        self,
        directory: str | Path,
        device: str | None = None,
        *,
        scale: Scale = "raw",
        special_tokens_in_text: Policy | None = None,
        too_long: TooLong = "error",
    ) -> None:
        directory = Path(directory)
        options = {"scale": scale, "special_tokens_in_text": special_tokens_in_text}
        options |= {"too_long": too_long}
        self.again = partial(ServedModel, directory.absolute(), device, **options)
        """Loads the same once more."""
        check_files(directory)
        self.scale = reward_scale.read(directory)
        _check_options(directory, scale, too_long, has_scale=self.scale is not None)
        self.too_long: TooLong = too_long
        self.answer_scale: Scale = scale
        self.map = map_to(directory, scale) if scale in ("champion", "reference") else None
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        check_device(self.device)
        self.tokenizer: Any = tokenizer_of(directory)
        model = model_of(directory)
        self.model: Any = model.to(self.device).eval()
        use_onednn(getattr(model, model.base_model_prefix, model))
        self.scorer = IdScorer(self.model)
        self.formats = formats_of(directory)
        """Of training's rows: `standard`, `conversational` or both; empty without a contract."""
        trained_with = policy_of(directory)
        self.texts = RowTexts(self.tokenizer, trained_with)
        self.golden = replay(self, directory)
        """Golden sequences that came out as in training; None without a contract."""
        self.texts = RowTexts(self.tokenizer, special_tokens_in_text or trained_with)
        written = "encode" if trained_with == "quarantine" else trained_with
        self.texts_of_policies = RowTexts(self.tokenizer, special_tokens_in_text or written)
        """For completions of an RL policy: a special token that they spell is read as text, and is
        no error unless `quarantine` was asked for."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, it is its directory and how it was loaded, not its weights."""
        return self.again, ()

    def rewards(self, rows: Iterable[Any]) -> np.ndarray:
        """float32 `[N]`: one reward per row.

        A row is a list of messages, a text, or a mapping with `messages` (and `tools`,
        `chat_template_kwargs`), `text`, or `prompt` and `completion`; one alone is read as a list
        of one. Tools and settings beside text are passed over, as in training.

        Raises:
            ValueError: as `ids_of_rows`.
        """
        return self.scaled(self.rewards_of_ids(self.ids_of_rows(rows_of(rows))))

    def rewards_of_answers(self, prompt: Any, answers: Sequence[Any], **options: Any) -> np.ndarray:
        """float32 `[N]`: one reward per answer, the prompt computed once where the family allows.

        `prompt`: messages or text; `answers`: messages or texts; `options` as in a row.

        Raises:
            ValueError: no list of answers, an option that no row has, or as `ids_of_rows`.
        """
        if isinstance(answers, str):
            raise ValueError(f"answers are the text {answers[:80]!r}; expected a list of answers")
        if isinstance(answers, Mapping) or not hasattr(answers, "__iter__"):
            raise ValueError(f"answers are {str(answers)[:80]!r}; expected a list of answers")
        check_options(options)
        ids = self.ids_of_rows(conversations((prompt, answer, options) for answer in answers))
        return self.scaled(self.rewards_of_ids(ids, prompts=[0] * len(ids)))

    def scaled(self, rewards: np.ndarray) -> np.ndarray:
        """Raw rewards on the scale that was asked for when the model was loaded."""
        if self.map:
            return self.map.applied(rewards)
        normalized = self.answer_scale == "normalized" and self.scale
        return normalized.normalized(rewards) if normalized else rewards

    def ids_of_rows(self, rows: Iterable[Any], texts: RowTexts | None = None) -> list[list[int]]:
        """The token ids of each row, none longer than the model has positions for.

        `texts`: what reads the rows in place of the model's own `texts`.

        Raises:
            ValueError: a row is too long and not to be cut, cannot be rendered or encoded, or as
                `token_ids`; it is named by its number, from 0.
        """
        ids: list[list[int]] = []
        for number, row in enumerate(rows):
            try:
                ids.append(self.token_ids(row, texts=texts))
            except ValueError as error:
                raise ValueError(f"row {number}: {error}") from error
            except UNREADABLE as error:
                message = f"row {number} cannot be read: {type(error).__name__}: {error}"
                raise ValueError(message) from error
        return fitting(ids, self.model.config, self.too_long, self.tokenizer)

    def token_ids(
        self,
        row: Any,
        check: Callable[[str], None] = lambda _: None,
        texts: RowTexts | None = None,
    ) -> list[int]:
        """The token ids that the model reads for a row.

        `check` is called with the row's text, rendered but not encoded yet. `texts` as in
        `ids_of_rows`.

        Raises:
            ValueError: the row has none of the forms of `rewards`, comes out empty, or holds a
                special token that the policy does not allow.
        """
        ids = (texts or self.texts).ids(*content(row), check)
        if not ids:
            raise ValueError(f"row {str(row)[:80]!r} has no token; expected text to be scored")
        return ids

    def rewards_of_ids(
        self, sequences: Sequence[Ids], prompts: Sequence[Any] | None = None
    ) -> np.ndarray:
        """float32 `[N]`: the raw reward of each sequence of token ids, as `IdScorer.rewards`.

        Lengths are the caller's: a champion scores a successor's pairs, which may have more tokens
        than it has positions.
        """
        return self.scorer.rewards(sequences, prompts)

    @property
    def max_tokens(self) -> int | None:
        """Tokens of the longest row that a server takes, by the positions; None: not known."""
        return longest_row(self.model.config)

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> np.ndarray:  # noqa: ARG002
        """What MLflow calls, with a DataFrame or a list of rows."""
        return self.rewards(data)


def _check_options(directory: Path, scale: str, too_long: str, *, has_scale: bool) -> None:
    """Raises ValueError: a value is unknown, or the directory has not what it needs."""
    if scale not in get_args(Scale):
        raise ValueError(f"scale is {scale!r}, expected one of {get_args(Scale)}")
    if scale == "normalized" and not has_scale:
        raise ValueError(f"{directory} has no {reward_scale.FILE}; rewards can only be raw")
    if too_long not in get_args(TooLong):
        raise ValueError(f"too_long is {too_long!r}, expected one of {get_args(TooLong)}")


load_reward_model = ServedModel


def _load_pyfunc(  # pyright: ignore[reportUnusedFunction]
    path: str, model_config: Mapping[str, Any] | None = None
) -> ServedModel:
    """MLflow's entry; `model_config={"device": "cpu", "scale": "reference"}` for other defaults."""
    return ServedModel(path, **(model_config or {}))
