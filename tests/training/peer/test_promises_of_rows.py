"""The rows of the table of peers' defects that are about reading rows, as in `test_promises`."""

import datetime

import pytest
from datasets import Dataset
from tokenizers.processors import TemplateProcessing

from tasks.conversion.preference.identity import identify
from tasks.conversion.preference.pair import Pair, checked
from tasks.conversion.preference.splits import split_of
from tasks.errors import DataError, TemplateError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.contract import replay, write_contract
from tasks.training.handover.export import save_model
from tests.training.peer.beside_peer import FIELDS, ours, peer, quiet

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

USER = [{"role": "user", "content": "What color is the sky?"}]
BLUE = [{"role": "assistant", "content": "It is blue."}]
GREEN = [{"role": "assistant", "content": "It is green."}]


def test_row_05_serving_gives_the_ids_and_rewards_of_training(tiny_model_directory, tmp_path):
    rows = [{"prompt": USER, "chosen": BLUE, "rejected": GREEN}]
    trainer = ours(tiny_model_directory, tmp_path, rows)
    save_model(trainer.model, trainer.processing_class, tmp_path / "model")
    kept = [
        {name: row[name] for name in ("pair_id", "chosen_input_ids", "rejected_input_ids")}
        for row in trainer.train_dataset
    ]
    write_contract(tmp_path / "model", kept, policy="quarantine")
    assert not [v for v in replay(tmp_path / "model") if v.difference]
    template = tmp_path / "model" / "chat_template.jinja"
    template.write_text(template.read_text() + " ")  # one space more, and other ids
    assert [v for v in replay(tmp_path / "model") if v.difference]


def test_row_06_each_layout_is_recognised_on_every_row(tiny_model_directory, tmp_path):
    question = USER[0]["content"]
    layouts = [
        {"prompt": USER, "chosen": BLUE, "rejected": GREEN},
        {"prompt": question, "chosen": BLUE, "rejected": GREEN},
        {"prompt": question, "chosen": USER + BLUE, "rejected": USER + GREEN},
        {"chosen": USER + BLUE, "rejected": USER + GREEN},
    ]
    side = "chosen_input_ids"
    found = {
        tuple(ours(tiny_model_directory, tmp_path, [row]).train_dataset[0][side]) for row in layouts
    }
    assert len(found) == 1
    tokenizer = ours(tiny_model_directory, tmp_path).processing_class
    with pytest.raises((TypeError, ValueError, KeyError, AttributeError)):
        peer(tiny_model_directory, tmp_path, [layouts[1]], tokenizer=tokenizer)
    twice = {"prompt": USER, "chosen": USER + BLUE, "rejected": USER + GREEN}
    assert tuple(ours(tiny_model_directory, tmp_path, [twice]).train_dataset[0][side]) in found
    theirs = peer(tiny_model_directory, tmp_path, [twice], tokenizer=tokenizer).train_dataset[0]
    assert tokenizer.decode(theirs["chosen_ids"]).count(question) == 2


def test_row_08_identical_and_empty_pairs_are_left_out_and_a_missing_margin_counts_as_none(
    tiny_model_directory, tmp_path, caplog
):
    rows = [
        {"chosen": "It is blue.", "rejected": "It is green.", "margin": 0.5},
        {"chosen": "It is so.", "rejected": "The sky.", "margin": None},
        {"chosen": "It is.", "rejected": "It is.", "margin": 0.1},
        {"chosen": "It is.", "rejected": "", "margin": 0.1},
    ]
    trainer = ours(tiny_model_directory, tmp_path, rows)
    assert len(trainer.train_dataset) == 2
    assert "2 of 4 rows are not used: empty_response 1, identical 1" in caplog.text
    trainer.train()
    other = peer(tiny_model_directory, tmp_path, rows, tokenizer=trainer.processing_class)
    assert len(other.train_dataset) == 4
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        quiet(other.train)


def test_row_09_there_is_exactly_one_bos(tiny_model_directory, tiny_tokenizer, tmp_path):
    bos = "<|im_start|>"
    template = tmp_path / "bos.jinja"
    template.write_text(
        "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"
    )
    tokenizer = tiny_tokenizer.__class__.from_pretrained(tiny_model_directory, bos_token=bos)
    trainer = RewardTrainer(
        str(tiny_model_directory),
        RewardConfig(output_dir=str(tmp_path), chat_template_path=str(template), **FIELDS),
        train_dataset=Dataset.from_list([{"prompt": USER, "chosen": BLUE, "rejected": GREEN}]),
        processing_class=tokenizer,
    )
    [row] = trainer.train_dataset
    assert row["chosen_input_ids"].count(tokenizer.bos_token_id) == 1


def test_row_09_a_tokenizer_that_puts_bos_before_text_puts_it_before_a_conversation_once(
    tiny_model_directory, tiny_tokenizer, tmp_path
):
    def with_bos():
        tokenizer = tiny_tokenizer.__class__.from_pretrained(tiny_model_directory)
        tokenizer.bos_token = "<|endoftext|>"
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
        )
        return tokenizer

    rows = [{"prompt": USER, "chosen": BLUE, "rejected": GREEN}]
    args = RewardConfig(output_dir=str(tmp_path), **FIELDS)
    mine = RewardTrainer(
        str(tiny_model_directory),
        args,
        train_dataset=Dataset.from_list(rows),
        processing_class=with_bos(),
    ).train_dataset[0]["chosen_input_ids"]
    assert (mine[0], mine.count(0)) == (0, 1)
    tokenizer = with_bos()
    theirs = peer(tiny_model_directory, tmp_path, rows, tokenizer=tokenizer).train_dataset[0]
    assert theirs["chosen_ids"].count(0) == 0  # in training; where it is served as text, it has one
    said = tokenizer.apply_chat_template(USER + BLUE, tokenize=False)
    assert tokenizer(said)["input_ids"].count(0) == 1


def test_row_10_a_template_that_depends_on_chance_is_refused_and_a_date_is_pinned(
    tiny_model_directory, tiny_tokenizer, tmp_path, caplog
):
    rows = [{"prompt": USER, "chosen": BLUE, "rejected": GREEN}]
    messages = "{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}"
    dated, chance = tmp_path / "dated.jinja", tmp_path / "chance.jinja"
    dated.write_text("{{ strftime_now('%Y') }}" + messages)
    chance.write_text("{{ [1, 2, 3] | random }}" + messages)
    trainer = ours(tiny_model_directory, tmp_path, rows, chat_template_path=str(dated))
    assert "asks for today's date; it is fixed to" in caplog.text
    year = str(datetime.datetime.now(datetime.UTC).year)
    tokenizer = trainer.processing_class
    assert "strftime_now" not in tokenizer.chat_template
    expected = f"{year}user {USER[0]['content']}assistant {BLUE[0]['content']}"
    [row] = trainer.train_dataset
    assert row["chosen_input_ids"] == tokenizer(expected)["input_ids"]
    save_model(trainer.model, tokenizer, tmp_path / "model")  # what serving will render by
    assert "strftime_now" not in (tmp_path / "model" / "chat_template.jinja").read_text()
    with pytest.raises(TemplateError, match=r"chance|random"):
        ours(tiny_model_directory, tmp_path, rows, chat_template_path=str(chance))
    for path in (dated, chance):  # what the peer says nothing about
        theirs = tiny_tokenizer.__class__.from_pretrained(tiny_model_directory)
        theirs.chat_template = path.read_text()
        other = peer(tiny_model_directory, tmp_path, rows, tokenizer=theirs)
        assert len(other.train_dataset) == 1
        assert other.processing_class.chat_template == path.read_text()


def test_row_10_a_template_that_drops_tool_calls_is_told_and_its_rows_are_left_out(
    tiny_model_directory, tiny_tokenizer, tmp_path
):
    def asks_for(color):
        call = {"type": "function", "function": {"name": "paint", "arguments": {"color": color}}}
        return [{"role": "assistant", "content": "It is.", "tool_calls": [call]}]

    rows = [
        {"prompt": USER, "chosen": asks_for("blue"), "rejected": asks_for("green")},
        {"prompt": USER, "chosen": asks_for("red"), "rejected": asks_for("green")},
    ]
    deaf = "{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}"
    (tmp_path / "deaf.jinja").write_text(deaf)
    with pytest.raises(
        DataError, match=r"template_drops_tools 2.*drops the tool calls of.*set chat_template_path"
    ):
        ours(tiny_model_directory, tmp_path, rows, chat_template_path=str(tmp_path / "deaf.jinja"))
    theirs = tiny_tokenizer.__class__.from_pretrained(tiny_model_directory)
    theirs.chat_template = deaf
    silent = peer(tiny_model_directory, tmp_path, rows, tokenizer=theirs).train_dataset
    assert len({tuple(row[side]) for row in silent for side in ("chosen_ids", "rejected_ids")}) == 1


def test_row_12_a_prompt_is_in_one_split_whatever_its_answers_and_other_rows_are():
    prompts = [f"Question {n}?" for n in range(400)]
    splits = {}
    for prompt in prompts:
        first = identify(checked(Pair(prompt, "yes", "no")), 0, 0.1)
        second = identify(checked(Pair(prompt, "no doubt", "never")), 0, 0.1)
        assert first.pair_id != second.pair_id
        assert first.split == second.split == split_of(first.group, 0, 0.1)
        splits[prompt] = first.split
    assert 0.04 < list(splits.values()).count("eval") / 400 < 0.17
    both = Dataset.from_list([{"prompt": p, "chosen": c} for p in prompts for c in ("yes", "so")])
    theirs = both.train_test_split(0.1, seed=0)  # what scripts do: by rows
    assert set(theirs["train"]["prompt"]) & set(theirs["test"]["prompt"])
