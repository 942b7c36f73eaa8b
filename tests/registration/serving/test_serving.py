"""The reward server, asked as its clients ask it."""

import asyncio
import base64
import json
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest

from tasks.errors import ParamsError

TOKEN = "a-token-of-some-length"
TALK = [{"role": "user", "content": "What color?"}, {"role": "assistant", "content": "So"}]


def rendered(model, messages):
    return model.tokenizer.apply_chat_template(messages, tokenize=False)


SCORED = (
    ("text_1", "text_2"),
    ("queries", "documents"),
    ("queries", "items"),
    ("data_1", "data_2"),
)
"""The names under which vLLM's server takes prompts and answers."""


def test_every_form_gives_the_reward_of_the_loader(client, model):
    server = client()
    expected = pytest.approx(float(model.rewards([TALK])[0]), abs=1e-5)
    text = rendered(model, TALK)

    def post(path, **body):
        answer = server.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    queries = {"query": [text, text], "prompts": ["p", "p"], "labels": ["x", "y"]}
    assert post("/get_reward", **queries) == {"rewards": [expected, expected]}
    assert post("/reward", prompt=TALK[:1], response="So", label="x") == expected
    assert post("/reward", prompt=text[:5], response=text[5:], label=None) == expected
    for path in ("/classify", "/v1/classify"):
        for given in ({"input": text}, {"input": [text]}, {"messages": TALK}):
            assert post(path, model="any", **given)["data"] == [
                {"index": 0, "label": "reward", "probs": [expected], "num_classes": 1}
            ]
    (ids,) = post("/classify", input=model.token_ids(TALK))["data"]
    assert ids["probs"] == [expected]
    for path in ("/score", "/v1/score"):
        for one, other in SCORED:
            scored = post(path, **{one: "What color?", other: ["So", "So"]})
            assert [entry["score"] for entry in scored["data"]] == [expected, expected]
    answer = post("/v1/rewards", messages=TALK)
    tokens = len(model.token_ids(TALK))
    assert answer["data"][0]["reward"] == expected
    assert answer["usage"]["total_tokens"] == tokens
    assert answer["model"] == "models:/reward-model/4"


def test_a_rendered_query_that_stops_within_the_templates_closing_is_completed(client, model):
    server = client()
    text = rendered(model, TALK)
    end = model.tokenizer.eos_token
    assert text.endswith(f"So{end}\n")
    expected = pytest.approx(float(model.rewards([TALK])[0]), abs=1e-5)

    def post(path, **body):
        return server.post(path, json=body).json()

    stopped = text[:-1]  # where a rollout stops: at the end token
    assert post("/get_reward", query=[text, stopped]) == {"rewards": [expected, expected]}
    assert post("/reward", prompt=text[:9], response=stopped[9:]) == expected
    (scored,) = post("/classify", input=stopped)["data"]
    assert scored["probs"] == [expected]
    # What was cut before its end token, or goes on behind the closing, is scored as it is.
    others = [stopped.removesuffix(end), text + " ", text + "\n", "So"]
    ids = [model.tokenizer(o, add_special_tokens=False)["input_ids"] for o in others]
    found = post("/get_reward", query=others)["rewards"]
    assert found == pytest.approx(model.rewards_of_ids(ids), abs=1e-5)


@pytest.mark.parametrize("formats", [["standard"], ["standard", "conversational"], None])
def test_strings_are_text_to_a_model_of_text_though_its_tokenizer_has_a_template(
    client, copied, formats
):
    from tasks.registration import load_reward_model
    from tasks.training.handover.contract import write_contract

    write_contract(copied, formats=formats)
    model = load_reward_model(copied, "cpu")
    assert model.tokenizer.chat_template
    server = client(served=model)
    text = "What color? So"
    asked = [
        ("/get_reward", {"query": [text]}),
        ("/reward", {"prompt": "What color?", "response": " So"}),
        ("/classify", {"input": [text]}),
        ("/score", {"queries": "What color?", "documents": " So"}),
    ]
    (own, *found) = [
        server.post(path, json=body).text
        for path, body in [("/v1/rewards", {"input": [{"text": text}]}), *asked]
    ]
    reward = json.loads(own)["data"][0]["reward"]
    assert reward == pytest.approx(float(model.rewards([text])[0]), abs=1e-5)
    assert [f"{reward}" in answer for answer in found] == [formats == ["standard"]] * 4


@pytest.mark.parametrize(
    ("template_end", "cut", "completed"),
    [
        ("<|im_end|>\\n", "a<|im_end|>", "a<|im_end|>\n"),
        ("<|im_end|>\\n<|endoftext|>", "a<|im_end|>", "a<|im_end|>\n<|endoftext|>"),
        ("<|im_end|>\\n<|endoftext|>", "a<|im_end|>\n", "a<|im_end|>\n<|endoftext|>"),
        ("<|im_end|>\\n<|endoftext|>", "a<|endoftext|>", "a<|endoftext|>"),
        ("\\n<|im_end|>\\n", "a\n", "a\n"),  # no end token: words may end so, too
        ("\\n\\n", "a\n", "a\n"),
        ("<|im_end|>", "a<|im_end|>", "a<|im_end|>"),
    ],
)
def test_the_closing_is_learnt_from_the_template(model, template_end, cut, completed):
    from copy import copy

    from tasks.registration.serving.answer_suffix import AnswerSuffix

    tokenizer = copy(model.tokenizer)
    turn = "{{ '<|im_start|>' + m.role + '\\n' + m.content + '" + template_end + "' }}"
    tokenizer.chat_template = "{% for m in messages %}" + turn + "{% endfor %}"
    assert AnswerSuffix.of(tokenizer).completed(cut) == completed
    assert AnswerSuffix.of(tokenizer).completed(completed) == completed
    for none in (None, "{{ raise_exception('only tools') }}", "nothing of it"):
        tokenizer.chat_template = none
        assert AnswerSuffix.of(tokenizer).completed(cut) == cut


def test_rows_of_several_answers_come_back_in_order_and_named(client, model):
    long_prompt = [{"role": "user", "content": "What color is the sky? " * 30}]
    rows = [
        {"prompt": long_prompt, "completions": ["It is blue.", "green", "so " * 20]},
        {"text": "The sky is blue"},
        {"prompt": "The sky", "completion": " is blue"},
        {"messages": TALK, "tools": None},
    ]
    answer = client().post("/v1/rewards", json={"input": rows}).json()
    turns = [{"role": "assistant", "content": text} for text in rows[0]["completions"]]
    flat = [[*long_prompt, turn] for turn in turns]
    flat += ["The sky is blue", "The sky is blue", TALK]
    expected = model.rewards(flat)
    assert [entry["reward"] for entry in answer["data"]] == pytest.approx(expected, abs=1e-5)
    named = [entry["input"] for entry in answer["data"]]
    several = [f"input[0].completions[{i}]" for i in range(3)]
    assert named == [*several, "input[1]", "input[2]", "input[3]"]


def test_concurrent_requests_share_batches_and_keep_their_answers(client, model):
    server = client(window_ms=50)
    texts = [f"The sky is blue {'or green ' * (i % 9)}{i}" for i in range(40)]
    expected = model.rewards(texts)

    def ask(i):
        row = {"input": [{"text": texts[i]}, {"text": texts[-i - 1]}]}
        return [entry["reward"] for entry in server.post("/v1/rewards", json=row).json()["data"]]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(40)))
    assert found == [pytest.approx([expected[i], expected[-i - 1]], abs=1e-5) for i in range(40)]
    page = server.get("/metrics").text
    counted = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert float(counted["reward_server_sequences_total"]) == 80
    assert float(counted["reward_server_batch_sequences_count"]) < 40
    assert float(counted['reward_server_requests_total{path="/v1/rewards",status="200"}']) == 40
    assert float(counted["reward_server_waiting_tokens"]) == 0
    of_requests = 'reward_server_request_seconds_sum{path="/v1/rewards"}'  # who wait for the model
    assert 0 < float(counted["reward_server_model_seconds_sum"]) < float(counted[of_requests])


def test_a_request_larger_than_a_batch_is_scored_in_pieces(client, model):
    texts = [f"The sky is blue {i}" for i in range(60)]
    server = client(batch_tokens=32, query_form="text")
    found = server.post("/get_reward", json={"query": texts}).json()["rewards"]
    assert found == pytest.approx(model.rewards(texts), abs=1e-5)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/classify", {"messages": TALK}),
        ("/v1/rewards", {"messages": TALK}),
        ("/v1/rewards", {"input": [{"messages": TALK}]}),
        ("/v1/rewards", {"input": [{"prompt": TALK[:1], "completions": ["So"]}]}),
    ],
)
def test_a_request_sets_the_models_own_template_and_brings_none(client, model, path, body):
    server = client()

    def asked(options):
        rows = body.get("input")
        given = {"chat_template_kwargs": options}
        return server.post(path, json={"input": [rows[0] | given]} if rows else body | given)

    (entry,) = asked({"enable_thinking": False}).json()["data"]
    found = entry.get("reward") or entry["probs"][0]
    assert found == pytest.approx(float(model.rewards([TALK])[0]), abs=1e-5)
    refused = asked({"chat_template": "{{ 'x' * 3 }}"})
    assert refused.status_code == 422
    assert "'chat_template'" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"max_waiting_requests": 2}, "2 requests wait"),
        ({"max_waiting_bytes": 150}, "150 bytes wait"),
        ({"max_waiting_tokens": 20}, "tokens wait"),
    ],
)
def test_more_than_the_line_holds_is_refused_until_it_has_shortened(client, model, limit, said):
    server = client(window_ms=1000, query_form="text", **limit)
    body = {"query": ["The sky is blue, or so they say"] * 2}
    expected = pytest.approx(model.rewards(body["query"]), abs=1e-5)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: server.post("/get_reward", json=body), range(6)))
    refused = [answer for answer in answers if answer.status_code == 503]
    assert 1 <= len(refused) <= 5
    assert all(a.headers["retry-after"] == "1" for a in refused)
    assert all(said in a.json()["error"]["message"] for a in refused)
    assert [a.json()["rewards"] for a in answers if a not in refused] == [expected] * (
        6 - len(refused)
    )
    assert server.post("/get_reward", json=body).json()["rewards"] == expected


def test_what_a_client_that_left_had_asked_for_is_not_scored(model):
    from tasks.registration.serving.app import build_app
    from tasks.registration.serving.service import Service
    from tasks.registration.serving.settings import ServeSettings

    service = Service(model, "m", ServeSettings(query_form="text", batch_tokens=16))
    app = build_app(service)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/get_reward",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }

    def asking(texts, left):
        """One request as a server of HTTP hands it on; what was sent, and the task."""
        messages = [{"type": "http.request", "body": json.dumps({"query": texts}).encode()}]
        sent = []

        async def receive():
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        return sent, asyncio.ensure_future(app(dict(scope), receive, send))

    async def asked():
        left, stays = asyncio.Event(), asyncio.Event()
        _, gone = asking([f"The sky is blue {i}" for i in range(40)], left)
        while not service.batcher.queue:  # nothing works it off yet
            await asyncio.sleep(0.01)
        left.set()
        await asyncio.wait([gone], timeout=10)
        service.batcher.start()
        sent, waiting = asking(["The sky is green"], stays)
        await waiting
        service.batcher.stop()
        service.encoding.shutdown()
        await gone
        return json.loads(sent[-1]["body"])["rewards"]

    assert asyncio.run(asked()) == pytest.approx(model.rewards(["The sky is green"]), abs=1e-5)
    assert "reward_server_sequences_total 1.0" in service.meters.text().decode()
    assert 'reward_server_errors_total{reason="gone"} 1.0' in service.meters.text().decode()
    assert (app.load.requests, app.load.bytes) == (0, 0)


def test_a_body_that_lies_about_its_length_is_cut_off_too(client):
    server = client(max_bytes=1000)

    def parts():
        for _ in range(50):
            yield b" " * 100

    headers = {"content-type": "application/json"}
    assert server.post("/get_reward", content=parts(), headers=headers).status_code == 413


def test_a_model_that_reads_any_length_is_served_without_a_limit_unless_one_is_set(client, copied):
    from tasks.registration import load_reward_model

    model = load_reward_model(copied, "cpu")
    vars(model.model.config)["max_position_embeddings"] = None  # as families have it without any
    text = "The sky is blue. " * 60
    tokens = len(model.token_ids(text))
    for limit, status in ((None, 200), (tokens, 200), (tokens - 1, 422)):
        server = client(served=model, query_form="text", max_tokens=limit)
        assert server.get("/healthz").json()["max_tokens"] == limit
        assert server.post("/get_reward", json={"query": [text]}).status_code == status


def test_a_long_sequence_loses_its_start_only_where_asked_for_and_says_so(client, model):
    server = client(max_tokens=10, too_long="cut_start", query_form="text")
    text = "The sky is green, or so they say. " * 9
    answer = server.post("/get_reward", json={"query": [text, "blue"]})
    expected = model.rewards_of_ids([model.token_ids(text)[-10:], model.token_ids("blue")])
    assert answer.json()["rewards"] == pytest.approx(expected, abs=1e-5)
    assert answer.headers["x-cut-sequences"] == "1"
    assert "\nreward_server_cut_total 1.0\n" in server.get("/metrics").text


def test_a_cut_sequence_keeps_the_token_that_an_encoder_reads_its_reward_at(
    client, model, monkeypatch
):
    ids = model.token_ids("The sky is green, or so they say. " * 9)
    monkeypatch.setattr(model, "tokenizer", deepcopy(model.tokenizer))
    model.tokenizer.cls_token = model.tokenizer.convert_ids_to_tokens(ids[0])
    answer = client(max_tokens=10, too_long="cut_start").post("/classify", json={"input": ids})
    expected = model.rewards_of_ids([[ids[0], *ids[-9:]]])
    assert answer.json()["data"][0]["probs"] == pytest.approx(expected, abs=1e-5)


def test_the_token_is_needed_as_bearer_or_in_the_address_and_health_is_open(client):
    server = client(token=TOKEN)
    body = {"query": ["blue"]}
    basic = base64.b64encode(f"rl:{TOKEN}".encode()).decode()
    for header, status in {
        f"Bearer {TOKEN}": 200,
        f"bearer {TOKEN}": 200,
        f"Basic {basic}": 200,
        "Bearer wrong": 401,
        "Basic !": 401,
        TOKEN: 401,
        "": 401,
    }.items():
        headers = {"authorization": header} if header else {}
        assert server.post("/get_reward", json=body, headers=headers).status_code == status, header
    assert server.get("/metrics").status_code == 401
    assert server.get("/v1/models").status_code == 401
    assert server.get("/healthz").json()["status"] == "ready"
    assert server.get("/health").json() == server.get("/healthz").json()
    assert TOKEN not in repr(server.app.settings)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("127.0.0.1:8000", 200), ("localhost", 200), ("[::1]:80", 200), ("10.0.0.7:8000", 200)),
        *(("rm.internal:80", 200), ("evil.example", 421), ("10.evil.com", 421), ("", 421)),
    ],
)
def test_a_foreign_name_is_refused(client, host, status):
    server = client(allowed_hosts=("rm.internal",))
    assert server.get("/healthz", headers={"host": host}).status_code == status


def test_the_model_of_a_client_of_vllm_is_the_one_that_answers_it(client):
    server = client()
    (card,) = server.get("/v1/models").json()["data"]
    assert card["max_model_len"] == server.get("/healthz").json()["max_tokens"]
    asked = {"model": card["id"], "queries": "Blue?", "documents": ["yes", "no"]}
    answer = server.post("/v1/score", json=asked).json()
    assert (answer["model"], len(answer["data"])) == (card["id"], 2)


def test_a_form_of_a_web_page_is_refused(client):
    answer = client().post(
        "/get_reward", content=json.dumps({"query": ["x"]}), headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 415


def test_a_server_for_others_needs_a_token(monkeypatch):
    from tasks.registration.serving.settings import TOKEN_VARIABLE, settings_from

    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    for host in ("0.0.0.0", "::", "10.1.2.3", "rm.internal"):
        with pytest.raises(ParamsError, match="reachable by others"):
            settings_from(host=host)
    for host in ("127.0.0.1", "::1", "localhost"):
        assert settings_from(host=host).token is None
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    with pytest.raises(ParamsError, match="5 characters"):
        settings_from()
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert settings_from(host="0.0.0.0").token == TOKEN
    monkeypatch.setenv(TOKEN_VARIABLE, f"{TOKEN}\n")  # as a file's text: no header can hold that
    assert settings_from(host="0.0.0.0").token == TOKEN
    with pytest.raises(ParamsError, match="port"):
        settings_from(port=70_000)
