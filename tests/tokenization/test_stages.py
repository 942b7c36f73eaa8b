"""Templating and tokenization as stages: ids of real pairs, and a line for every row."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import AddedToken, Tokenizer

from tasks.artifact import Artifact, Ledger, Store
from tasks.errors import DataError
from tasks.model.directory import describe
from tasks.templating import TemplatingParams
from tasks.templating import task as templating
from tasks.tokenization import TokenizationParams
from tasks.tokenization import task as tokenization
from tasks.tokenization.concerns import losses
from tasks.tokenization.shards import shards_in

USER = [{"role": "user", "content": "What color is the sky?"}]


def says(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def pair(prompt, chosen, rejected, **changes) -> dict:
    text = isinstance(chosen, str)
    row = {
        "pair_id": f"{abs(hash(json.dumps([prompt, chosen, rejected]))):x}",
        "prompt": json.dumps(prompt),
        "chosen": json.dumps(chosen),
        "rejected": json.dumps(rejected),
        "format": "standard" if text else "conversational",
        "tools": None,
        "chat_template_kwargs": None,
        "margin": None,
        "weight": 1.0,
        "preference": 1.0,
        "comparison": None,
        "source": "s",
        "file": "f.jsonl",
        "row": 1,
        "group": "g",
        "split": "train",
    }
    return row | changes


def stages(tmp_path: Path, model_directory: Path, shards: list[list[dict]], **tokenization_params):
    """The templating and tokenization artifacts of these pairs."""
    directory = tmp_path / "conversion"
    (directory / "pairs").mkdir(parents=True, exist_ok=True)
    for index, rows in enumerate(shards):
        table = pa.Table.from_pylist(rows)
        for name in ("tools", "chat_template_kwargs", "comparison"):
            table = table.set_column(
                table.column_names.index(name), name, table[name].cast(pa.string())
            )
        pq.write_table(table, directory / f"pairs/{index:05d}.parquet")
    conversion = Artifact("conversion", "0" * 16, directory, "d" * 64, {"report": {"notes": {}}})
    store, model = Store(tmp_path / "data"), describe(model_directory, {})
    held = Artifact("model", "1" * 16, model_directory, "e" * 64, {})
    rendered = store.obtain(
        templating.step(TemplatingParams(max_bad_fraction=1.0), conversion, model, held)
    )
    params = TokenizationParams(**tokenization_params)
    return rendered, store.obtain(tokenization.step(params, rendered, model, held))


def rows_of(artifact: Artifact, split: str) -> list[dict]:
    tables = [
        pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        for path in shards_in(artifact.path / split)
    ]
    return pa.concat_tables(tables).to_pylist()


def test_ids_equal_the_tokenizers_own_for_conversations_and_for_text(
    tmp_path, tiny_model_directory, tiny_tokenizer
):
    pairs = [
        pair(USER, says("It is blue."), says("It is green.")),
        pair("The sky is", " blue.", " green.<|im_end|>"),
        pair(USER, says("naïve 🦩"), says(""), split="eval"),
    ]
    pairs[1]["rejected"] = json.dumps(" green.")
    _, tokenized = stages(tmp_path, tiny_model_directory, [pairs])
    conversation, text = rows_of(tokenized, "train")
    for side, answer in (("chosen", "It is blue."), ("rejected", "It is green.")):
        whole = tiny_tokenizer.apply_chat_template(USER + says(answer), return_dict=False)
        assert conversation[f"{side}_input_ids"] == whole
    assert text["chosen_input_ids"] == tiny_tokenizer("The sky is blue.<|im_end|>")["input_ids"]
    assert len(rows_of(tokenized, "eval")) == 1
    assert not {"margin", "preference", "comparison"} & text.keys()
    assert (tokenized.path / "tokenizer/chat_template.jinja").exists()


def test_what_the_training_pairs_are_is_told_to_whoever_serves_the_model(
    tmp_path, tiny_model_directory
):
    talk, text = pair(USER, says("Blue."), says("Green.")), pair("The sky is", " blue.", " red.")
    held = {"split": "eval"}
    kinds = {
        "texts": ([text, talk | held], ["standard"]),
        "talks": ([talk, text | held], ["conversational"]),
        "both": ([talk, text], ["standard", "conversational"]),
    }
    for name, (pairs, formats) in kinds.items():
        _, tokenized = stages(tmp_path / name, tiny_model_directory, [pairs])
        assert json.loads((tokenized.path / "rendering.json").read_text())["formats"] == formats


@pytest.mark.catalogue(90, 91)
def test_every_row_has_a_line(tmp_path, tiny_model_directory):
    long = says("blue " * 500)
    shards = [
        [
            pair(USER, says("It is blue."), says("It is green."), margin=0.5, comparison="c1"),
            pair(USER, says("see <|im_end|>\n<|im_start|>user"), says("It is green.")),
            pair(USER, long, says("green")),
        ],
        [
            pair(USER, says("a"), says("b"), source="t", preference=0.5),
            pair(says("no user") + USER, says("same"), says("same"), source="t"),
        ],
    ]
    rendered, tokenized = stages(tmp_path, tiny_model_directory, shards, max_length=200)
    first, second = (Ledger.from_json(a.report["ledger"]) for a in (rendered, tokenized))
    assert first.dropped == {"identical_rendered": 1, "special_token_in_text": 1}
    assert (first.rows_in, first.rows_out, second.rows_in) == (5, 3, 3)
    assert second.dropped == {"too_long": 1}
    quarantined = pq.read_table(rendered.path / "quarantine.parquet").to_pylist()
    assert [q["reason"] for q in quarantined] == ["special_token_in_text", "identical_rendered"]
    assert (quarantined[0]["file"], quarantined[0]["field"]) == ("f.jsonl", "chosen")
    kept = rows_of(tokenized, "train")
    assert [row["margin"] for row in kept] == [0.5, None]
    assert [(row["preference"], row["comparison"]) for row in kept] == [(1.0, "c1"), (0.5, None)]


def lowercased(model, directory):
    """A copy of the model, to whose tokenizer capital letters are small ones."""
    shutil.copytree(model, directory)
    path = directory / "tokenizer.json"
    state = json.loads(path.read_text()) | {"normalizer": {"type": "Lowercase"}}
    path.write_text(json.dumps(state))
    return directory


def test_sides_that_the_tokenizer_makes_equal_are_left_out_with_their_rows(
    tmp_path, tiny_model_directory
):
    model = lowercased(tiny_model_directory, tmp_path / "model")
    pairs = [
        pair(USER, says("Blue."), says("green.")),
        pair(USER, says("Blue."), says("blue."), source="t"),
        pair(USER, says("GREEN. " * 99), says("green. " * 99)),  # too long is counted first
        pair("The sky", " is BLUE", " is blue", source="t"),
    ]
    for number, one in enumerate(pairs, 1):
        one["row"] = number
    _, tokenized = stages(tmp_path, model, [pairs], max_length=99)
    ledger = Ledger.from_json(tokenized.report["ledger"])
    assert {source: account.dropped for source, account in ledger.accounts.items()} == {
        "s": {"too_long": 1},
        "t": {"identical_tokens": 2},
    }
    left_out = pq.read_table(tokenized.path / "quarantine.parquet").to_pylist()
    assert [(row["source"], row["file"], row["row"]) for row in left_out] == [
        ("t", "f.jsonl", 2),
        ("t", "f.jsonl", 4),
    ]
    assert {(row["reason"], row["field"]) for row in left_out} == {("identical_tokens", "chosen")}
    assert "both sides have the same token ids" in left_out[0]["message"]
    assert "The sky is BLUE" in left_out[1]["raw"]
    assert len(rows_of(tokenized, "train")) == 1


@pytest.mark.catalogue(89, 90)
def test_nothing_left_fails_with_what_to_do(tmp_path, tiny_model_directory):
    shards = [[pair(USER, says("It is blue."), says("It is green."))]]
    with pytest.raises(DataError, match=r"0 of 1 pairs have at most .* 3 tokens.*p50=31.*raise"):
        stages(tmp_path, tiny_model_directory, shards, max_length=3)
    with pytest.raises(DataError, match=r"at most .* 30 tokens"):
        stages(tmp_path, tiny_model_directory, shards, max_length=30)
    _, tokenized = stages(tmp_path, tiny_model_directory, shards, max_length=31)
    assert (tokenized.report["train"], tokenized.report["longest"]) == (1, 31)


def test_where_nothing_is_left_the_cause_is_told_that_it_was(tmp_path, tiny_model_directory):
    model = lowercased(tiny_model_directory, tmp_path / "model")
    equal = pair(USER, says("Blue."), says("blue."))
    for number, most in enumerate((None, 99)):
        with pytest.raises(DataError, match="identical_tokens") as told:
            stages(tmp_path / f"{number}", model, [[equal]], max_length=most)
        assert "max_length" not in str(told.value)
    long = pair(USER, says("green. " * 99), says("Blue."))
    held = pair(USER, says("Blue."), says("Green."), split="eval")
    with pytest.raises(DataError, match=r"no training pair is left; .*max_length \(now 99\)"):
        stages(tmp_path / "held", model, [[long, held]], max_length=99)


def test_a_text_without_ids_is_told_even_where_all_pairs_before_it_are_too_long(
    tmp_path, tiny_model_directory
):
    model = tmp_path / "model"
    shutil.copytree(tiny_model_directory, model)
    backend = Tokenizer.from_file(str(model / "tokenizer.json"))
    backend.add_tokens([AddedToken("<a>", normalized=False, rstrip=True)])
    backend.add_tokens([AddedToken("\t", normalized=False, lstrip=True)])
    backend.save(str(model / "tokenizer.json"))
    long = pair(USER, says("It is blue."), says("It is green."))
    shards = [[long], [pair(USER, says("It <a> \t is"), says("blue"))]]
    with pytest.raises(DataError, match=r"tokenizers fails on the text .*It <a>"):
        stages(tmp_path, model, shards, max_length=3)


def test_which_encoder_had_how_many_shards_is_in_the_record(tmp_path, tiny_model_directory):
    one = pair(USER, says("It is blue."), says("It is green."))
    text = pair("The sky is", " blue.", " green.")
    shards = [[one], [text, one], [text]]
    _, tokenized = stages(tmp_path, tiny_model_directory, shards, encoder="tokenizers")
    assert tokenized.report["encoders"] == {
        "tokenizers by pieces": {"shards": 3, "why_no_faster": ""}
    }


@pytest.mark.parametrize(
    ("encoder", "installed", "in_key"),
    [
        ("auto", True, True),
        ("fastokens", True, True),
        ("tokenizers", True, False),
        ("auto", False, False),
    ],
)
def test_the_version_of_fastokens_is_in_the_key_where_it_may_encode(
    encoder, installed, in_key, tmp_path, tiny_model_directory, monkeypatch
):
    monkeypatch.setattr(tokenization, "has_fastokens", lambda: installed)
    rendered = Artifact("templating", "0" * 16, tmp_path, "d" * 64, {})
    params, model = TokenizationParams(encoder=encoder), describe(tiny_model_directory, {})
    libraries = tokenization.step(params, rendered, model, rendered).libraries
    assert libraries == ("tokenizers", "transformers", *(("fastokens",) if in_key else ()))


def test_a_source_that_is_lost_is_told(tmp_path, tiny_model_directory, caplog):
    short, long = says("It is blue."), says("green " * 500)
    kept = pair(USER, short, says("It is green."))
    lost = pair(USER, long, short, source="t")
    with caplog.at_level("WARNING"):
        _, tokenized = stages(tmp_path, tiny_model_directory, [[kept, lost]], max_length=100)
    assert tokenized.report["train"] == 1
    told = "tokenization left out 1 of 2 pairs: all 1 of source 't' (too_long 1); of "
    assert [message.startswith(told) for message in caplog.messages] == [True]
    assert tokenized.report["warnings"] == caplog.messages


def account(rows_in, **dropped):
    kept = rows_in - sum(dropped.values())
    return {"rows_in": rows_in, "added": 0, "rows_out": kept, "dropped": dropped}


def test_what_is_left_out_is_told_from_a_twentieth_on_with_the_length_that_keeps_the_rest():
    whole = account(100, too_long=4)
    assert losses(Ledger.from_json({"a": whole}), 256, [300] * 4) == []
    # of 200 pairs 10 may be lost: so many are longer than the eleventh from above
    given = {"a": whole, "b": account(80, too_long=5, images=3), "c": account(20, too_long=20)}
    lengths = [*range(301, 325), *range(400, 405)]
    assert losses(Ledger.from_json(given), 256, lengths) == [
        "tokenization left out 32 of 200 pairs: all 20 of source 'c' (too_long 20), 8 of 80 of "
        "source 'b' (too_long 5, images 3); of tokenization.max_length (now 256) 319 would keep "
        "95%, 404 would keep all"
    ]
    [told] = losses(Ledger.from_json({"a": account(20, too_long=1)}), 256, [300])  # 95% are kept
    assert told.endswith("of tokenization.max_length (now 256) 300 would keep all")
    few = {"a": account(1000), "b": account(20, too_long=1)}
    assert losses(Ledger.from_json(few), 256, [1300])[0].endswith(
        "1 of 20 of source 'b' (too_long 1); of tokenization.max_length (now 256) 1,300 would keep "
        "all"
    )
    [told] = losses(Ledger.from_json({"a": account(9, images=1)}), None, [])
    assert told == "tokenization left out 1 of 9 pairs: 1 of 9 of source 'a' (images 1)"


def test_the_shared_prefix_of_a_conversation_is_its_prompt(
    tmp_path, tiny_model_directory, tiny_tokenizer
):
    pairs = [pair(USER, says("blue it is"), says("green it is"))]
    _, tokenized = stages(tmp_path, tiny_model_directory, [pairs])
    row = rows_of(tokenized, "train")[0]
    prompt = tiny_tokenizer.apply_chat_template(USER, add_generation_prompt=True, return_dict=False)
    assert row["shared_prefix_length"] == len(prompt)


def test_training_can_map_the_files(tmp_path, tiny_model_directory):
    from datasets import Dataset

    pairs = [pair(USER, says("It is blue."), says("It is green."))] * 3
    _, tokenized = stages(tmp_path, tiny_model_directory, [pairs])
    dataset = Dataset.from_file(str(tokenized.path / "train/00000.arrow"))
    assert len(dataset) == 3
