"""Sources behind URLs, from local servers that cut, refuse, change and lie."""

import hashlib

import pytest
from pydantic import ValidationError

from tasks.errors import DataError
from tasks.ingestion import IngestionParams
from tasks.ingestion.places import downloads
from tests.ingestion.places.servers import LINES, Files, serving


@pytest.fixture
def files():
    return Files({"/raw/a.jsonl": LINES})


@pytest.fixture
def address(files):
    with serving(files.answer) as url:
        yield url


def test_a_url_is_read_like_a_file_and_recorded_with_its_version_and_hash(
    ingestion, files, address
):
    url = f"{address}/raw/a.jsonl"
    artifact = ingestion.run(f"{url}?X-Amz-Signature=hush#part")
    rows = ingestion.rows(artifact)
    assert [row["row"] for row in rows] == list(range(1, 3001))
    assert {row["file"] for row in rows} == {url}
    [fetched] = artifact.report["sources"]["s"]["downloads"]
    assert fetched["bytes"] == len(LINES)
    assert len(fetched["sha256"]) == 64
    assert fetched["pin"].startswith('etag:"')
    written = (artifact.path / "record.json").read_text()
    assert "hush" not in written
    assert ingestion.run(url).key == artifact.key
    requests = len(files.requests)
    assert ingestion.run(url).cached
    assert len(files.requests) == requests + 1  # the version is asked for, nothing is fetched
    files.content["/raw/a.jsonl"] = LINES[:1130]
    changed = ingestion.run(url)
    assert changed.key != artifact.key
    assert changed.report["ledger"]["s"]["rows_in"] == 10


@pytest.mark.parametrize("etags", [True, False])
@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.catalogue(2, 48)
def test_a_download_that_is_cut_is_continued_to_the_same_bytes(
    ingestion, files, address, etags, ranges
):
    files.etags, files.ranges = etags, ranges
    files.cuts = [100_000, 50_000, 1, 300_000] if ranges else [100_000, 300_000]
    step = ingestion.step({"name": "s", "path": f"{address}/raw/a.jsonl"})
    files.cuts = [100_000, 7, 100_000] if ranges else [100_000, 300_000]
    artifact = ingestion.store.obtain(step)
    assert len(ingestion.rows(artifact)) == 3000
    offsets = [wanted for _, wanted in files.requests if wanted]
    assert offsets
    if ranges:
        assert offsets[-3:] == ["bytes=100000-", "bytes=100007-", "bytes=200007-"]


@pytest.mark.catalogue(48)
def test_a_download_that_comes_no_further_fails_after_five_tries_and_goes_on_at_the_next_run(
    ingestion, files, address
):
    url = f"{address}/raw/a.jsonl"
    step = ingestion.step({"name": "s", "path": url})
    files.cuts = [1000, 0, 0, 0, 0]
    with pytest.raises(DataError, match=rf"{url}: not fetched in 5 tries .*run again") as caught:
        ingestion.store.obtain(step)
    assert "bytes came" in str(caught.value)
    artifact = ingestion.store.obtain(step)
    assert files.requests[-1] == ("/raw/a.jsonl", "bytes=1000-")
    assert len(ingestion.rows(artifact)) == 3000


def test_parts_of_a_range_that_come_whole_are_no_failed_tries(ingestion, files, address):
    files.part_bytes = 20_000
    step = ingestion.step({"name": "s", "path": f"{address}/raw/a.jsonl"})
    files.cuts = [100_000]
    assert [row["raw"]["n"] for row in ingestion.rows(ingestion.store.obtain(step))] == [
        *range(3000)
    ]
    parts = -(-(len(LINES) - 100_000) // 20_000)
    assert len([wanted for _, wanted in files.requests if wanted]) == parts > downloads.TRIES


@pytest.mark.parametrize("etags", [True, False])
@pytest.mark.catalogue(46, 48)
def test_a_file_that_changes_between_planning_and_fetching_is_refused(
    ingestion, files, address, etags
):
    files.etags = etags
    step = ingestion.step({"name": "s", "path": f"{address}/raw/a.jsonl"})
    files.content["/raw/a.jsonl"] = LINES.replace(b"x", b"y")
    with pytest.raises(DataError, match=r"a\.jsonl changed while it was fetched.*run again"):
        ingestion.store.obtain(step)
    assert len(ingestion.rows(ingestion.run(f"{address}/raw/a.jsonl"))) == 3000


def test_a_server_that_is_busy_is_asked_again(ingestion, files, address):
    files.statuses = [503, 429, 500, 502]
    assert len(ingestion.rows(ingestion.run(f"{address}/raw/a.jsonl"))) == 3000
    files.statuses = [503] * 5
    with pytest.raises(DataError, match=r"not fetched in 5 tries.*status 503"):
        ingestion.run(f"{address}/raw/a.jsonl?2")


@pytest.mark.catalogue(47)
def test_what_is_no_data_is_told_with_status_and_first_bytes(ingestion, files, address):
    page = b"<!DOCTYPE html><title>Log in</title>" + b"x" * 200
    files.content |= {"/login": page, "/page.jsonl": page}
    for path, says in [
        ("/gone.jsonl", r"status 404 .*starts with b'\\x1b\[31mno such file'; nothing is there"),
        ("/page.jsonl", r"a web page and no data \(status 200\), starts with b'<!DOCTYPE html>"),
        ("/to//login", rf"status 200, redirected to {address}/login\), starts with b'<!DOC"),
    ]:
        with pytest.raises(DataError, match=says) as caught:
            ingestion.run(f"{address}{path}?token=hush")
        assert f"{address}{path}" in str(caught.value)
        assert "hush" not in str(caught.value)
        assert str(caught.value).isprintable()
    for status, says in ((403, "not public, or the signed URL is too old"), (401, "for a login")):
        files.statuses = [status]
        with pytest.raises(DataError, match=f"status {status}.*{says}"):
            ingestion.run(f"{address}/raw/a.jsonl")


def test_a_redirect_to_another_scheme_is_refused(ingestion, files, address):
    files.content["/etc/passwd.jsonl"] = b"{}"
    for target in ("file_///etc/passwd", "ftp_//127.0.0.1/x.jsonl", "about_x.jsonl"):
        with pytest.raises(DataError, match=r"redirected to (file:/|ftp:/|about:).*, not http"):
            ingestion.run(f"{address}/to/{target}")
    artifact = ingestion.run(f"{address}/to//raw/a.jsonl")
    assert len(ingestion.rows(artifact)) == 3000


def test_an_unreachable_host_and_an_unknown_scheme_are_told(ingestion):
    with pytest.raises(DataError, match=r"127\.0\.0\.1:1 cannot be reached.*network"):
        ingestion.run("http://127.0.0.1:1/a.jsonl")
    with pytest.raises(DataError, match="nosuch:// URLs cannot be read"):
        ingestion.run("nosuch://bucket/a.jsonl")


def test_secrets_are_refused_or_left_out_of_what_is_recorded(ingestion):
    with pytest.raises(DataError, match="user name or password") as caught:
        ingestion.run("https://me:hush@host/a.jsonl")
    assert "hush" not in str(caught.value)
    for storage in (
        {"secret": "hush"},
        {"token": "hush"},
        {"client_kwargs": {"aws_session_token": "hush"}},
        {"headers": {"x-api-key": "hush"}},
    ):
        with pytest.raises(
            DataError, match=r"looks like a secret.*AWS_SECRET_ACCESS_KEY"
        ) as caught:
            ingestion.run("s3://bucket/a.jsonl", storage=storage)
        assert "hush" not in str(caught.value)
    source = {"name": "s", "path": "https://host/a.jsonl?sig=hush"}
    params = IngestionParams.model_validate({"sources": [source]})
    assert "hush" not in params.model_dump_json()
    assert params.sources[0].path == source["path"]


@pytest.mark.parametrize(
    "place", [{"path": "https://host/a.jsonl"}, {"path": "a.jsonl"}, {"hub": "owner/name"}]
)
def test_storage_is_refused_where_nothing_of_it_is_used(place):
    source = {"name": "s", "storage": {"headers": {"a": "b"}}} | place
    with pytest.raises(ValidationError, match=r"'s': storage tells of a store .*; leave it out"):
        IngestionParams.model_validate({"sources": [source]})


def test_the_query_of_an_address_that_an_answer_repeats_is_not_shown(ingestion):
    def answer(request):
        page = "<html>login?next=" if "page" in request.path else "no "
        request.send(200 if "page" in request.path else 404, f"{page}{request.path}".encode())

    with serving(answer) as url:
        for name, says in [
            ("gone", r"starts with b'no /gone.jsonl\?\*\*\*'; nothing is there"),
            ("page", r"starts with b'<html>login\?\*\*\*'; give the address"),
        ]:
            with pytest.raises(DataError, match=says) as caught:
                ingestion.run(f"{url}/{name}.jsonl?sig=hush&more=hush")
            assert "hush" not in str(caught.value)


def test_a_file_behind_a_url_is_recorded_under_its_own_path(ingestion):
    path = ingestion.write("a.jsonl", LINES)
    rows = ingestion.rows(ingestion.run(f"file://{path}"))
    assert {row["file"] for row in rows} == {f"file://{path}"}


class _OddRanges(Files):
    """Says nothing of the version behind the last byte, as nginx and S3; and begins parts at a
    multiple of 1,000, whose length it does not tell."""

    def answer(self, request):
        wanted = request.headers.get("Range")
        body = self.content[request.path]
        if not wanted:
            return super().answer(request)
        self.requests.append((request.path, wanted))
        start = int(wanted[6:-1]) // 1000 * 1000
        if int(wanted[6:-1]) >= len(body):
            return request.send(416, b"<html>416", Content_Range=f"bytes */{len(body)}")
        told = {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}", "ETag": self.etag}
        return request.send(206, body[start:], Content_Length=None, Connection="close", **told)


@pytest.fixture
def odd():
    files = _OddRanges({"/raw/a.jsonl": LINES})
    files.etag = f'"{hashlib.md5(LINES).hexdigest()}"'
    with serving(files.answer) as url:
        files.url = f"{url}/raw/a.jsonl"
        yield files


@pytest.mark.parametrize("told", [None, str(len(LINES))])
@pytest.mark.catalogue(48)
def test_a_run_killed_behind_the_last_byte_of_a_download_is_continued(
    ingestion, odd, monkeypatch, caplog, told
):
    odd.headers = {"Content-Length": told, "Connection": None if told else "close"}
    step = ingestion.step({"name": "s", "path": odd.url})
    unsure = "a.jsonl: its server tells no length; were it cut, nobody could tell"

    def killed(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(downloads, "file_digest", killed)
        with pytest.raises(KeyboardInterrupt):
            ingestion.store.obtain(step)
    assert (unsure in caplog.text) is (told is None)
    assert len(ingestion.rows(ingestion.store.obtain(step))) == 3000


@pytest.mark.catalogue(48)
def test_a_part_that_begins_before_what_was_asked_for_is_put_where_it_begins(ingestion, odd):
    odd.etags = False
    odd.headers = {"ETag": odd.etag}
    odd.cuts = [len(LINES), 100_500]
    artifact = ingestion.run(odd.url)
    assert odd.requests[-1] == ("/raw/a.jsonl", "bytes=100500-")
    assert [row["raw"]["n"] for row in ingestion.rows(artifact)] == [*range(3000)]


@pytest.mark.parametrize("size", [50, 5000])
@pytest.mark.parametrize("cuts", [(), (30,), (30, 10), (10, 30, 49)])
def test_a_download_that_begins_anew_is_whole_however_often_it_is_cut(
    tmp_path, monkeypatch, size, cuts
):
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0)
    content, left = bytes(range(250)) * (size // 50), [*cuts]

    def read(_offset):
        return 0, iter([content[: left.pop(0)] if left else content])

    pin = downloads.DIGEST_PIN + hashlib.sha256(content).hexdigest()
    remote = downloads.Remote("http://x/a", pin, len(content), read)
    downloads.download(remote, tmp_path / "a", lambda _: None)
    assert (tmp_path / "a").read_bytes() == content
