"""Which alias a proved version gets: decided once, against the champion of that moment."""

import logging
from typing import TYPE_CHECKING, Any

from tasks.errors import RegistrationError
from tasks.evaluation.table import read_scores, scores_of
from tasks.registration.comparison import Verdict, champion_table, verdict
from tasks.registration.params import RegistrationParams
from tasks.registration.proof import download
from tasks.registration.registry import CHAMPION
from tasks.registration.subject import Subject

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)

REGISTERED_AS, DECISION = "registered_as", "decision"
CHAMPION_SCORES = "champion_scores.parquet"


def ensure_alias(
    client: "MlflowClient", params: RegistrationParams, version: "ModelVersion", subject: Subject
) -> Verdict:
    """What was decided of the version: now, or when it was first registered.

    An alias that was moved since stays where it is.

    Raises:
        RegistrationError: the registry does not hold the alias that was set.
    """
    name, number = version.name, version.version
    if REGISTERED_AS in version.tags:
        alias: Any = version.tags[REGISTERED_AS]
        return Verdict(alias, version.tags[DECISION])
    decided = _decide(client, params, version, subject)
    client.set_model_version_tag(name, number, DECISION, decided.reason)
    client.update_model_version(name, number, description=_description(subject, decided))
    client.set_registered_model_alias(name, decided.alias, number)
    held = client.get_model_version_by_alias(name, decided.alias).version
    if int(held) != int(number):
        raise RegistrationError(
            f"alias {decided.alias!r} of {name!r} was set to version {number}, but the registry "
            f"holds {held}: somebody else moved it; run again"
        )
    # Last: without this tag, an attempt that was cut short decides again.
    client.set_model_version_tag(name, number, REGISTERED_AS, decided.alias)
    logger.info("%s version %s is %s: %s", name, number, decided.alias, decided.reason)
    return decided


def _decide(
    client: "MlflowClient", params: RegistrationParams, version: "ModelVersion", subject: Subject
) -> Verdict:
    """Compares the version with the champion, whose scores of these pairs are kept."""
    import pyarrow.parquet as pq

    aliases = client.get_registered_model(version.name).aliases
    if CHAMPION not in aliases:
        return Verdict("champion", "the first champion: there was none to beat")
    number = str(aliases[CHAMPION])
    if number == str(version.version):  # an attempt was cut short after it had set the alias
        return Verdict("champion", version.tags.get(DECISION, "made champion by hand"))
    how = subject.evaluation.report["scoring"]
    champion = client.get_model_version(version.name, number)
    try:
        directory = download(client, champion, subject.scratch / "champion")
        table = champion_table(
            directory, subject.model, subject.tokenization, how["batch_size"], how["device"]
        )
    except Exception as error:  # a broken champion must not fall to whoever comes next
        reason = f"version {number} could not score these pairs ({type(error).__name__}: {error})"
        logger.warning("%s: %s; move the alias by hand if it is to go", version.name, reason)
        return Verdict("challenger", f"not compared: {reason}"[:500])
    pq.write_table(table, subject.scratch.parent / CHAMPION_SCORES, compression="zstd")
    scores = read_scores(subject.evaluation.path / "scores.parquet")
    return verdict(scores, scores_of(table), number, params.min_improvement)


def _description(subject: Subject, decided: Verdict) -> str:
    metrics = subject.evaluation.report["metrics"]
    low, high = metrics["accuracy_interval"]
    return (
        f"Prefers the chosen answer in {metrics['accuracy']:.1%} of {metrics['pairs']:,} held-out "
        f"pairs (95 % interval {low:.1%} to {high:.1%}), by {metrics['margin']:.2f} on average; "
        f"preferring the longer answer would reach {metrics['length_baseline']:.1%}. "
        f"Registered as {decided.alias}: {decided.reason}. Answers with raw rewards."
    )
