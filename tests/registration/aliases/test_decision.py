"""What a registry keeps of a decision, and that champions only become newer by themselves."""

import pytest

from tasks.errors import RegistrationError
from tasks.registration.aliases.decision import _earlier, _forward_only, _write
from tasks.registration.aliases.gate import Bound, decide
from tasks.registration.aliases.history import entries, history
from tasks.registration.aliases.judgement import Judgement
from tasks.registration.aliases.locked_aliases import LockedAliases, Reason
from tasks.registration.subject import Subject
from tasks.registration.tags import SEQUENCE
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


def test_a_champion_is_no_challenger_any_more_and_no_run_before_the_newest_one_overtakes_it(
    place: Place, tmp_path
):
    client, why = place.client, Reason("register", "better")
    client.create_registered_model(NAME)
    first, second, third = (
        client.create_model_version(NAME, str(tmp_path), tags={SEQUENCE: sequence})
        for sequence in ("5", "12", "9")
    )
    aliases = LockedAliases(client, NAME, check_lock=lambda: None)
    assert aliases.newest_champion() == (0, 0)
    aliases.move("challenger", 2, why)
    aliases.make_champion(second, why)
    assert client.get_registered_model(NAME).aliases == {"champion": 2}
    moves = [(m.alias, m.previous, m.version, m.why) for m in history(client, NAME)]
    assert moves == [
        ("challenger", None, 2, "better"),
        ("champion", None, 2, "better"),
        ("challenger", 2, None, "champion now: better"),
    ]
    aliases.make_champion(first, why)  # by hand, say: the newest that ever was one stays known
    assert aliases.newest_champion() == (12, 2)
    beats = decide((), True, "beats version 1")
    found = _forward_only(aliases, third, beats)
    assert found.outcome == "challenger"
    assert "(place 9, version 3, against 12, version 2): only promote" in found.reason
    assert _forward_only(aliases, second, beats) == beats


def test_a_move_that_was_written_down_and_not_made_is_made_by_the_next_attempt_as_one(
    place: Place, tmp_path
):
    client = place.client
    client.create_registered_model(NAME)
    client.create_model_version(NAME, str(tmp_path))

    def lost() -> None:
        raise RegistrationError("the lease was lost")

    with pytest.raises(RegistrationError, match="was lost"):
        LockedAliases(client, NAME, lost).move("staging", 1, Reason("promote", "first try"))
    assert history(client, NAME) == []
    aliases = LockedAliases(client, NAME, check_lock=lambda: None)
    for _ in range(2):  # the second finds it made
        aliases.move("staging", 1, Reason("promote", "second try"))
    assert [(move.version, move.why) for move in history(client, NAME)] == [(1, "first try")]
    assert len(entries(client.get_registered_model(NAME).tags)) == 1
