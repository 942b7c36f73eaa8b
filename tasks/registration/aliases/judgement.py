"""What a version is found to be: by the gate's bounds, and beside the champion of that moment.

In: the figures of its evaluation, and the champion, which scores the same held-out pairs. Out: the
decision with its reasons, how the two models' rewards agree, and the map from one scale to the
other. Nothing in the registry is changed here.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.evaluation.measures.champion import against_champion
from tasks.evaluation.tables.scores import Scores, numbered, read_scores, scores_of
from tasks.registration.aliases.champion_scores import champion_scores
from tasks.registration.aliases.comparison import compare
from tasks.registration.aliases.frozen import frozen_pairs
from tasks.registration.aliases.gate import Bound, Decision, decide, fitness
from tasks.registration.aliases.locked_aliases import LockedAliases
from tasks.registration.lineage import prompts_of, read_trained_on
from tasks.registration.loader import champion_scale
from tasks.registration.loader.champion_scale import ChampionScale, ScaleMap
from tasks.registration.params import RegistrationParams
from tasks.registration.proving.download import NO_ANSWER, NO_ROOM, check_registered, download
from tasks.registration.registry import CHAMPION
from tasks.registration.store import is_of_a_cloud
from tasks.registration.subject import Subject
from tasks.registration.tags import CONTRACT

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)

CHAMPION_SCORES = "champion_scores.parquet"


@dataclass(frozen=True)
class Judgement:
    """A decision, and what it was seen beside."""

    decision: Decision
    against: Mapping[str, Any] | None = None
    """What `against_champion` gives, and the champion's number; None: nothing was compared."""
    scale: ChampionScale | None = None


def judge(
    aliases: LockedAliases, params: RegistrationParams, version: "ModelVersion", subject: Subject
) -> Judgement:
    """The gate's bounds, then the champion, whose scores of the held-out pairs are kept.

    Raises:
        RegistrationError, OSError, MlflowException: no room here, or a store that is busy or
            away: the next run compares.
    """
    golden = int(version.tags.get(CONTRACT) or 0)
    note = "golden sequences as in training, in a clean process"
    contract = Bound(CONTRACT, golden, ">=", 1, golden >= 1, note=note)
    bounds = (contract, *fitness(subject.metrics, params.gate))
    own = int(version.version)
    number = aliases.holder(CHAMPION)
    if number is None:
        decided = decide(bounds, True, "the first champion: there was none to beat")
        return Judgement(decided, scale=champion_scale.first_of_all(own))
    if number == own:
        return Judgement(decide(bounds, True, "the champion already, judged anew"))
    champion = aliases.version(number)
    try:
        return _compared(aliases.client, params, version, champion, subject, bounds)
    except Exception as error:  # a broken champion must not fall to whoever comes next
        if _is_passing(error):
            raise
        reason = f"version {number} could not score these pairs ({type(error).__name__}: {error})"
        logger.warning("%s: %s; promote one by hand if it is to go", version.name, reason)
        return Judgement(decide(bounds, False, f"not compared: {reason}"[:500]))


def _is_passing(error: BaseException) -> bool:
    """Whether an error tells of a full disk, or a store that is busy or away, and nothing of the
    champion."""
    busy = getattr(error, "error_code", None) == "TEMPORARILY_UNAVAILABLE"
    if busy or is_of_a_cloud(error) or NO_ROOM in str(error) or NO_ANSWER.search(str(error)):
        return True
    return error.__cause__ is not None and _is_passing(error.__cause__)


def _compared(
    client: "MlflowClient",
    params: RegistrationParams,
    version: "ModelVersion",
    champion: "ModelVersion",
    subject: Subject,
    bounds: tuple[Bound, ...],
) -> Judgement:
    """The model beside the champion on the pairs that neither was trained on."""
    import pyarrow.parquet as pq

    how = subject.evaluation.report["scoring"]
    directory = download(client, champion, subject.scratch / "champion")
    check_registered(champion, directory)
    read = champion_scores(
        directory, subject.model, subject.tokenization, how["batch_size"], how["device"]
    )
    pq.write_table(read.table, subject.scratch.parent / CHAMPION_SCORES, compression="zstd")
    groups = prompts_of(subject.tokenization, "eval")
    trained_on = read_trained_on(client, champion, subject.scratch / "champion-lineage")
    scores = read_scores(subject.evaluation.path / "scores.parquet").take(read.rows)
    new, old = (_by_prompt(each, groups) for each in (scores, scores_of(read.table)))
    frozen = frozen_pairs(new, groups, trained_on)
    new, old = new.take(frozen.rows), old.take(frozen.rows)
    if not new.decided.any():
        nothing = f"not compared with version {champion.version}: {frozen.note}{read.note}"
        return Judgement(decide(bounds, False, nothing))
    found = compare(new, old, champion.version, params.min_improvement, params.gate)
    sentence = f"{found.sentence}, on {frozen.note}{read.note}"
    decided = decide((*bounds, *found.bounds), found.beats, sentence)
    against = {"champion": int(champion.version), **against_champion(new, old)}
    return Judgement(decided, against, scale_of(version, champion, directory, against))


def scale_of(
    version: "ModelVersion", champion: "ModelVersion", directory: Path, against: Mapping[str, Any]
) -> ChampionScale:
    """The maps to the champion's scale, and on to the one that it refers to itself.

    `directory` is the downloaded champion, `against` what `against_champion` gives.
    """
    own, tau = int(version.version), against["agreement"]["tau_rewards"]
    answers, fitted = against["scale"]["answers"], against["scale"]["matched"]
    if fitted is None:
        why = f"its rewards do not rise with those of version {champion.version}"
        return ChampionScale(own, None, None, answers, tau, why)
    way = ScaleMap(int(champion.version), **fitted)
    return champion_scale.chained(own, way, champion_scale.read(directory), answers, tau)


def _by_prompt(scores: Scores, groups: dict[str, str]) -> Scores:
    """The scores with all pairs of one prompt as one group."""
    group = numbered([groups[pair_id] for pair_id in scores.pair_id.tolist()])
    return replace(scores, group=group)
