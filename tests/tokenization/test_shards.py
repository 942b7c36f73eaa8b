"""Shards in several processes, and shards that an earlier artifact holds already."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.artifact import Artifact, Store, file_digest
from tasks.artifact.collection import collect
from tasks.artifact.refs import keep
from tasks.conversion.first_pass.tables import SCHEMA
from tasks.errors import DataError
from tasks.model.directory import describe
from tasks.templating import TemplatingParams
from tasks.templating import task as templating
from tasks.templating.text_shards import text_shards
from tasks.templating.tokenizer import saving
from tasks.tokenization import TokenizationParams
from tasks.tokenization import task as tokenization
from tasks.tokenization.shard import BATCH_ROWS, _rows_where
from tests.templating.stage_runs import read_arrow


def pair(number: int) -> dict:
    says = [[{"role": "assistant", "content": f"{word} {number}"}] for word in ("blue", "green")]
    return {
        "pair_id": f"{number:x}",
        "prompt": json.dumps([{"role": "user", "content": f"What color is sky {number}?"}]),
        "chosen": json.dumps(says[0]),
        "rejected": json.dumps(says[1 if number % 10 else 0]),
        "format": "conversational",
        "weight": 1.0,
        "preference": 1.0,
        "source": "s",
        "file": "f.jsonl",
        "row": number,
        "group": "g",
        "split": "eval" if number % 5 == 1 else "train",
    }


def converted(directory: Path, shards: list[range]) -> Artifact:
    """Pairs as conversion leaves them, with the digests of its shards in the record."""
    files = {}
    (directory / "pairs").mkdir(parents=True)
    for index, numbers in enumerate(shards):
        path = directory / f"pairs/{index:05d}.parquet"
        pq.write_table(pa.Table.from_pylist([pair(n) for n in numbers], schema=SCHEMA), path)
        files[f"pairs/{path.name}"] = {"sha256": file_digest(path), "bytes": path.stat().st_size}
    digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    return Artifact(
        "conversion", digest[:16], directory, digest, {"files": files, "report": {"notes": {}}}
    )


def both(
    store: Store,
    conversion: Artifact,
    model_directory: Path,
    workers: int = 1,
    template: str | None = None,
    **params,
):
    model = describe(model_directory, {})
    held = Artifact("model", "1" * 16, model_directory, "e" * 64, {})
    settings = TemplatingParams(max_bad_fraction=1.0, workers=workers, chat_template_path=template)
    rendered = store.obtain(templating.step(settings, conversion, model, held))
    settings = TokenizationParams(workers=workers, **params)
    return rendered, store.obtain(tokenization.step(settings, rendered, model, held))


def test_rows_to_look_at_are_left_out_and_parts_of_text_need_a_template_that_reads_them(
    tmp_path, tiny_model_directory
):
    def asked(*parts):
        return json.dumps([{"role": "user", "content": list(parts)}])

    image, text = {"type": "image"}, {"type": "text", "text": "What is it?"}
    rows = [pair(n) for n in range(1, 6)]
    rows[1] |= {"prompt": asked(image, text), "images": '["a.png"]'}
    rows[2] |= {"prompt": asked(image, text)}
    rows[3] |= {"prompt": asked(text)}
    conversion = converted(tmp_path / "conversion", [])
    pq.write_table(
        pa.Table.from_pylist(rows, schema=SCHEMA), conversion.path / "pairs/00000.parquet"
    )
    rendered, tokenized = both(Store(tmp_path / "data"), conversion, tiny_model_directory)
    left_out = pq.read_table(rendered.path / "quarantine.parquet").to_pylist()
    assert [row["reason"] for row in left_out] == ["image_part", "bad_images", "template_error"]
    assert "read text" in left_out[0]["message"]
    assert "found 0 images and 1 parts" in left_out[1]["message"]
    assert tokenized.report["train"] + tokenized.report["eval"] == 2
    template = tmp_path / "parts.jinja"
    template.write_text(
        "{% for m in messages %}{{ m.role }}:{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}{% endfor %}"
    )
    settings = TemplatingParams(max_bad_fraction=1.0, chat_template_path=str(template))
    model = describe(tiny_model_directory, {})
    held = Artifact("model", "1" * 16, tiny_model_directory, "e" * 64, {})
    read = Store(tmp_path / "data").obtain(templating.step(settings, conversion, model, held))
    assert read.report["ledger"]["s"]["dropped"] == {"bad_images": 1, "image_part": 1}


SHARDS = [range(40), range(40, 80), range(80, 100)]
LENGTH_OF_SHORT = 60
"""Tokens that pairs of small numbers have at most, and those of long ones have not."""


@pytest.mark.parametrize("encoder", ["auto", "tokenizers"])
def test_two_processes_leave_the_bytes_of_one(encoder, tmp_path, tiny_model_directory):
    conversion = converted(tmp_path / "conversion", SHARDS)
    done = [
        both(Store(tmp_path / f"data{n}"), conversion, tiny_model_directory, n, encoder=encoder)
        for n in (1, 2)
    ]
    for one, two in zip(*done, strict=True):
        assert (one.key, one.digest) == (two.key, two.digest)
        assert one.report == two.report
    assert done[0][0].report["ledger"]["s"]["dropped"] == {"identical_rendered": 10}


def test_a_shard_of_several_batches_keeps_all_its_rows_in_their_order(
    tmp_path, tiny_model_directory
):
    numbers = range(2 * BATCH_ROWS + 9)
    shards = [numbers, range(2, 6)]
    made = converted(tmp_path / "conversion", shards)
    _, tokenized = both(Store(tmp_path / "data"), made, tiny_model_directory)
    for split, one in (("train", False), ("eval", True)):
        found = read_arrow(tokenized.path / split / "00000.arrow")
        wanted = [f"{n:x}" for n in numbers if n % 10 and (n % 5 == 1) == one]
        assert found["pair_id"].to_pylist() == wanted
    assert (tokenized.path / "train/00001.arrow").exists()
    assert not (tokenized.path / "eval/00001.arrow").exists()  # none of its rows is held out


@given(wanted=st.lists(st.booleans(), min_size=1, max_size=60), long=st.booleans())
def test_rows_that_are_copied_in_runs_are_the_bytes_of_a_filter(wanted, long):
    mask = np.repeat(wanted, 9 if long else 1)
    count = len(mask)
    valid = pa.array([not n % 3 for n in range(count + 3)])
    behind = pa.py_buffer(np.arange(1, count + 4, dtype=np.float32))
    columns = {
        "pair_id": pa.array([f"{n:x}" for n in range(count + 3)]),
        "ids": pa.array([list(range(n % 7)) for n in range(count + 3)], pa.list_(pa.int32())),
        # with something behind its nulls, as a cast leaves it
        "margin": pa.Array.from_buffers(pa.float32(), count + 3, [valid.buffers()[1], behind]),
    }
    for names in (["pair_id", "ids"], [*columns]):
        rows = pa.record_batch(columns).select(names).slice(3)
        found, expected = _rows_where(rows, mask), rows.filter(pa.array(mask))
        assert written(found) == written(expected)


def written(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


def test_appended_rows_cost_their_own_shard_and_damaged_ones_are_not_taken(
    tmp_path, tiny_model_directory
):
    store = Store(tmp_path / "data")
    first = both(store, converted(tmp_path / "a", SHARDS), tiny_model_directory)
    grown = converted(tmp_path / "b", [*SHARDS[:2], range(80, 105)])
    second = both(store, grown, tiny_model_directory)
    assert [a.report["shards_reused"] for a in (*first, *second)] == ["0 of 3"] * 2 + ["2 of 3"] * 2
    undisturbed = both(Store(tmp_path / "other"), grown, tiny_model_directory)
    for mine, other in zip(second, undisturbed, strict=True):
        assert mine.digest == other.digest
    names = ("texts/00000.arrow", "train/00000.arrow")
    for name, a, b in zip(names, first, second, strict=True):
        assert (a.path / name).stat().st_ino == (b.path / name).stat().st_ino
    # a damaged shard is damaged under both names; nothing takes it, and it is built anew
    (second[0].path / "texts/00001.arrow").write_bytes(b"damaged")
    third = both(
        store, converted(tmp_path / "c", [*SHARDS[:2], range(80, 106)]), tiny_model_directory
    )
    assert third[0].report["shards_reused"] == "1 of 3"
    # the collection takes the first artifacts; the later ones lose nothing
    keep(store, "run", "1", third)
    collect(store)
    assert not first[0].path.exists()
    assert read_arrow(third[0].path / "texts/00000.arrow").num_rows == 36


def test_a_shard_without_pairs_becomes_one_without_texts(tmp_path, tiny_model_directory):
    conversion = converted(tmp_path / "a", SHARDS[:2])
    pq.ParquetWriter(conversion.path / "pairs/00001.parquet", SCHEMA).close()
    rendered, tokenized = both(Store(tmp_path / "data"), conversion, tiny_model_directory)
    found = [read_arrow(path) for path in text_shards(rendered)]
    assert [table.num_rows for table in found] == [36, 0]
    assert found[1].schema == found[0].schema
    assert tokenized.report["train"] + tokenized.report["eval"] == 36


def test_a_shard_is_not_taken_by_other_params(tmp_path, tiny_model_directory):
    store = Store(tmp_path / "data")
    conversion = converted(tmp_path / "a", SHARDS)
    both(store, conversion, tiny_model_directory)
    _, other = both(store, conversion, tiny_model_directory, max_length=500)
    assert other.report["shards_reused"] == "0 of 3"
    inserted = converted(tmp_path / "b", [range(200, 210), *SHARDS])
    moved, _ = both(store, inserted, tiny_model_directory)
    assert moved.report["shards_reused"] == "3 of 4"
    assert read_arrow(moved.path / "texts/00001.arrow")["row"][0].as_py() == 1


@pytest.mark.parametrize("plain", [True, False], ids=["copied", "saved by transformers"])
def test_the_tokenizer_of_an_earlier_artifact_is_taken_and_never_written_into(
    plain, tmp_path, tiny_model_directory, monkeypatch
):
    if not plain:
        monkeypatch.setattr(saving, "is_plain", lambda _: False)
    store = Store(tmp_path / "data")
    few, more, most = (converted(tmp_path / f"{n}", [range(n)]) for n in (10, 11, 12))

    def made(conversion, template=None):
        _, done = both(store, conversion, tiny_model_directory, template=template)
        saved = {path.name: path for path in (done.path / "tokenizer").iterdir()}
        return done, saved, {name: path.stat().st_ino for name, path in saved.items()}

    _, first, files = made(few)
    assert made(more)[2] == files
    template = tmp_path / "other.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    _, other, others = made(more, str(template))
    assert other["chat_template.jinja"].read_text() == template.read_text()
    assert not {*others.values()} & {*files.values()}
    # It was taken, the run was killed, and its note is gone since.
    done, *_ = made(most)
    shutil.rmtree(done.path)
    work = store.root / ".work" / done.name / "tokenizer"
    work.mkdir(parents=True)
    for name, path in first.items():
        os.link(path, work / name)
    for note in store.root.glob("4_tokenization/*/logs/units/*"):
        note.unlink()
    again, saved, anew = made(most)
    assert again.digest == done.digest
    assert not {*anew.values()} & {*files.values()}
    assert all(saved[name].read_bytes() == path.read_bytes() for name, path in first.items())


def test_where_nothing_is_left_of_shards_that_were_taken_it_is_told_what_would_fit(
    tmp_path, tiny_model_directory
):
    store, short, long = Store(tmp_path / "data"), range(1, 5), range(10**17 + 1, 10**17 + 8)
    made = converted(tmp_path / "a", [short, long])
    _, some = both(store, made, tiny_model_directory, max_length=LENGTH_OF_SHORT)
    assert some.report["ledger"]["s"]["dropped"] == {"too_long": 7}
    none = converted(tmp_path / "b", [long])
    with pytest.raises(DataError, match=r"0 of 7 pairs have at most .*: raise max_length"):
        both(store, none, tiny_model_directory, max_length=LENGTH_OF_SHORT)
