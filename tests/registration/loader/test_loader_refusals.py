"""What the loader refuses: more than data, damaged data, and devices that are not there."""

import json

import numpy as np
import pytest
import torch
from pandas import DataFrame
from safetensors.torch import load_file, save_file

from tasks.registration import as_reward_func, load_reward_model

PLANTED = "raise SystemExit('planted code ran')"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("optimizer.pt", "a pickle", "is no file of a reward model"),
        ("deep/training_args.bin", "a pickle", "is no file of a reward model"),
        ("pytorch_model.bin", "a pickle", "is no file of a reward model"),
        ("modeling_own.py", PLANTED, "is no file of a reward model"),
        ("code/reward_inference.py", PLANTED, "is no file of a reward model"),
        ("code/reward_inference_0123456789ab.py", PLANTED, "was changed after registration"),
        ("deep/down/python_model.pkl", "a pickle", "is no file of a reward model"),
        ("adapter_config.json", "{}", "holds an adapter, whose base model is elsewhere"),
        ("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": ["x.Y", null]}}', "auto_map"),
        ("reward_contract.json", "{", r"reward_contract\.json is no JSON \("),
        (
            "tokenizer.json",
            '{"version": "1.0",',
            r"the tokenizer in .*copy cannot be loaded \(JSON",
        ),
        ("tokenizer.json", "{}", r"the tokenizer in .*copy cannot be loaded \(KeyError"),
        ("chat_template.jinja", "{% if", r"'one turn' cannot be read here \(TemplateSyntaxError"),
        ("config.json", '{"text_config": {"_attn_implementation": "some/kernel"}}', "repository"),
    ],
)
def test_a_directory_with_more_than_data_or_damaged_data_is_refused(copied, name, content, said):
    (copied / name).parent.mkdir(parents=True, exist_ok=True)
    (copied / name).write_text(content)
    with pytest.raises(ValueError, match=said):
        load_reward_model(copied, "cpu")


def test_an_adapter_alone_is_told_as_such(copied):
    (copied / "config.json").unlink()
    (copied / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"holds an adapter, .* merge_and_unload\(\)"):
        load_reward_model(copied, "cpu")


def test_a_model_without_a_trained_head_gives_no_rewards(copied):
    file = copied / "model.safetensors"
    weights = {name: t for name, t in load_file(file).items() if name != "score.weight"}
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks score\.weight, so its rewards would be random"):
        load_reward_model(copied, "cpu")


def test_a_classifier_of_several_labels_is_no_reward_model(copied):
    (copied / "reward_contract.json").unlink()
    config = json.loads((copied / "config.json").read_text())
    labels = {"id2label": {"0": "bad", "1": "good"}, "label2id": {"bad": 0, "good": 1}}
    (copied / "config.json").write_text(json.dumps(config | labels))
    file = copied / "model.safetensors"
    weights = load_file(file)
    weights["score.weight"] = weights["score.weight"].repeat(2, 1)
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ValueError, match="classifies into 2 labels, and a reward model has one"):
        load_reward_model(copied, "cpu")


def test_weights_of_another_shape_are_named(copied):
    file = copied / "model.safetensors"
    weights = load_file(file)
    shape = [*weights["model.norm.weight"].shape]
    save_file(weights | {"model.norm.weight": torch.ones(3)}, file, {"format": "pt"})
    with pytest.raises(
        ValueError, match=rf"model\.norm\.weight has shape \[3\], .* \[{shape[0]}\]"
    ):
        load_reward_model(copied, "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_absent_is_said_to_be(copied):
    with pytest.raises(ValueError, match="device is 'cuda', but torch finds no GPU here"):
        load_reward_model(copied, "cuda")


@pytest.mark.parametrize("device", ["tpu", "meta", "mps:7", "cuda:x", "cuda:99"])
def test_a_device_that_torch_cannot_use_is_told_in_a_sentence(copied, device):
    with pytest.raises(ValueError, match=f"device is '{device}', .*; say 'cpu'$"):
        load_reward_model(copied, device)


def test_weights_that_are_cut_off_are_told_as_such(copied):
    file = copied / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"holds a safetensors file that is cut or damaged \("):
        load_reward_model(copied, "cpu")


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_a_row_that_would_change_its_neighbours_rotary_positions_is_refused(copied, kind):
    """Beside one that is longer than the original length, short rows would get other rewards."""
    config = json.loads((copied / "config.json").read_text())
    rope = {"rope_type": kind, "factor": 4.0, "rope_theta": 1e4}
    if kind == "dynamic":
        config["max_position_embeddings"] = 40
    else:
        half = config["head_dim"] // 2
        factors = {"short_factor": [1.0] * half, "long_factor": [8.0] * half}
        rope |= {"original_max_position_embeddings": 40, **factors}
    (copied / "config.json").write_text(json.dumps(config | {"rope_parameters": rope}))
    (copied / "reward_contract.json").unlink()
    served = load_reward_model(copied, "cpu")
    assert served.max_tokens == 40
    short, fits, long = "blue", "blue " * 9, "or so " * 60
    assert len(served.token_ids(fits)) <= 40
    assert served.rewards([short, fits])[0] == pytest.approx(served.rewards([short])[0], abs=1e-5)
    told = rf"row 2 has \d+ tokens, expected 40 or fewer: with more its rotary positions \({kind}\)"
    with pytest.raises(ValueError, match=told):
        served.rewards([short, fits, long])


def test_a_row_alone_is_one_row_and_not_its_letters_keys_or_columns(model):
    talk = [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "blue"}]
    for given, row in (
        ("blue", "blue"),
        ({"text": "blue"}, "blue"),
        (talk, talk),
        ({"messages": talk}, talk),
        (DataFrame({"text": ["blue"]}), "blue"),
        ({"prompt": "The sky is ", "completion": "blue"}, "The sky is blue"),
        ({"prompt": talk[:1], "completion": "blue"}, talk),
        (DataFrame({"prompt": [talk[:1]], "completion": [talk[1:]], "tools": [None]}), talk),
    ):
        expected = model.rewards([row]).tolist()
        assert model.rewards(given).tolist() == expected
        assert model.predict(given).tolist() == expected
    assert model.rewards([]).tolist() == []  # no row, and not an empty one
    with pytest.raises(ValueError, match="answers are the text 'blue'; expected a list of answers"):
        model.rewards_of_answers("The sky is ", "blue")
    for answers in ({"blue": 1}, None):
        with pytest.raises(ValueError, match=r"answers are .*; expected a list of answers"):
            model.rewards_of_answers("The sky is ", answers)
    for rows in (None, 5):
        with pytest.raises(ValueError, match=f"the rows are '{rows}'; expected a list"):
            model.rewards(rows)
    with pytest.raises(ValueError, match="row 0: the prompt is text, but the answer is"):
        model.rewards({"prompt": "The sky is ", "completion": talk[1:]})
    for mistaken in ({"prompt": "a", "answer": "b"}, {"text": ["blue", "green"]}):
        with pytest.raises(ValueError, match=r"row 0: a row is .* expected a text, a list of"):
            model.predict(mistaken)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (5, "row 1: a row is '5'; expected a text"),
        ("a\ud800b", r"row 1: the text holds .\\ud800., half of a character, at 1 of"),
        ([{"role": "user"}], r"row 1: messages\[0\] has neither content nor tool_calls"),
        ([{"role": 5, "content": "a"}], r"row 1: messages\[0\]\.role is .5.; expected text"),
        (
            [{"role": "assistant", "content": "a", "thinking": ["b"]}],
            r"row 1: messages\[0\]\.thinking is \"\['b'\]\"; expected text",
        ),
        ([{"role": "user", "content": "a"}, "b"], "row 1: messages are"),
        *(
            (
                [{"role": "assistant", "content": "", name: calls}],
                rf"row 1: messages\[0\]\.{name} is .*; expected the calls in tool_calls: \[",
            )
            for name, calls in (
                ("function_call", {"name": "add", "arguments": "{}"}),
                ("tool_calls", '[{"name": "add"}]'),
                ("tool_calls", ["add"]),
                ("tool_calls", [{"function": "add"}]),
            )
        ),
        (
            {"messages": [{"role": "user", "content": "a"}], "tools": "{"},
            "row 1: 'tools' is the text '{', ",
        ),
        (
            {"messages": [{"role": "user", "content": "a"}], "tools": {"name": "look"}},
            r"row 1: 'tools' is .*'look'.*; expected a list of tools",
        ),
        (
            {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": "[1]"},
            r"row 1: 'chat_template_kwargs' is '\[1\]'; expected a mapping of settings",
        ),
        (
            {"messages": "Hi"},
            r"row 1: 'messages' is the text 'Hi', which is no JSON \(Expecting .*",
        ),
        ({"messages": "Hi"}, r"expected a list of messages .* \(a plain text is given as 'text'\)"),
        (
            [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}],
            r"row 1: messages\[0\].content is or holds .*'image'.*; expected text, or a list of",
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": None}]}],
            r"row 1: messages\[0\].content is or holds .*None.*; expected text, or a list of",
        ),
        (
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": 5}],
            r"row 1: messages\[1\].content is or holds '5'; expected text",
        ),
        (
            {
                "messages": [{"role": "user", "content": "a"}],
                "chat_template_kwargs": {"tools": []},
            },
            "row 1: chat_template_kwargs holds 'tools'; expected settings",
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_named_by_its_number(model, row, said):
    with pytest.raises(ValueError, match=said):
        model.rewards(["blue", row])


@pytest.mark.parametrize("answer", [None, 3, float("nan"), [], b"blue", {"role": "assistant"}])
def test_an_answer_that_is_none_is_named_by_its_number_among_those_of_a_rollout(model, answer):
    """A rollout of thousands may hold one that came back empty."""
    prompt, answers = [{"role": "user", "content": "What?"}], ["blue", answer, "green"]
    told = r"row 1: messages are .*; expected a list of mappings with role and content"
    with pytest.raises(ValueError, match=told):
        as_reward_func(model)([prompt] * 3, answers)
    with pytest.raises(ValueError, match=told):
        model.rewards_of_answers(prompt, answers)
    with pytest.raises(ValueError, match=r"row 1: the prompt is text, but the answer is "):
        as_reward_func(model)(["What?"] * 3, answers)


@pytest.mark.parametrize("column", [{"tools": "[]"}, {"chat_template_kwargs": {"a": 1, "b": 2}}])
def test_a_column_of_a_rollout_is_a_list_and_not_the_value_of_one_row(model, column):
    prompt, (name,) = [{"role": "user", "content": "What?"}], column
    with pytest.raises(ValueError, match=f"'{name}' is .*; expected a list, one a prompt"):
        as_reward_func(model)([prompt] * 2, ["blue", "green"], **column)


def test_an_option_that_no_row_has_is_refused(model):
    """It would be passed over, and the rewards be those of other text."""
    prompt = [{"role": "user", "content": "What?"}]
    with pytest.raises(ValueError, match=r"no option 'tool'; expected one of .*'tools'"):
        model.rewards_of_answers(prompt, ["blue"], tool=[{"name": "look"}])


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([], "sequence 1 is empty; token ids must be 0 to 293, and"),
        (np.empty(0, np.int32), "sequence 1 is empty"),
        ([5, 10**6, 7], "sequence 1 holds 1000000 at 1"),
        ([5, -1], "sequence 1 holds -1 at 1"),
        ([5, 10**30], r"sequence 1 is \[5, 1000000"),
        ([5.5], r"sequence 1 is \[5\.5\]; token ids"),
        ([True], r"sequence 1 is \[True\]"),
        ([[5, 6]], r"sequence 1 is \[\[5, 6\]\]"),
        ("blue", "sequence 1 is blue; token ids"),
    ],
)
def test_what_is_no_token_id_is_named_with_its_place(model, ids, said):
    with pytest.raises(ValueError, match=said):
        model.rewards_of_ids([[5, 6], ids])


def test_token_ids_of_any_integers_get_the_rewards_of_those_numbers(model):
    ids = model.token_ids("The sky is blue")
    given = [
        ids,
        tuple(ids),
        *(np.asarray(ids, t) for t in (np.int32, np.uint16)),
        torch.tensor(ids),
    ]
    assert set(model.rewards_of_ids(given).tolist()) == set(
        model.rewards(["The sky is blue"]).tolist()
    )
