"""The `loss` section: which loss, and what it reads of a pair. Importing this costs no torch.

    type                  `margin` is        `preference` below 1 is     one mean over
    bradley_terry         an offset          a soft target               pairs
    davidson              refused            the weight of a tie         pairs
    scaled_bradley_terry  a factor, needed   a soft target               pairs
    focal                 an offset          refused                     pairs
    regression            the target         not read                    pairs
    all_pairs             an offset          a soft target               comparisons
    plackett_luce         refused            a tie; others are refused   comparisons

A `weight` multiplies the loss of its pair, and the sum is divided by the sum of the weights of the
global batch: a pair of weight 2 counts as two, and weights need not be normalised.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tasks.artifact import Params
from tasks.errors import ParamsError

LossType = Literal[
    "bradley_terry",
    "davidson",
    "scaled_bradley_terry",
    "focal",
    "regression",
    "all_pairs",
    "plackett_luce",
]

SMOOTHED = ("bradley_terry", "scaled_bradley_terry", "all_pairs")
"""Losses with a target probability, which label smoothing moves."""
NEED_MARGIN = ("scaled_bradley_terry", "regression")
REFUSE_MARGIN = ("davidson", "plackett_luce")
REFUSE_SOFT = ("focal", "plackett_luce")
"""Losses that are not defined for a pair whose `preference` is below 1."""
READ_TIES = ("plackett_luce",)
"""Those of `REFUSE_SOFT` that are defined for a tie."""
OF_COMPARISONS = ("all_pairs", "plackett_luce")
"""Losses whose unit is a comparison: all pairs of one list of ranked answers."""


def soft_labels(kind: LossType) -> str:
    """What a loss of `REFUSE_SOFT` cannot use, in words."""
    return "soft labels" if kind in READ_TIES else "ties and soft labels"


class LossParams(Params):
    """What the model is trained to minimise; plain Bradley-Terry by default."""

    type: LossType = "bradley_terry"
    """With `all_pairs` and `plackett_luce` a batch size counts comparisons, not pairs."""
    margin: Literal["use", "ignore"] = "use"
    """`ignore` trains as if no pair had a margin."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """Share of pairs that are assumed to have chosen and rejected swapped."""
    nu: float | None = Field(default=None, gt=0)
    """Davidson's tie parameter: equal answers tie with probability nu / (2 + nu); 1 if left out."""
    gamma: float | None = Field(default=None, ge=0)
    """How strongly `focal` reduces the loss of pairs that are right already; 2 if left out."""

    @model_validator(mode="after")
    def _fields_that_the_type_reads(self) -> Self:
        if self.nu is not None and self.type != "davidson":
            raise ValueError(f"nu belongs to type davidson, but the type is {self.type}")
        if self.gamma is not None and self.type != "focal":
            raise ValueError(f"gamma belongs to type focal, but the type is {self.type}")
        if self.label_smoothing and self.type not in SMOOTHED:
            raise ValueError(
                f"label_smoothing moves the target of {', '.join(SMOOTHED)}; {self.type} has none"
            )
        if self.margin == "ignore" and self.type in NEED_MARGIN:
            raise ValueError(f"type {self.type} needs the margins; leave out margin: ignore")
        return self

    @property
    def of_comparisons(self) -> bool:
        """Whether the loss is a mean over comparisons."""
        return self.type in OF_COMPARISONS


def loss_params(section: Mapping[str, Any] | str | None) -> LossParams:
    """The section of a RewardConfig: a mapping, the name of a type alone, or nothing.

    Raises:
        ParamsError: an unknown name, a value out of range, or fields that do not go together.
    """
    fields = {"type": section} if isinstance(section, str) else dict(section or {})
    try:
        return LossParams.model_validate(fields)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(('loss', *map(str, e['loc'])))}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        )
        raise ParamsError(f"{problems} (loss is {fields})") from error
