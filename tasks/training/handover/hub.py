"""What a trainer says of itself where it is shared: tags, and its card in place of a draft."""

from pathlib import Path
from typing import Any

from tasks.training.checkpoints.resumable import ResumableTrainer
from tasks.training.handover.card import TAGS, model_card


class SharedTrainer(ResumableTrainer):
    """Trainer whose `create_model_card`, and so `push_to_hub`, writes this project's card."""

    base_name: str
    """What the model was given as."""

    def create_model_card(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, model_name: str | None = None, tags: str | list[str] | None = None, **_: Any
    ) -> None:
        """Writes README.md into `output_dir`."""
        if not self.is_world_process_zero():
            return
        directory = Path(self.args.output_dir or ".")
        directory.mkdir(parents=True, exist_ok=True)
        given = (tags,) if isinstance(tags, str) else tuple(tags or ())
        trainer: Any = self
        name = model_name or directory.name
        text = model_card(trainer, self.state.log_history, name, given)
        (directory / "README.md").write_text(text, "utf-8")

    def _tag(self) -> None:
        """Puts the tags on the model, so that `model.push_to_hub` writes them too."""
        model: Any = self.model
        if hasattr(model, "add_model_tags"):
            model.add_model_tags(list(TAGS))
