"""The command line as a user meets it: exit codes, sentences, and what it does not import."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from flows.__main__ import app
from flows.console import errors_in_one_sentence
from tasks.artifact import Step, Store
from tasks.artifact.collection import size_of
from tasks.artifact.lock import locked
from tests.at_length import at_length

REPOSITORY = Path(__file__).parents[2]
SMALLER = [
    *(f"ingestion.sources.{i}.limit=60" for i in range(3)),
    "conversion.max_bad_fraction=0.05",  # one of the sixty is no JSON
]

NONE = "0 registered versions, 0 at fault"


def cli(*arguments: str, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flows", *arguments], cwd=cwd, capture_output=True, text=True
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys, flows.__main__\n"
        "heavy = {'torch', 'transformers', 'mlflow', 'prefect', 'pandas', 'pyarrow', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    shown = cli("--help")
    for name in ("run", "plan", "explain", "verify", "gc", "show"):
        assert name in shown.stdout


def test_a_misspelt_key_fails_before_any_work_in_one_sentence(tmp_path):
    done = cli("run", "params/quickstart.yaml", "training.lerning_rate=1", "--root", str(tmp_path))
    assert done.returncode == 1
    assert "training.lerning_rate: unknown key; did you mean learning_rate?" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_would_evaluate_on_nothing_is_refused_before_any_work(tmp_path):
    given = ("run", "params/quickstart.yaml", "conversion.eval_fraction=0", "--root", str(tmp_path))
    done = cli(*given)
    assert done.returncode == 1
    assert "conversion.eval_fraction is 0" in done.stderr
    assert "--until training" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert cli(*given, "--until", "ingestion").returncode == 0


def test_a_benchmark_whose_file_is_absent_is_refused_before_any_work(tmp_path):
    declared = 'evaluation.benchmarks=[{"name": "rewardbench", "path": "nowhere.parquet"}]'
    done = cli("run", "params/quickstart.yaml", declared, "--root", str(tmp_path))
    assert done.returncode == 1
    assert "evaluation.benchmarks rewardbench: nothing matches 'nowhere.parquet'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_accelerate_config_that_cannot_be_used_is_refused_before_any_work(tmp_path):
    absent = "training.accelerate_config=nowhere.yaml"
    given = ("run", "params/quickstart.yaml", absent, "--root", str(tmp_path))
    done = cli(*given)
    assert done.returncode == 1
    assert "nowhere.yaml does not exist" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert cli(*given, "--until", "ingestion").returncode == 0


def test_a_mapped_column_that_no_layout_reads_is_refused_before_any_work(tmp_path):
    mapping = "ingestion.sources.0.columns={promt: question}"
    for command in ("run", "plan"):
        done = cli(command, "params/quickstart.yaml", mapping, "--root", str(tmp_path))
        assert done.returncode == 1
        assert "columns.promt is unknown to layout 'trl'; did you mean 'prompt'?" in done.stderr
        assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_no_model_is_refused_before_any_work(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    given = ("params/quickstart.yaml", f"model={{path: {tmp_path}}}", "--root", str(root))
    for command in ("run", "plan"):
        done = cli(command, *given)
        assert done.returncode == 1
        assert f"{tmp_path} holds no tokenizer: expected tokenizer.json" in done.stderr
        assert list(root.iterdir()) == []
    for name in ("tokenizer.json", "config.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    plan = cli("plan", *given)
    assert plan.returncode == 2, plan.stderr
    assert plan.stdout.count("DEPENDS") == 6  # it waits for no rows
    assert list(root.iterdir()) == []


@pytest.mark.slow
def test_what_cannot_be_evaluated_ends_the_run_before_training(tmp_path):
    for setting, said in (
        ("tokenization.max_length=17", "held-out pairs is left"),
        ("evaluation.slice_by=[promt]", "has 'promt'; found the columns prompt, chosen"),
    ):
        given = (*SMALLER, setting, "--until", "evaluation", "--root", str(tmp_path))
        done = cli("run", "params/quickstart.yaml", *given)
        assert done.returncode == 1, done.stdout
        assert said in done.stderr
    assert not (tmp_path / "data" / "5_training").exists()


COMMANDS = [
    ("run", "params/quickstart.yaml"),
    ("plan", "params/quickstart.yaml"),
    ("alias-history", "reward-model"),
    ("verify",),
    ("gc",),
    ("show",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=[c[0] for c in COMMANDS])
def test_a_root_that_is_no_directory_and_cannot_become_one_is_refused(tmp_path, command):
    file = tmp_path / "a.jsonl"
    file.write_text("")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/data").write_text("")
    for root in (file, file / "below", tmp_path / "root", Path("/proc/nope")):
        done = CliRunner().invoke(app, [*command, "--root", str(root)])
        assert done.exit_code == 1, done.output
        assert f"ParamsError: root {root}" in done.output
        assert done.output.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "root"]


def test_a_root_that_is_not_there_yet_is_not_made_by_looking(tmp_path):
    done = CliRunner().invoke(app, ["verify", "--root", str(tmp_path / "new/root")])
    assert (done.exit_code, done.output) == (
        0,
        f"0 artifacts, 0 damaged; {NONE}\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_verify_says_what_to_do_about_damage_and_repair_does_it(tmp_path):
    def build(workspace):
        (workspace.path / "text.txt").write_text("as it was built")

    data = Store(tmp_path / "data")
    good, bad = (data.obtain(Step("root", 1, "1_root", {"n": n}, {}, build)) for n in (1, 2))
    (bad.path / "text.txt").write_text("not as it was")
    places = sorted([(good.path, "ok     "), (bad.path, "DAMAGED")])
    fault = "  text.txt: 13 bytes, expected 15"
    lines = [f"{word} {path}{fault if path == bad.path else ''}" for path, word in places]
    advice = "`verify --repair` moves them to data/.trash; the next run builds them again"
    moved = "moved 1 to data/.trash; the next run builds what it needs again"
    verify = ["verify", "--root", str(tmp_path)]

    found = CliRunner().invoke(app, verify)
    assert found.output.splitlines() == [
        *lines,
        f"2 artifacts, 1 damaged; {NONE}",
        advice,
    ]
    with locked(data.root / ".locks" / bad.name, "a build"):
        left = CliRunner().invoke(app, [*verify, "--repair"])
    assert f"{fault} (left: somebody is building it" in left.output
    repaired = CliRunner().invoke(app, [*verify, "--repair"])
    lines = [f"{line} (moved)" if fault in line else line for line in lines]
    assert repaired.output.splitlines() == [
        *lines,
        f"2 artifacts, 1 damaged; {NONE}",
        moved,
    ]
    again = CliRunner().invoke(app, verify)
    assert again.output.splitlines() == [
        f"ok      {good.path}",
        f"1 artifact, 0 damaged; {NONE}",
    ]
    assert [r.exit_code for r in (found, left, repaired, again)] == [1, 1, 0, 0]


def test_an_unknown_stage_is_refused_with_the_names_of_all(tmp_path):
    done = cli("run", "params/quickstart.yaml", "--until", "trainin", "--root", str(tmp_path))
    assert (done.returncode, "there is no stage 'trainin'" in done.stderr) == (1, True)


def test_a_forced_stage_that_the_run_does_not_come_to_is_refused(tmp_path):
    given = ["run", "params/quickstart.yaml", "--force", "training", "--root", str(tmp_path)]
    done = CliRunner().invoke(app, [*given, "--until", "conversion"])
    assert done.exit_code == 1
    assert "--force training has no effect, since --until conversion stops before" in done.output
    assert list(tmp_path.iterdir()) == []


def test_plan_touches_nothing_and_says_that_there_is_work(tmp_path):
    done = cli("plan", "params/quickstart.yaml", "--root", str(tmp_path))
    assert done.returncode == 2
    assert done.stdout.count("DEPENDS") == 7
    assert "NEVER BUILT" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_plan_equals_what_the_next_run_does(tmp_path):
    import json

    root = ["--root", str(tmp_path)]
    until = ["--until", "tokenization", "--json", *root]
    first = cli("run", "params/quickstart.yaml", *SMALLER, *until)
    assert first.returncode == 0, first.stderr
    changed = [*SMALLER, "tokenization.max_length=64"]
    planned = json.loads(cli("plan", "params/quickstart.yaml", *changed, "--json", *root).stdout)
    verdicts = {line["stage"]: line["verdict"] for line in planned}
    done = json.loads(cli("run", "params/quickstart.yaml", *changed, *until).stdout)
    for stage, facts in done["stages"].items():
        assert verdicts[stage] == ("HIT" if facts["cached"] else "RUN")
    reason = next(line["reason"] for line in planned if line["stage"] == "tokenization")
    assert "PARAMS tokenization.max_length" in reason
    assert reason == done["stages"]["tokenization"]["reason"]
    explained = cli("explain", "tokenization", "params/quickstart.yaml", *SMALLER, *root)
    assert explained.stdout.startswith("HIT tokenization")
    shown = json.loads(cli("show", "--json", *root).stdout)
    assert shown["stages"]["conversion"]["path"] == done["stages"]["conversion"]["path"]
    assert shown["params_file"] == str(REPOSITORY / "params" / "quickstart.yaml")


@pytest.mark.slow
def test_explain_names_params_where_the_params_file_has_them(tmp_path):
    given = ["params/quickstart.yaml", *SMALLER, "--root", str(tmp_path)]
    assert cli("run", *given, "--until", "conversion").returncode == 0
    for stage, changed, told in (
        ("model", "model.scratch.vocab_size=1000", "model.scratch.vocab_size 2000 -> 1000"),
        ("ingestion", "ingestion.sources.0.limit=50", "ingestion.sources.0.limit 60 -> 50"),
        ("conversion", "conversion.eval_fraction=0.2", "conversion.eval_fraction 0.1 -> 0.2"),
        (
            "conversion",
            "ingestion.sources.1.columns.margin=strength",
            "ingestion.sources.votes.columns.margin gap -> strength",
        ),
        (
            "conversion",
            "ingestion.sources.1.columns.margin=how; far",  # one cause, though it has a `; `
            "ingestion.sources.votes.columns.margin gap -> how; far",
        ),
    ):
        explained = cli("explain", stage, *given, changed).stdout.splitlines()
        assert explained[1:] == [f"  PARAMS {told}"]


def test_gc_says_what_is_free_now_and_what_is_when_the_trash_is_emptied(tmp_path):
    store = Store(tmp_path / "data")
    orphan = store.obtain(Step("root", 1, "1_root", {}, {}, lambda w: w.write_json("x.json", 1)))
    bytes_of_it = f"{size_of(orphan.path):,}"
    (store.root / ".work" / "old").mkdir(parents=True)
    os.utime(store.root / ".work" / "old", (0, 0))
    for words, free, move in (
        (["--dry-run"], "would free", "would move"),
        ([], "freed", "moved"),
    ):
        done = cli("gc", "--root", str(tmp_path), *words)
        assert f"\n{free} 0 bytes in 1 places\n" in done.stdout
        assert f"\n{move} {bytes_of_it} bytes in 1 places to data/.trash; a gc in 24" in done.stdout
    assert len(list((store.root / ".trash").iterdir())) == 1


def of_a_library(number):
    """Is stopped at its work, and tells every failure in its own words."""
    try:
        os.kill(os.getpid(), number)
        time.sleep(60)
    except Exception as error:
        raise RuntimeError("the registry cannot be reached") from error


@pytest.fixture
def not_ignored(number):
    """What starts the tests in the background may have them ignore an interrupt."""
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)
    yield usual
    signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_no_failure_for_a_library_to_tell_in_its_own_words(capsys, number, not_ignored):
    with pytest.raises(typer.Exit) as ended, errors_in_one_sentence():
        of_a_library(number)
    assert ended.value.exit_code == 75
    said = capsys.readouterr().err
    assert said == (
        f"interrupted: stopped by {number.name}; run the same command again to continue\n"
    )
    assert signal.getsignal(number) == not_ignored


def test_an_interrupt_that_the_caller_ignores_is_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with errors_in_one_sentence():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_standard_streams_that_are_closed_are_nothing_to_fail_of(tmp_path):
    command = [sys.executable, "-m", "flows", "plan", "params/quickstart.yaml"]
    script = 'exec "$@" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", script, "sh", *command, "--root", tmp_path], cwd=REPOSITORY)
    assert done.returncode == 2  # there is work to do


@pytest.mark.parametrize("level", ["", "warning", "loud"])
def test_the_level_of_the_log_is_read_as_people_write_it(tmp_path, level):
    words = [sys.executable, "-m", "flows", "verify", "--root", str(tmp_path)]
    given = {**os.environ, "REWARD_PIPELINE_LOG": level}
    done = subprocess.run(words, cwd=REPOSITORY, env=given, capture_output=True, text=True)
    told = "ParamsError: REWARD_PIPELINE_LOG is 'LOUD'; expected one of DEBUG, INFO, WARNING"
    assert done.stderr.startswith(told) == (level == "loud")
    assert done.returncode == (level == "loud")


@pytest.mark.parametrize("unbuffered", ["", *at_length("1")])
@pytest.mark.parametrize("command", [("verify",), ("gc", "--dry-run"), ("--help",)])
def test_a_stdout_that_takes_no_more_ends_a_command_once(tmp_path, command, unbuffered):
    words = [sys.executable, "-m", "flows", *command]
    told = {"stderr": subprocess.PIPE, "text": True, "cwd": REPOSITORY}
    given = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "REWARD_PIPELINE_ROOT": str(tmp_path)}
    with Path("/dev/full").open("w") as full:
        refused = subprocess.run(words, stdout=full, env=given, **told)
    assert refused.returncode == 1
    sentence = "stdout does not take the answer: No space left on device; what the command did"
    assert [line.startswith(sentence) for line in refused.stderr.splitlines()] == [True]

    reader, writer = os.pipe()
    os.close(reader)  # as `| head -1` does, having read what it wants
    unread = subprocess.run(words, stdout=writer, env=given, **told)
    os.close(writer)
    assert (unread.returncode, unread.stderr) == (1, "")


@pytest.mark.slow
def test_a_run_whose_summary_cannot_be_written_has_committed_its_artifacts(tmp_path):
    words = ["run", "params/quickstart.yaml", *SMALLER, "--until", "conversion"]
    words += ["--root", str(tmp_path), "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "flows", *words],
            cwd=REPOSITORY,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("stdout does not take the answer")
    assert "Traceback" not in done.stderr
    assert cli("show", "--root", str(tmp_path), "--json").stdout.startswith('{"stages"')
