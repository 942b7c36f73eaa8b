"""`compute_metrics` of a script: one that an evaluation cannot use is told so, in words."""

import pytest

from tasks.errors import ParamsError
from tests.training.test_arguments import make
from tests.training.tiny import make_rows


def test_metrics_that_an_evaluation_could_not_call_are_refused_at_the_start(base, tmp_path):
    def at_once(prediction):  # noqa: ARG001
        return {}

    def by_batch(prediction, compute_result):  # noqa: ARG001
        return {}

    with pytest.raises(ParamsError, match=r"takes \(prediction\).*expected .*compute_result.*True"):
        make(base, tmp_path, compute_metrics=at_once, fields={"batch_eval_metrics": True})
    with pytest.raises(ParamsError, match=r"takes \(prediction, compute_result\).*False.* once"):
        make(base, tmp_path, compute_metrics=by_batch)
    make(base, tmp_path, compute_metrics=lambda *_, **__: {}, fields={"batch_eval_metrics": True})
    rows = make_rows(4)
    trainer = make(base, tmp_path, eval_dataset=rows, compute_metrics=lambda _: 0.5)
    with pytest.raises(ParamsError, match=r"compute_metrics returned 0.5; expected a mapping"):
        trainer.evaluate()
    silent = make(base, tmp_path, eval_dataset=rows, compute_metrics=lambda _: None)
    assert "eval_accuracy" in silent.evaluate()
