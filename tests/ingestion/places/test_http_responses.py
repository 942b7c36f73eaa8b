"""What an http(s) answer is taken for, whatever its headers call it."""

import bz2
import gzip
import io
import json
import zipfile
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import DataError
from tests.ingestion.places.servers import serving

LINES = "".join(json.dumps({"n": n, "html": "<b>"}) + "\n" for n in range(300)).encode()


def _parquet():
    written = io.BytesIO()
    pq.write_table(pa.table({"n": [*range(300)]}), written)
    return written.getvalue()


def _zip():
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jsonl", LINES)
    return written.getvalue()


FILES = {
    "a.jsonl": LINES,
    "a.csv": b"n,html\n" + b"".join(b"%d,b\n" % n for n in range(300)),
    "a.parquet": _parquet(),
    "a.jsonl.gz": gzip.compress(LINES),
    "a.zip": _zip(),
}


def _numbers(ingestion, name, body, **headers):
    with serving(lambda request: request.send(200, body, ETag='"1"', **headers)) as url:
        rows = ingestion.rows(ingestion.run(f"{url}/{name}"))
    return [int(row["raw"]["n"]) for row in rows]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.catalogue(47)
def test_data_that_a_server_calls_a_web_page_are_read(ingestion, name):
    found = _numbers(ingestion, name, FILES[name], Content_Type="text/html; charset=utf-8")
    assert found == [*range(300)]


@pytest.mark.parametrize("body", [b"<p>Log in", b"Please <a href=x>log in", b"\n <!-- -->\n<html>"])
@pytest.mark.catalogue(47)
def test_a_page_that_begins_like_none_is_told_by_its_type(ingestion, body):
    with pytest.raises(DataError, match="a web page and no data"):
        _numbers(ingestion, "a.jsonl", body, Content_Type="Text/HTML")


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
def test_rows_that_are_zipped_on_their_way_are_read_and_so_are_files_called_so(ingestion, encoding):
    for name in ("a.jsonl", "a.csv"):
        zipped = gzip.compress(FILES[name])
        assert _numbers(ingestion, name, zipped, Content_Encoding=encoding) == [*range(300)]
    for name, body in FILES.items():
        assert _numbers(ingestion, name, body, Content_Encoding=encoding) == [*range(300)]


PACKED = {name: gzip.compress(FILES[name]) for name in ("a.parquet", "a.jsonl.gz", "a.zip")}
PACKED["a.jsonl.bz2"] = gzip.compress(bz2.compress(LINES))


@pytest.mark.parametrize("name", PACKED)
def test_a_packed_file_that_is_zipped_on_its_way_is_refused_by_the_header(ingestion, name):
    with pytest.raises(DataError, match=rf"/{name}: served with 'Content-Encoding: gzip'.*as it i"):
        _numbers(ingestion, name, PACKED[name], Content_Encoding="gzip")


@pytest.mark.parametrize(("encoding", "body"), [("deflate", zlib.compress(LINES)), ("br", b"\x0b")])
def test_an_encoding_that_is_not_read_is_refused_by_the_header(ingestion, encoding, body):
    with pytest.raises(DataError, match=f"served with 'Content-Encoding: {encoding}'"):
        _numbers(ingestion, "a.jsonl", body, Content_Encoding=encoding)
