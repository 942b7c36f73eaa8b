"""Token ids of real pairs beside those of the peer, TRL 1.16.0's RewardTrainer.

The peer is given our canonical pairs in its own preference format, and our tokenizer. Where both
are right they agree id by id. Where the peer is wrong the difference is stated exactly.
"""

import json
import warnings

import pytest

from tests.tokenization.real_runs import REAL, pairs, pipeline, run, tables

trl = pytest.importorskip("trl")

LIMIT = 60
LARGE = {"scored", "unpaired", "one_row_each"}
"""Files that take their time, most of it the peer's."""
EVERY_FILE = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LARGE else [])
    for path in REAL
]


def theirs(rows, tokenizer, tmp_path, max_length):
    """The peer's own preparation of rows in its preference format, in their order."""
    from datasets import Dataset, disable_progress_bars
    from trl import RewardConfig, RewardTrainer

    disable_progress_bars()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = RewardConfig(
            output_dir=str(tmp_path / "peer"), max_length=max_length, bf16=False, use_cpu=True,
            report_to="none",
        )  # fmt: skip
        prepared = RewardTrainer._prepare_dataset(
            None, Dataset.from_list(rows), tokenizer, args, "train"
        )
    return prepared.to_list()


def max_length(path):
    """A length that some pairs exceed, where there are enough of them."""
    return 20_000 if path.stem in {"context_ranking", "one_row_each", "unpaired_messages"} else 1200


def as_preference(pair):
    """A canonical pair as a row of the peer's format."""
    row = {name: pair[name] for name in ("pair_id", "prompt", "chosen", "rejected")}
    if row["prompt"] is None:
        del row["prompt"]
    if pair["margin"] is not None:
        row["margin"] = pair["margin"]
    if pair["tools"] is not None:
        row["tools"] = pair["tools"]
    return row


def by_shape(rows):
    """Rows of one set of columns each: a data set of the peer's has one."""
    shapes = {}
    for row in rows:
        shapes.setdefault((*row, isinstance(row["chosen"], str)), []).append(row)
    return shapes.values()


@pytest.mark.parametrize("path", EVERY_FILE)
def test_ids_and_margins_of_real_pairs_are_the_peers(path, shared_data, tmp_path):
    from transformers import AutoTokenizer

    limit = None if path.stem in {"scored", "unpaired_messages", "stepwise", "unpaired"} else LIMIT
    done = run(pipeline(path, shared_data, tmp_path, limit, max_length(path)))
    tokenizer = AutoTokenizer.from_pretrained(done["tokenization"].path / "tokenizer")
    ours = {row["pair_id"]: row for split in ("train", "eval")
            for table in tables(done, split) for row in table.to_pylist()}  # fmt: skip
    left_out = done["templating"].report["ledger"]
    assert all(not account["dropped"] for account in left_out.values())
    given = [as_preference(pair) for pair in pairs(done)][:400]
    found = {row["pair_id"]: row for rows in by_shape(given)
             for row in theirs(rows, tokenizer, tmp_path, max_length(path))}  # fmt: skip
    assert found.keys() == {row["pair_id"] for row in given} & ours.keys()
    for name, row in found.items():
        assert ours[name]["chosen_input_ids"] == row["chosen_ids"]
        assert ours[name]["rejected_input_ids"] == row["rejected_ids"]
        margins = ours[name].get("margin"), row.get("margin")
        assert margins[0] == margins[1] or margins[0] == pytest.approx(margins[1], rel=1e-6)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    from tests.templating.families import build_family

    return build_family("llama3", tmp_path_factory.mktemp("llama"))


def test_text_that_begins_with_the_bos_gets_a_second_one_from_the_peer(llama, tmp_path):
    from transformers import AutoTokenizer

    from tests.templating.stage_runs import DAY
    from tests.templating.stage_runs import run as run_rows

    tokenizer = AutoTokenizer.from_pretrained(llama.path)
    bos = tokenizer.bos_token_id
    row = {"prompt": "<|begin_of_text|>The sky is", "chosen": " blue.", "rejected": " green."}
    (other,) = theirs([row], tokenizer, tmp_path, None)
    assert other["chosen_ids"][:2] == [bos, bos]
    _, (mine,) = run_rows([row], llama, tmp_path, special_tokens_in_text="keep", date=DAY)
    assert mine["chosen_input_ids"] == other["chosen_ids"][1:]


def test_a_margin_that_one_row_lacks_stays_null_on_both_sides(tiny_model_directory, tmp_path):
    from tasks.model.directory import describe
    from tests.templating.stage_runs import run as run_rows

    rows = [{"prompt": "a", "chosen": " b", "rejected": " c", "margin": m} for m in (1.5, None)]
    from transformers import AutoTokenizer

    peers = theirs(rows, AutoTokenizer.from_pretrained(tiny_model_directory), tmp_path, None)
    _, mine = run_rows(rows, describe(tiny_model_directory, {}), tmp_path)
    assert [r["margin"] for r in peers] == [r["margin"] for r in mine] == [1.5, None]
    assert [r["chosen_ids"] for r in peers] == [r["chosen_input_ids"] for r in mine]
    assert json.dumps(peers)
