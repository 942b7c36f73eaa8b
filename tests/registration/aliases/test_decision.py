"""What a registry keeps of a decision, however many sources it was made of."""

from tasks.registration.aliases.decision import _earlier, _write
from tasks.registration.aliases.gate import Bound, decide
from tasks.registration.aliases.judgement import Judgement
from tasks.registration.subject import Subject
from tasks.registration.tracking import run_for
from tests.registration.conftest import Place

NAME = "reward-model"
DESCRIPTION_CHARACTERS = 5000
"""What MLflow's tables take, where a database holds to that; SQLite does not."""


def a_source(number: int) -> Bound:
    note = f"40 pairs against version 1, McNemar p {number / 2000} at level 5e-05, within chance"
    holds = number % 100 != 50
    return Bound(f"max_source_drop.s{number}", 0.01, "<=", 0.0, holds, "challenger", note)


def test_a_decision_over_a_thousand_sources_is_kept_whole_and_shown_in_part(place: Place, tmp_path):
    client = place.client
    subject = Subject(*place.evaluated(1), tmp_path / "scratch")
    run_id = run_for(client, place.params, place.root, subject.training.key)
    version = client.create_model_version(NAME, str(tmp_path), run_id)
    decided = decide(tuple(map(a_source, range(1200))), True, "beats version 1")
    assert "max_source_drop.s950 0.01" in decided.reason
    assert decided.reason.endswith("; 2 more fail; beats version 1")
    _write(client, version, run_id, Judgement(decided), subject, "asked")
    found = client.get_model_version(NAME, version.version)
    assert _earlier(found, "asked") == decided
    assert _earlier(found, "asked otherwise") is None
    shown = {tag for tag in found.tags if tag.startswith("gate.")}
    failed = {f"gate.{bound.name}" for bound in decided.bounds if not bound.holds}
    assert (len(failed), len(shown), failed < shown) == (12, 50, True)
    told = client.get_run(run_id).data.tags["mlflow.note.content"]
    assert told == found.description
    assert len(told) == DESCRIPTION_CHARACTERS
    assert told.startswith("Prefers the chosen answer in ")
    assert "…\n\nThe whole report: `registration/report.html` among the files of" in told

    few = decide(decided.bounds[40:60], True, "beats version 1")
    _write(client, found, run_id, Judgement(few), subject, "asked again")
    found = client.get_model_version(NAME, version.version)
    assert {t for t in found.tags if t.startswith("gate.")} == {
        f"gate.{b.name}" for b in few.bounds
    }
    assert found.tags["decision.record"].startswith('{"outcome": "challenger"')
    assert all(f"\n- {bound}" in found.description for bound in few.bounds)
    assert "…" not in found.description
    assert _earlier(found, "asked again") == few
