"""Hub datasets, from a local stand-in for the hub: pinned, verified; errors name the way out."""

import gzip
import io
import os
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import DataError
from tests.ingestion.places.servers import Hub, serving

OLD, NEW = "a" * 40, "b" * 40
CARD = b"""---
license: mit
configs:
- config_name: default
  data_files:
  - {split: train, path: "data/train-*"}
  - {split: test, path: ["data/test.jsonl.gz"]}
- config_name: extra
  data_files: extra.csv
---
# A dataset
"""


def _parquet(start: int, count: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(start, start + count))}), sink)
    return sink.getvalue()


FILES = {
    "README.md": CARD,
    "loader.py": b"raise SystemExit('never run')",
    ".gitattributes": b"",
    "data/train-00000.parquet": _parquet(0, 30),
    "data/train-00001.parquet": _parquet(30, 20),
    "data/test.jsonl.gz": gzip.compress(b'{"n": 50}\n{"n": 51}\nbad\n', mtime=0),
    "extra.csv": b"n\n7\n",
}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    from huggingface_hub import constants

    found = Hub("me/pairs", {OLD: {"test.jsonl": b'{"n": 1}\n'}, NEW: FILES}, {"main": OLD})
    with serving(found.answer) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        yield found


def _run(ingestion, **source):
    step = ingestion.step({"name": "s", "hub": "me/pairs", **source})
    return ingestion.store.obtain(step)


def test_a_branch_is_resolved_to_a_commit_that_is_recorded_and_in_the_key(ingestion, hub):
    first = _run(ingestion)
    assert [row["raw"] for row in ingestion.rows(first)] == [{"n": 1}]
    assert first.report["sources"]["s"]["commit"] == OLD
    assert first.report["sources"]["s"]["revision"] == "main"
    assert _run(ingestion, revision=OLD).cached  # the same commit under another name
    hub.branches["main"] = NEW
    second = _run(ingestion, split="test")
    assert second.key != first.key
    asked = len(hub.requests)
    assert _run(ingestion, split="test", revision=NEW).cached
    assert len(hub.requests) == asked  # a commit asks nobody


@pytest.mark.parametrize(
    ("chosen", "rows", "files"),
    [
        ({"split": "train"}, 50, ["data/train-00000.parquet", "data/train-00001.parquet"]),
        ({"split": "test"}, 2, ["data/test.jsonl.gz"]),
        ({"config": "extra"}, 1, ["extra.csv"]),
        ({"data_files": ["data/*1.parquet", "data/*.gz"]}, 22, None),
        ({"config": "default"}, 52, None),
    ],
)
def test_the_repositorys_own_files_are_read_by_our_readers(ingestion, hub, chosen, rows, files):
    hub.branches["main"] = NEW
    artifact = _run(ingestion, **chosen)
    found = ingestion.rows(artifact)
    assert len(found) == rows
    if files:
        assert sorted({row["file"] for row in found}) == [f"me/pairs/{name}" for name in files]
    if chosen == {"split": "test"}:
        [bad] = ingestion.quarantine(artifact)
        assert (bad["row"], bad["reason"]) == (3, "bad_json")


def test_a_split_without_a_card_is_found_by_the_names_of_the_files(ingestion, hub):
    hub.commits[NEW] = {
        "en/train.jsonl": b'{"n":1}\n',
        "en/val.jsonl": b'{"n":2}\n',
        "de/train-1.jsonl": b'{"n":3}\n',
        "constraint.jsonl": b'{"n":4}\n',
        "train_x/training.jsonl": b'{"n":5}\n',
        "train_x/test.jsonl": b'{"n":6}\n',
    }
    hub.branches["main"] = NEW
    for chosen, numbers in [
        ({"split": "train", "config": "train_x"}, [5]),
        ({"split": "validation"}, [2]),
        ({"split": "train", "config": "en"}, [1]),
        ({}, [4, 3, 1, 2, 6, 5]),
    ]:
        rows = ingestion.rows(_run(ingestion, **chosen))
        assert [row["raw"]["n"] for row in rows] == numbers


def _card(configs: str) -> bytes:
    return f"---\nconfigs:{configs}\n---\n".encode()


def _names(ingestion, **chosen):
    return [
        row["file"].removeprefix("me/pairs/") for row in ingestion.rows(_run(ingestion, **chosen))
    ]


def test_a_config_may_be_a_directory_of_the_card(ingestion, hub):
    card = _card(
        "\n- {config_name: en, data_dir: data/en}\n- {config_name: de, data_dir: ./data/de/}"
    )
    files = [
        f"data/{config}/{split}.jsonl" for config in ("de", "en") for split in ("dev", "train")
    ]
    hub.commits[OLD] = {"README.md": card, **dict.fromkeys(files, b'{"n":1}\n')}
    assert _names(ingestion, config="en", split="train") == ["data/en/train.jsonl"]
    assert _names(ingestion, config="de") == files[:2]
    with pytest.raises(DataError, match="me/pairs has the configs de, en; give one as `config`"):
        _run(ingestion, split="train")


@pytest.mark.parametrize(
    ("mark", "glob", "names"),
    [
        (b"", "./data/a.jsonl", ["data/a.jsonl"]),
        (b"", "data/*", ["data/_b.jsonl", "data/a.jsonl"]),
        (b"", "data/.h*", ["data/.hidden.jsonl"]),
        (b"\xef\xbb\xbf", "data/a.jsonl", ["data/a.jsonl"]),
    ],
)
def test_a_card_chooses_what_it_chooses_for_the_datasets_library(ingestion, hub, mark, glob, names):
    card = _card(f'\n- data_files: [{{split: train, path: "{glob}"}}]')
    rows = ("data/a.jsonl", "data/_b.jsonl", "data/.hidden.jsonl", "old/train.jsonl")
    others = ("data/README.md", "data/.gitkeep", "data/dataset_infos.json")
    hub.commits[OLD] = {"README.md": mark + card, **dict.fromkeys(others, b"{}")}
    hub.commits[OLD] |= dict.fromkeys(rows, b'{"n":1}\n')
    assert _names(ingestion, split="train") == names


@pytest.mark.parametrize(
    ("configs", "says"),
    [
        (" foo", "has 'foo'; expected a list of configs"),
        ("\n- foo", r"has \['foo'\]; expected a list of configs"),
        (
            "\n- data_files: [{split: train}]",
            r"has \[{'split': 'train'}\]; .*entries of split and p",
        ),
        ("\n- data_files: {train: a.jsonl}", "has {'train': 'a.jsonl'}; .* give globs as `data_fi"),
    ],
)
def test_a_malformed_card_is_told_as_what_it_is(ingestion, hub, configs, says):
    hub.commits[OLD] = {"README.md": _card(configs), "train.jsonl": b'{"n":1}\n'}
    with pytest.raises(DataError, match=f"me/pairs: `configs` of its card .README.md. {says}"):
        _run(ingestion, split="train")


@pytest.mark.usefixtures("hub")
def test_offline_a_commit_that_is_given_is_not_advised(ingestion, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match="OFFLINE is set: unset it; or give `path` with a local"):
        _run(ingestion, revision=NEW)


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.jsonl", ["train"]),
        ("data/train*", ["data/train-0"]),
        ("**/train.jsonl", ["b/train", "data/train_raw/train", "train"]),
        ("data/**", ["data/train-0", "data/train_raw/train"]),
        ("b/[1].jsonl", ["b/[1]"]),
    ],
)
@pytest.mark.parametrize("by_card", [True, False])
def test_a_glob_means_what_it_means_to_the_datasets_library(ingestion, hub, glob, names, by_card):
    files = ("train", "b/train", "b/[1]", "b/1", "data/train-0", "data/train_raw/train")
    card = f'---\nconfigs:\n- data_files:\n  - {{split: train, path: "{glob}"}}\n---\n'
    rows = {f"{name}.jsonl": b'{"n":1}\n' for name in files}
    hub.commits[OLD] = {"README.md": card.encode(), **rows}
    chosen = {"split": "train"} if by_card else {"data_files": [glob]}
    read = ingestion.rows(_run(ingestion, **chosen))
    assert [row["file"] for row in read] == [f"me/pairs/{name}.jsonl" for name in names]


def test_what_a_repository_leaves_out_is_told_and_what_describes_it_is_no_rows(
    ingestion, hub, caplog
):
    hub.commits[NEW] = {
        "en/train.jsonl": b'{"n":1}\n',
        "en/train.txt": b'{"n":2}\n',
        "en/test.zip": b"PK",
        "de/train-part-0": b'{"n":3}\n',
        "dataset_infos.json": b'{"default": {"features": {}}}',
        "loader.py": b"raise SystemExit('never run')",
        ".gitattributes": b"",
    }
    hub.branches["main"] = NEW
    for chosen, rows, left_out in [
        (
            {},
            1,
            "3 of the files of me/pairs@bbbbbbbbbbbb left out, as their names tell no format of",
        ),
        ({"config": "en", "split": "train"}, 1, "1 of the files .*: 'en/train.txt'; if they hold"),
        ({"data_files": ["en/train.txt"], "format": "jsonl"}, 1, None),
        # what tells its own format is what is meant, as long as there is any
        ({"format": "jsonl"}, 1, "3 of the files of me/pairs@bbbbbbbbbbbb left out"),
        ({"config": "de", "format": "jsonl"}, 1, None),
    ]:
        caplog.clear()
        assert len(ingestion.rows(_run(ingestion, **chosen))) == rows
        told = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
        assert len(told) == (left_out is not None)
        assert left_out is None or re.search(left_out, told[0])


def test_what_is_not_there_is_told_with_what_is(ingestion, hub):
    hub.branches["main"] = NEW
    for chosen, says in [
        ({"config": "none"}, "the configs default, extra, not 'none'"),
        ({"split": "dev"}, "the splits test, train, not 'dev'"),
        ({"data_files": ["*.json"]}, "no data file chosen; it holds .gitattributes, README.md"),
    ]:
        with pytest.raises(DataError, match=says):
            _run(ingestion, **chosen)


@pytest.mark.usefixtures("hub")
def test_a_damaged_file_of_the_cache_is_noticed(ingestion):
    step = ingestion.step({"name": "s", "hub": "me/pairs"})
    ingestion.store.obtain(step)
    [cached] = (p for p in (ingestion.directory / "hub").rglob("test.jsonl") if p.is_file())
    cached.resolve().write_bytes(b'{"n": 2}\n')
    with pytest.raises(DataError, match=r"is not what the repository holds; delete it"):
        ingestion.store.obtain(step, force=True)


@pytest.mark.catalogue(49)
def test_gated_private_missing_and_unreachable_name_the_variable_to_set(
    ingestion, hub, monkeypatch
):
    with pytest.raises(DataError, match="me/pairs@v9: it has no such revision: correct `revision`"):
        _run(ingestion, revision="v9")
    with pytest.raises(
        DataError, match=r"me/other@main: .* private: correct `hub`, or set HF_TOKEN"
    ):
        ingestion.store.obtain(ingestion.step({"name": "s", "hub": "me/other"}))
    hub.gated = True
    with pytest.raises(DataError, match=r"it is gated: accept its terms at .* and set HF_TOKEN"):
        _run(ingestion)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(DataError, match=r"set HF_ENDPOINT to a mirror \(now http://127"):
        _run(ingestion)


@pytest.mark.catalogue(49)
def test_offline_is_told_with_the_variable_that_says_so():
    code = (
        "from functools import partial; from tasks.errors import DataError; "
        "from tasks.ingestion.places.hub import resolve_commit; "
        "ask = partial(resolve_commit, 'dataset', 'me/pairs', failed=DataError); "
        "print(ask(revision='f' * 40)); ask(revision='main')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "f" * 40
    assert "HF_HUB_OFFLINE is set: unset it" in done.stderr.splitlines()[-1]


def test_hub_and_path_exclude_each_other(ingestion):
    for source, says in [
        ({}, "exactly one of path and hub, found none"),
        ({"hub": "a/b", "path": "x"}, "exactly one of path and hub, found both"),
        ({"path": "x", "split": "train"}, "split is for a `hub` dataset only"),
        ({"hub": "a/b", "data_files": ["x"], "split": "train"}, "not both"),
    ]:
        with pytest.raises(ValueError, match=says):
            ingestion.step({"name": "s", **source})
