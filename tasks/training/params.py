"""The `training:` section: RewardConfig's names at this level, and how the process is started.

The defaults are RewardConfig's, but for one epoch instead of three and a decision by hardware
where TRL has a constant (`gradient_checkpointing`). Importing this costs no torch.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from tasks.artifact import Inert, Params, physical_cores
from tasks.training.loss.params import LossParams

Strategy = Literal["no", "steps", "epoch"]
Sampling = Literal["random", "sequential", "group_by_length"]


class LoraParams(Params):
    """Low-rank adapters on a frozen body; the score head is always trained and saved whole."""

    r: PositiveInt = 16
    """Rank of the update."""
    alpha: PositiveInt = 32
    """The update is scaled by alpha / r."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on the adapter's input; above 0 it needs `disable_dropout: false`."""
    target_modules: list[str] | str = "all-linear"
    """Names of the adapted modules, or all linear layers but the head."""
    use_dora: bool = False
    """Weight-decomposed adapters (DoRA)."""
    modules_to_save: list[str] = Field(default=[])
    """Further modules that are trained and saved whole, beside the head."""


class TrainingParams(Params):
    """Everything that training depends on beside its data and its base model."""

    # how long, how fast
    learning_rate: PositiveFloat = 1e-4
    """Peak learning rate; 1e-3 is usual with LoRA."""
    num_train_epochs: PositiveFloat = 1.0
    """Passes over the pairs."""
    max_steps: int = Field(default=-1, ge=-1)
    """Optimizer steps; -1 leaves it to `num_train_epochs`."""
    per_device_train_batch_size: PositiveInt = 8
    """Pairs in one forward pass of one process."""
    gradient_accumulation_steps: PositiveInt = 1
    """Forward passes for one optimizer step; the loss is the mean over all of their pairs."""
    lr_scheduler_type: str = "linear"
    """Name of a learning rate schedule of transformers."""
    lr_scheduler_kwargs: dict[str, Any] | None = None
    """Further arguments of the schedule."""
    warmup_steps: float = Field(default=0, ge=0)
    """Steps of linear warm-up; below 1 a share of all steps."""
    optim: str = "adamw_torch_fused"
    """Name of an optimizer of transformers."""
    optim_args: str | None = Field(
        default=None, pattern=r"^\s*(\w+\s*=[^,=]+(,\s*\w+\s*=[^,=]+)*)?$"
    )
    """Further arguments of the optimizer, `name=value,...`."""
    weight_decay: float = Field(default=0.0, ge=0)
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.999, ge=0, lt=1)
    adam_epsilon: PositiveFloat = 1e-8
    max_grad_norm: float = Field(default=1.0, ge=0)
    """The gradient is scaled down to this L2 norm; 0 never scales."""

    # loss and model
    loss: LossParams | None = None
    """Which loss, and what of a pair it reads; None: Bradley-Terry."""
    center_rewards_coefficient: float | None = Field(default=None, ge=0)
    """Weight of the mean of (chosen + rejected)^2; 0.01 is usual."""
    disable_dropout: bool = True
    """Sets all dropout to 0, that of the model and that of adapters."""
    model_init_kwargs: dict[str, Any] | None = None
    """Arguments of `from_pretrained`: `dtype`, `attn_implementation`, ..."""
    layout: Literal["auto", "prefix_shared", "padding_free", "padded"] = "auto"
    """How a batch lies in memory; flat rows compute shared prompts once and no padding. `auto`
    takes them for models that they are exact for."""
    max_tokens_per_micro_batch: PositiveInt | None = None
    """Tokens computed in one forward pass at most; the pairs of an optimizer step stay the same,
    dealt to as many micro-batches as it takes. Only a longer pair is a micro-batch of its own."""
    pad_to_multiple_of: PositiveInt | None = None
    """Pads the batch to a multiple of this many tokens."""
    neftune_noise_alpha: float | None = None
    """Noise on the embeddings while training."""

    # numbers and memory
    bf16: bool | None = None
    """Forward passes in bfloat16; None: where the hardware has it, never on a CPU."""
    tf32: bool | None = None
    """TensorFloat-32 for float32 matrix products; None: torch's default, which
    torch_compile leaves as it is."""
    gradient_checkpointing: bool | None = None
    """Computes activations twice instead of keeping them; None: on a GPU that has no room for those
    of the longest batch (the preflight finds out; a run without it computes them twice)."""
    gradient_checkpointing_kwargs: dict[str, Any] | None = None
    activation_offloading: bool = False
    """Keeps activations in host memory between forward and backward."""
    torch_compile: bool = False
    """Compiles the model's layers, each by itself, for rows of any length: on a GPU a small model
    trains half as fast again, after half a minute."""
    torch_compile_backend: str | None = None
    torch_compile_mode: str | None = None
    use_liger_kernel: bool = False
    """Fused kernels of the `liger-kernel` package, where it is installed."""
    full_determinism: bool = False
    """Deterministic GPU kernels, at a cost in speed."""

    # randomness
    seed: int = Field(default=42, ge=0, lt=2**32)
    """Seed of a new head, of adapters and of the order of the pairs."""
    data_seed: int | None = Field(default=None, ge=0, lt=2**32)
    """Seed of the order of the pairs alone; None: `seed`."""
    dataloader_drop_last: bool = False
    """Leaves out the last, smaller batch of an epoch; of rows that are evaluated none."""
    train_sampling_strategy: Sampling = "random"
    """`group_by_length` makes batches of pairs of like length: other batches, another result."""

    # what is logged, evaluated and saved
    logging_strategy: Strategy = "steps"
    logging_steps: PositiveFloat = 10
    """Optimizer steps in one record of metrics.jsonl; below 1 a share of all steps."""
    logging_first_step: bool = False
    eval_strategy: Strategy = "no"
    """Evaluates while training. It draws random numbers, so it is part of the result."""
    eval_steps: float | None = Field(default=None, gt=0)
    eval_on_start: bool = False
    """Evaluates before the first step, whatever `eval_strategy` says."""
    per_device_eval_batch_size: PositiveInt = 8
    save_strategy: Annotated[Strategy, Inert] = "steps"
    """When a checkpoint is written; a stopped run continues from the newest."""
    save_steps: Annotated[PositiveFloat, Inert] = 500
    save_total_limit: Annotated[int, Field(ge=2), Inert] = 2
    """Checkpoints that are kept, the newest by step."""

    preflight: Annotated[bool, Inert] = True
    """Rehearses the longest batch and the saving of the model before the run; a minute at most."""

    # feeding the device
    dataloader_num_workers: Annotated[int, Field(ge=0), Inert] = 0
    dataloader_prefetch_factor: Annotated[int | None, Inert] = None
    dataloader_pin_memory: Annotated[bool, Inert] = True
    dataloader_persistent_workers: Annotated[bool, Inert] = False
    torch_empty_cache_steps: Annotated[int | None, Inert] = None
    ddp_timeout: Annotated[PositiveInt, Inert] = 1800
    """Seconds that one process waits for another."""

    # this project's own
    lora: LoraParams | None = None
    """Adapters instead of full fine-tuning."""
    num_processes: PositiveInt = 1
    """Processes that share one batch; sums in another order give other last digits."""
    torch_num_threads: PositiveInt = Field(default_factory=physical_cores)
    """Threads of one process on a CPU: their number decides the order of sums."""
    accelerate_config: Annotated[str | None, Inert] = None
    """A file like params/accelerate/*.yaml; its bytes are in the key, its place is not."""
    device: Annotated[Literal["auto", "cpu", "cuda"], Inert] = "auto"
    """`cuda` fails where there is none; `auto` takes what there is."""
    stop_seconds: Annotated[PositiveFloat, Inert] = 20.0
    """How long a stopped training may take to save its checkpoint before it is killed. Prefect
    kills the flow's own process after 30; what saves outlives it, and holds the lock of its key."""

    @property
    def evaluates(self) -> bool:
        """Whether training looks at the held-out pairs."""
        return self.eval_strategy != "no" or self.eval_on_start

    @model_validator(mode="after")
    def _steps_that_fit(self) -> Self:
        for name in ("logging_steps", "eval_steps", "save_steps", "warmup_steps"):
            value = getattr(self, name)
            if value is not None and value > 1 and value != int(value):
                raise ValueError(f"{name} is {value}: above 1 it must be a whole number of steps")
        if self.dataloader_prefetch_factor is not None and self.dataloader_num_workers == 0:
            raise ValueError("dataloader_prefetch_factor needs dataloader_num_workers of 1 or more")
        return self

    @model_validator(mode="after")
    def _dropout_that_stays(self) -> Self:
        if self.disable_dropout and self.lora and self.lora.dropout:
            raise ValueError(
                f"lora.dropout is {self.lora.dropout:g}, but disable_dropout (true by default) "
                "would set it to 0; set disable_dropout to false, or leave lora.dropout out"
            )
        return self


OWN_FIELDS = frozenset(
    {"lora", "num_processes", "torch_num_threads", "accelerate_config", "device", "stop_seconds"}
)
"""Fields that are no names of RewardConfig."""


def reward_config_fields(params: TrainingParams) -> dict[str, Any]:
    """The params under RewardConfig's names, where they say anything."""
    return params.model_dump(exclude=set(OWN_FIELDS), exclude_none=True)
