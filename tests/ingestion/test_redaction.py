"""Secrets in URLs and settings: left out wherever text is shown or recorded."""

import pytest

from flows.params import RewardPipelineParams
from tasks.ingestion import IngestionParams
from tasks.ingestion.places.downloads import cause_of
from tasks.ingestion.redaction import (
    has_secrets,
    is_secret_name,
    redacted,
    redacted_value,
    without_secrets,
)

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


@pytest.mark.parametrize(
    "name",
    ["x-api-key", "Authorization", "Proxy-Authorization", "api_key", "apikey", "private_key", "pwd",
     "accountKey", "accessToken", "access_token", "cookie", "Set-Cookie", "AWSSecretKey", "key",
     "aws_access_key_id", "sas_token", "X-Auth-Token", "hub_token", "signature", "HF_TOKEN"],
)  # fmt: skip
def test_a_name_says_secret_in_any_spelling(name):
    assert is_secret_name(name)
    assert redacted_value({name: "hush"}) == {name: "***"}


@pytest.mark.parametrize(
    "name", ["pad_token", "eos_token", "pad_token_id", "tokenizer", "tokens", "keys", "sort_key"]
)
def test_a_name_of_a_plain_setting_says_no_secret(name):
    assert not is_secret_name(name)


def test_no_name_in_params_says_secret():
    names = set(_properties(RewardPipelineParams.model_json_schema()))
    assert {"special_tokens_in_text", "max_tokens_per_micro_batch", "storage"} <= names
    assert {name for name in names if is_secret_name(name)} == set()


def _properties(schema):
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
    children = schema.values() if isinstance(schema, dict) else schema
    for child in children if isinstance(schema, dict | list) else ():
        yield from _properties(child)


def test_the_cause_of_an_error_loses_the_query_of_a_bare_path():
    error = OSError("Max retries exceeded with url: /a.jsonl?X-Amz-Signature=hush (timed out)")
    assert cause_of(error) == ("OSError: Max retries exceeded with url: /a.jsonl?*** (timed out)")


def test_what_is_recorded_of_a_path_keeps_the_members_of_an_archive():
    source = {"name": "s", "path": "https://host/a.zip?sig=hush!/train/*.jsonl"}
    params = IngestionParams.model_validate({"sources": [source]})
    recorded = params.model_dump(mode="json")["sources"][0]["path"]
    assert recorded == "https://host/a.zip!/train/*.jsonl"
