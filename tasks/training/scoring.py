"""Rewards: one float32 number per sequence, the same in training, evaluation and serving.

The reward is read at the last token that the attention mask marks. Ids are never compared with the
padding id, so an EOS that is also the padding token is not skipped. The score head is applied to
those tokens alone, in float32 even if the body computes in bfloat16.

Legend: B sequences, T tokens, H hidden size; in a flat row S sequences, A of them distinct.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from tasks.errors import ModelError
from tasks.model.directory import check_single_stack
from tasks.training.layout.attention import attention_of, layout_of
from tasks.training.layout.on_device import Layout, to_device
from tasks.training.layout.plan import FlatPlan
from tasks.training.model.elementwise import use_fewer_passes
from tasks.training.model.products import use_onednn

_BOUND = "reads_rewards_by_length"
HEAD = "score"
"""Name of the head in every decoder of transformers that classifies sequences."""


class Method(partial[Any]):
    """A function bound to a module, with the `__func__` of a method, which accelerate reads.

    Unlike a method, which is pickled by a name that the class lacks, it can be pickled."""

    @property
    def __func__(self) -> Any:
        return self.func


def score(model: nn.Module, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Rewards `[B]`, float32, of sequences `[B, T]`.

    `model` comes from `load_reward_model` or went through `read_by_length`, and may be wrapped by
    PEFT or by a distributed engine: the wrapper's forward is called, so that its hooks run.
    """
    logits = model(input_ids=input_ids, attention_mask=attention_mask).logits  # (B, 1)
    return logits.float().squeeze(-1)


def batch_rewards(model: nn.Module, batch: Mapping[str, Any]) -> torch.Tensor:
    """Rewards `[S]`, float32, of a collated batch: by its `plan` if it has one, else padded."""
    plan: FlatPlan | None = batch.get("plan")
    if plan is not None:
        return score_flat(model, plan)
    return score(model, batch["input_ids"], batch["attention_mask"])


def score_flat(model: nn.Module, plan: FlatPlan) -> torch.Tensor:
    """Rewards `[S]`, float32, of the plan's sequences, in the order given to `flat_plan`.

    The model must be one for which `layout.support.make_flat` returns None.
    """
    device = next(model.parameters()).device
    ids, positions, answer = (
        to_device(array, device) for array in (plan.input_ids, plan.position_ids, plan.answer)
    )
    layout = layout_of(plan, device)
    output = model(input_ids=ids[None], position_ids=positions[None], layout=layout)
    return output.logits.float().squeeze(-1)[answer]


def read_by_length(model: PreTrainedModel) -> None:
    """Gives a decoder the forward of this module, and makes every head compute in float32.

    Encoders keep their forward, with their own pooling. On a CPU the body's matrix products may be
    computed by oneDNN.

    Raises:
        ModelError: the model is no sequence classifier with one reward, or is of a family
            whose reward cannot be read at the last token.
    """
    if getattr(model, _BOUND, False):
        return
    name = type(model).__name__
    check_single_stack(name, model.config.is_encoder_decoder)
    if not name.endswith("ForSequenceClassification") or model.config.num_labels != 1:
        raise ModelError(
            f"{name} with {model.config.num_labels} labels is no reward model; load it with "
            "AutoModelForSequenceClassification.from_pretrained(path, num_labels=1)"
        )
    body = getattr(model, model.base_model_prefix, model)
    if use_onednn(body):
        use_fewer_passes(body)
    if is_decoder(model):
        model.forward = Method(_forward, model)
    for module in head_modules(model).values():
        module.float()
        if not is_decoder(model):
            module.forward = Method(_in_float32, module)
        elif type(module) is nn.Linear:
            module.forward = Method(_product_in_float32, module)
    setattr(model, _BOUND, True)


def is_decoder(model: PreTrainedModel) -> bool:
    """Whether the head is applied to every token of the body, as in all decoder families."""
    return hasattr(model, HEAD) and hasattr(model, model.base_model_prefix)


def head_names(model: PreTrainedModel) -> tuple[str, ...]:
    """Prefixes of the names of the weights of `head_modules`."""
    return tuple(f"{name}." for name in head_modules(model))


def body_dtype(model: PreTrainedModel) -> torch.dtype:
    """The body's dtype: that of the first weight outside the head, which is always float32."""
    heads = head_names(model)
    floats = ((n, p.dtype) for n, p in model.named_parameters() if p.is_floating_point())
    return next((dtype for name, dtype in floats if not name.startswith(heads)), model.dtype)


def head_modules(model: PreTrainedModel) -> dict[str, nn.Module]:
    """The modules between the body's last hidden states and the reward, by name.

    `score` of a decoder; of encoders `classifier` and the pooling before it: ModernBERT's `head`,
    DeBERTa's `pooler`, and BERT's `bert.pooler`, which is inside the body.
    """
    prefix = model.base_model_prefix
    modules = {
        name: module
        for name, module in model.named_children()
        if name != prefix and any(True for _ in module.parameters())
    }
    pooler = getattr(getattr(model, prefix, None), "pooler", None)
    return modules if pooler is None else {f"{prefix}.pooler": pooler, **modules}


def _in_float32(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """A module's own forward, without autocast, over inputs in the dtype of its weights: float32,
    unless an engine (DeepSpeed) has cast them."""
    dtype = next(self.parameters()).dtype
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    with torch.autocast(tensors[0].device.type, enabled=False):
        return type(self).forward(
            self,
            *(_as(dtype, value) for value in args),
            **{name: _as(dtype, value) for name, value in kwargs.items()},
        )


def _as(dtype: torch.dtype, value: Any) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if floating else value


def _product_in_float32(self: nn.Linear, rows: torch.Tensor) -> torch.Tensor:
    """A head's product in float32, even if an engine has cast its weight."""
    bias: Any = self.bias  # None in most families
    return nn.functional.linear(rows, self.weight.float(), None if bias is None else bias.float())


def last_token(attention_mask: torch.Tensor) -> torch.Tensor:
    """Index of the last token of every sequence, int64 `[B]`; padding may be on either side."""
    positions = torch.arange(attention_mask.shape[-1], device=attention_mask.device)
    return (attention_mask.long() * positions).argmax(-1)


def _forward(
    self: PreTrainedModel,
    input_ids: torch.Tensor | None = None,
    attention_mask: torch.Tensor | None = None,
    inputs_embeds: torch.Tensor | None = None,
    **options: Any,
) -> SequenceClassifierOutput:
    """A decoder's rewards as `logits`: float32 `[B, 1]`, or `[A, 1]` with a `layout` in `options`.

    `options` are passed on to the body.
    """
    layout: Layout | None = options.get("layout")
    body = getattr(self, self.base_model_prefix)
    options = {n: v for n, v in options.items() if v is not None and n != "return_dict"}
    sequences = input_ids if input_ids is not None else inputs_embeds
    assert sequences is not None
    if attention_mask is None and layout is None:
        attention_mask = torch.ones(sequences.shape[:2], dtype=torch.long, device=sequences.device)
    with attention_of(self, flat=layout is not None):
        hidden = body(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            **{"use_cache": False, **options},
        )[0]  # (B, T, H)
    if attention_mask is None:
        assert layout is not None
        pooled = hidden[0].index_select(0, layout.last).float()  # (A, H)
    else:
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        pooled = hidden[rows, last_token(attention_mask)].float()  # (B, H)
    with torch.autocast(hidden.device.type, enabled=False):
        logits = getattr(self, HEAD)(pooled)  # (B, 1)
    return SequenceClassifierOutput(logits=logits)
