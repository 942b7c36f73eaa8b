"""The base model: built from scratch equally twice, or a directory that is checked before use."""

import json
import os
import shutil

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from flows.summary import summary_of
from tasks.artifact import Artifact, Store
from tasks.errors import ModelError
from tasks.model import ModelParams, ScratchParams, base_model, scratch, step
from tasks.model.directory import describe, weights_digest
from tasks.model.scratch import LONGEST_RUN, MOST_TOKEN_CHARACTERS, texts, train_tokenizer

TEXT = "A heron stood in the shallow water and waited for the evening to come. "


@pytest.fixture
def ingestion(tmp_path) -> Artifact:
    """An ingestion artifact with a few rows."""
    directory = tmp_path / "ingested"
    (directory / "rows").mkdir(parents=True)
    rows = [orjson.dumps({"prompt": TEXT * n, "chosen": ["x", {"y": TEXT}]}) for n in range(1, 40)]
    pq.write_table(
        pa.table({"raw": pa.array(rows).cast(pa.string())}), directory / "rows/00000.parquet"
    )
    return Artifact("ingestion", "0" * 16, directory, "d" * 64, {})


SCRATCH = ModelParams(scratch=ScratchParams(vocab_size=320, hidden_size=16, intermediate_size=24))


def test_a_scratch_model_is_the_same_bytes_in_two_stores(tmp_path, ingestion):
    first = Store(tmp_path / "a").obtain(step(SCRATCH, ingestion))
    second = Store(tmp_path / "b").obtain(step(SCRATCH, ingestion))
    assert first.digest == second.digest
    other_seed = ModelParams(scratch=SCRATCH.scratch.model_copy(update={"seed": 1}))
    third = Store(tmp_path / "b").obtain(step(other_seed, ingestion))
    a, c = base_model(first), base_model(third)
    assert a.tokenizer_digest == c.tokenizer_digest
    assert a.weights_digest != c.weights_digest
    assert a.name == "qwen3 from scratch"


def test_a_scratch_model_loads_with_the_auto_classes_and_its_tokenizer_keeps_any_text(
    tmp_path, ingestion
):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    path = base_model(Store(tmp_path).obtain(step(SCRATCH, ingestion))).path
    tokenizer = AutoTokenizer.from_pretrained(path)
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|pad|>")
    text = "naïve 🦩 \n\t heron \u200d‮ x"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    call = {"function": {"name": "find", "arguments": {"q": "heron"}}}
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]}],
        tokenize=False,
    )
    assert rendered == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n\n<tool_call>"
        '{"name": "find", "arguments": {"q": "heron"}}</tool_call><|im_end|>\n'
    )
    AutoModelForSequenceClassification.from_pretrained(path, num_labels=1)


def test_a_line_of_equal_characters_makes_no_token_as_long_as_itself():
    vocabulary = train_tokenizer(iter(["x" * 20_000, *[TEXT] * 9]), 320).get_vocab()
    assert "x" * 64 in vocabulary
    assert max(map(len, vocabulary)) <= MOST_TOKEN_CHARACTERS


def test_no_run_of_one_kind_reaches_the_training_whole_and_no_character_is_lost(tmp_path):
    runs = [kind * (3 * LONGEST_RUN + 1) for kind in ("x", "-", " ", "\t", "\u4e00")]
    written = [*runs, "a b " * LONGEST_RUN, TEXT]
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"raw": [json.dumps({"text": text}) for text in written]}), path)
    pieces = list(texts([path]))
    assert "".join(pieces) == "".join(written)
    assert pieces[-2:] == written[-2:]
    assert max(map(len, pieces[:-2])) == LONGEST_RUN


def test_a_tokenizer_reads_no_more_rows_once_it_has_read_enough_text(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "TOKENIZER_TEXT_BYTES", 2 * len(TEXT))
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"raw": [json.dumps({"text": TEXT})] * 9}), path)
    assert [*texts([path, path])] == [TEXT] * 3


def test_a_local_directory_is_described_and_its_keys_follow_the_bytes(
    tmp_path, ingestion, tiny_model_directory
):
    copy = tmp_path / "model"
    shutil.copytree(tiny_model_directory, copy)
    params = ModelParams(path=str(copy))
    before = base_model(Store(tmp_path / "s").obtain(step(params, ingestion)))
    assert (before.path, before.name) == (copy.resolve(), "model")
    (copy / "chat_template.jinja").write_text("{{ messages }}")
    after = base_model(Store(tmp_path / "s").obtain(step(params, ingestion)))
    assert before.tokenizer_digest != after.tokenizer_digest
    assert before.weights_digest == after.weights_digest
    (copy / "consolidated.safetensors").write_bytes(b"the same weights once more")
    assert weights_digest(copy) == after.weights_digest
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="holds no safetensors weights"):
        weights_digest(copy)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, False),
        ({"architectures": ["Qwen3ForSequenceClassification"], "id2label": {"0": "r"}}, True),
        (
            {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "", "1": ""}},
            False,
        ),
        ({"architectures": ["SkyworkRewardModel"]}, True),
    ],
)
def test_a_base_that_is_a_reward_model_already_is_told(tmp_path, ingestion, fields, told, caplog):
    scratch = Store(tmp_path / "a").obtain(step(SCRATCH, ingestion))
    base = tmp_path / "base"
    shutil.copytree(scratch.path, base)
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | fields))
    made = Store(tmp_path / "b").obtain(step(ModelParams(path=str(base)), None))
    warnings = made.report["warnings"]
    assert [f"the base model {base} is a reward model already" in w for w in warnings] == [
        True
    ] * told
    assert summary_of({"model": made})["warnings"] == warnings
    assert [
        record.getMessage() for record in caplog.records if record.name == "tasks.model.task"
    ] == warnings


@pytest.mark.parametrize("name", ["spiece.model", "sentencepiece.bpe.model", "bpe.codes"])
def test_a_tokenizer_without_a_tokenizer_json_is_known_by_the_files_that_it_has(
    tmp_path, tiny_model_directory, name
):
    copy = tmp_path / "model"
    shutil.copytree(tiny_model_directory, copy)
    (copy / "tokenizer.json").unlink()
    if name == "bpe.codes":  # PhoBERT's merges, beside its words
        (copy / "vocab.txt").write_text("a 1\n")
    digests: set[str] = set()
    for content in (b"one", b"other"):
        (copy / name).write_bytes(content)
        digests.add(describe(copy, {}).tokenizer_digest)
    assert len(digests) == 2


def break_config(directory):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"auto_map": {"AutoModel": "x.Y"}}))


def split_special_tokens(directory):
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"split_special_tokens": True}))


def give_a_decoder(directory):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"is_encoder_decoder": True}))


def pickle_weights(directory):
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 123\n"


def put(name, content):
    return lambda directory: (directory / name).write_text(content, "latin-1")


def cut_weights(directory):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def spread_weights(directory, *missing):
    """The weights in two files that an index names."""
    from safetensors.torch import load_file, save_file

    weights = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    files = {name: f"model-0000{n % 2 + 1}-of-00002.safetensors" for n, name in enumerate(weights)}
    for file in {*files.values()}.difference(missing):
        some = {name: weights[name] for name in weights if files[name] == file}
        save_file(some, directory / file, {"format": "pt"})
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))


def cut_a_link(name):
    """As in a snapshot of the hub's cache that was copied without the files behind its links."""

    def harm(directory):
        (directory / name).unlink()
        (directory / name).symlink_to("../blobs/ab")

    return harm


def leave_an_adapter(directory):
    """As peft saves it: the base model, and its tokenizer, are somewhere else."""
    for path in directory.iterdir():
        path.unlink()
    (directory / "adapter_config.json").write_text("{}")
    (directory / "adapter_model.safetensors").write_bytes(b"")


def lose_the_index(directory):
    spread_weights(directory)
    (directory / "model.safetensors.index.json").unlink()


def test_files_that_are_not_read_for_the_weights_need_not_be_whole(tmp_path, tiny_model_directory):
    copy = tmp_path / "model"
    shutil.copytree(tiny_model_directory, copy)
    (copy / "model-00001-of-00002.safetensors").write_text(POINTER)  # left from a download
    weights_digest(copy)
    (copy / "model-00001-of-00002.safetensors").unlink()
    spread_weights(copy)
    (copy / "other.safetensors").write_text("")
    weights_digest(copy)


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (
            put("config.json", '{"a": 1,}'),
            r"config\.json is no JSON object: found '\{\"a\": 1,\}'; .*",
        ),
        (put("config.json", "[]"), r"config\.json is no JSON object: found '\[\]'; save it again"),
        (put("config.json", "\xff{}"), r"config\.json is no JSON object"),
        (
            put("model.safetensors", POINTER),
            r"model\.safetensors is not whole \(.*\); download it again \(with `git lfs pull`",
        ),
        (
            put("model.safetensors", ""),
            r"model\.safetensors is not whole \(.*\); download it again",
        ),
        (cut_weights, r"model\.safetensors is not whole \(.*incomplete.*\); download it again"),
        (
            lambda d: spread_weights(d, "model-00002-of-00002.safetensors"),
            r"model-00002-of-00002\.safetensors is not there, though .*index\.json names it",
        ),
        (
            lose_the_index,
            r"model-00001-of-00002\.safetensors is a part of a model without "
            r"model\.safetensors\.index\.json; download that",
        ),
        (
            lambda d: (d / "model.safetensors").write_bytes(bytes([4, *[0] * 7]) + b"{no}"),
            r"is not whole \(its header cannot be read: .*\); download it again",
        ),
        (lambda d: (d / "config.json").unlink(), r"holds no config\.json, found chat_template"),
        (
            cut_a_link("chat_template.jinja"),
            r"chat_template\.jinja is a link to \.\./blobs/ab, which is not there; copy",
        ),
        (cut_a_link("model.safetensors"), r"model\.safetensors is a link to"),
        (leave_an_adapter, "model holds an adapter alone, .*; merge it first"),
        (
            lambda d: (d / "tokenizer.json").unlink(),
            r"holds no tokenizer: expected tokenizer\.json",
        ),
        (
            put("tokenizer.json", POINTER),
            r"tokenizer\.json is no whole JSON object; download it again \(with `git lfs pull`",
        ),
        (
            lambda d: os.truncate(d / "tokenizer_config.json", 40),
            r"tokenizer_config\.json is no whole JSON object",
        ),
        (
            lambda d: os.truncate(d / "tokenizer.json", 0),
            r"tokenizer\.json is no whole JSON object",
        ),
        (split_special_tokens, "says split_special_tokens: True, .* take it out"),
        (break_config, "asks to run code of its own"),
        (give_a_decoder, "model has an encoder and a decoder; .* use a decoder .* or an encoder"),
        (pickle_weights, "holds no safetensors weights, found .*pytorch_model.bin"),
        (shutil.rmtree, "is no directory"),
    ],
)
def test_a_directory_that_cannot_serve_is_refused_with_what_it_holds(
    tmp_path, ingestion, tiny_model_directory, harm, sentence
):
    copy = tmp_path / "model"
    shutil.copytree(tiny_model_directory, copy)
    harm(copy)
    with pytest.raises(ModelError, match=sentence):
        step(ModelParams(path=str(copy)), ingestion)


def test_exactly_one_origin_is_asked_for():
    with pytest.raises(ValidationError, match="found none of them"):
        ModelParams()
    with pytest.raises(ValidationError, match="found path and hub"):
        ModelParams(path="a", hub="b/c")
    for place in ({"path": "a"}, {"scratch": {}}):
        with pytest.raises(ValidationError, match="revision is for a `hub` model only"):
            ModelParams(**place, revision="v1")


def test_a_url_is_no_path(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValidationError, match="path is a URL; give a local directory, or `hub`"):
        ModelParams(path="https://host/model?sig=x")


def test_an_architecture_whose_sizes_would_not_be_used_is_refused(tmp_path, ingestion):
    params = ModelParams(scratch=ScratchParams(architecture="gemma3"))
    with pytest.raises(ModelError, match=r"gemma3 reads more than text.*: gemma3_text"):
        Store(tmp_path).obtain(step(params, ingestion))


def test_a_family_without_a_reward_head_is_told_before_any_data_are_prepared(tmp_path, ingestion):
    params = ModelParams(scratch=ScratchParams(architecture="granite"))
    with pytest.raises(ModelError, match=r"architecture is of the family 'granite', for which"):
        Store(tmp_path / "a").obtain(step(params, ingestion))
    base = Store(tmp_path / "a").obtain(step(SCRATCH, ingestion)).path
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"model_type": "granite"}))
    with pytest.raises(ModelError, match=rf"{base} is of the family 'granite', for which"):
        Store(tmp_path / "b").obtain(step(ModelParams(path=str(base)), None))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"architecture": "no_such_model"}, "as no_such_model: .*no_such_model"),
        ({"architecture": "falcon"}, "as falcon: .*head_dim"),
        ({"architecture": "llama", "num_attention_heads": 3}, r"multiple of .*\(3\)"),
        ({"num_key_value_heads": 3}, r"tensor.*\(4\) .*num_key_value_heads \(3\)"),
        ({"hidden_size": 12}, r"tensor.*; .* hidden_size \(12\)"),
        ({"hidden_size": 8, "num_attention_heads": 16}, r"; .* num_attention_heads \(16\)"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_before_training(tmp_path, ingestion, fields, told):
    params = ModelParams(scratch=ScratchParams(**{"hidden_size": 16} | fields))
    with pytest.raises(ModelError, match=rf"model\.scratch cannot be built .*{told}"):
        Store(tmp_path).obtain(step(params, ingestion))
