"""What a proved version may be, decided against the champion of that moment, and its alias.

    gate and comparison -> report -> tags and description -> alias, forward only -> history

A decision is made once for a version, its evaluation and the gate; another evaluation or gate
decides again. `champion` goes to a version only if its run began after that of every champion so
far, by the sequence that runs draw from the registry when they begin (no clock is asked), and
never by itself to one that was rolled back. An alias that somebody moved since stays.
"""

import base64
import json
import logging
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tasks.artifact import canonical, digest_json
from tasks.registration.aliases.gate import Decision, decision_of
from tasks.registration.aliases.judgement import Judgement, judge
from tasks.registration.aliases.locked_aliases import LockedAliases, Reason, run_order
from tasks.registration.params import RegistrationParams
from tasks.registration.publication import PLACE, REPORT, SCALE, publish, scale_tags
from tasks.registration.registry import CHALLENGER, CHAMPION
from tasks.registration.subject import Subject
from tasks.registration.tags import DECISION, OUTCOME, ROLLED_BACK

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)

RECORD, DECIDED_FOR, REGISTERED_AS = "decision.record", "decision.for", "registered_as"
GATE = "gate."
MOST_BOUNDS = 50
"""Bounds that a version has as tags: each is a request, and nobody reads a thousand. All stand in
the record, the report and `decision.json`."""
PLAIN_RECORD = 50_000
"""Characters of a record beyond which it is packed: MLflow takes 100,000, of 400 sources."""
MOST_DESCRIPTION = 5000
"""Characters of a description that MLflow's tables have room for."""
RUN_NOTE = "mlflow.note.content"
"""What MLflow's pages show as the description of a run."""


def ensure_decision(
    aliases: LockedAliases,
    params: RegistrationParams,
    version: "ModelVersion",
    run_id: str,
    subject: Subject,
) -> Decision:
    """What was decided of the version for this evaluation and gate: now, or by an earlier attempt.
    `run_id` is the run that gets the report.

    Raises:
        RegistrationError: the registry does not hold the alias that was set.
    """
    client = aliases.client
    version = client.get_model_version(version.name, version.version)
    question = question_of(params, subject)
    decided = _earlier(version, question)
    if decided is None:
        judged = judge(aliases, params, version, subject)
        judged = replace(judged, decision=_forward_only(aliases, version, judged.decision))
        publish(client, version, run_id, subject, judged)
        _write(client, version, run_id, judged, subject, question)
        decided = judged.decision
    elif REGISTERED_AS in version.tags:
        return decided
    _apply(aliases, version, decided)
    # Last: without this tag, an attempt that was cut short goes on from the decision.
    client.set_model_version_tag(version.name, version.version, REGISTERED_AS, decided.outcome)
    logger.info(
        "%s version %s is %s: %s", version.name, version.version, decided.outcome, decided.reason
    )
    return decided


def question_of(params: RegistrationParams, subject: Subject) -> str:
    """Identity of what a decision is made for: the evaluation, and the bounds."""
    asked = canonical({"gate": params.gate, "min_improvement": params.min_improvement})
    return digest_json([subject.evaluation.digest, asked])[:16]


def _earlier(version: "ModelVersion", question: str) -> Decision | None:
    tags = version.tags
    if tags.get(DECIDED_FOR) != question or RECORD not in tags:
        return None
    return _unpacked(tags[RECORD])


def _forward_only(aliases: LockedAliases, version: "ModelVersion", found: Decision) -> Decision:
    """The decision, but no champion that is older than one before it, or was rolled back."""
    if aliases.holder(CHAMPION) == int(version.version):
        if found.outcome == CHAMPION:
            return found
        kept = "keeps the alias champion until somebody runs promote or rollback; judged anew: "
        return replace(found, outcome=CHAMPION, reason=kept + found.reason)
    if found.outcome != CHAMPION:
        return found
    if ROLLED_BACK in version.tags:
        back = f"was rolled back ({version.tags[ROLLED_BACK]}): only promote makes it champion"
        return replace(found, outcome=CHALLENGER, reason=f"{found.reason}; but {back}")
    mine, newest = run_order(version), aliases.newest_champion()
    if mine < newest:
        older = (
            f"its run began before that of a champion (place {mine[0]}, version {mine[1]}, against "
            f"{newest[0]}, version {newest[1]}): only promote makes it champion"
        )
        return replace(found, outcome=CHALLENGER, reason=f"{found.reason}; but {older}")
    return found


def _write(
    client: "MlflowClient",
    version: "ModelVersion",
    run_id: str,
    judged: Judgement,
    subject: Subject,
    question: str,
) -> None:
    """Tags and description; what an earlier decision left is replaced."""
    name, number, decided = version.name, version.version, judged.decision
    for tag in version.tags:
        replaced = judged.scale is not None and tag.startswith(SCALE)
        if replaced or tag.startswith(GATE) or tag in (REGISTERED_AS, DECIDED_FOR):
            client.delete_model_version_tag(name, number, tag)
    for tag, value in scale_tags(judged.scale).items():
        client.set_model_version_tag(name, number, tag, value)
    for bound in sorted(decided.bounds, key=lambda bound: bound.holds)[:MOST_BOUNDS]:
        client.set_model_version_tag(name, number, f"{GATE}{bound.name}"[:250], str(bound))
    client.set_model_version_tag(name, number, OUTCOME, decided.outcome)
    client.set_model_version_tag(name, number, DECISION, decided.reason)
    client.set_model_version_tag(name, number, RECORD, _packed(decided))
    description = _description(subject, decided)
    client.update_model_version(name, number, description=description)
    client.set_tag(run_id, RUN_NOTE, description)
    client.set_model_version_tag(name, number, DECIDED_FOR, question)


def _packed(decided: Decision) -> str:
    """The decision as JSON, compressed where it is long."""
    text = json.dumps(decided.to_json())
    if len(text) <= PLAIN_RECORD:
        return text
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _unpacked(record: str) -> Decision:
    """The inverse of `_packed`."""
    text = record if record.startswith("{") else zlib.decompress(base64.b64decode(record))
    return decision_of(json.loads(text))


def _apply(aliases: LockedAliases, version: "ModelVersion", decided: Decision) -> None:
    """Moves the alias that the decision asks for, unless a newer challenger has it."""
    number, reason = int(version.version), Reason("register", decided.reason)
    held = aliases.holder(CHALLENGER)
    if decided.outcome == CHAMPION:
        aliases.make_champion(version, reason)
    elif decided.outcome == CHALLENGER:
        if held is None or run_order(aliases.version(held)) < run_order(version):
            aliases.move(CHALLENGER, number, reason)
    elif held == number:
        aliases.move(CHALLENGER, None, reason)


def _description(subject: Subject, decided: Decision) -> str:
    metrics: dict[str, Any] = subject.evaluation.report["metrics"]
    low, high = metrics["accuracy_interval"]
    bounds = "".join(f"\n- {bound}" for bound in decided.bounds)
    warnings = "".join(f"\n- {warning}" for warning in subject.evaluation.report["warnings"])
    concerns = f"\n\nWarnings of the evaluation:\n{warnings}" if warnings else ""
    told = (
        f"Prefers the chosen answer in {metrics['accuracy']:.1%} of {metrics['pairs']:,} held-out "
        f"pairs (95 % interval {low:.1%} to {high:.1%}), by {metrics['margin']:.2f} on average; "
        f"preferring the longer answer would reach {metrics['length_baseline']:.1%}. "
        f"Registered as {decided.outcome}: {decided.reason}. Answers with raw rewards.\n"
        f"\nBounds of the gate:\n{bounds}{concerns}"
    )
    whole = (
        f"\n\nThe whole report: `{PLACE}/{REPORT}` among the files of the version and of its run."
    )
    room = MOST_DESCRIPTION - len(whole)
    return (told if len(told) <= room else f"{told[: room - 1]}…") + whole
