"""`compute_metrics` of a script: one that an evaluation cannot use is told so, in words."""

import numpy as np
import pytest
from datasets import Dataset

from tasks.errors import ParamsError
from tasks.training import RewardTrainer
from tasks.training.metrics.table import metric_names
from tests.training.settings.test_arguments import make
from tests.training.tiny import make_rows


def test_metrics_that_an_evaluation_could_not_call_are_refused_at_the_start(base, tmp_path):
    def at_once(prediction):  # noqa: ARG001
        return {}

    def by_batch(prediction, compute_result):  # noqa: ARG001
        return {}

    with pytest.raises(
        ParamsError, match=r"\(prediction\); expected .*compute_result.*: .*True it is called after"
    ):
        make(base, tmp_path, compute_metrics=at_once, fields={"batch_eval_metrics": True})
    with pytest.raises(ParamsError, match=r"\(prediction, compute_result\);.*False.* once"):
        make(base, tmp_path, compute_metrics=by_batch)
    make(base, tmp_path, compute_metrics=lambda *_, **__: {}, fields={"batch_eval_metrics": True})
    rows = make_rows(4)
    trainer = make(base, tmp_path, eval_dataset=rows, compute_metrics=lambda _: 0.5)
    with pytest.raises(ParamsError, match=r"compute_metrics returned 0.5; expected a mapping"):
        trainer.evaluate()
    silent = make(base, tmp_path, eval_dataset=rows, compute_metrics=lambda _: None)
    assert "eval_accuracy" in silent.evaluate()


def test_a_prediction_step_that_returns_other_tables_is_told_which_are_expected(
    base, tmp_path, monkeypatch
):
    trainer = make(base, tmp_path, eval_dataset=make_rows(4))
    theirs = RewardTrainer.prediction_step

    def of_chosen(self, *given, **named):
        loss, rewards, terms = theirs(self, *given, **named)
        return loss, rewards[:, 0], terms[:, 0]

    monkeypatch.setattr(RewardTrainer, "prediction_step", of_chosen)
    with pytest.raises(
        ParamsError, match=r"shapes \(4,\) and \(4,\); expected \(4, 2\), the rewards"
    ):
        trainer.evaluate()


BEST = {"eval_strategy": "epoch", "num_train_epochs": 1}
SOURCES = [row | {"source": "ab"[number % 2]} for number, row in enumerate(make_rows(4))]
TIES = [row | {"preference": 0.5} for row in SOURCES[::2]]


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        ("eval_acc", SOURCES, r"eval_loss, eval_accuracy, .*eval_a_loss.* mean eval_accuracy"),
        ("acuracy", SOURCES, "which not every evaluation gives.*mean eval_accuracy"),
        ("c_loss", SOURCES, "eval_a_loss"),
        ("loss", {"x": SOURCES[:2], "y": SOURCES[2:]}, "expected one of eval_x_loss"),
        ("made_accuracy", make_rows(4), "not every evaluation gives"),  # of one source alone
        ("accuracy_ties_half", SOURCES, "not every"),  # of equal rewards alone
        ("tied_pairs", SOURCES, "not every"),
        ("margin", TIES, "expected one of eval_loss, eval_min_reward, .*, eval_tied_pairs, .*num"),
        ("a_margin", [*TIES, *SOURCES[1::2]], "eval_margin, .*eval_a_tied_pairs.*, eval_b_margin"),
    ],
)
def test_a_best_metric_that_no_evaluation_gives_is_refused_at_the_start(
    base, tmp_path, name, rows, said
):
    fields = {**BEST, "metric_for_best_model": name}
    with pytest.raises(ParamsError, match=rf"metric_for_best_model is '{name}'.*{said}"):
        make(base, tmp_path, eval_dataset=rows, fields=fields)
    make(base, tmp_path, eval_dataset=rows, fields={**fields, "eval_strategy": "no"})
    make(base, tmp_path, eval_dataset=rows, fields=fields, compute_metrics=lambda _: {"c_loss": 1})


STREAM = Dataset.from_list(SOURCES).to_iterable_dataset()


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        *(
            (name, SOURCES)
            for name in ("eval_accuracy", "b_margin", "loss", "num_tokens", "runtime")
        ),
        ("margin", STREAM),
    ],
)
def test_a_best_metric_that_an_evaluation_gives_is_taken(base, tmp_path, name, rows):
    fields = {**BEST, "metric_for_best_model": name}
    trainer = make(base, tmp_path, eval_dataset=rows, fields=fields)
    trainer.train()
    assert trainer.state.best_metric is not None


def test_a_source_may_be_anything_that_has_a_text(base, tmp_path):
    rows = [row | {"source": [["a", "b"], ["c"]][n % 2]} for n, row in enumerate(make_rows(4))]
    assert "eval_['c']_loss" in make(base, tmp_path, eval_dataset=rows).evaluate()


def test_rows_whose_source_is_null_are_beside_those_of_a_source(base, tmp_path):
    rows = [row | {"source": None} if number % 2 else row for number, row in enumerate(SOURCES)]
    fields = {**BEST, "metric_for_best_model": "a_loss"}
    found = make(base, tmp_path, eval_dataset=rows, fields=fields).evaluate()
    of_a = make(base, tmp_path, eval_dataset=SOURCES).evaluate()["eval_a_loss"]
    assert found["eval_a_loss"] == of_a
    assert not [name for name in found if "None" in name]
    nobody = [row | {"source": None} for row in rows]
    assert "eval_loss" in make(base, tmp_path, eval_dataset=nobody).evaluate()


@pytest.mark.parametrize(
    ("sources", "named"),
    [("abcdef", ""), ("aaabcd", ""), ("aaabbc", "abc"), ("abc   ", ""), ("aaab  ", "ab")],
)
def test_a_column_with_fewer_than_two_rows_to_a_name_names_rows_and_no_sources(sources, named):
    names = [None if name == " " else name for name in sources]
    rows = [row | {"source": name} for row, name in zip(make_rows(6), names, strict=True)]
    by_source = [n for n in metric_names(Dataset.from_list(rows)) if n.endswith("_loss")]
    assert by_source == [f"{name}_loss" for name in named]


@pytest.mark.parametrize("rows", [SOURCES, TIES, [*TIES, *SOURCES[1:]]])
def test_the_names_are_those_of_a_table_but_for_equal_rewards(base, tmp_path, rows):
    rows = [row | {"preference": row.get("preference", 1.0)} for row in rows]
    trainer = make(base, tmp_path, eval_dataset=rows)
    names = {f"eval_{name}" for name in metric_names(Dataset.from_list(rows))}
    added = {"runtime", "samples_per_second", "steps_per_second", "model_preparation_time"}
    added = {"epoch", *(f"eval_{name}" for name in (*added, "num_tokens"))}
    assert {*trainer.evaluate()} == names | added
    for weight in trainer.model.score.parameters():
        weight.data.zero_()  # equal rewards
    more = {*trainer.evaluate()} - names - added
    assert all(name.endswith(("equal_rewards", "accuracy_ties_half")) for name in more)


def test_metrics_see_the_batches_where_they_are_not_joined(base, tmp_path):
    rows, seen = make_rows(5), []

    def metrics(prediction):
        seen.append(prediction)
        return {"batches": len(prediction.predictions)}

    fields = {"per_device_eval_batch_size": 2}
    joined = make(base, tmp_path, eval_dataset=rows, compute_metrics=metrics, fields=fields)
    fields |= {"eval_do_concat_batches": False}
    apart = make(base, tmp_path, eval_dataset=rows, compute_metrics=metrics, fields=fields)
    one, other = joined.evaluate(), apart.evaluate()
    assert (one["eval_batches"], other["eval_batches"]) == (5, 3)  # 5 pairs; 2 and 2 and 1
    for name in ("loss", "accuracy", "margin", "min_reward"):
        assert other[f"eval_{name}"] == one[f"eval_{name}"]
    for field in ("predictions", "label_ids"):
        assert (np.concatenate(getattr(seen[1], field)) == getattr(seen[0], field)).all()
    assert [len(part) for part in apart.predict(rows).label_ids] == [2, 2, 1]


def test_metrics_get_what_preprocessing_makes_of_the_rewards_and_the_loss_of_every_pair(
    base, tmp_path
):
    seen = []
    trainer = make(
        base,
        tmp_path,
        eval_dataset=make_rows(5),
        compute_metrics=lambda prediction: seen.append(prediction),
        preprocess_logits_for_metrics=lambda rewards, _: (rewards.argmax(-1), rewards),
        fields={"include_for_metrics": ["loss"], "center_rewards_coefficient": 0.5},
    )
    found = trainer.evaluate()
    best, rewards = seen[0].predictions
    chosen, rejected = rewards.astype(np.float64).T
    assert (best == (rejected > chosen)).all()
    expected = np.log1p(np.exp(rejected - chosen)) + 0.5 * (chosen + rejected) ** 2
    assert seen[0].losses == pytest.approx(expected, abs=1e-9)
    assert found["eval_loss"] == pytest.approx(expected.mean(), abs=1e-9)
