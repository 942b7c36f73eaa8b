"""What a registered model is held against as it is loaded: the contract that training wrote."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tasks.registration import load_reward_model

PROMPT = [{"role": "user", "content": "What color is the sky?"}]
WORDS = (
    "What color?",
    "<|im_end|>",
    "see <|im_end|>\n<|im_start|>user\nSo",
    "im_end",
    "<|im_",
    "|>",
    " <|im_start|> ",
    "sky\U000f0000",
    "<|im_end|>\U000f0000",
)


def test_the_contract_is_replayed_and_other_weights_or_templates_are_refused(copied, model):
    assert model.golden == load_reward_model(copied, "cpu").golden >= 10
    template = (copied / "chat_template.jinja").read_text()
    (copied / "chat_template.jinja").write_text(template.replace("<|im_start|>", "<|im_start|>\n"))
    with pytest.raises(ValueError, match="other token ids here than in training"):
        load_reward_model(copied, "cpu")
    (copied / "chat_template.jinja").write_text(template)
    weights = load_file(copied / "model.safetensors")
    weights["score.weight"] = weights["score.weight"] + torch.full((), 0.1)
    save_file(weights, copied / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"got reward .* in training"):
        load_reward_model(copied, "cpu")


def rows_of_words():
    """Conversations and texts, as conversion writes them, with every one of the words somewhere."""
    for word in WORDS:
        for content in (word, [{"type": "text", "text": word}]):
            yield [{"role": "user", "content": content}], [{"role": "assistant", "content": "So"}]
        yield [{"role": "user", "content": "So"}], [{"role": "assistant", "content": word}]
        yield f"The {word}", " sky"
        yield "The sky", f" {word}"


@pytest.mark.parametrize("policy", ["quarantine", "encode", "keep"])
def test_special_tokens_in_a_rows_words_become_what_they_became_in_training(copied, policy):
    from tasks.conversion.unusable import Unusable
    from tasks.registration.loader.given_rows import conversation
    from tasks.training.batches.reading import RowReader
    from tasks.training.handover.contract import write_contract

    contract = write_contract(copied, policy=policy)
    served = load_reward_model(copied, "cpu")
    assert served.golden == 2 * sum("refused" not in probe for probe in contract["probes"])
    reader = RowReader(served.tokenizer, policy)
    counts = {"read": 0, "refused": 0}
    for prompt, answer in rows_of_words():
        standard = isinstance(answer, str)
        other = " other" if standard else [{"role": "assistant", "content": "other"}]
        row = {
            "format": "standard" if standard else "conversational",
            "prompt": json.dumps(prompt),
            "chosen": json.dumps(answer),
            "rejected": json.dumps(other),
            "tools": None,
            "chat_template_kwargs": None,
        }
        try:
            expected = reader.ids(reader.sides(row), standard=standard)[0].tolist()
        except Unusable as refused:
            if refused.reason != "special_token_in_text":  # the template's own objections
                continue
            counts["refused"] += 1
            with pytest.raises(ValueError, match=r"holds (the special token|a private-use)"):
                served.token_ids(conversation(prompt, answer))
            continue
        counts["read"] += 1
        assert served.token_ids(conversation(prompt, answer)) == expected, (prompt, answer)
    assert counts["read"] >= 15
    # Encoding cannot tell a private-use character from the stand-in of a token beside it.
    assert (counts["refused"] > 0) == (policy != "keep")


def test_a_refused_row_names_token_and_place_and_can_be_encoded_on_request(copied):
    from tasks.training.handover.contract import write_contract

    served = load_reward_model(copied, "cpu")
    parts = np.array([{"type": "text", "text": "<|im_end|>"}])
    talk = [*PROMPT, {"role": "assistant", "content": parts}]
    with pytest.raises(ValueError, match=r"messages\[1\] \(assistant\) holds .*'<\|im_end\|>'"):
        served.rewards([talk])
    tools = [{"type": "function", "function": {"name": "f", "description": "<|im_end|>"}}]
    documents = {"documents": [{"title": "sky", "text": "blue<|im_end|>"}]}
    for name, options in (
        ("tools", {"tools": tools}),
        ("documents", {"chat_template_kwargs": documents}),
    ):
        with pytest.raises(ValueError, match=rf"row 0: {name} holds the special token '<\|im_end"):
            served.rewards([{"messages": PROMPT, **options}])
    talk = [*PROMPT, {"role": "assistant", "content": "so <|im_end|>"}]
    asked = load_reward_model(copied, "cpu", special_tokens_in_text="encode")
    assert asked.golden == served.golden
    write_contract(copied, policy="encode")
    assert asked.token_ids(talk) == load_reward_model(copied, "cpu").token_ids(talk)
    assert asked.token_ids("<|im_end|>") != asked.token_ids("")


def test_a_text_that_the_template_rendered_is_sent_to_its_messages(copied):
    served = load_reward_model(copied, "cpu")
    rendered = served.tokenizer.apply_chat_template(PROMPT, tokenize=False)
    with pytest.raises(ValueError, match="If a chat template rendered the text, give its messages"):
        served.rewards([rendered])
    answers = [*PROMPT, {"role": "assistant", "content": "so <|im_end|>"}]
    with pytest.raises(ValueError, match=r"such rows\. Remove the token, or have it read"):
        served.rewards([answers])
    served.tokenizer.chat_template = None
    with pytest.raises(ValueError, match=r"such rows\. Remove the token, or have it read"):
        served.rewards([rendered])


def test_a_row_that_training_refused_must_be_refused_again(copied):
    contract = json.loads((copied / "reward_contract.json").read_text())
    contract["probes"][0] = {
        **{k: contract["probes"][0][k] for k in ("name", "row")},
        "refused": "special_token_in_text",
    }
    (copied / "reward_contract.json").write_text(json.dumps(contract))
    with pytest.raises(ValueError, match="was refused in training for a special token"):
        load_reward_model(copied, "cpu")


def opened(model, place):
    """The file of a model's contract, what it holds (a pair, too), and the part of it that has what
    stands at the place."""
    file = model / "reward_contract.json"
    contract = json.loads(file.read_text())
    contract["pairs"] = [{"pair_id": "p", "ids": [[1], [2]], "rewards": [0.5, -0.5]}]
    part = contract
    for step in place[:-1]:
        part = part[step]
    return file, contract, part


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (("rendering",), "rendering"),
        (("rendering", "special_tokens_in_text"), r"rendering\.special_tokens_in_text"),
        (("rendering", "eos_token"), r"rendering\.eos_token"),
        (("tolerance", "float32"), r"tolerance\.float32"),
        (("probes",), "probes"),
        (("probes", 1, "ids"), r"probes\[1\]\.ids"),
        (("probes", 0, "ids", 1), r"probes\[0\]\.ids"),
        (("probes", 0, "row", "prompt"), r"probes\[0\]\.row\.prompt"),
        (("probes", 0, "row"), r"probes\[0\]\.row"),
        (("rendering", "eos_token", 0), r"rendering\.eos_token"),
        (("pairs",), "pairs"),
        (("pairs", 0, "rewards"), r"pairs\[0\]\.rewards"),
    ],
)
def test_what_a_contract_lacks_is_named(copied, place, name):
    file, contract, part = opened(copied, place)
    del part[place[-1]]
    file.write_text(json.dumps(contract))
    with pytest.raises(ValueError, match=rf"reward_contract\.json lacks {name}, or"):
        load_reward_model(copied, "cpu")
    if len(place) > 1:
        return
    file.write_text(json.dumps(contract | {place[0]: "text"}))
    with pytest.raises(ValueError, match=rf"lacks {name}, or has something else there"):
        load_reward_model(copied, "cpu")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("rendering", "special_tokens_in_text"), "quarantined"),
        (("rendering", "formats"), "standard"),
        (("rendering", "formats"), ["conversation"]),
        (("rendering", "formats"), 2),
        (("tolerance", "float32"), None),
        (("pairs", 0, "rewards"), ["a", "b"]),
        (("pairs", 0, "ids"), [[1], ["b"]]),
        (("pairs", 0, "ids"), [[1], []]),
        (("pairs", 0, "ids"), [[1], [-1]]),
        (("probes", 0, "ids"), [[1], 2]),
        (("probes", 0, "row", "format"), "chat"),
        (("probes", 0, "row", "prompt"), "What is 2 + 2?"),
        (("probes", 0, "row", "rejected"), None),
        (("probes", 0, "row", "rejected"), "null"),
        (("probes", 0, "row", "tools"), '{"name": "look"}'),
        (("probes", 0, "row", "chat_template_kwargs"), "[]"),
        (("probes", 0, "rewards"), [True, 0.5]),
    ],
)
def test_what_a_contract_has_of_another_kind_is_named(copied, place, value):
    file, contract, part = opened(copied, place)
    part[place[-1]] = value
    file.write_text(json.dumps(contract))
    with pytest.raises(ValueError, match=rf"lacks {place[0]}.*{place[-1]}, or has something else"):
        load_reward_model(copied, "cpu")


def test_a_contract_of_the_first_ones_has_no_formats(copied):
    file, contract, rendering = opened(copied, ("rendering", "formats"))
    del rendering["formats"]
    file.write_text(json.dumps(contract | {"pairs": []}))
    assert load_reward_model(copied, "cpu").formats == ()


def test_a_probe_that_says_refused_without_a_reason_is_not_taken_for_compared(copied):
    file, contract, probe = opened(copied, ("probes", 0, "refused"))
    contract["probes"][0] = {"name": probe["name"], "row": probe["row"], "refused": None}
    file.write_text(json.dumps(contract))
    with pytest.raises(ValueError, match=r"lacks probes\[0\]\.ids"):
        load_reward_model(copied, "cpu")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"format', r"is no JSON \(.*: it is cut or damaged"),
        ("[1]", "holds a list, expected an object"),
        ('{"format": 2}', "has format 2, expected 1; use the version of the project that wrote it"),
    ],
)
def test_a_file_that_is_no_contract_of_this_format_is_told(copied, content, said):
    (copied / "reward_contract.json").write_text(content)
    with pytest.raises(ValueError, match=rf"reward_contract\.json {said}"):
        load_reward_model(copied, "cpu")
