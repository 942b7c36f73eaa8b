"""What a path matches: files, globs and directories; what is left out, and what cannot be read."""

import gzip
import os
import tempfile
from pathlib import Path

import fsspec
import pytest

from tasks.errors import DataError
from tasks.ingestion.params import IngestionParams, Source
from tasks.ingestion.places.files import check_unchanged
from tasks.ingestion.places.local_files import match_files
from tests.ingestion.fuzz import zip_of


@pytest.mark.catalogue(22)
def test_empty_files_beside_others_with_rows_are_one_warning(ingestion):
    for name in "acdef":
        ingestion.write(f"raw/{name}.jsonl", "")
    ingestion.write("raw/b.jsonl", '{"a":1}\n')
    artifact = ingestion.run(ingestion.directory / "raw/*.jsonl")
    [warning] = artifact.report["warnings"]
    assert "empty_file: no row in '" in warning
    assert "raw/d.jsonl' and 2 more; its other files" in warning
    assert artifact.report["ledger"]["s"]["rows_out"] == 1


@pytest.mark.catalogue(45)
def test_a_path_that_matches_nothing_is_named_as_resolved(ingestion, monkeypatch):
    monkeypatch.chdir(ingestion.directory)
    with pytest.raises(DataError, match=f"'raw/\\*.jsonl'.*{ingestion.directory}/raw"):
        ingestion.run("raw/*.jsonl")


@pytest.mark.catalogue(50)
def test_what_is_no_regular_file_is_refused_without_being_opened(ingestion):
    os.mkfifo(ingestion.directory / "pipe.jsonl")
    (ingestion.directory / "loop.jsonl").symlink_to("loop.jsonl")
    (ingestion.directory / "gone.jsonl").symlink_to("nowhere.jsonl")
    with pytest.raises(DataError, match="not a regular file"):
        ingestion.run(ingestion.directory / "pipe.jsonl")
    with pytest.raises(DataError, match="not a regular file"):
        ingestion.run("/dev/null")
    with pytest.raises(DataError, match=r"loop\.jsonl cannot be read: Too many levels"):
        ingestion.run(ingestion.directory / "loop.jsonl")
    with pytest.raises(DataError, match=r"gone\.jsonl cannot be read: No such file"):
        ingestion.run(ingestion.directory / "gone.jsonl")


@pytest.mark.catalogue(45)
def test_an_unreadable_file_names_the_user(ingestion):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.jsonl"
        path.touch(0)
        path.parent.chmod(0o755)
        if os.geteuid() == 0:
            os.seteuid(65534)  # nobody; root may read everything
        try:
            with pytest.raises(DataError, match=f"not readable for user id {os.geteuid()}"):
                ingestion.run(path)
        finally:
            os.seteuid(os.getuid())


@pytest.mark.catalogue(46)
def test_a_file_that_changed_since_it_was_hashed_is_refused(ingestion):
    path = ingestion.write("x.jsonl", '{"a":1}\n')
    step = ingestion.step({"name": "s", "path": str(path)})
    [file] = match_files(Source(name="s", path=str(path)))
    check_unchanged(file)
    path.write_text('{"a":1}\n{"a":2}\n')
    with pytest.raises(DataError, match="changed_during_read"):
        ingestion.store.obtain(step)
    path.unlink()
    with pytest.raises(DataError, match="changed_during_read"):
        check_unchanged(file)


@pytest.mark.catalogue(45)
def test_a_directory_gives_its_data_files_and_a_glob_crosses_directories(ingestion):
    for name in ("raw/b.jsonl", "raw/deep/a.jsonl", "raw/deep/.hidden.jsonl", "raw/README.md"):
        ingestion.write(f".at/{name}", '{"a":1}\n')
    directory = ingestion.directory / ".at/raw"
    names = [f"{directory}/b.jsonl", f"{directory}/deep/a.jsonl"]
    for path in (f"{directory}", f"{directory}/**/*.jsonl"):
        assert [file.name for file in match_files(Source(name="s", path=path))] == names


@pytest.mark.catalogue(45)
def test_directories_that_a_glob_matches_are_read_as_one_that_is_given(ingestion, caplog):
    row = '{"a":1}\n'
    at = ingestion.directory / "gd"
    for name in ("run1/a.jsonl", "run1/deep/b.jsonl", "run2/c.jsonl", "run2/x.txt", "z.jsonl"):
        ingestion.write(f"gd/{name}", row)
    ingestion.write("gd/out.jsonl/part-0", row)
    ingestion.write("gd/out.jsonl/_SUCCESS", "")
    (at / "latest").symlink_to("run2")
    runs = ["run1/a.jsonl", "run1/deep/b.jsonl", "run2/c.jsonl"]
    for glob, more, names in [
        ("*", {}, [*runs, "z.jsonl"]),
        ("run*", {}, runs),
        ("*.jsonl", {"format": "jsonl"}, ["out.jsonl/part-0", "z.jsonl"]),
    ]:
        rows = ingestion.rows(ingestion.run(at / glob, **more))
        assert [row["file"] for row in rows] == [f"{at}/{name}" for name in names]
    assert f"2 of the files below '{at}/*' left out" in caplog.text
    assert f"'{at}/out.jsonl/part-0', '{at}/run2/x.txt'; if they hold rows" in caplog.text
    says = rf"each directory that matches '{at}/o\*' .* no file .* but '{at}/out.jsonl/part-0'; exp"
    with pytest.raises(DataError, match=says):
        ingestion.run(at / "o*")


@pytest.mark.catalogue(45)
@pytest.mark.parametrize("place", ["raw", "raw/*", "raw.zip", "raw.zip!/*", "memory://raw/*"])
def test_a_format_is_of_files_that_do_not_tell_it_where_others_do(ingestion, place):
    files = {
        "part-0": b'{"n":"1"}\n',
        "b.csv": b"n\n2\n",
        "c.jsonl.gz": gzip.compress(b'{"n":"3"}'),
    }
    memory = fsspec.filesystem("memory")
    for name, content in files.items():
        ingestion.write(f"raw/{name}", content)
        memory.pipe(f"/raw/{name}", content)
    ingestion.write("raw.zip", zip_of(files))
    path = place if "://" in place else ingestion.directory / place
    rows = ingestion.rows(ingestion.run(path, format="jsonl"))
    assert sorted(row["raw"]["n"] for row in rows) == ["1", "2", "3"]


@pytest.mark.catalogue(45)
@pytest.mark.parametrize("path", ["raw/a.jsonl", "raw", "raw/*.jsonl", "raw.zip"])
def test_a_format_overrules_names_that_all_say_one_thing(ingestion, path):
    ingestion.write("raw/a.jsonl", '[{"n":1},\n {"n":2}]')
    ingestion.write("raw.zip", zip_of({"a.jsonl": b'[{"n":1},\n {"n":2}]'}))
    rows = ingestion.rows(ingestion.run(ingestion.directory / path, format="json"))
    assert [row["raw"]["n"] for row in rows] == [1, 2]


@pytest.mark.catalogue(45)
def test_brackets_are_part_of_a_name_or_told_how_they_would_be(ingestion):
    ingestion.write("raw/dir[1]/a [1].jsonl", '{"a":1}\n')
    ingestion.write("raw/dir[1]/a 1.jsonl", '{"a":2}\n')
    at = ingestion.directory / "raw"
    for path in (at / "dir[1]/a [1].jsonl", f"file://{at}/dir[1]/a [1].jsonl"):
        assert [row["raw"] for row in ingestion.rows(ingestion.run(path))] == [{"a": 1}]
    with pytest.raises(DataError, match=r"nothing matches .* part of a name is \[\[\] in a glob"):
        ingestion.run(at / "dir[1]/*.jsonl")
    assert len(ingestion.rows(ingestion.run(at / "dir[[]1]/*.jsonl"))) == 2


@pytest.mark.catalogue(45)
def test_what_a_directory_leaves_out_is_told_at_every_run(ingestion, caplog):
    row = '{"a":1}\n'
    for name in ("a.jsonl", "part-00001", "b.txt", "deep/c.jsonl.lz4", "d.zip", "e"):
        ingestion.write(f"raw/{name}", row)
    for name in ("README", "README.txt", "LICENSE", "notes.md", "a.jsonl.sha256", "SHA256SUMS"):
        ingestion.write(f"raw/{name}", row)  # nobody's rows, like the next ones
    for name in ("_SUCCESS", ".part", ".cache/part", "photos/cat.PNG", "_metadata"):
        ingestion.write(f"raw/{name}", row)
    artifact = ingestion.run(ingestion.directory / "raw")
    [warning] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert f"source 's': 5 of the files below '{ingestion.directory}/raw' left out" in warning
    assert "'b.txt', 'd.zip', 'deep/c.jsonl.lz4' and 2 more; if they hold rows, name" in warning
    assert "`format`" in warning
    assert artifact.report["ledger"]["s"]["rows_in"] == 1
    assert caplog.text.count("5 of the files") == 1
    ingestion.write("raw/part-00002", row)
    assert ingestion.run(ingestion.directory / "raw").cached  # no row is another one
    assert caplog.text.count("6 of the files") == 1
    for path in ("raw/deep/c.jsonl.lz4", "raw/d.zip"):
        (ingestion.directory / path).unlink()
    declared = ingestion.run(ingestion.directory / "raw", format="jsonl")
    assert declared.report["ledger"]["s"]["rows_in"] == 5  # and not one of README
    ingestion.run(ingestion.directory / "raw/*.jsonl")
    assert caplog.text.count("left out") == 2


@pytest.mark.catalogue(45)
def test_what_a_library_wrote_of_rows_elsewhere_is_no_rows(ingestion, caplog):
    ingestion.write("raw/data/train.jsonl", '{"a":1}\n')
    notes = ("raw/dataset_infos.json", "raw/dataset_info.json", "raw/data/dataset_dict.json")
    for name in (*notes, "raw/data/loader.py"):
        ingestion.write(name, '{"default": {}}')
    rows = ingestion.rows(ingestion.run(ingestion.directory / "raw"))
    assert [row["raw"] for row in rows] == [{"a": 1}]
    assert "left out" not in caplog.text
    named = ingestion.run(ingestion.directory / "raw/dataset_infos.json", format="jsonl")
    assert len(ingestion.rows(named)) == 1


@pytest.mark.catalogue(45, 50)
def test_linked_directories_are_entered_once_and_without_loops(ingestion, caplog):
    for name in ("top/raw/a.jsonl", "top/raw/z/b.jsonl", "top/beside.jsonl", "far/deep/c.jsonl"):
        ingestion.write(name, '{"a":1}\n')
    at = ingestion.directory
    (at / "top/raw/link").symlink_to("../../far")
    (at / "top/raw/again").symlink_to("../../far/deep")
    (at / "top/raw/inside").symlink_to("z")
    (at / "top/raw/loop").symlink_to(".")
    (at / "top/raw/above").symlink_to("../..")
    (at / "far/back").symlink_to("../top/raw")
    (at / "far/deep/up").symlink_to("..")
    names = ["a.jsonl", "again/c.jsonl", "z/b.jsonl"]
    raw = at / "top/raw"
    for path in (raw, raw / "**", raw / "**/*.jsonl", at / "*/r?w/**/[abc].jsonl"):
        found = match_files(Source(name="s", path=str(path)))
        assert [file.name for file in found] == [f"{raw}/{name}" for name in names]
    [below] = match_files(Source(name="s", path=f"{raw}/**/z/**/*.jsonl"))
    assert below.name == f"{raw}/z/b.jsonl"
    (raw / "again").unlink()
    ingestion.write("far/part-0", "")
    found = ingestion.run(raw)
    assert {row["file"] for row in ingestion.rows(found)} >= {f"{raw}/link/deep/c.jsonl"}
    assert f"1 of the files below '{raw}' left out" in caplog.text


@pytest.mark.catalogue(45)
def test_a_directory_that_cannot_be_read_is_not_passed_by(ingestion, monkeypatch):
    ingestion.write("raw/a.jsonl", '{"a":1}\n')
    ingestion.write("raw/deep/b.jsonl", '{"a":1}\n')
    listed = os.scandir

    def scandir(path):
        if str(path).endswith("deep"):  # root, who may run this, may read everything
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    for path in ("raw", "raw/**/*.jsonl"):
        with pytest.raises(DataError, match=r"raw/deep cannot be read by user id .*: Permission"):
            ingestion.run(ingestion.directory / path)


@pytest.mark.catalogue(45)
def test_a_file_whose_name_is_not_utf_8_is_told(ingestion):
    ingestion.write("raw/a.jsonl", '{"a":1}\n')
    with open(os.fsencode(ingestion.directory / "raw") + b"/caf\xe9.jsonl", "wb") as file:  # noqa: PTH123
        file.write(b'{"a":1}\n')
    with pytest.raises(
        DataError, match=r"source 's': the name of .*caf\\udce9.jsonl' is not UTF-8"
    ):
        ingestion.run(ingestion.directory / "raw")


def test_a_file_whose_name_would_write_to_the_terminal_is_told(ingestion):
    ingestion.write("raw/a\x1b[2J.jsonl", "")
    for path in ("raw", "raw/*", "raw/a\x1b[2J.jsonl"):
        with pytest.raises(
            DataError, match=r"name of .*a\\x1b\[2J.jsonl' holds a control"
        ) as caught:
            ingestion.run(ingestion.directory / path)
        assert str(caught.value).isprintable()


@pytest.mark.catalogue(45)
def test_a_directory_without_rows_is_told_with_what_it_holds(ingestion):
    ingestion.write("raw/part-00001", '{"a":1}\n')
    ingestion.write("raw/README.md", "")
    with pytest.raises(DataError, match=r"no file of a known format, but 'part-00001'; expected"):
        ingestion.run(ingestion.directory / "raw")
    (ingestion.directory / "raw/part-00001").unlink()
    with pytest.raises(DataError, match=r"the directory '.*raw' .* a known format; expected .json"):
        ingestion.run(ingestion.directory / "raw")
    ingestion.write("raw/deep/rows.tar.gz", "")
    glob = r"but 'deep/rows.tar.gz'; .* names them, as `path: .*/raw/deep/\*.tar.gz` does"
    with pytest.raises(DataError, match=glob):
        ingestion.run(ingestion.directory / "raw")


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        ([], "at least 1"),
        ([{"name": "A", "path": "x"}], "pattern"),
        ([{"name": "a", "path": "x", "limit": 0}], "limit"),
        ([{"name": "a", "path": "x", "delimiter": "||"}], "delimiter"),
        ([{"name": "a", "path": "x", "layot": "trl"}], "layot"),
        ([{"name": "a", "path": "x"}, {"name": "a", "path": "y"}], "share the name 'a'"),
    ],
)
def test_wrong_params_are_refused(sources, says):
    with pytest.raises(ValueError, match=says):
        IngestionParams.model_validate({"sources": sources})
