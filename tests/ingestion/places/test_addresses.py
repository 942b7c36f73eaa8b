"""URLs and redirects that cannot be asked: told at once, with what is wrong with them."""

import pytest

from tasks.errors import DataError
from tasks.ingestion import IngestionParams
from tests.ingestion.places.servers import serving

ADDRESSES = [
    ("http://[bad/a.jsonl?sig=hush", "its brackets hold no IPv6 address, or its port is no number"),
    ("http://host:abc/a.jsonl?sig=hush", "its brackets .* or its port is no number up to 65535"),
    ("http://host:99999/a.jsonl?sig=hush", "its brackets .* or its port is no number up to 65535"),
    ("http:///a.jsonl?sig=hush", "it names no host"),
    (f"http://{'a' * 70}/a.jsonl?sig=hush", "a part of its host is empty, longer than 63"),
    ("http://.example.com/a.jsonl?sig=hush", "a part of its host is empty, longer than 63"),
    ("http://exa mple/a.jsonl?sig=hush", "a part of its host is empty, .*that none has"),
]


@pytest.mark.parametrize(("address", "says"), ADDRESSES)
def test_a_url_that_cannot_be_asked_is_told_at_once(ingestion, address, says):
    with pytest.raises(DataError, match=rf"source 's': .* is no URL .*{says}.*correct `path`") as e:
        ingestion.run(address)
    assert "hush" not in str(e.value)
    source = {"name": "s", "path": address}
    params = IngestionParams.model_validate({"sources": [source]})
    assert "hush" not in params.model_dump_json()  # what is recorded


@pytest.mark.parametrize(("address", "says"), [a for a in ADDRESSES if ":///" not in a[0]])
def test_a_redirect_to_what_cannot_be_asked_is_told_at_once(ingestion, address, says):
    requests = []

    def answer(request):
        requests.append(request.path)
        request.send(302, Location=address)

    with serving(answer) as url, pytest.raises(DataError, match=says) as caught:
        ingestion.run(f"{url}/b.jsonl")
    assert str(caught.value).startswith(f"{url}/b.jsonl: redirected to http:")
    assert "hush" not in str(caught.value)
    assert len(requests) == 1


def test_a_bracket_in_the_bucket_of_a_store_is_told(ingestion):
    with pytest.raises(DataError, match=r"s3://\[bucket/a\.jsonl is no URL"):
        ingestion.run("s3://[bucket/a.jsonl")


def test_a_host_in_letters_of_other_scripts_is_asked(ingestion):
    with pytest.raises(DataError, match=r"bücher\.invalid cannot be reached"):
        ingestion.run("http://bücher.invalid/a.jsonl")
