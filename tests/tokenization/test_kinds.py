"""Tokenizers of every kind end in an encoder with their own ids: WordPiece, Unigram, BPE that falls
back to bytes, and those that only Python knows."""

import json

import pytest
from transformers import AutoTokenizer

from tasks.artifact import Artifact, Store
from tasks.model import BaseModel
from tasks.model.directory import tokenizer_digest
from tasks.templating import TemplatingParams
from tasks.templating import task as templating
from tasks.tokenization import TokenizationParams
from tasks.tokenization import task as tokenization
from tasks.tokenization.encoder import CASES
from tests.templating.families import CORPUS
from tests.templating.stage_runs import converted
from tests.tokenization.real_runs import tables

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
TOKENS = ("<pad>", "<s>", "</s>", "<user>", "<assistant>")


def word_piece():
    """As BERT's: lower case, no accents, [CLS] and [SEP] around every text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from tokenizers.trainers import WordPieceTrainer

    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[UNK]", "[CLS]", "[SEP]", *TOKENS]
    made.train_from_iterator(
        CORPUS, WordPieceTrainer(vocab_size=300, special_tokens=names, show_progress=False)
    )
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return made


def unigram():
    """As SentencePiece's: words begin with a mark, the first one, too."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from tokenizers.trainers import UnigramTrainer

    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = UnigramTrainer(
        vocab_size=200, special_tokens=["<unk>", *TOKENS], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(CORPUS, trainer)
    return made


def byte_fallback():
    """As Llama's: a normalizer writes the marks, unknown characters fall back to bytes."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers
    from tokenizers.trainers import BpeTrainer

    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    first = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made.train_from_iterator(
        (text.replace(" ", "▁") for text in CORPUS),
        BpeTrainer(vocab_size=500, special_tokens=first, show_progress=False),
    )
    state = json.loads(made.to_str()) | {"added_tokens": []}
    made = Tokenizer.from_str(json.dumps(state))
    made.add_special_tokens([AddedToken(t, normalized=False) for t in ("<unk>", *TOKENS)])
    return made


def stripping():
    """Byte-level, but one special token takes the white space beside it."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from tokenizers.trainers import BpeTrainer

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        CORPUS, BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    made.add_special_tokens([AddedToken(t, normalized=False, lstrip=True) for t in TOKENS])
    return made


KINDS = {
    "word_piece": (word_piece, "tokenizers by pieces"),
    "unigram": (unigram, "tokenizers"),
    "byte_fallback": (byte_fallback, "tokenizers"),
    "stripping": (stripping, "tokenizers"),
}


def described(directory):
    (directory / "chat_template.jinja").write_text(TEMPLATE)
    return BaseModel(directory, tokenizer_digest(directory), "0" * 64, {})


def user(text):
    return {"role": "user", "content": text}


def says(text):
    return [{"role": "assistant", "content": text}]


def tokenized(model, tmp_path, encoder):
    """Rows, their ids by row number, and the encoders that the record names."""
    rows = [
        {"prompt": [user(f"What? {text}")], "chosen": says(f"It is {n}"), "rejected": says(text)}
        for n, text in enumerate(CASES)
        if text.strip() and text.strip() != "</s <"
    ]
    rows += [{"prompt": f"The {text}", "chosen": " sky.", "rejected": " sea"} for text in CASES[:9]]
    conversion = converted(rows, tmp_path / "conversion")
    held = Artifact("model", "1" * 16, model.path, "e" * 64, {})
    store = Store(tmp_path / f"data-{encoder}")
    params = TemplatingParams(special_tokens_in_text="keep")
    rendered = store.obtain(templating.step(params, conversion, model, held))
    settings = TokenizationParams(max_length=None, encoder=encoder)
    done = store.obtain(tokenization.step(settings, rendered, model, held))
    kept = [row for table in tables({"tokenization": done}, "train") for row in table.to_pylist()]
    dropped = sum(done.report["ledger"]["s"]["dropped"].values())
    assert len(kept) + dropped == len(rows)
    return rows, kept, set(done.report["encoders"])


def check(rows, kept, tokenizer):
    """The ids are the tokenizer's own for the whole of each side."""
    found = {(tuple(row["chosen_input_ids"]), tuple(row["rejected_input_ids"])) for row in kept}
    expected = set()
    for row in rows:
        if isinstance(row["prompt"], str):
            texts = [row["prompt"] + row[side] + "</s>" for side in ("chosen", "rejected")]
            sides = [tuple(tokenizer(text)["input_ids"]) for text in texts]
        else:
            wholes = [[*row["prompt"], *row[side]] for side in ("chosen", "rejected")]
            sides = [tuple(tokenizer.apply_chat_template(w, return_dict=False)) for w in wholes]
        if sides[0] != sides[1]:
            expected.add(tuple(sides))
    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tokenizer_json_gets_its_own_ids(kind, tmp_path):
    make, reference = KINDS[kind]
    directory = tmp_path / "model"
    directory.mkdir()
    make().save(str(directory / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    model = described(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    rows, kept, used = tokenized(model, tmp_path, "tokenizers")
    check(rows, kept, tokenizer)
    assert used <= {reference, "tokenizers"}
    assert reference in used
    rows, kept, used = tokenized(model, tmp_path, "auto")
    check(rows, kept, tokenizer)
    assert used <= {"fastokens", reference, "tokenizers"}


def test_a_tokenizer_that_only_python_knows_encodes_by_itself(tmp_path):
    from transformers import CTRLTokenizer

    vocabulary, merges = tmp_path / "vocab.json", tmp_path / "merges.txt"
    letters = [chr(c) for c in range(33, 127)]
    names = ["<unk>", "</s>", *letters, *(f"{letter}@@" for letter in letters), "th@@", "is"]
    vocabulary.write_text(json.dumps({name: n for n, name in enumerate(names)}))
    merges.write_text("#version: 0.2\nt h\ni s</w>\n")
    directory = tmp_path / "model"
    tokenizer = CTRLTokenizer(vocabulary, merges, unk_token="<unk>", eos_token="</s>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(directory)
    assert not (directory / "tokenizer.json").exists()
    rows, kept, used = tokenized(described(directory), tmp_path, "auto")
    check(rows, kept, AutoTokenizer.from_pretrained(directory))
    assert used == {"python"}
