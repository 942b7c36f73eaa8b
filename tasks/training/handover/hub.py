"""What a trainer publishes with its model: tags, this project's model card in place of Trainer's
draft, and the score contract beside the weights.
"""

import logging
from pathlib import Path
from typing import Any

from datasets import Dataset
from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]

from tasks.errors import ParamsError
from tasks.training.checkpoints.resumable import ResumableTrainer
from tasks.training.handover.card import TAGS, model_card
from tasks.training.handover.contract import write_contract
from tasks.training.handover.contract_file import CONTRACT
from tasks.training.settings.config import RewardConfig

logger = logging.getLogger(__name__)


class SharedTrainer(ResumableTrainer):
    """Trainer whose `save_model` writes this project's card, as `create_model_card` and
    `push_to_hub` do, and the score contract."""

    base_name: str
    """What the model was given as."""
    formats: tuple[str, ...] = ()
    """Which the training rows had, `standard` or `conversational`; none where nobody knows."""

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """As Trainer's, with a model card; a whole model gets its score contract, for which it is
        loaded once more, in float32 on the CPU. Adapters get none, models within checkpoints
        neither.
        """
        super().save_model(output_dir, _internal_call)
        of_a_checkpoint = _internal_call and output_dir is not None
        if self.is_world_process_zero() and not of_a_checkpoint:
            directory = Path(output_dir or self.args.output_dir or ".")
            self._write_card(directory, directory.name)
            self._write_contract(directory)

    def _write_contract(self, directory: Path) -> None:
        (directory / CONTRACT).unlink(missing_ok=True)  # of a model that stood here before
        if not (directory / "config.json").is_file():
            return
        args: Any = self.args
        settings: RewardConfig = args
        held_out: Any = self.eval_dataset
        if isinstance(held_out, dict):
            held_out = next(iter(held_out.values()), None)
        pairs: Any = held_out if isinstance(held_out, Dataset) else ()
        try:
            policy = settings.special_tokens_in_text
            write_contract(directory, pairs, policy=policy, formats=self.formats or None)
        except Exception as error:  # whatever loading raises: the model is saved, and training over
            logger.warning("%s gets no %s: %s", directory, CONTRACT, error)

    def init_hf_repo(self, *args: Any, **kwargs: Any) -> None:
        """As Trainer's: the hub's repository is there, before anything is trained.

        Raises:
            ParamsError: the hub cannot be reached, or does not let it be made.
        """
        try:
            super().init_hf_repo(*args, **kwargs)
        except (HTTPError, OSError) as error:
            name = self.args.hub_model_id or Path(self.args.output_dir or ".").absolute().name
            raise ParamsError(
                f"push_to_hub: the repository {name!r} cannot be made on the hub "
                f"({type(error).__name__}: {error}); see to the network, and to a token that may "
                "write there (hf auth login, or hub_token), or leave push_to_hub out and upload "
                f"{self.args.output_dir} later"
            ) from error

    def create_model_card(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, model_name: str | None = None, tags: str | list[str] | None = None, **_: Any
    ) -> None:
        """Writes README.md into `output_dir`."""
        if not self.is_world_process_zero():
            return
        directory = Path(self.args.output_dir or ".")
        given = (tags,) if isinstance(tags, str) else tuple(tags or ())
        self._write_card(directory, model_name or directory.name, given)

    def _write_card(self, directory: Path, name: str, tags: tuple[str, ...] = ()) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        trainer: Any = self
        text = model_card(trainer, self.state.log_history, name, tags)
        (directory / "README.md").write_text(text, "utf-8")

    def _tag(self) -> None:
        """Puts the tags on the model, so that `model.push_to_hub` writes them too."""
        model: Any = self.model
        model.add_model_tags(list(TAGS))
