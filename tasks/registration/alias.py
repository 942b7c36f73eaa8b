"""What a proved version may be, decided against the champion of that moment, and its alias.

    gate and comparison -> tags and description -> alias, moved forward only -> history

A decision is made once for a version, its evaluation and the gate; another evaluation or gate
decides again. `champion` goes to a version only if its run began after that of every champion so
far, by the sequence that runs draw from the registry when they begin (no clock is asked), and
never by itself to one that was rolled back. An alias that somebody moved since stays.
"""

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifact import canonical, digest_json
from tasks.evaluation.table import Scores, read_scores, scores_of
from tasks.registration.champion import champion_table
from tasks.registration.comparison import Comparison, compare
from tasks.registration.frozen import frozen_pairs
from tasks.registration.gate import Bound, Decision, decide, decision_of, fitness
from tasks.registration.history import (
    StillOurs,
    champion_mark,
    holder,
    make_champion,
    mark_of,
    move_alias,
)
from tasks.registration.lineage import prompts_of, read_trained_on
from tasks.registration.params import RegistrationParams
from tasks.registration.proof import download
from tasks.registration.registry import CHALLENGER, CHAMPION
from tasks.registration.subject import Subject

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)

OUTCOME, REASON, RECORD = "outcome", "decision", "decision.record"
DECIDED_FOR, REGISTERED_AS = "decision.for", "registered_as"
GATE, CONTRACT, ROLLED_BACK = "gate.", "contract", "rolled_back"
CHAMPION_SCORES = "champion_scores.parquet"


def ensure_decision(
    client: "MlflowClient",
    params: RegistrationParams,
    version: "ModelVersion",
    subject: Subject,
    still_ours: StillOurs,
) -> Decision:
    """What was decided of the version for this evaluation and gate: now, or by an earlier attempt.

    Raises:
        RegistrationError: the registry does not hold the alias that was set.
    """
    version = client.get_model_version(version.name, version.version)
    question = question_of(params, subject)
    decided = _earlier(version, question)
    if decided is None:
        decided = _forward_only(client, version, _judge(client, params, version, subject))
        _write(client, version, decided, subject, question)
    elif REGISTERED_AS in version.tags:
        return decided
    _apply(client, version, decided, still_ours)
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
    return decision_of(json.loads(tags[RECORD]))


def _judge(
    client: "MlflowClient", params: RegistrationParams, version: "ModelVersion", subject: Subject
) -> Decision:
    """The gate's bounds, then the champion, whose scores of the held-out pairs are kept."""
    golden = int(version.tags.get(CONTRACT) or 0)
    note = "golden sequences as in training, in a clean process"
    contract = Bound(CONTRACT, golden, ">=", 1, golden >= 1, note=note)
    bounds = (contract, *fitness(subject.metrics, params.gate))
    number = holder(client, version.name, CHAMPION)
    if number is None:
        return decide(bounds, True, "the first champion: there was none to beat")
    if number == int(version.version):
        return decide(bounds, True, "the champion already, judged anew")
    champion = client.get_model_version(version.name, str(number))
    try:
        compared = _compared(client, params, champion, subject)
    except Exception as error:  # a broken champion must not fall to whoever comes next
        reason = f"version {number} could not score these pairs ({type(error).__name__}: {error})"
        logger.warning("%s: %s; promote one by hand if it is to go", version.name, reason)
        return decide(bounds, False, f"not compared: {reason}"[:500])
    return decide((*bounds, *compared.bounds), compared.beats, compared.sentence)


def _compared(
    client: "MlflowClient", params: RegistrationParams, champion: "ModelVersion", subject: Subject
) -> Comparison:
    """The model beside the champion on the pairs that neither was trained on."""
    import pyarrow.parquet as pq

    how = subject.evaluation.report["scoring"]
    directory = download(client, champion, subject.scratch / "champion")
    table = champion_table(
        directory, subject.model, subject.tokenization, how["batch_size"], how["device"]
    )
    pq.write_table(table, subject.scratch.parent / CHAMPION_SCORES, compression="zstd")
    groups = prompts_of(subject.tokenization, "eval")
    trained_on = read_trained_on(client, champion, subject.scratch / "champion-lineage")
    new = _by_prompt(read_scores(subject.evaluation.path / "scores.parquet"), groups)
    frozen = frozen_pairs(new, groups, trained_on)
    new, old = new.take(frozen.rows), _by_prompt(scores_of(table), groups).take(frozen.rows)
    if not new.decided.any():
        nothing = f"not compared with version {champion.version}: {frozen.note}"
        return Comparison(False, nothing)
    found = compare(new, old, champion.version, params.min_improvement, params.gate)
    return replace(found, sentence=f"{found.sentence}, on {frozen.note}")


def _by_prompt(scores: Scores, groups: dict[str, str]) -> Scores:
    """The scores with the prompt's hash as what makes pairs depend on each other."""
    group = [groups[pair_id] for pair_id in scores.pair_id.tolist()]
    return replace(scores, group=np.asarray(group, np.str_))


def _forward_only(client: "MlflowClient", version: "ModelVersion", found: Decision) -> Decision:
    """The decision, but no champion that is older than one before it, or was rolled back."""
    name = version.name
    if holder(client, name, CHAMPION) == int(version.version):
        if found.outcome == CHAMPION:
            return found
        kept = "keeps the alias champion until somebody runs promote or rollback; judged anew: "
        return replace(found, outcome=CHAMPION, reason=kept + found.reason)
    if found.outcome != CHAMPION:
        return found
    if ROLLED_BACK in version.tags:
        back = f"was rolled back ({version.tags[ROLLED_BACK]}): only promote makes it champion"
        return replace(found, outcome=CHALLENGER, reason=f"{found.reason}; but {back}")
    mine, newest = mark_of(version), champion_mark(client, name)
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
    decided: Decision,
    subject: Subject,
    question: str,
) -> None:
    """Tags and description; what an earlier decision left is replaced."""
    name, number = version.name, version.version
    for tag in version.tags:
        if tag.startswith(GATE) or tag in (REGISTERED_AS, DECIDED_FOR):
            client.delete_model_version_tag(name, number, tag)
    for bound in decided.bounds:
        client.set_model_version_tag(name, number, f"{GATE}{bound.name}"[:250], str(bound))
    client.set_model_version_tag(name, number, OUTCOME, decided.outcome)
    client.set_model_version_tag(name, number, REASON, decided.reason)
    client.set_model_version_tag(name, number, RECORD, json.dumps(decided.to_json()))
    client.update_model_version(name, number, description=_description(subject, decided))
    client.set_model_version_tag(name, number, DECIDED_FOR, question)


def _apply(
    client: "MlflowClient", version: "ModelVersion", decided: Decision, still_ours: StillOurs
) -> None:
    """Moves the alias that the decision asks for, unless a newer challenger has it."""
    name, number = version.name, int(version.version)
    if decided.outcome == CHAMPION:
        make_champion(client, version, "register", decided.reason, still_ours)
        return
    held = holder(client, name, CHALLENGER)
    if decided.outcome != CHALLENGER:
        if held == number:
            move_alias(client, name, CHALLENGER, None, "register", decided.reason, still_ours)
        return
    if held is None or mark_of(client.get_model_version(name, str(held))) < mark_of(version):
        move_alias(client, name, CHALLENGER, number, "register", decided.reason, still_ours)


def _description(subject: Subject, decided: Decision) -> str:
    metrics: dict[str, Any] = subject.evaluation.report["metrics"]
    low, high = metrics["accuracy_interval"]
    bounds = "".join(f"\n- {bound}" for bound in decided.bounds)
    return (
        f"Prefers the chosen answer in {metrics['accuracy']:.1%} of {metrics['pairs']:,} held-out "
        f"pairs (95 % interval {low:.1%} to {high:.1%}), by {metrics['margin']:.2f} on average; "
        f"preferring the longer answer would reach {metrics['length_baseline']:.1%}. "
        f"Registered as {decided.outcome}: {decided.reason}. Answers with raw rewards.\n"
        f"\nBounds of the gate:\n{bounds}"
    )
