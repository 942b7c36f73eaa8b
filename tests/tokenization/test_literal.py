"""Special tokens that are pieces of the vocabulary, in stretches where they are ordinary text."""

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tasks.tokenization.literal import literal_encoder

LETTERS = [chr(c) for c in range(33, 127)]
PIECES = ["<unk>", "[CLS]", "[SEP]", *LETTERS, "SEP"]
MERGES = [("S", "E"), ("SE", "P"), ("[", "SEP"), ("[SEP", "]"), ("[SEP]", "a")]
MODELS = {
    "unigram": lambda vocab: models.Unigram([(piece, -1.0) for piece in vocab], unk_id=0),
    "bpe": lambda vocab: models.BPE(vocab, MERGES, unk_token="<unk>"),
    "word": lambda vocab: models.WordLevel(vocab, unk_token="<unk>"),
    "piece": lambda vocab: models.WordPiece(vocab, unk_token="<unk>"),
}


def tokenizer_of(kind):
    """[CLS] text [SEP], whose model has both as pieces; ids of later added tokens follow them."""
    pieces = PIECES + (["SE", "[SEP", "[SEP]a"] if kind == "bpe" else [])
    backend = Tokenizer(MODELS[kind]({piece: n for n, piece in enumerate(pieces)}))
    if kind in ("word", "piece"):
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens([AddedToken(t, normalized=False) for t in ("[CLS]", "[SEP]")])
    backend.add_tokens(["<tool>"])
    backend.add_special_tokens(["[MASK]"])
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


@pytest.mark.parametrize(
    ("kind", "ordinary"),
    [
        ("unigram", ["[", "SEP", "]"]),
        ("bpe", ["[SEP", "]"]),
        ("word", []),
        ("piece", []),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_a_special_token_that_is_a_piece_is_none_in_ordinary_text(kind, ordinary, own):
    tokenizer = tokenizer_of(kind)
    encode = literal_encoder(tokenizer)
    text = "x [SEP] [MASK] y <tool> [SEP]"
    ids = encode(text, (text.index("[SEP]"), text.index(" [MASK]")), add_special_tokens=own)
    known = [t for t in tokenizer.convert_ids_to_tokens(ids) if t != "<unk>"]
    expected = ["x", *ordinary, "[MASK]", "y", "<tool>", "[SEP]"]
    assert known == (["[CLS]", *expected, "[SEP]"] if own else expected)
    assert encode(text, (), add_special_tokens=own).tolist() == tokenizer.encode(
        text, add_special_tokens=own
    )


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_put_around_a_text_keeps_its_ids_where_it_is_no_piece_but_others_are(kind):
    """As of ModernBERT: <|padding|> is a piece, [CLS] and [SEP] have come later."""
    pieces = ["<unk>", "<|padding|>", *LETTERS]
    vocab = {piece: n for n, piece in enumerate(pieces)}
    model = models.BPE(vocab, [], unk_token="<unk>") if kind == "bpe" else MODELS[kind](vocab)
    backend = Tokenizer(model)
    backend.add_special_tokens(["<|padding|>", "[UNK]", "[CLS]", "[SEP]"])
    around = [(name, backend.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=around
    )
    names = {"unk_token": "<unk>", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    encode = literal_encoder(tokenizer)
    ids = encode("x[SEP]", (1, 6), add_special_tokens=True).tolist()
    assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert tokenizer.sep_token_id not in ids[:-1]
    for text in ("x", "x[SEP]y<|padding|>", "[CLS]"):
        assert encode(text, (), add_special_tokens=True).tolist() == tokenizer.encode(text)
