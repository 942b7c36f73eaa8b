"""What a server refuses of a request, and in which words."""

import gzip
import json

import pytest

from tasks.registration import load_reward_model
from tests.registration.serving.test_serving import TALK


@pytest.mark.parametrize(
    ("path", "body", "status", "reason", "said"),
    [
        ("/v1/rewards", {"input": []}, 422, "no_input", "nothing to score"),
        ("/v1/rewards", {"input": [{"promt": "x"}]}, 422, "bad_request", "input.0.promt"),
        ("/v1/rewards", {"input": [{"prompt": "x"}]}, 422, "no_input", "completion"),
        ("/v1/rewards", {"inputs": []}, 422, "no_input", "'input' or 'messages'"),
        ("/v1/rewards", {"messages": [{"content": "x"}]}, 422, "bad_row", "role"),
        ("/classify", {"input": "x", "messages": TALK}, 422, "bad_request", "both given"),
        ("/v1/rewards", {"input": [{"text": "x"}], "normalize": True}, 422, "no_scale", "raw"),
        ("/v1/rewards", {"input": [{"text": "x", "tools": []}]}, 422, "bad_row", "give messages"),
        (
            "/v1/rewards",
            {"input": [{"prompt": "x", "completion": "y", "chat_template_kwargs": {"k": 1}}]},
            422,
            "bad_row",
            "give messages",
        ),
        (
            "/v1/rewards",
            {"input": [{"prompt": "x", "completion": TALK}]},
            422,
            "bad_row",
            "the prompt is text, but the answer",
        ),
        ("/get_reward", {"query": ["ok", ""]}, 422, "empty", r"query[1] has no token"),
        ("/get_reward", {"query": ["blue " * 900]}, 422, "too_long", "the limit is 64"),
        (
            "/get_reward",
            {"query": ["blue", " so" * 65]},
            422,
            "too_long",
            "query[1] has 65 tokens, ",
        ),
        ("/get_reward", {"query": ["blue"] * 9}, 413, "too_many", "9 sequences"),
        ("/get_reward", {"query": ["blue " * 2000]}, 413, "too_large", "4096 bytes"),
        ("/get_reward", {"query": 3}, 422, "bad_request", "query"),
        ("/classify", {"input": [[5, 10**6]]}, 422, "bad_row", "token ids must be 0 to"),
        ("/classify", {"input": ["1", 2]}, 422, "bad_request", "input"),
        ("/classify", {"input": [[1, True]]}, 422, "bad_request", "input"),
        ("/v1/rewards", {"messages": [{"role": 7, "content": "x"}]}, 422, "bad_row", "role is '7'"),
        ("/classify", {}, 422, "no_input", "'input' or 'messages'"),
        ("/score", {"text_1": ["a", "b"], "text_2": ["a"] * 3}, 422, "unequal_lengths", "text_2"),
        ("/score", {"queries": "a", "documents": ["a", "\ude00"]}, 422, "bad_row", "documents[1]"),
        ("/score", {"queries": ["a"]}, 422, "bad_request", "or 'text_1' and 'text_2'"),
        (
            "/score",
            {"text_1": "a", "text_2": "b", "documents": "c"},
            422,
            "bad_request",
            "found 'documents' and 'text_1' and 'text_2'",
        ),
        ("/v1/rewards", {"input": [{"text": "a\ud83d"}]}, 422, "bad_row", r"'\ud83d', half of a"),
        (
            "/v1/rewards",
            {"messages": [*TALK, TALK[0] | {"content": "\ude00"}]},
            422,
            "bad_row",
            "half",
        ),
        ("/get_reward", {"query": "a\ud83d"}, 422, "bad_row", r"query[0]: the text holds '\ud83d'"),
        (
            "/v1/rewards",
            {"messages": [TALK[0], TALK[1] | {"content": "So<|im_end|>"}]},
            422,
            "bad_row",
            "start its server with --special-tokens-in-text encode",
        ),
        ("/nowhere", {}, 404, "no_such_endpoint", "Not Found"),
    ],
)
def test_what_cannot_be_scored_is_refused_with_a_reason(client, path, body, status, reason, said):
    server = client(max_tokens=64, max_sequences=8, max_bytes=8192 if "900" in said else 4096)
    if reason == "too_long":
        server = client(max_tokens=64, max_bytes=8192)
    headers = {"content-type": "application/json"}
    answer = server.post(path, content=json.dumps(body), headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (status, status, reason)
    assert said in error["message"] + str(error["param"])
    counted = server.get("/metrics").text
    assert f'reason="{reason}"' in counted
    assert "/nowhere" not in counted  # whoever tries addresses makes no series of each


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"prompt": "a", "completion": "b", "completions": ["c", "d"]}, "'completions'"),
        ({"prompt": "a", "completions": ["b"], "text": "c"}, "'text' and 'prompt'"),
        ({"prompt": "a", "completion": "b", "messages": TALK}, "'messages' and 'prompt'"),
        ({"text": "a", "messages": TALK}, "'messages' and 'text'"),
        ({"text": "a", "completions": ["b"]}, "'text' and 'completions'"),
        ({"prompt": "a", "completions": []}, "found 'prompt'"),
        ({"messages": []}, "found nothing"),
    ],
)
def test_a_row_of_two_forms_is_refused_where_one_would_be_read_and_the_other_lost(
    client, row, found
):
    answer = client().post("/v1/rewards", json={"input": [{"text": "blue"}, row]})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (422, "input[1]")
    assert found in error["message"]
    lacking = found in ("found 'prompt'", "found nothing")
    assert error["type"] == ("no_input" if lacking else "bad_row")


@pytest.mark.parametrize("path", ["/v1/rewards", "/classify"])
def test_a_conversation_alone_is_named_by_the_field_that_it_stands_in(client, path):
    answer = client().post(path, json={"messages": [TALK[0], {"role": 7, "content": "x"}]})
    error = answer.json()["error"]
    assert error["param"] == "messages"
    assert error["message"].startswith("messages: messages[1].role is '7'")


@pytest.mark.parametrize(
    "beside",
    [{"messages": TALK}, {"tools": []}, {"chat_template_kwargs": {"enable_thinking": False}}],
)
def test_what_stands_beside_the_rows_and_would_reach_none_of_them_is_refused(client, beside):
    server = client()
    rows = {"input": [{"messages": TALK}]}
    nulls = dict.fromkeys(("messages", "tools", "chat_template_kwargs"))
    assert server.post("/v1/rewards", json=rows | nulls).status_code == 200
    answer = server.post("/v1/rewards", json=rows | beside)
    assert answer.status_code == 422
    assert "put them into the rows" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"[" * 100_000, 400, "while decoding a JSON array"),
        (b'{"query": ["a\xff"]}', 400, "0xff in position 13"),
        (b'{"query": ["a"}', 422, "delimiter at 14"),
        (b"{", 422, "property name"),
    ],
)
def test_a_body_that_is_no_json_is_told_by_what_the_parser_met(client, body, status, said):
    headers = {"content-type": "application/json"}
    answer = client().post("/v1/rewards", content=body, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (status, "bad_request")
    assert error["message"].startswith("the body is no JSON: ")
    assert said in error["message"]


def test_a_packed_body_is_told_from_one_that_is_no_json(client):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    body = gzip.compress(json.dumps({"query": ["blue"]}).encode())
    answer = client().post("/get_reward", content=body, headers=headers)
    assert answer.status_code == 415
    assert "content encoding is 'gzip'" in answer.json()["error"]["message"]


def test_a_line_that_a_request_just_fills_takes_it_and_the_next_one(client):
    body, headers = b'{"query": ["The sky is"]}', {"content-type": "application/json"}
    just = client(max_bytes=len(body)).post("/get_reward", content=body, headers=headers)
    assert just.status_code == 200
    asked = client(max_waiting_requests=1, max_waiting_bytes=len(body))
    for _ in range(2):
        assert asked.post("/get_reward", content=body, headers=headers).status_code == 200
    answer = asked.post("/get_reward", content=body + b" ", headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "busy")
    assert f"{len(body)} bytes wait for the model already" in answer.text
    assert asked.post("/get_reward", content=body, headers=headers).status_code == 200


def test_a_reward_that_is_no_number_is_an_error_and_not_null_among_the_rewards(client, copied):
    model = load_reward_model(copied, "cpu")
    model.model.score.weight.data[:] = float("nan")
    answer = client(served=model).post("/get_reward", json={"query": ["blue", "green"]})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (500, "not_finite", "query[0]")
    assert error["message"] == "the reward of query[0] is nan, no number"
