"""Files that cannot be used as a whole: an error that names the file, the place and the way out."""

import bz2
import gzip
import io
import lzma
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tasks.errors import DataError, PipelineError
from tasks.ingestion.formats import isolation
from tests.ingestion.fuzz import tar_of, zip_of

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


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
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
    ("deep.json", b"[" * 100_000, "too_deep: element 1 has more than 64 levels"),
    ("open.json", b'[{"a":1},{"a":"', "truncated_json.*element 2.*1 rows were read"),
    ("after.json", b'[{"a":1}] x', "follows the closing bracket"),
    ("object.json", b'{\n "rows": []}', "starts with.*expected an array"),
    ("text.json", b"hello", "expected an array"),
    ("quote.csv", b'a,b\n1,2\n3,"4\n5,6\n', "line 3.*not closed"),
    ("twice.csv", b"a,b,a\n1,2,3\n", "line 1: column 'a' stands twice"),
    ("semi.csv", b"prompt;chosen\n1;2\n", "columns found: 'prompt;chosen'.*set delimiter=';'"),
    ("lines.csv", b'{"prompt": "a, \\"b\\"", "chosen": "c"}\n' * 2, "a JSON object.*format: jsonl"),
    ("sep.csv", b"sep=;\r\nprompt;chosen\r\n", "line 1: found b'sep=;', .* set delimiter=';'"),
    ("comma.csv", b"sep=,\nprompt,chosen\na,b\n", "line 1: found b'sep=,', .*remove the line"),
    ("tab.csv", b"prompt\tchosen\n1\t2\n", r"set delimiter='\\t'"),
    ("latin.csv", b"caf\xe9,b\n1,2\n", "line 1: the header is not UTF-8"),
    ("text.parquet", b"hello, world", "12 bytes, starts with b'hell', expected b'PAR1'"),
    ("cut.parquet", _parquet()[:-20], "no Parquet file"),
    ("flip.parquet", _flip(_parquet(), 45_000), "corrupt_page in row group 2 of 2"),
    ("bytes.parquet", _columnar(pa.array([b"\x89PNG"])), "column 'photo' is of type binary"),
    ("span.parquet", _columnar(pa.array([1], pa.duration("s"))), "'photo' is of type duration"),
    (
        "null.parquet",
        _columnar(pa.array([[1, 2], None], pa.list_(pa.int8(), 2))),
        "a list is null in 'photo', a column of lists of one fixed length.*lists of any length",
    ),
    ("text.arrow", b"hello, world", "no Arrow file or stream"),
    ("name.arrow", _stream(1).replace(b"column", b"col\xff\xffn"), "column name is not UTF-8"),
    ("cut.arrow", _stream(1000)[:40_000], "truncated or corrupt behind record batch 7"),
    ("scalar.jsonl", b"[1]\n[2]\nnull\n{\n", "none of its 4 rows.*not_object \\(3\\).*row 1"),
    ("notes.txt", b"hello", "no known extension.*narrow"),
    ("x.jsonl.lz4", b"\x04\x22\x4d\x18", "no known extension; expected .jsonl .* .xz"),
    ("lfs.jsonl", POINTER, "a pointer of Git LFS, in place of the 12,345 bytes.*git lfs pull"),
    ("lfs.json", POINTER, "a pointer of Git LFS"),
    ("lfs.csv.gz", POINTER, "a pointer of Git LFS"),
    ("lfs.parquet", POINTER, "a pointer of Git LFS"),
    ("lfs.arrow", POINTER, "a pointer of Git LFS"),
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


IMPOSTORS = [
    ("book.csv", zip_of({"xl/workbook.xml": b"<x/>"}), "a ZIP archive.*workbook as CSV"),
    ("rows.jsonl", zip_of({"a.jsonl": b'{"a":1}'}), "a ZIP archive.*set format: zip"),
    ("rows.json", _parquet(), "a Parquet file.*set format: parquet"),
    ("rows.jsonl.gz", gzip.compress(tar_of({"a.jsonl": LINES})), "set format: tar.gz"),
    ("rows.tsv", tar_of({"a.jsonl": LINES}), "a tar archive.*set format: tar on"),
    ("old.csv", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), "an old workbook.*as CSV"),
    ("rows.jsonl", pickle.dumps([{"a": 1}]), "a pickle, which is never read"),
    ("page.jsonl", b"\n<!DOCTYPE html>\n<p>Log in</p>\n", "a web page.*download the file itself"),
]


@pytest.mark.parametrize(("name", "content", "says"), IMPOSTORS, ids=[c[2][:9] for c in IMPOSTORS])
@pytest.mark.catalogue(7)
def test_a_file_that_is_no_text_is_called_what_it_is(ingestion, name, content, says):
    """And not bad rows, or UTF-16."""
    path = ingestion.write(name, content)
    with pytest.raises(DataError, match=f"{path}: found .*{says}"):
        ingestion.run(path)


def test_text_that_begins_as_some_magic_does_is_text(ingestion):
    for name, content in (("x.csv", "PAR1,PK\n1,2\n"), ("x.tsv", "BZh\t<html lang\n1\t2\n")):
        assert len(ingestion.rows(ingestion.run(ingestion.write(name, content)))) == 1


def test_the_format_that_an_impostor_is_said_to_have_reads_it(ingestion):
    for content, format_, rows in [
        (zip_of({"a.jsonl": LINES}), "zip", 3000),
        (gzip.compress(tar_of({"a.jsonl": LINES})), "tar.gz", 3000),
        (_parquet(), "parquet", 1000),
    ]:
        path = ingestion.write("x.jsonl", content)
        assert ingestion.run(path, format=format_).report["ledger"]["s"]["rows_out"] == rows


@pytest.mark.parametrize("window", [27, 28])
def test_a_window_of_zstd_that_is_too_large_is_no_damage(ingestion, window):
    options = zstandard.ZstdCompressionParameters(window_log=window, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=options).compressobj()
    path = ingestion.write("x.jsonl.zst", packer.compress(LINES) + packer.flush())
    if window == 27:
        assert len(ingestion.rows(ingestion.run(path))) == 3000
        return
    with pytest.raises(DataError, match=r"window above 128 MB, .*; compress it again without"):
        ingestion.run(path)


def test_one_pointer_among_files_is_no_three_bad_rows(ingestion):
    ingestion.write("some/a.jsonl", LINES)
    pointer = ingestion.write("some/b.jsonl", POINTER)
    with pytest.raises(DataError, match="a pointer of Git LFS") as caught:
        ingestion.run(ingestion.directory / "some")
    assert str(caught.value).startswith(str(pointer))


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
    tight = "import tasks.ingestion.formats.child as c; c.MEMORY_BYTES = 2**20; c.main()"
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
