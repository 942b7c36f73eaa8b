"""Sources in stores behind URLs (s3, gs, memory ...): globs, versions, what cannot be read."""

from importlib.util import find_spec

import pytest

from tasks.artifact import Store
from tasks.errors import DataError
from tests.ingestion.places.servers import LINES, GoogleBucket, serving


@pytest.fixture
def bucket(monkeypatch):
    pytest.importorskip("s3fs")
    server_class = pytest.importorskip("moto.server").ThreadedMotoServer
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = server_class("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=url)
    client.create_bucket(Bucket="raw")
    yield url, client
    server.stop()


@pytest.mark.catalogue(36, 46, 47)
def test_a_bucket_is_read_by_glob_and_its_changes_are_noticed(ingestion, bucket):
    url, client = bucket
    for n in range(3):
        body = LINES[n * 113 * 10 :][: 113 * 10]
        client.put_object(Bucket="raw", Key=f"train/{n}.jsonl", Body=body)
    client.put_object(Bucket="raw", Key="eval/x.jsonl", Body=LINES)
    source = {"name": "s", "path": "s3://raw/train/*.jsonl", "storage": {"endpoint_url": url}}
    step = ingestion.step(source)
    artifact = ingestion.store.obtain(step)
    assert sorted({row["file"] for row in ingestion.rows(artifact)}) == [
        f"s3://raw/train/{n}.jsonl" for n in range(3)
    ]
    assert ingestion.store.obtain(ingestion.step(source)).cached
    client.put_object(Bucket="raw", Key="train/1.jsonl", Body=LINES)
    with pytest.raises(DataError, match=r"s3://raw/train/1\.jsonl changed while it was fetched"):
        Store(ingestion.directory / "other").obtain(step)
    again = ingestion.store.obtain(ingestion.step(source))
    assert not again.cached
    for path, says in [
        ("s3://raw/none/*.jsonl", "nothing matches s3://raw/none"),
        ("s3://raw/gone.jsonl", "nothing matches s3://raw/gone.jsonl"),
        ("s3://nobucket/gone.jsonl", "s3://nobucket/gone.jsonl"),
        ("s3://raw/train", r"is a directory, .* give a glob such as s3://raw/train/\*"),
    ]:
        with pytest.raises(DataError, match=says):
            ingestion.store.obtain(ingestion.step(source | {"path": path}))


@pytest.mark.catalogue(36, 46)
def test_of_a_glob_in_a_bucket_no_object_is_left_out_and_none_is_asked_for_alone(
    ingestion, bucket, monkeypatch
):
    import s3fs

    url, client = bucket
    for n in range(3):
        client.put_object(Bucket="raw", Key=f"train/{n}.jsonl", Body=_ten(n))
    client.put_object(Bucket="raw", Key="train/a [1].jsonl", Body=_ten(3))
    client.put_object(Bucket="raw", Key="train/a 1.jsonl", Body=_ten(4))
    source = {"name": "s", "path": "s3://raw/train/*.jsonl", "storage": {"endpoint_url": url}}
    asked, info = [], s3fs.S3FileSystem._info

    async def counted(self, path, *args, **kwargs):
        asked.append(path)
        if path.endswith("/1.jsonl"):
            raise PermissionError("an object that one may list and not read")
        return await info(self, path, *args, **kwargs)

    monkeypatch.setattr(s3fs.S3FileSystem, "_info", counted)
    step = ingestion.step(source)
    assert [path for path in asked if path.endswith(".jsonl")] == []
    with pytest.raises(DataError, match=r"s3://raw/train/1\.jsonl may not be read"):
        ingestion.store.obtain(step)
    exact = ingestion.step(source | {"path": "s3://raw/train/a [1].jsonl"})
    (row, *_) = ingestion.rows(ingestion.store.obtain(exact))
    assert row["file"] == "s3://raw/train/a [1].jsonl"


def _ten(n):
    return b"".join(LINES.splitlines(keepends=True)[10 * n : 10 * n + 10])


@pytest.mark.parametrize(
    "storage",
    [{"endpoint_ur": "http://x"}, {"client_kwargs": {"region": "x"}}, {"endpoint_url": "nonsense"}],
)
def test_a_misspelt_setting_of_a_store_is_told_at_once(ingestion, storage):
    pytest.importorskip("s3fs")
    with pytest.raises(DataError, match=r"'s': the client of s3://raw/.*; correct `storage`"):
        ingestion.run("s3://raw/a.jsonl", storage=storage)


@pytest.fixture
def google():
    pytest.importorskip("gcsfs", reason="gs:// needs gcsfs; without it see the test below")
    bucket = GoogleBucket("raw", {f"train/{n}.jsonl": _ten(n) for n in range(3)})
    with serving(bucket.answer) as url:
        yield url, bucket


def test_a_google_bucket_is_read_by_glob_and_its_changes_are_noticed(ingestion, google):
    """Against a stand-in that lists, tells and gives objects as the JSON interface does."""
    url, bucket = google
    storage = {"endpoint_url": url, "token": "anon"}
    source = {"name": "s", "path": "gs://raw/train/*.jsonl", "storage": storage}
    step = ingestion.step(source)
    artifact = ingestion.store.obtain(step)
    rows = ingestion.rows(artifact)
    assert {row["file"] for row in rows} == {f"gs://raw/train/{n}.jsonl" for n in range(3)}
    assert len(rows) == 30
    assert all(pin.startswith(("generation:", "etag:")) for pin in step.files.values())
    assert ingestion.store.obtain(ingestion.step(source)).cached
    bucket.objects["train/1.jsonl"] = _ten(1) + _ten(5)
    with pytest.raises(DataError, match=r"gs://raw/train/1\.jsonl changed while it was fetched"):
        Store(ingestion.directory / "other").obtain(step)
    assert len(ingestion.rows(ingestion.store.obtain(ingestion.step(source)))) == 40
    for path, says in [
        ("gs://raw/none/*.jsonl", "nothing matches gs://raw/none"),
        ("gs://raw/gone.jsonl", "nothing matches gs://raw/gone.jsonl"),
        ("gs://raw/train", r"is a directory; give a glob such as gs://raw/train/\*"),
    ]:
        with pytest.raises(DataError, match=says):
            ingestion.store.obtain(ingestion.step(source | {"path": path}))


@pytest.mark.parametrize(
    ("scheme", "package"), [("gs", "gcsfs"), ("gcs", "gcsfs"), ("abfs", "adlfs"), ("az", "adlfs")]
)
def test_a_store_whose_package_is_missing_names_it(ingestion, scheme, package):
    if find_spec(package):
        pytest.skip(f"{package} is installed here")
    says = rf"'s': {scheme}:// URLs cannot be read \(ImportError: .*\); pip install {package}, or"
    with pytest.raises(DataError, match=says):
        ingestion.run(f"{scheme}://bucket/a.jsonl?sig=hush")


def test_a_store_without_versions_is_pinned_by_its_content(ingestion):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/pinned/a.jsonl", LINES)
    step = ingestion.step({"name": "s", "path": "memory://pinned/*.jsonl"})
    assert [pin[:7] for pin in step.files.values()] == ["sha256:"]
    artifact = ingestion.store.obtain(step)
    assert len(ingestion.rows(artifact)) == 3000
    memory.pipe("/pinned/a.jsonl", LINES[:-1] + b" ")
    with pytest.raises(DataError, match="changed while it was fetched"):
        Store(ingestion.directory / "other").obtain(step)
    memory.rm("/pinned", recursive=True)
