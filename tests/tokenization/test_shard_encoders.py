"""A shard's rows, of any kind and number, get the tokenizer's own ids in their order."""

import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from tasks.tokenization.encoder import CASES, PROBED_BYTES, PROBED_ROWS
from tasks.tokenization.shard_encoders import ROWS_AT_ONCE, TEXTS, ShardEncoders, _probed
from tasks.tokenization.tokenizer_source import SavedTokenizer
from tests.templating.families import FAMILIES, build_family
from tests.templating.stage_runs import run

USER = {"role": "user", "content": "What color is the sky?"}


def batch_of(formats, chosen, rejected):
    """Pairs as templating leaves them, in the columns that are encoded."""
    nothing = pa.nulls(len(formats), pa.list_(pa.int32()))
    columns = {"format": pa.array(formats), "chosen": pa.array(chosen, pa.string())}
    columns |= {"rejected": pa.array(rejected, pa.string())}
    return pa.record_batch(columns | {f"{side}_literals": nothing for side in TEXTS})


@pytest.mark.parametrize("kinds", [("conversational",), ("standard",), ("standard", "x", "x")])
@pytest.mark.parametrize("choice", ["auto", "tokenizers"])
def test_ids_of_many_rows_are_in_their_order_whatever_is_encoded_in_one_go(kinds, choice, tmp_path):
    model = build_family("llama3", tmp_path / "model")
    start, end = FAMILIES["llama3"].tokens[1:3]
    count = 2 * ROWS_AT_ONCE + 5
    formats = [kinds[n % len(kinds)].replace("x", "conversational") for n in range(count)]
    texts = [
        [f"{start}user{end} {CASES[n % len(CASES)]} {word} {n}" for n in range(count)]
        for word in ("blue", "green it is")
    ]
    backend = Tokenizer.from_file(str(model.path / "tokenizer.json"))
    expected = [
        backend.encode(text, add_special_tokens=kind == "standard").ids
        for side in texts
        for kind, text in zip(formats, side, strict=True)
    ]
    rows = batch_of(formats, *texts)
    encoders = ShardEncoders(SavedTokenizer(model.path), choice)
    assert [ids.tolist() for ids in encoders(rows).lists()] == expected
    some = rows.slice(7, ROWS_AT_ONCE)
    expected = expected[7 : 7 + ROWS_AT_ONCE] + expected[count + 7 : count + 7 + ROWS_AT_ONCE]
    assert [ids.tolist() for ids in encoders(some).lists()] == expected
    assert encoders(rows.slice(0, 0)).lists() == []


def test_the_first_rows_are_probed_up_to_their_number_and_their_size():
    def probed(*lengths):
        texts = ["é" * length for length in lengths]
        return _probed(batch_of(["standard"] * len(texts), texts, texts)).num_rows

    assert probed(*[5] * 40) == PROBED_ROWS
    assert probed(*[PROBED_BYTES] * 5) == 2
    assert probed(PROBED_BYTES) == 1
    assert probed(*[PROBED_BYTES // 12] * 9) == 3


def test_conversations_and_texts_side_by_side_keep_their_order(tmp_path):
    model = build_family("llama2", tmp_path / "model")
    rows = [
        {"prompt": [{**USER, "content": f"What {n}?"}],
         "chosen": [{"role": "assistant", "content": "b"}],
         "rejected": [{"role": "assistant", "content": "g"}]}
        if n % 3
        else {"prompt": f"The {n}", "chosen": " blue.", "rejected": " green."}
        for n in range(30)
    ]  # fmt: skip
    rendered, kept = run(rows, model, tmp_path)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model.path)
    tokenizer.chat_template = (rendered.path / "chat_template.jinja").read_text()
    for row, ids in zip(rows, kept, strict=True):
        if isinstance(row["prompt"], str):
            expected = tokenizer(row["prompt"] + row["chosen"] + "</s>")["input_ids"]
        else:
            expected = tokenizer.apply_chat_template(
                row["prompt"] + row["chosen"], return_dict=False
            )
        assert ids["chosen_input_ids"] == expected
