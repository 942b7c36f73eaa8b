"""The batch has exactly the tensors that TRL documents for its collator."""

import pickle
from operator import itemgetter

import pytest
import torch

from tasks.errors import DataError, ParamsError
from tasks.training.batches.collator import DataCollatorForPreference
from tasks.training.batches.own_collator import OwnCollator
from tasks.training.batches.pieces import split
from tasks.training.loss.params import loss_params

EXAMPLES = [
    {"chosen_input_ids": [1, 2, 3], "rejected_input_ids": [4, 5]},
    {"chosen_input_ids": [6, 7], "rejected_input_ids": [8]},
]


def test_chosen_sequences_stand_before_rejected_ones_padded_on_the_right():
    batch = DataCollatorForPreference(pad_token_id=0)(EXAMPLES)
    assert list(batch) == ["input_ids", "attention_mask"]
    assert batch["input_ids"].tolist() == [[1, 2, 3], [6, 7, 0], [4, 5, 0], [8, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 0, 0]]
    assert batch["input_ids"].dtype == batch["attention_mask"].dtype == torch.int64
    first, second = split(batch, 1, "")  # as if collated alone
    assert first["input_ids"].tolist() == [[1, 2, 3], [4, 5, 0]]
    assert second["input_ids"].tolist() == [[6, 7], [8, 0]]
    assert second["attention_mask"].tolist() == [[1, 1], [1, 0]]
    _, second = split({name: ids.flip(1) for name, ids in batch.items()}, 1, "")
    assert second["input_ids"].tolist() == [[0, 7, 6], [0, 0, 8]]
    pair = {"chosen_input_ids": [1, 2, 3], "rejected_input_ids": [1, 2, 4, 5]}
    for layout, row in (("prefix_shared", 2 + 1 + 2), ("padding_free", 3 + 4)):
        batch = DataCollatorForPreference(pad_token_id=0, layout=layout)([pair])
        assert len(batch["plan"].input_ids) == row


def test_margins_and_weights_come_as_float32_and_a_missing_one_is_neutral():
    margins = [{**EXAMPLES[0], "margin": 0.5}, {**EXAMPLES[1], "margin": 0.0}]
    batch = DataCollatorForPreference(pad_token_id=0)(margins)
    assert list(batch) == ["input_ids", "attention_mask", "margin"]
    assert torch.equal(batch["margin"], torch.tensor([0.5, 0.0]))
    absent = [{**e, "margin": None, "weight": None, "preference": None} for e in EXAMPLES]
    batch = DataCollatorForPreference(pad_token_id=0)(absent)
    assert batch["margin"].tolist() == [0.0, 0.0]
    assert batch["weight"].tolist() == batch["preference"].tolist() == [1.0, 1.0]


def test_length_is_rounded_up_to_a_multiple():
    batch = DataCollatorForPreference(pad_token_id=9, pad_to_multiple_of=4)(EXAMPLES)
    assert batch["input_ids"].shape == (4, 4)
    assert batch["input_ids"][3].tolist() == [8, 9, 9, 9]
    assert batch["attention_mask"].sum() == 8
    long = [{"chosen_input_ids": [*range(1, 10)], "rejected_input_ids": [1]}, *EXAMPLES]
    batch = DataCollatorForPreference(pad_token_id=0, pad_to_multiple_of=4)(long)
    first, second = split(batch, 2, "", 4)  # as if collated alone
    assert first["input_ids"].shape == (4, 12)
    assert second["input_ids"].shape == (2, 4)
    first, second = split(batch, 1, "", 4)[:2]
    assert first["input_ids"].shape == (2, 12)
    assert second["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]


def test_an_empty_sequence_is_refused_with_the_id_of_its_pair():
    broken = [{"pair_id": "ab12", "chosen_input_ids": [1], "rejected_input_ids": []}]
    with pytest.raises(DataError, match="pair ab12: rejected_input_ids is empty"):
        DataCollatorForPreference(pad_token_id=0)(broken)
    for nameless in ({**broken[0], "pair_id": None}, {"chosen_input_ids": [1]}):
        with pytest.raises(DataError, match=r"pair \(without id\): rejected_input_ids is empty"):
            DataCollatorForPreference(pad_token_id=0)([nameless])
    named = [{**EXAMPLES[0], "pair_id": "ab12"}, {**EXAMPLES[1], "pair_id": None}]
    batch = DataCollatorForPreference(pad_token_id=0)(named)
    assert batch["pair_id"] == ["ab12", "(without id)"]


def test_other_tensors_than_torch_are_refused():
    with pytest.raises(ParamsError, match="'np'"):
        DataCollatorForPreference(pad_token_id=0, return_tensors="np")


def test_pairs_of_a_comparison_share_the_sequences_of_their_answers():
    best, middle, worst = [1, 2], [1, 3, 4], [1]
    pairs = [
        {"chosen_input_ids": a, "rejected_input_ids": b, "comparison": "c"}
        for a, b in ((middle, worst), (best, worst), (best, middle))
    ]
    alone = {"chosen_input_ids": [9], "rejected_input_ids": [8], "weight": 2.0}
    collate = DataCollatorForPreference(0, loss=loss_params("plackett_luce"))
    batch = collate([pairs, [alone]])
    assert batch["input_ids"].tolist() == [[1, 3, 4], [1, 0, 0], [1, 2, 0], [9, 0, 0], [8, 0, 0]]
    assert batch["chosen_row"].tolist() == [0, 2, 2, 3]
    assert batch["rejected_row"].tolist() == [1, 1, 0, 4]
    assert batch["ranking"].tolist() == [[2, 0, 1], [3, 4, -1]]
    assert batch["weight"].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2.0])
    assert batch["ranking_weight"].tolist() == pytest.approx([1.0, 2.0])


def test_tied_answers_of_a_comparison_are_of_one_level_whatever_the_order_of_its_pairs():
    a, b, c, d = [1], [2], [3], [4]
    strict = [(a, b), (a, c), (a, d), (b, d), (c, d)]
    pairs = [
        {"chosen_input_ids": one, "rejected_input_ids": other, "preference": preference}
        for preference, couples in ((1.0, strict), (0.5, [(c, b)]))
        for one, other in couples
    ]
    alone = {"chosen_input_ids": [9], "rejected_input_ids": [8], "preference": 0.5}
    collate = DataCollatorForPreference(0, loss=loss_params("plackett_luce"))
    for order in (pairs, pairs[::-1]):
        batch = collate([order, [alone]])
        ids = [[batch["input_ids"][row, 0].item() for row in r] for r in batch["ranking"]]
        assert (ids[0][0], {*ids[0][1:3]}, ids[0][3]) == (1, {2, 3}, 4)
        assert batch["ranking_level"].tolist() == [[0, 1, 1, 3], [0, 0, -1, -1]]
        whole = [batch[name] for name in ("ranking", "ranking_level")]
        first, second = split(batch, 1, "")
        for name, value in zip(("ranking", "ranking_level"), whole, strict=True):
            assert torch.equal(first[name], value[:1])
        assert second["ranking"].tolist() == [[0, 1]]
        assert second["ranking_level"].tolist() == [[0, 0]]
    with pytest.raises(DataError, match=r"preference 0\.75, .* plackett_luce cannot use soft"):
        collate([[alone | {"preference": 0.75}]])


def test_a_collator_of_one_s_own_goes_to_other_processes_with_what_it_has():
    """As workers of a data loader that are spawned get it."""
    given = OwnCollator(DataCollatorForPreference(pad_token_id=7))
    arrived = pickle.loads(pickle.dumps(given))
    assert arrived.pad_token_id == 7
    assert arrived(EXAMPLES)["input_ids"].tolist() == given(EXAMPLES)["input_ids"].tolist()
    first = OwnCollator(itemgetter(0))(EXAMPLES)
    assert first == {**EXAMPLES[0], "chosen_ids": [1, 2, 3], "rejected_ids": [4, 5]}
