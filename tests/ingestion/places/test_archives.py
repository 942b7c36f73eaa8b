"""Archives as sources: their members are files like others; what is unsafe refuses the whole."""

import gzip
import io
import json
import stat
import tarfile
import zipfile

import pytest

from tasks.errors import DataError
from tests.ingestion.fuzz import tar_of, zip_of
from tests.ingestion.places.servers import Files, serving

MEMBERS = {
    "train/b.jsonl": b'{"n":3}\nbad\n',
    "train/a.csv.gz": gzip.compress(b"n\n1\n2\n", mtime=0),
    "eval/x.jsonl": b'{"n":9}\n',
    "README.md": b"# not rows",
    "__MACOSX/train/._b.jsonl": b"\0\5\26\7",
}
PACKED = {
    "raw.zip": zip_of,
    "raw.tar": tar_of,
    "raw.tar.gz": lambda members: gzip.compress(tar_of(members), mtime=0),
    "raw.tgz": lambda members: gzip.compress(tar_of(members), mtime=0),
}


@pytest.mark.parametrize("name", PACKED)
def test_members_are_read_like_files_each_under_its_own_name(ingestion, name):
    path = ingestion.write(name, PACKED[name](MEMBERS))
    artifact = ingestion.run(path)
    assert [(r["file"], r["row"], r["raw"]) for r in ingestion.rows(artifact)] == [
        (f"{path}!/eval/x.jsonl", 1, {"n": 9}),
        (f"{path}!/train/a.csv.gz", 2, {"n": "1"}),
        (f"{path}!/train/a.csv.gz", 3, {"n": "2"}),
        (f"{path}!/train/b.jsonl", 1, {"n": 3}),
    ]
    [bad] = ingestion.quarantine(artifact)
    assert (bad["file"], bad["row"]) == (f"{path}!/train/b.jsonl", 2)
    some = ingestion.run(f"{path}!/*/*.jsonl")
    assert [row["raw"]["n"] for row in ingestion.rows(some)] == [9, 3]
    assert some.key != artifact.key
    with pytest.raises(DataError, match=r"none of its 5 members matches 'none/\*'.*!/train"):
        ingestion.run(f"{path}!/none/*")


@pytest.mark.catalogue(45)
@pytest.mark.parametrize("name", ["raw.zip", "raw.tar.gz"])
def test_what_an_archive_leaves_out_is_told_and_nobodys_rows_are_no_rows(ingestion, caplog, name):
    line = b'{"n":1}\n'
    unknown = {f"more/{each}": line for each in ("part-0", "b.txt", "deep.jsonl.lz4", "e")}
    nobodys = {"dataset_infos.json": line, "load.py": line, ".cache/part": line}
    path = ingestion.write(name, PACKED[name](MEMBERS | unknown | nobodys))
    read = ingestion.run(path)
    assert len(ingestion.rows(read)) == 4
    [told] = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    assert f"source 's': 4 of the members of '{path}' left out" in told
    assert "'more/b.txt', 'more/deep.jsonl.lz4', 'more/e' and 1 more; if they hold rows" in told
    assert f"a glob ({name}!/...)" in told
    caplog.clear()
    assert len(ingestion.rows(ingestion.run(f"{path}!/more/*", format="jsonl"))) == 4
    assert len(ingestion.rows(ingestion.run(f"{path}!/eval/*"))) == 1
    within = ingestion.write(name, PACKED[name]({"a.jsonl": line, "b.zip": zip_of({"c.csv": b""})}))
    with pytest.raises(DataError, match=rf"{name}!/b\.zip is an archive within an archive; unpack"):
        ingestion.run(f"{within}!/*")
    caplog.clear()
    members = {"part-0": line, "README.md": b"# not rows", "dataset_infos.json": line}
    declared = ingestion.run(ingestion.write(name, PACKED[name](members)), format="jsonl")
    assert (len(ingestion.rows(declared)), ingestion.quarantine(declared)) == (1, [])
    assert "left out" not in caplog.text


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_dots_among_the_directories_of_a_members_name_are_no_part_of_it(ingestion, pack):
    names = ["././a.jsonl", "./train/./b.jsonl", "train//c.jsonl", "train/./.hidden/d.jsonl"]
    path = ingestion.write("raw.any", pack(dict.fromkeys(names, b'{"n":1}\n')))
    format_ = "zip" if pack is zip_of else "tar"
    read = {row["file"] for row in ingestion.rows(ingestion.run(path, format=format_))}
    assert read == {f"{path}!/{name}" for name in ("a.jsonl", "train/b.jsonl", "train/c.jsonl")}


@pytest.mark.parametrize("pack", [tar_of, zip_of])
@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("**/*.jsonl", ["a", "b/a", "b/c/a", "d/a"]),
        ("b/**/*.jsonl", ["b/a", "b/c/a"]),
        ("**/c/**/a.jsonl", ["b/c/a"]),
        ("*/a.jsonl", ["b/a", "b/c/a", "d/a"]),
        ("b**/a.jsonl", ["b/a", "b/c/a"]),
    ],
)
def test_two_stars_match_the_archives_own_directory_too(ingestion, pack, glob, names):
    members = [f"{name}.jsonl" for name in ("a", "b/a", "b/c/a", "d/a")]
    path = ingestion.write("raw.any", pack(dict.fromkeys(members, b'{"n":1}\n')))
    read = ingestion.run(f"{path}!/{glob}", format="zip" if pack is zip_of else "tar")
    assert [r["file"] for r in ingestion.rows(read)] == [f"{path}!/{n}.jsonl" for n in names]


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_member_is_found_by_its_name_before_a_glob_is_made_of_it(ingestion, pack):
    members = {f"{name}.jsonl": b'{"n":1}\n' for name in ("a 1", "a [1]", "b 1")}
    path = ingestion.write("raw.any", pack(members))
    for glob, name in [("a [1]", "a [1]"), ("b [1]", "b 1"), ("a [[]1]", "a [1]")]:
        form = "zip" if pack is zip_of else "tar"
        [row] = ingestion.rows(ingestion.run(f"{path}!/{glob}.jsonl", format=form))
        assert row["file"] == f"{path}!/{name}.jsonl"


@pytest.mark.parametrize("name", ["raw.zip.gz", "raw.zip"])
def test_a_zip_that_is_compressed_once_more_is_no_damaged_one(ingestion, name):
    path = ingestion.write(name, gzip.compress(zip_of(MEMBERS)))
    with pytest.raises(DataError, match=rf"{name}: starts as \.gz does, .*: decompress the file"):
        ingestion.run(path)


def test_an_archive_may_lie_behind_a_url(ingestion):
    files = Files({"/raw.zip": zip_of(MEMBERS)})
    with serving(files.answer) as address:
        artifact = ingestion.run(f"{address}/raw.zip!/train/*.jsonl")
    [row] = ingestion.rows(artifact)
    assert row["file"] == f"{address}/raw.zip!/train/b.jsonl"


def test_sources_may_be_called_as_what_is_done_for_another_one(ingestion):
    files = Files({"/raw.zip": zip_of(MEMBERS)})
    line = ingestion.write("a.jsonl", '{"n":7}\n')
    names = ("unpack-s", "download-s")
    with serving(files.answer) as address:
        urls = {"name": "s", "path": f"{address}/raw.zip!/eval/*"}
        step = ingestion.step(urls, *({"name": name, "path": str(line)} for name in names))
        rows = ingestion.rows(ingestion.store.obtain(step))
    assert [(row["source"], row["raw"]["n"]) for row in rows] == [
        ("s", 9),
        *((n, 7) for n in names),
    ]


def _tar_with(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, link
        archive.addfile(entry)
    return sink.getvalue()


def _zip_link() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        entry = zipfile.ZipInfo("a.jsonl")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    return sink.getvalue()


UNSAFE = [
    ("up.zip", zip_of({"../a.jsonl": b"{}"}), "'../a.jsonl' leads out"),
    ("root.zip", zip_of({"/etc/a.jsonl": b"{}"}), "'/etc/a.jsonl' leads out"),
    ("drive.zip", zip_of({"C:\\a.jsonl": b"{}"}), "leads out"),
    ("notdata.zip", zip_of({"a.jsonl": b"{}", "x/../../y": b""}), "'x/../../y' leads out"),
    ("link.zip", _zip_link(), "'a.jsonl' is a symbolic link"),
    ("up.tar", _tar_with("x/../../a.jsonl"), "leads out"),
    ("root.tar", _tar_with("/etc/a.jsonl"), "leads out"),
    ("soft.tar", _tar_with("a.jsonl", tarfile.SYMTYPE, "/etc/passwd"), "is a link"),
    ("hard.tar", _tar_with("a.jsonl", tarfile.LNKTYPE, "/etc/passwd"), "is a link"),
    ("pipe.tar", _tar_with("a.jsonl", tarfile.FIFOTYPE), "is a device or a pipe"),
]


@pytest.mark.parametrize(("name", "content", "says"), UNSAFE, ids=[case[0] for case in UNSAFE])
@pytest.mark.catalogue(37)
def test_a_member_that_leads_out_or_is_a_link_refuses_the_archive(ingestion, name, content, says):
    path = ingestion.write(name, content)
    with pytest.raises(DataError, match=f"{path}: unsafe_member .*{says}.*pack it again"):
        ingestion.run(path)
    assert sorted(p.name for p in ingestion.directory.iterdir()) == sorted([name, "store"])


@pytest.mark.parametrize("member", ["a\udce9.jsonl", "a\n\x1b[2J.jsonl", "a\u2028.jsonl"])
def test_a_member_whose_name_no_table_can_hold_refuses_the_archive(ingestion, member):
    path = ingestion.write("raw.tar", tar_of({"b.jsonl": b'{"n":1}\n', member: b"bad\n"}))
    with pytest.raises(DataError, match=rf"{path}: the name of member .*; pack it again") as caught:
        ingestion.run(path)
    assert ascii(member) in str(caught.value)
    assert str(caught.value).isprintable()
    kept = ingestion.run(f"{path}!/b.jsonl")
    assert [row["raw"] for row in ingestion.rows(kept)] == [{"n": 1}]


def test_a_member_that_is_not_read_may_have_any_name(ingestion, caplog):
    packed = {"b.jsonl": b'{"n":1}\n', "Icon\r": b"x", "caf\udce9.txt": b"x"}
    artifact = ingestion.run(ingestion.write("raw.tar", tar_of(packed)))
    assert len(ingestion.rows(artifact)) == 1
    [told] = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    assert "caf" in told
    assert told.isprintable()


@pytest.mark.parametrize("path", ["new!/a.jsonl", "new!/*.jsonl", "new!/**/*.jsonl", "new!"])
@pytest.mark.catalogue(45)
def test_a_directory_whose_name_ends_in_an_exclamation_mark_is_no_archive(ingestion, path):
    file = ingestion.write("new!/a.jsonl", '{"a":1}\n')
    [row] = ingestion.rows(ingestion.run(ingestion.directory / path))
    assert row["file"] == str(file)


BOMB = b'{"a":"' + b" " * 101 * 10**6 + b'"}\n'


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tar.gz"])
@pytest.mark.catalogue(38)
def test_an_archive_that_grows_beyond_measure_is_refused(ingestion, name):
    path = ingestion.write(name, PACKED[f"raw.{name.partition('.')[2]}"]({"a.jsonl": BOMB}))
    with pytest.raises(DataError, match=f"{path}: decompressed >200:1"):
        ingestion.run(path)


def test_a_damaged_archive_is_an_error_and_never_fewer_rows(ingestion):
    lines = b"".join(b'{"n":%d}\n' % n for n in range(2000))
    members = {"a.jsonl": lines, "b.jsonl": lines}
    tar, zipped = tar_of(members), zip_of(members)
    flipped = bytearray(zipped)
    flipped[500] ^= 0xFF
    end = 512 + (len(lines) + 511) // 512 * 512
    for name, content, says in [
        ("cut.zip", zipped[:-30], "damaged archive"),
        ("flip.zip", bytes(flipped), "damaged archive"),
        ("cut.tar", tar[:20_000], "damaged archive"),
        ("between.tar", tar[:end], "truncated_tar: no end mark"),
        ("cut.tar.gz", gzip.compress(tar)[:-9], "truncated_gzip"),
        ("two.tar", tar + tar, "more follows the archive's end mark"),
        ("twice.tar", tar[:end] + tar, "member 'a.jsonl' is in it twice"),
        ("text.zip", b"hello", "found something else .*'hello'.*, expected a zip: rename it"),
        ("tar.zip", tar, "found a tar archive .*, expected a zip: set format: tar on its source"),
        ("page.zip", b"<html>Sign in</html>", "found a web page.*: download the file itself"),
        ("zip.tar", zipped, "found a ZIP archive.*, expected a tar: set format: zip"),
        ("text.tar.gz", b"hello", "not gzip"),
        ("empty.tar", b"", "empty_file"),
        ("none.zip", zip_of({"README.md": b"#"}), "none of its 1 members is a data file"),
    ]:
        path = ingestion.write(name, content)
        with pytest.raises(DataError, match=f"{path}: .*({says})"):
            ingestion.run(path)


def test_an_unpacked_archive_is_not_unpacked_again_after_a_kill(ingestion):
    path = ingestion.write("raw.zip", zip_of(MEMBERS | {"z.json": b"["}))
    step = ingestion.step({"name": "s", "path": str(path)})
    with pytest.raises(DataError, match=r"!/z\.json: truncated_json"):
        ingestion.store.obtain(step)
    work = ingestion.store.work(step)
    assert json.loads((work / "units/unpack+s-00000.json").read_text())["of"][0]["name"]
    [first] = work.glob("scratch/unpacked/*/00000")
    before = first.stat().st_mtime_ns
    with pytest.raises(DataError, match="truncated_json"):
        ingestion.store.obtain(step)
    assert first.stat().st_mtime_ns == before
