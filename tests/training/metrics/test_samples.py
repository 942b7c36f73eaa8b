"""A few pairs on the terminal, with their texts as they are."""

import pytest

from tasks.errors import ParamsError
from tasks.training.metrics.samples import print_samples, samples
from tests.training.settings.test_arguments import make
from tests.training.tiny import make_rows


def test_as_many_samples_are_shown_as_are_asked_for_and_there(base, tmp_path, capsys):
    trainer = make(base, tmp_path, eval_dataset={"first": make_rows(3), "second": make_rows(9)})
    rewards = trainer.predict(make_rows(3)).predictions
    for asked, count in ((0, 0), (1, 1), (2, 2), (7, 3), (-1, 3)):
        found = samples(trainer, trainer.eval_dataset, asked)
        assert [(chosen, rejected) for *_, chosen, rejected in found] == [
            pytest.approx(pair, abs=1e-6) for pair in rewards[:count].tolist()
        ]
    capsys.readouterr()
    trainer.visualize_samples(0)
    assert "rewards" in capsys.readouterr().out  # the head of an empty table
    with pytest.raises(ParamsError, match="no samples to show: the trainer has no eval_dataset"):
        make(base, tmp_path).visualize_samples()


def test_brackets_and_colons_of_a_text_are_shown_as_they_are(capsys):
    print_samples([("[INST] Hi [/INST]", "[red]No[/red] :x:", 1.25, -0.5)])
    shown = capsys.readouterr().out
    for text in ("[INST] Hi [/INST]", "[red]No[/red] :x:", "1.2500", "-0.5000"):
        assert text in shown
