"""Secrets in URLs and settings: left out wherever text is shown or recorded."""

import pytest

from tasks.ingestion import IngestionParams
from tasks.ingestion.places.downloads import cause_of
from tasks.ingestion.redaction import has_secrets, redacted, redacted_value, without_secrets

SIGNED = "https://host/a.jsonl?X-Amz-Signature=hush&Expires=9"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (SIGNED, "https://host/a.jsonl?***"),
        ("https://me:hush@host:9/a.jsonl", "https://***@host:9/a.jsonl"),
        ("https://hush@host/a?b#c", "https://***@host/a?***"),
        ("s3://hush:hush@bucket/x.parquet", "s3://***@bucket/x.parquet"),
        ("simplecache::https://host/a?sig=hush", "simplecache::https://host/a?***"),
        (f"path={SIGNED} is wrong", "path=https://host/a.jsonl?*** is wrong"),
        (f"{{'path': '{SIGNED}', 'name': 'a'}}",
         "{'path': 'https://host/a.jsonl?***', 'name': 'a'}"),
        ("https://host/a.jsonl#hush", "https://host/a.jsonl#***"),
        ("https://host/a.zip!/train/*.jsonl", "https://host/a.zip!/train/*.jsonl"),
        ("Is it so? https://host/a is plain", "Is it so? https://host/a is plain"),
        ("data/*.jsonl", "data/*.jsonl"),
    ],
)  # fmt: skip
def test_userinfo_query_and_fragment_of_every_url_are_left_out(text, shown):
    assert redacted(text) == shown
    assert has_secrets(text) == (text != shown)
    assert redacted(shown) == shown
    assert "hush" not in without_secrets(text.partition(" ")[0]) or "://" not in text


def test_values_lose_what_their_names_call_secret():
    given = {
        "a": [SIGNED, {"aws_secret_access_key": "hush", "sas_token": "hush", "anon": True}],
        "key": "hush",
        "special_tokens_in_text": "keep",
    }
    assert redacted_value(given) == {
        "a": [
            "https://host/a.jsonl?***",
            {"aws_secret_access_key": "***", "sas_token": "***", "anon": True},
        ],
        "key": "***",
        "special_tokens_in_text": "keep",
    }


def test_the_cause_of_an_error_loses_the_query_of_a_bare_path():
    error = OSError("Max retries exceeded with url: /a.jsonl?X-Amz-Signature=hush (timed out)")
    assert cause_of(error) == ("OSError: Max retries exceeded with url: /a.jsonl?*** (timed out)")


def test_what_is_recorded_of_a_path_keeps_the_members_of_an_archive():
    source = {"name": "s", "path": "https://host/a.zip?sig=hush!/train/*.jsonl"}
    params = IngestionParams.model_validate({"sources": [source]})
    recorded = params.model_dump(mode="json")["sources"][0]["path"]
    assert recorded == "https://host/a.zip!/train/*.jsonl"
