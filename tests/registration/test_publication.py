"""The report on a decision lies with the run, with the version and in the receipt's artifact."""

import json
from html import unescape
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.artifact import Store
from tasks.evaluation import EvaluationParams
from tasks.evaluation import step as evaluation_step
from tasks.evaluation.measures.champion import against_champion
from tasks.evaluation.tables.scores import read_scores
from tasks.registration.facts import log_facts
from tasks.registration.loader import champion_scale
from tasks.registration.subject import Subject
from tasks.registration.tags import benchmark_tags
from tasks.registration.task import receipt
from tasks.registration.tracking import run_for


def test_the_page_of_the_decision_is_the_same_in_run_version_and_artifact(overtaken, tmp_path):
    place = overtaken
    artifact = place.register(place.better)
    found = receipt(artifact)
    page = (artifact.path / "report.html").read_text("utf-8")
    version = Path(found["location"]) / "registration"
    assert (version / "report.html").read_text("utf-8") == page
    run = place.client.download_artifacts(found["run_id"], "registration", str(tmp_path))
    assert sorted(p.name for p in Path(run).iterdir()) == sorted(p.name for p in version.iterdir())
    assert (Path(run) / "report.html").read_text("utf-8") == page
    assert found["report_uri"] == f"runs:/{found['run_id']}/registration/report.html"

    text = unescape(page)
    assert '<div class="verdict champion">' in page
    assert text.index(found["decision"]) < text.index("<dl")  # above every figure
    for told in (
        f"runs:/{found['run_id']}",
        "models:/reward-model/2",
        "Beside the champion, on the same pairs",
        place.better[0].key,  # stage keys, and the versions of libraries
        f'<td dir="auto">{place.better[0].record["git_commit"]}</td>',
        '<td dir="auto">torch</td>',
        '<td dir="auto">bit_exact</td>',
    ):
        assert told in text, told
    own = (place.better[1].path / "report.html").read_text("utf-8")
    assert 'class="verdict' not in own  # evaluation's own page knows of no decision
    assert (
        "registration/report.html"
        in place.client.get_model_version("reward-model", "2").description
    )


def test_how_it_stands_beside_the_champion_is_kept_with_the_version(overtaken):
    place = overtaken
    found = receipt(place.register(place.better))
    version = Path(found["location"]) / "registration"
    told = json.loads((version / "decision.json").read_text("utf-8"))
    assert (told["version"], told["outcome"], told["reason"]) == (2, "champion", found["decision"])
    new, old = (read_scores(m[1].path / "scores.parquet") for m in (place.better, place.worse))
    expected = {"champion": 1, **against_champion(new, old)}
    assert told["against_champion"] == json.loads(json.dumps(expected))

    first = Path(receipt(place.register(place.worse))["location"])
    scale = champion_scale.read(first)
    assert scale is not None
    assert scale == champion_scale.first_of_all(1)
    scale = champion_scale.read(version.parent)
    assert scale is not None
    tags = place.client.get_model_version("reward-model", "2").tags
    assert tags["scale.kendall_tau"] == f"{expected['agreement']['tau_rewards']:.4f}"
    fitted = expected["scale"]["matched"]
    if fitted is None:
        assert (scale.champion, "do not rise" in tags["scale.why"]) == (None, True)
        return
    assert scale.champion == scale.reference == champion_scale.ScaleMap(1, **fitted)
    rewards = np.concatenate([new.chosen, new.rejected])
    carried = scale.champion.applied(rewards)
    others = np.concatenate([old.chosen, old.rejected])
    assert (carried.mean(), carried.std()) == pytest.approx((others.mean(), others.std()), abs=1e-5)


def test_a_long_list_of_sources_is_one_param_and_stands_whole_in_the_file(place, tmp_path):
    """Each as params of its own, MLflow took minutes over a thousand sources."""
    training, evaluation, tokenization = place.evaluated(1)
    subject = Subject(training, evaluation, tokenization, tmp_path / "scratch")
    sources = [{"name": f"s{n}", "columns": {"prompt": "q"}} for n in range(51)]
    where = {"https://schema.org/inLanguage": "en", "a/../b/": 1, "x" * 300: 2}
    params = {"ingestion": {"sources": sources, "few": sources[:50], "where": where}}
    client = place.client
    run_id = run_for(client, place.params, place.root, training.key)
    log_facts(client, run_id, subject, {"params": params})
    logged = client.get_run(run_id).data.params
    assert logged["ingestion.sources"] == "51 entries, all of them in pipeline.json"
    assert logged["ingestion.few.49.name"] == "s49"
    # names that MLflow would take for paths, or has no room for
    assert logged["ingestion.where.https___schema.org_inLanguage"] == "en"
    assert logged["ingestion.where.a_.._b_"] == "1"
    assert logged[f"ingestion.where.{'x' * 234}"] == "2"
    assert not [name for name in logged if name.startswith("ingestion.sources.")]
    whole = json.loads(Path(client.download_artifacts(run_id, "pipeline.json")).read_bytes())
    assert whole["params.ingestion.sources.50.name"] == "s50"


def test_benchmarks_reach_the_run_as_files_and_figures(place, tmp_path):
    training, _, tokenization = place.evaluated(1)
    row = {"id": 1, "subset": "hep-go", "prompt": "P", "chosen": "blue", "rejected": "say so"}
    (tmp_path / "rb.jsonl").write_text("\n".join(json.dumps(row | {"id": i}) for i in range(3)))
    benchmark = {"name": "rewardbench", "path": str(tmp_path / "rb.jsonl")}
    params = EvaluationParams.model_validate({"device": "cpu", "benchmarks": [benchmark]})
    evaluation = Store(tmp_path / "data").obtain(evaluation_step(params, training, tokenization))
    subject = Subject(training, evaluation, tokenization, tmp_path / "scratch")
    client = place.client
    run_id = run_for(client, place.params, place.root, training.key)
    log_facts(client, run_id, subject, {})
    files = {e.path for e in client.list_artifacts(run_id, "evaluation/benchmarks")}
    assert files == {f"evaluation/benchmarks/rewardbench.{kind}" for kind in ("json", "parquet")}
    copy = client.download_artifacts(run_id, "evaluation/benchmarks.json", str(tmp_path))
    figures = json.loads(Path(copy).read_bytes())["rewardbench"]
    table = pq.read_table(evaluation.path / "benchmarks" / "rewardbench.parquet")
    assert figures["overall"]["score"] == sum(table["score"].to_pylist()) / 3
    logged = client.get_run(run_id).data.metrics
    assert logged["evaluation.benchmarks.rewardbench.overall.score"] == figures["overall"]["score"]
    assert "evaluation.benchmarks.rewardbench.sections.Reasoning.score" in logged
    score = f"{figures['overall']['score']:.4f}"
    told = {"benchmark.rewardbench": f"{score} (of 3 items, not all of it)"}
    assert benchmark_tags(subject.metrics) == told
