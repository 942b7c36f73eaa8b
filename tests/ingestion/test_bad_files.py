"""Files that cannot be used as a whole: an error that names the file, the place and the way out."""

import bz2
import gzip
import io
import lzma
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tasks.errors import DataError, PipelineError
from tasks.ingestion import isolation
from tasks.ingestion.files import check_unchanged, match
from tasks.ingestion.params import IngestionParams, Source

LINES = b"".join(b'{"a":"%064d"}\n' % i for i in range(3000))
COMPRESS = {
    ".gz": gzip.compress,
    ".zst": zstandard.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.catalogue(36)
def test_a_codec_is_read_over_several_members_and_under_a_plain_name(ingestion, codec):
    compress = COMPRESS[codec]
    middle = LINES.index(b"\n", len(LINES) // 2)
    packed = compress(LINES[:middle]) + compress(LINES[middle:])
    for name in (f"x.jsonl{codec}", f"X.JSONL{codec.upper()}", "plain.jsonl"):
        artifact = ingestion.run(ingestion.write(name, packed))
        assert artifact.report["ledger"]["s"]["rows_out"] == 3000


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.catalogue(34, 35)
def test_a_truncated_or_flipped_compressed_file_is_an_error(ingestion, codec):
    packed = COMPRESS[codec](LINES)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    for content, reason in ((packed[:-5], "truncated_"), (bytes(flipped), "corrupt_")):
        path = ingestion.write(f"x.jsonl{codec}", content)
        with pytest.raises(DataError, match=f"{path}: ({reason}|corrupt_).*rows were read before"):
            ingestion.run(path)


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.catalogue(22)
def test_a_compressed_file_or_member_of_no_bytes_is_an_empty_one(ingestion, codec):
    empty = COMPRESS[codec](b"")
    path = ingestion.write(f"raw/empty.jsonl{codec}", empty)
    with pytest.raises(DataError, match=f"empty_file: no row in '{path}'"):
        ingestion.run(path)
    ingestion.write(f"raw/rows.jsonl{codec}", empty + COMPRESS[codec](LINES) + empty)
    artifact = ingestion.run(ingestion.directory / "raw")
    assert artifact.report["ledger"]["s"]["rows_out"] == 3000
    assert artifact.report["warnings"] == [
        f"source 's': empty_file: no row in '{path}'; its other files have some"
    ]


def test_zero_padding_behind_gzip_is_skipped_and_garbage_is_not(ingestion):
    packed = gzip.compress(LINES)
    artifact = ingestion.run(ingestion.write("x.jsonl.gz", packed + bytes(512)))
    assert artifact.report["ledger"]["s"]["rows_out"] == 3000
    with pytest.raises(DataError, match="corrupt_gzip"):
        ingestion.run(ingestion.write("y.jsonl.gz", packed + b"garbage"))


def _parquet(characters: int = 50) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"a": ["x" * characters + str(i) for i in range(1000)]})
    pq.write_table(
        table, sink, row_group_size=500, compression="none", use_dictionary=False,
        write_page_checksum=True,
    )  # fmt: skip
    return sink.getvalue()


def _flip(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


def _columnar(column: pa.Array) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"good": ["x"] * len(column), "photo": column})
    pq.write_table(table, sink)
    return sink.getvalue()


def _named(*names: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(["v"])] * len(names), names=list(names)), sink)
    return sink.getvalue()


def _stream(rows: int) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"column": ["x" * 50] * rows})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    return sink.getvalue()


BAD_FILES = [
    # name, content, what the message must say beside the file's name
    ("empty.jsonl", b"", "empty_file"),
    ("white.jsonl", b" \n\n\t\n", "empty_file"),
    ("empty.json", b"  \n", "empty_file"),
    ("none.json", b"[]", "empty_file"),
    ("empty.jsonl.gz", gzip.compress(b""), "empty_file"),
    ("header.csv", b"prompt,chosen\n", "empty_file"),
    ("empty.parquet", b"", "empty_file"),
    ("utf16.jsonl", '{"a":1}'.encode("utf-16"), "encoding=utf-16 detected.*iconv"),
    ("utf32.csv", "a,b\n1,2".encode("utf-32"), "encoding=utf-32 detected"),
    ("nomark.jsonl", '{"a":1}'.encode("utf-16-le"), "encoding=utf-16 or utf-32"),
    ("x.jsonl.gz", b'{"a":1}\n', 'not gzip; starts with b\'{"a":1}'),
    ("y.jsonl.gz", zstandard.compress(LINES), "not gzip.*which is zstd"),
    ("bomb.jsonl.gz", gzip.compress(b"x" * 101 * 10**6), "decompressed >200:1"),
    ("open.json", b'[{"a":1},{"a":"', "truncated_json.*element 2.*1 rows were read"),
    ("after.json", b'[{"a":1}] x', "follows the closing bracket"),
    ("object.json", b'{\n "rows": []}', "starts with.*expected an array"),
    ("text.json", b"hello", "expected an array"),
    ("quote.csv", b'a,b\n1,2\n3,"4\n5,6\n', "line 3.*not closed"),
    ("twice.csv", b"a,b,a\n1,2,3\n", "line 1: column 'a' stands twice"),
    ("semi.csv", b"prompt;chosen\n1;2\n", "columns found: 'prompt;chosen'.*set delimiter=';'"),
    ("tab.csv", b"prompt\tchosen\n1\t2\n", r"set delimiter='\\t'"),
    ("latin.csv", b"caf\xe9,b\n1,2\n", "line 1: the header is not UTF-8"),
    ("text.parquet", b"hello, world", "12 bytes, starts with b'hell', expected b'PAR1'"),
    ("cut.parquet", _parquet()[:-20], "no Parquet file"),
    ("flip.parquet", _flip(_parquet(), 45_000), "corrupt_page in row group 2 of 2"),
    ("bytes.parquet", _columnar(pa.array([b"\x89PNG"])), "column 'photo' is of type binary"),
    ("span.parquet", _columnar(pa.array([1], pa.duration("s"))), "'photo' is of type duration"),
    ("text.arrow", b"hello, world", "no Arrow file or stream"),
    ("name.arrow", _stream(1).replace(b"column", b"col\xff\xffn"), "column name is not UTF-8"),
    ("cut.arrow", _stream(1000)[:40_000], "truncated or corrupt behind record batch 7"),
    ("scalar.jsonl", b"[1]\n[2]\nnull\n{\n", "none of its 4 rows.*not_object \\(3\\).*row 1"),
    ("notes.txt", b"hello", "no known extension.*narrow"),
    ("x.jsonl.lz4", b"\x04\x22\x4d\x18", "no known extension; expected .jsonl .* .xz"),
    ("case.csv", b"Chosen,chosen\n1,2\n", "columns 'Chosen' and 'chosen' differ only in case"),
    ("space.csv", b"a,b,a \n1,2,3\n", "line 1: columns 'a' and 'a ' differ only in"),
    ("case.parquet", _named("x", "X"), "columns 'x' and 'X' differ only in case"),
]


@pytest.mark.parametrize(("name", "content", "says"), BAD_FILES, ids=[c[0] for c in BAD_FILES])
@pytest.mark.catalogue(7, 22, 23, 25, 28, 29, 30, 31, 35, 36, 38, 42)
def test_a_bad_file_is_named_with_what_is_wrong(ingestion, name, content, says):
    path = ingestion.write(name, content)
    with pytest.raises(DataError, match=f"(?s){says}") as caught:
        ingestion.run(path)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, PipelineError)
    assert not list(ingestion.directory.glob("store/1_ingestion/*"))


def test_an_arrow_stream_cut_between_batches_is_a_warning(ingestion):
    """Such a file is allowed by the format, so it is no error; nor does it pass unnoticed."""
    whole = _stream(1000)
    assert not ingestion.run(ingestion.write("x.arrow", whole)).report["warnings"]
    artifact = ingestion.run(ingestion.write("y.arrow", whole[:-8]))
    [warning] = artifact.report["warnings"]
    assert "no end mark" in warning
    assert artifact.report["ledger"]["s"]["rows_in"] == 1000


def test_offsets_out_of_bounds_in_an_arrow_file_do_not_end_the_process(ingestion):
    """Found by fuzzing: Arrow aborts where such a column is touched before it is validated."""
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 9000, 2)))
    lists = pa.Array.from_buffers(
        pa.list_(pa.int8()), 2, [None, offsets], children=[pa.array([1, 2], pa.int8())]
    )
    sink = io.BytesIO()
    table = pa.table({"a": lists})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match="corrupt behind record batch 0"):
        ingestion.run(ingestion.write("x.arrow", sink.getvalue()))


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
    [file] = match(Source(name="s", path=str(path)))
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
        assert [file.name for file in match(Source(name="s", path=path))] == names


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
    for name in ("raw/dataset_infos.json", "raw/data/loader.py"):
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
        found = match(Source(name="s", path=str(path)))
        assert [file.name for file in found] == [f"{raw}/{name}" for name in names]
    [below] = match(Source(name="s", path=f"{raw}/**/z/**/*.jsonl"))
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


@pytest.mark.catalogue(45)
def test_a_directory_without_rows_is_told_with_what_it_holds(ingestion):
    ingestion.write("raw/part-00001", '{"a":1}\n')
    ingestion.write("raw/README.md", "")
    with pytest.raises(DataError, match=r"no file of a known format, but 'part-00001'; expected"):
        ingestion.run(ingestion.directory / "raw")
    (ingestion.directory / "raw/part-00001").unlink()
    with pytest.raises(DataError, match=r"the directory '.*raw' .* a known format; expected .json"):
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


@pytest.mark.catalogue(39, 40)
def test_files_of_a_source_with_other_columns_or_kinds_are_listed_whatever_their_order(ingestion):
    """JSON rows have fields of their own, so only files that declare columns are held together."""
    for names, contents, says in [
        ("abc", ["p,q\n1,2\n", "p,q\n1,2\n", "p,r\n1,2\n"], r"2 files \(.*'q'.*1 file .*'r'"),
        ("cab", ["p,q\n1,2\n", "p,q\n1,2\n", "p,r\n1,2\n"], r"2 files \(.*'q'.*1 file .*'r'"),
        (
            "xyz",
            ["p,q\n1,2\n", "p\n1\n", "p\n1\n"],
            r".*with nothing more; .*'q'.* \(all have \['p'",
        ),
    ]:
        for name, content in zip(names, contents, strict=True):
            ingestion.write(f"{names}/{name}.csv", content)
        with pytest.raises(DataError, match=f"source 's': .*different columns: {says}"):
            ingestion.run(ingestion.directory / names)
    kinds = [pa.array(["x"]), pa.array([None]), pa.array([["x"]])]
    for at, column in enumerate(kinds):
        path = ingestion.write(f"kinds/{at}.parquet", b"")
        pq.write_table(pa.table({"chosen": column, "n": pa.array([1], pa.int8())}), path)
    says = r"column 'chosen' is string in 1 file \(.*0.parquet\), list in 1 file \(.*2.parquet"
    with pytest.raises(DataError, match=says):
        ingestion.run(ingestion.directory / "kinds")
    path.unlink()
    assert len(ingestion.rows(ingestion.run(ingestion.directory / "kinds"))) == 2


def test_a_reader_that_dies_or_never_ends_is_an_error_that_names_the_file(
    ingestion, monkeypatch, request
):
    """Native code may end the process on a damaged file; here the limits end it on a sound one."""
    path = ingestion.write("x.parquet", _parquet(20_000))  # what imports have freed holds no group
    request.addfinalizer(isolation.close_idle)
    tight = "import tasks.ingestion.child as c; c.MEMORY_BYTES = 2**20; c.main()"
    for limits, says in [
        (tight, r"x\.parquet: a batch of its rows needs more than|ended with"),
        ("import os; os.abort()", r"x\.parquet: the library that reads it ended with SIGABRT"),
        (
            "import resource as r; r.setrlimit(r.RLIMIT_CPU, (1, 9))\nwhile True: pass",
            r"x\.parquet: reading took more than 10 s of computing",
        ),
    ]:
        isolation.close_idle()
        monkeypatch.setattr(isolation, "COMMAND", ("-c", limits))
        with pytest.raises(DataError, match=says):
            ingestion.run(path)
    monkeypatch.undo()
    isolation.close_idle()
    assert len(ingestion.rows(ingestion.run(path))) == 1000
