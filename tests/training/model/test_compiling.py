"""Compiled layers take the steps of a model as it is written, with one graph for all lengths."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from torch import library
from torch._dynamo.utils import counters

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.layout import attention, ragged
from tasks.training.model import compiling
from tasks.training.settings import checks
from tests.training.layout.test_layout import reference_varlen
from tests.training.tiny import QUIET, make_model, make_rows

# What the compiler itself does.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]
STEPS = 20
ASKED: list[list[int]] = []
"""Most queries and most keys of each ragged call."""


def run(base, directory, rows=60, **fields):
    trainer = RewardTrainer(
        str(base),
        RewardConfig(
            output_dir=str(directory),
            **{
                **QUIET,
                "learning_rate": 1e-3,
                "max_steps": STEPS,
                "per_device_train_batch_size": 4,
                "logging_steps": 1,
                **fields,
            },
        ),
        train_dataset=Dataset.from_list(make_rows(rows, margin=True)),
        eval_dataset=Dataset.from_list(make_rows(9, seed=1)),
    )
    trainer.train()
    losses = [r["loss"] for r in trainer.state.log_history if "loss" in r]
    return trainer, losses, trainer.evaluate()


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"layout": "prefix_shared"},
        {"layout": "padded"},
        {"layout": "prefix_shared", "gradient_checkpointing": True},
    ],
    ids=["flat", "padded", "checkpointed"],
)
def test_compiled_layers_take_the_same_steps(base, tmp_path, fields):
    _, expected, wanted = run(base, tmp_path / "written", **fields)
    assert expected[0] != pytest.approx(expected[-1], rel=1e-3)
    backend = {"torch_compile": True, "torch_compile_backend": "aot_eager"}
    trainer, losses, evaluated = run(base, tmp_path / "compiled", **fields, **backend)
    assert trainer.layout == fields["layout"]
    assert counters["stats"]["unique_graphs"] > 0
    assert losses == pytest.approx(expected, rel=1e-5, abs=1e-6)
    for name in ("eval_loss", "eval_margin", "eval_mean_reward", "eval_accuracy"):
        assert evaluated[name] == pytest.approx(wanted[name], rel=1e-5, abs=1e-5)


@pytest.mark.slow
def test_rows_of_another_length_are_no_other_graph(base, tmp_path):
    backend = {"torch_compile": True, "torch_compile_backend": "eager"}
    trainer, *_ = run(base, tmp_path / "few", max_steps=2, **backend)
    assert trainer.layout == "prefix_shared"
    few = counters["stats"]["unique_graphs"]
    trainer.args.max_steps = STEPS
    trainer.train()
    assert few == counters["stats"]["unique_graphs"] > 0


@library.custom_op("of_tests::varlen", mutates_args=())
def varlen_op(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    k_starts: torch.Tensor,
    most: list[int],
    scale: float,
) -> torch.Tensor:
    ASKED.append(most)
    return plain_varlen(q, k, v, q_starts, k_starts, most, scale)


@library.custom_op("of_tests::varlen_backward", mutates_args=())
def varlen_backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    k_starts: torch.Tensor,
    most: list[int],
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    def differentiated(given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        inputs = [x.detach().requires_grad_() for x in given]
        out = plain_varlen(*inputs, q_starts, k_starts, most, scale)
        return torch.autograd.grad(out, inputs, grad)

    with ThreadPoolExecutor(1) as other:  # inside an operator nothing is differentiated
        ((one, two, three),) = other.map(differentiated, [(q, k, v)])
    return one, two, three


def plain_varlen(q, k, v, q_starts, k_starts, most, scale):
    options = {"window_size": (-1, 0), "scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}
    return reference_varlen(q, k, v, q_starts, k_starts, *most, **options)


def keep(ctx, inputs, output):  # noqa: ARG001
    *tensors, ctx.most, ctx.scale = inputs
    ctx.save_for_backward(*tensors)


def back(ctx, grad):
    found = varlen_backward(grad.contiguous(), *ctx.saved_tensors, ctx.most, ctx.scale)
    return (*found, None, None, None, None)


varlen_op.register_fake(lambda q, *_: torch.empty_like(q))
varlen_backward.register_fake(lambda grad, *inputs: tuple(map(torch.empty_like, inputs[:3])))  # noqa: ARG005
varlen_op.register_autograd(back, setup_context=keep)


def ragged_on_a_cpu(monkeypatch):
    def varlen(*given, window_size, scale):
        assert window_size == (-1, 0)
        return varlen_op(*given[:5], list(given[5:]), scale)

    monkeypatch.setattr(attention, "has_varlen", lambda _: True)
    monkeypatch.setattr(ragged, "varlen_attn", varlen)
    monkeypatch.setattr(ragged, "HAS_ENABLE_GQA", False)


@pytest.mark.slow
def test_the_ragged_call_of_a_gpu_breaks_no_graph(base, tmp_path, monkeypatch):
    ragged_on_a_cpu(monkeypatch)
    _, expected, _ = run(base, tmp_path / "written", bf16=True)
    assert ASKED
    backend = {"torch_compile": True, "torch_compile_backend": "aot_eager"}
    _, losses, _ = run(base, tmp_path / "compiled", bf16=True, **backend)
    assert losses == pytest.approx(expected, rel=0.01)  # of bfloat16, over twenty steps
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] <= 3


@pytest.mark.slow
def test_all_layers_are_one_graph_and_another_trainer_runs_them_as_written(tmp_path, monkeypatch):
    layers = 12  # more than a compiler takes of one piece of code unasked
    deep = make_model(tmp_path / "deep", layers=layers)
    called: list[int] = []

    def counted(graph, _):
        return lambda *given: called.append(1) or graph(*given)

    monkeypatch.setattr(compiling, "_backend", lambda _: counted)
    ragged_on_a_cpu(monkeypatch)
    fields = {"bf16": True, "max_steps": 3, "preflight": False}
    trainer, *_ = run(deep, tmp_path / "run", torch_compile=True, **fields)
    steps, evaluations = 3, 2  # of five pairs and four
    assert len(called) == (layers - 1) * (steps + evaluations)
    assert counters["stats"]["unique_graphs"] <= 3
    other = RewardTrainer(trainer.model, trainer.args, processing_class=trainer.processing_class)
    assert any(compiled_layers(other.model))
    plain = RewardConfig(output_dir=str(tmp_path / "plain"), **QUIET)
    last = RewardTrainer(trainer.model, plain, processing_class=trainer.processing_class)
    assert not any(compiled_layers(last.model))


def compiled_layers(model):
    return [layer._compiled_call_impl is not None for layer in model.model.layers]


@pytest.mark.slow
def test_a_backend_may_be_named_in_capitals_and_none_is_none(base, tmp_path):
    for name, graphs in (("EAGER", True), ("no", False)):
        counters.clear()
        run(base, tmp_path / name, max_steps=1, torch_compile=True, torch_compile_backend=name)
        assert bool(counters["stats"]["unique_graphs"]) is graphs


@pytest.mark.slow
def test_the_backend_that_a_launcher_names_compiles_layers_not_the_whole(
    base, tmp_path, monkeypatch
):
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "EAGER")  # accelerate launch --dynamo_backend
    trainer, _, _ = run(base, tmp_path / "launched", max_steps=1)
    assert any(compiled_layers(trainer.model))
    assert trainer.model_wrapped is trainer.model  # accelerate has put nothing around it
    assert trainer.layout == "prefix_shared"


def test_compiling_does_not_round_products_of_float32(tmp_path, monkeypatch):
    asked: list[bool] = []
    monkeypatch.setattr("transformers.training_args.is_torch_tf32_available", lambda: True)
    monkeypatch.setattr("transformers.training_args.enable_tf32", asked.append)
    RewardConfig(output_dir=str(tmp_path), use_cpu=True, torch_compile=True)
    assert asked[-1] is False
    RewardConfig(output_dir=str(tmp_path), use_cpu=True, torch_compile=True, tf32=True)
    assert asked[-1] is True


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_a_mode_that_records_one_length_is_refused_on_a_gpu(tmp_path, monkeypatch, mode):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    config = SimpleNamespace(use_cpu=False, torch_compile_mode=mode)
    if mode == "max-autotune-no-cudagraphs":
        checks._check_compiling(config)
        return
    with pytest.raises(ParamsError, match=f"torch_compile_mode '{mode}' records a CUDA graph"):
        RewardConfig(output_dir=str(tmp_path), torch_compile_mode=mode, bf16=False)
    config.use_cpu = True
    checks._check_compiling(config)
