"""Resume equality: stopped anywhere and continued, a run ends in the bits of an undisturbed one.

    {accumulation 1, 2, 3 uneven} x {dropout} x {0, 2 workers} x {evaluation}
        x {saved at the end of an epoch, in the middle} x {full, LoRA}      = 96 combinations

each with a stop step of its own. Twelve that cover every value of every factor, and every pair of
values of accumulation with another factor, are in the default run. Marked slow are the 48 that have
an even number of the five in their second value: every combination of accumulation and four others.
"""

import itertools

import pytest

from tasks.errors import Interrupted
from tasks.training.params import LoraParams
from tests.at_length import at_length
from tests.training.checkpoints.test_checkpoint import make, result

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

FACTORS = {
    "accumulation": (1, 2, 3),
    "dropout": (False, True),
    "workers": (0, 2),
    "evaluation": (False, True),
    "at the end of an epoch": (False, True),
    "lora": (False, True),
}
ALL = [dict(zip(FACTORS, values, strict=True)) for values in itertools.product(*FACTORS.values())]
HALF = [case for case in ALL if sum(map(bool, list(case.values())[1:])) % 2 == 0]
# rows of an orthogonal array with 2 levels of 5 factors in 4 runs, once per accumulation
TWELVE = [
    {"accumulation": n, **dict(zip(list(FACTORS)[1:], levels, strict=True))}
    for n in FACTORS["accumulation"]
    for levels in (
        (False, 0, True, True, True),
        (True, 0, False, False, True),
        (False, 2, True, False, False),
        (True, 2, False, True, False),
    )
]


def name_of(case):
    return ", ".join(f"{k} {v}" for k, v in case.items())


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """18 training pairs, so that accumulation 3 is uneven; 3 held-out ones."""
    from tests.training.tiny import make_rows, write_pairs

    directory = tmp_path_factory.mktemp("few")
    write_pairs(directory, make_rows(18), "train")
    return write_pairs(directory, make_rows(3, seed=1), "eval", shards=1)


def check(base, pairs, directory, case, stop):
    """18 pairs in micro-batches of 4: 5 of them an epoch, so 5, 3 or 2 steps; two epochs."""
    steps = 2 * -(-5 // case["accumulation"])
    epoch_end = case["at the end of an epoch"]
    fields = {
        "num_train_epochs": 2,
        "gradient_accumulation_steps": case["accumulation"],
        "disable_dropout": not case["dropout"],
        "model_init_kwargs": {"attention_dropout": 0.2} if case["dropout"] else None,
        "dataloader_num_workers": case["workers"],
        "logging_steps": 2,
        "preflight": False,
        **({"eval_strategy": "steps", "eval_steps": 2} if case["evaluation"] else {}),
        **({"save_strategy": "epoch"} if epoch_end else {"save_steps": 1}),
    }
    if case["lora"]:
        dropout = 0.2 if case["dropout"] else 0.0
        fields["lora"] = LoraParams(r=2, dropout=dropout, target_modules=["q_proj", "up_proj"])
    undisturbed = make(base, pairs, directory / "whole", **fields)
    undisturbed.train()
    assert undisturbed.state.global_step == steps
    expected = result(undisturbed, directory / "whole_model")
    stop_at = steps // 2 if epoch_end else 1 + stop % (steps - 1)
    with pytest.raises(Interrupted):
        make(base, pairs, directory / "run", stop_at, **fields).train()
    resumed = make(base, pairs, directory / "run", **fields)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == steps
    assert result(resumed, directory / "run_model") == expected


ALWAYS = (1, 2, 4)
"""Of the twelve in the default run: each factor is met in two settings."""


@pytest.mark.parametrize(
    "number", [n if n in ALWAYS else at_length(n)[0] for n in range(12)], ids=map(name_of, TWELVE)
)
def test_twelve_combinations(base, few, tmp_path, number):
    check(base, few, tmp_path, TWELVE[number], number)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(HALF)), ids=[name_of(c) for c in HALF])
def test_half_of_the_combinations(base, few, tmp_path, number):
    check(base, few, tmp_path, HALF[number], number)


def test_the_half_covers_every_combination_of_accumulation_and_four_others():
    assert len(HALF) == 48
    for absent in list(FACTORS)[1:]:
        rest = [tuple(v for k, v in case.items() if k != absent) for case in HALF]
        assert len(set(rest)) == 48


def test_the_twelve_cover_every_value_beside_every_accumulation():
    for factor, values in list(FACTORS.items())[1:]:
        for n, value in itertools.product(FACTORS["accumulation"], values):
            assert any(c["accumulation"] == n and c[factor] == value for c in TWELVE), factor
