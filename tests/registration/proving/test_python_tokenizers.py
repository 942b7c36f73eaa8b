"""Tokenizers that have no tokenizer.json travel whole, and are told apart by their own files."""

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertJapaneseTokenizer,
    PhobertTokenizer,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from tasks.registration import load_reward_model
from tasks.registration.aliases.champion_scores import same_tokenizer
from tasks.registration.proving.package import package


def japanese(directory, words):
    """A tokenizer whose only vocabulary is a `vocab.txt`."""
    directory.mkdir()
    (directory / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]))
    tokenizer = BertJapaneseTokenizer(
        str(directory / "vocab.txt"), word_tokenizer_type="basic", mask_token=None
    )
    tokenizer.save_pretrained(directory)
    return directory


def test_vocabularies_of_other_words_are_other_tokenizers(tmp_path):
    first, second = (
        japanese(tmp_path / words[0], words) for words in (["sky", "sea"], ["sea", "sky"])
    )
    assert not (first / "tokenizer.json").exists()
    read = [AutoTokenizer.from_pretrained(d)("sky sea")["input_ids"] for d in (first, second)]
    assert read[0] != read[1]
    assert not same_tokenizer(first, second)
    assert same_tokenizer(first, first)


@pytest.fixture
def vietnamese(tmp_path):
    """A reward model with PhoBERT's tokenizer, whose merges are in `bpe.codes`."""
    letters = "abcdefghijklmnopqrstuvwxyz:"
    words, merges = tmp_path / "words", tmp_path / "merges"
    words.write_text("".join(f"{c} 1\n{c}@@ 1\n" for c in letters) + "sk@@ 1\nsky 1\n")
    merges.write_text("#version: 0.2\ns k 2\nsk y</w> 1\n")
    tokenizer = PhobertTokenizer(str(words), str(merges))
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=130,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=1,
    )
    torch.manual_seed(0)
    RobertaForSequenceClassification(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_model_with_merges_of_its_own_kind_is_registered_and_loaded(vietnamese, tmp_path):
    package(vietnamese, tmp_path / "package")
    talks = [
        [{"role": "user", "content": "the sky"}, {"role": "assistant", "content": answer}]
        for answer in ("blue", "the sky is blue")
    ]
    found = load_reward_model(tmp_path / "package", "cpu").rewards(talks)
    tokenizer = AutoTokenizer.from_pretrained(vietnamese)
    model = AutoModelForSequenceClassification.from_pretrained(vietnamese).eval()
    texts = [tokenizer.apply_chat_template(talk, tokenize=False) for talk in talks]
    assert "sky" in tokenizer.tokenize(texts[0])
    expected = []
    with torch.no_grad():
        for text in texts:
            batch = tokenizer(text, add_special_tokens=False, return_tensors="pt")
            expected.append(float(model(**batch).logits[0, 0]))
    assert np.allclose(found, expected, atol=1e-6)
