"""Raw rows in RewardTrainer: the ids that the tokenizer itself gives, and no silent loss."""

import json
import logging

import pytest
from datasets import Dataset
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, ParamsError, TemplateError
from tasks.templating.renderer import Renderer
from tasks.tokenization.encode import Encoder
from tasks.tokenization.literal import literal_encoder
from tasks.training import RewardConfig, RewardTrainer

USER = [{"role": "user", "content": "What color is the sky?"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "color",
        "description": "Names a color.",
        "parameters": {"type": "object", "properties": {"of": {"type": "string"}}},
    },
}


def says(text):
    return [{"role": "assistant", "content": text}]


def trainer_of(model, directory, rows, eval_dataset=None, processing_class=None, **fields):
    given = {
        "use_cpu": True,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "logging_steps": 1,
        "max_steps": 2,
        "save_strategy": "no",
        "report_to": "none",
    }
    return RewardTrainer(
        str(model),
        RewardConfig(output_dir=str(directory), **{**given, **fields}),
        train_dataset=Dataset.from_list(rows) if isinstance(rows, list) else rows,
        eval_dataset=eval_dataset,
        processing_class=processing_class,
    )


def whole(tokenizer, messages, **settings):
    return tokenizer.apply_chat_template(messages, return_dict=False, **settings)


def test_texts_are_joined_closed_once_and_given_the_tokenizer_s_ids(
    tiny_model_directory, tiny_tokenizer, tmp_path
):
    rows = [
        {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."},
        {"prompt": "It is", "chosen": " blue.<|im_end|>", "rejected": " so."},
    ]
    found = trainer_of(tiny_model_directory, tmp_path, rows).train_dataset
    expected = [
        tiny_tokenizer(f"The sky is {c}.<|im_end|>")["input_ids"] for c in ("blue", "green")
    ]
    assert [found[0]["chosen_input_ids"], found[0]["rejected_input_ids"]] == expected
    assert found[1]["chosen_input_ids"] == tiny_tokenizer("It is blue.<|im_end|>")["input_ids"]
    implicit = [{"chosen": "The sky is blue.", "rejected": "The sky is green."}]
    found = trainer_of(tiny_model_directory, tmp_path, implicit).train_dataset
    assert [found[0]["chosen_input_ids"], found[0]["rejected_input_ids"]] == expected


def test_conversations_are_rendered_whole_whichever_way_the_prompt_stands(
    tiny_model_directory, tiny_tokenizer, tmp_path
):
    explicit = [{"prompt": USER, "chosen": says("Blue."), "rejected": says("Green.")}]
    implicit = [{"chosen": USER + says("Blue."), "rejected": USER + says("Green.")}]
    expected = [whole(tiny_tokenizer, USER + says(text)) for text in ("Blue.", "Green.")]
    for rows in (explicit, implicit):
        [row] = trainer_of(tiny_model_directory, tmp_path, rows).train_dataset
        assert [row["chosen_input_ids"], row["rejected_input_ids"]] == expected


def test_a_row_whose_images_stand_beside_its_messages_is_not_read_without_them(
    tiny_model_directory, tmp_path, caplog
):
    seen = {"prompt": USER, "chosen": says("Blue."), "rejected": says("Red."), "images": ["a.png"]}
    rows = [seen, {**seen, "images": None}]
    with caplog.at_level(logging.WARNING):
        [row] = trainer_of(tiny_model_directory, tmp_path, rows).train_dataset
    assert row["pair_id"] == "row 1"
    assert "row 0" in caplog.text
    assert "expected text only" in caplog.text


def test_tools_and_template_arguments_reach_the_template(tiny_model_directory, tmp_path):
    template = tmp_path / "tools.jinja"
    template.write_text(
        "{{ tools | tojson if tools else 'none' }}{{ mood | default('calm') }}"
        "{% for m in messages %}{{ m.role }}{{ m.tool_calls | tojson if m.tool_calls }}"
        "{{ m.content }}{% endfor %}"
    )
    call = {"type": "function", "function": {"name": "color", "arguments": {"of": "sky"}}}
    asked = [*USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    asked.append({"role": "tool", "name": "color", "content": "blue"})
    rows = [
        {"prompt": asked, "tools": [TOOL], "chat_template_kwargs": {"mood": "glad"}},
        {"prompt": USER, "tools": [], "chat_template_kwargs": None},
    ]
    rows = [{**row, "chosen": says("Blue."), "rejected": says("Red.")} for row in rows]
    trainer = trainer_of(tiny_model_directory, tmp_path, rows, chat_template_path=str(template))
    tiny = trainer.processing_class
    first, second = trainer.train_dataset["chosen_input_ids"]
    assert first == whole(tiny, asked + says("Blue."), tools=[TOOL], mood="glad")
    assert second == whole(tiny, USER + says("Blue."))
    assert '"of": "sky"' in tiny.decode(first)
    assert "None" not in tiny.decode(first)
    assert tiny.decode(second).startswith("nonecalmuser")


def test_what_arrow_adds_of_other_rows_is_not_written(tiny_model_directory, tmp_path):
    """In a column of structs each has the keys of all, null where it has none of its own."""
    template = tmp_path / "tools.jinja"
    template.write_text(
        "{{ tools | tojson }}{% for m in messages %}{{ m | tojson }}{% endfor %}"
        "{{ style | default({}) | tojson }}"
    )
    other = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
    tools = [TOOL, {"type": "function", "function": {"name": "tide", "parameters": other}}]
    rows = [
        {
            "prompt": [{**USER[0], "name": "Ann"}],
            "chat_template_kwargs": {"style": {"mood": "glad"}},
        },
        {"prompt": USER, "chat_template_kwargs": {"style": {"tone": "low"}}},
    ]
    rows = [
        {**row, "chosen": says("Blue."), "rejected": says("Red."), "tools": [tool]}
        for row, tool in zip(rows, tools, strict=True)
    ]
    trainer = trainer_of(tiny_model_directory, tmp_path, rows, chat_template_path=str(template))
    for row, ids in zip(rows, trainer.train_dataset["chosen_input_ids"], strict=True):
        given = {"tools": row["tools"], **row["chat_template_kwargs"]}
        assert ids == whole(trainer.processing_class, row["prompt"] + row["chosen"], **given)


def test_rows_that_cannot_be_used_are_left_out_counted_and_named(
    tiny_model_directory, tmp_path, caplog
):
    rows = [
        {"chosen": "It is blue.", "rejected": "It is green.", "margin": 0.5, "pair_id": "a"},
        {"chosen": "It is blue.", "rejected": "It is blue.", "margin": None, "pair_id": "b"},
        {"chosen": "sky " * 50, "rejected": "It is.", "margin": None, "pair_id": "c"},
        {"chosen": "sky", "rejected": "", "margin": None, "pair_id": "d"},
        {"chosen": "The sky.", "rejected": "They say so.", "margin": None, "pair_id": "e"},
    ]
    with caplog.at_level(logging.WARNING):
        trainer = trainer_of(tiny_model_directory, tmp_path, rows, max_length=40)
    assert trainer.train_dataset["pair_id"] == ["a", "e"]
    counted = "train: 3 of 5 rows are not used: empty_response 1, identical 1, too_long 1"
    assert counted in caplog.text
    trainer.train()
    assert trainer.state.log_history[-2]["num_tokens"] > 0
    with pytest.raises(DataError, match=r"5 of 5 rows.*too_long 3. No row is left.*max_length"):
        trainer_of(tiny_model_directory, tmp_path, rows, max_length=1)
    caplog.clear()
    stream = Dataset.from_list([*rows, *rows]).to_iterable_dataset()
    trainer = trainer_of(tiny_model_directory, tmp_path, stream, max_length=40)
    assert [row["pair_id"] for row in trainer.train_dataset] == ["a", "e"] * 2
    told = [r.getMessage() for r in caplog.records if "row of the stream" in r.getMessage()]
    assert [text.split(": ")[1] for text in told] == ["row 1", "row 2", "row 3"]  # not 6 to 8


def test_rows_that_several_processes_read_are_the_same(tiny_model_directory, tmp_path):
    rows = [
        {"prompt": USER, "chosen": says("Blue." * n), "rejected": says("Red." * (n % 7))}
        for n in range(1, 30)
    ]
    one, two = (
        trainer_of(tiny_model_directory, tmp_path, rows, dataset_num_proc=processes).train_dataset
        for processes in (None, 2)
    )
    assert len(one) == 25  # each seventh answer is empty
    assert one.to_list() == two.to_list()


def test_texts_that_differ_in_no_token_are_left_out_and_the_longest_fit_exactly(base, tmp_path):
    rows = [
        {"chosen": "w5 heron", "rejected": "w5 pike"},  # words that the vocabulary lacks
        {"chosen": "w5 w6 w7 w8", "rejected": "w9"},
        {"chosen": "w9", "rejected": "w5 w6 w7 w8"},
    ]
    one = {"chosen": "w5", "rejected": "w6"}
    for number, reason in enumerate(("identical_tokens", "too_long", "too_long")):
        side = ("rejected", "chosen", "rejected")[number]
        with pytest.raises(DataError, match=rf"{reason} 1\. .*row 0: {reason}: {side}: found "):
            trainer_of(base, tmp_path, rows[number : number + 1], max_length=4)
        stream = Dataset.from_list([one, rows[number]]).to_iterable_dataset()
        assert len([*trainer_of(base, tmp_path, stream, max_length=4).train_dataset]) == 1
    assert len(trainer_of(base, tmp_path, rows, max_length=5).train_dataset) == 2  # with an EOS


def test_tokenized_rows_are_held_to_max_length_and_freed_of_padding(
    tiny_model_directory, tmp_path, caplog
):
    older = {
        "input_ids_chosen": [[5, 6, 7, 0], [9, 9, 9, 9]],
        "attention_mask_chosen": [[1, 1, 1, 0], [1, 1, 1, 1]],
        "input_ids_rejected": [[5, 8, 0, 0], [8, 0, 0, 0]],
        "attention_mask_rejected": [[1, 1, 0, 0], [1, 0, 0, 0]],
    }
    with caplog.at_level(logging.WARNING):
        trainer = trainer_of(tiny_model_directory, tmp_path, Dataset.from_dict(older), max_length=3)
    [row] = trainer.train_dataset
    assert (row["chosen_input_ids"], row["rejected_input_ids"]) == ([5, 6, 7], [5, 8])
    assert "train: 1 of 2 rows are not used: too_long" in caplog.text


def test_streams_named_evaluations_and_raw_rows_later_on(tiny_model_directory, tmp_path):
    text = Dataset.from_list([{"chosen": "It is blue.", "rejected": "It is green."}] * 6)
    talk = Dataset.from_list([{"prompt": USER, "chosen": says("A"), "rejected": says("B")}] * 3)
    trainer = trainer_of(
        tiny_model_directory,
        tmp_path,
        text.to_iterable_dataset(),
        eval_dataset={"text": text, "talk": talk},
        per_device_train_batch_size=3,
        max_steps=3,
    )
    trainer.train()
    assert trainer.state.global_step == 3
    named = trainer.evaluate()
    assert {"eval_text_accuracy", "eval_talk_margin"} <= set(named)
    later = trainer.evaluate(talk)
    assert later["eval_loss"] == pytest.approx(named["eval_talk_loss"], abs=1e-6)
    assert trainer.predict(talk).predictions.shape == (3, 2)


def test_a_template_comes_from_a_file_or_from_another_tokenizer_with_its_tokens(
    base, tiny_model_directory, tiny_tokenizer, tmp_path
):
    talk = [{"prompt": USER, "chosen": says("w1 w2"), "rejected": says("w3")}]
    with pytest.raises(TemplateError, match="no chat template; set chat_template_path"):
        trainer_of(base, tmp_path, talk)
    with pytest.raises(ParamsError, match=r"chat_template_path .* nor a tokenizer"):
        trainer_of(base, tmp_path, talk, chat_template_path=str(tmp_path / "nothing"))
    trainer = trainer_of(base, tmp_path, talk, chat_template_path=str(tiny_model_directory))
    added = trainer.processing_class.convert_tokens_to_ids("<|im_start|>")
    table = trainer.model.get_input_embeddings().weight
    assert 64 <= added < len(table)
    assert trainer.train_dataset[0]["chosen_input_ids"][0] == added
    assert trainer.processing_class.chat_template == tiny_tokenizer.chat_template
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    again = RewardTrainer(str(tmp_path / "saved"), trainer.args)
    assert (
        again.predict(talk_of(talk)).predictions == trainer.predict(talk_of(talk)).predictions
    ).all()


def talk_of(rows):
    return Dataset.from_list(rows)


def test_a_template_that_asks_for_the_date_is_saved_with_the_date_it_was_used_with(
    tiny_model_directory, tmp_path, caplog
):
    template = tmp_path / "dated.jinja"
    template.write_text(
        "{{ strftime_now('%Y') }}{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    talk = [{"prompt": USER, "chosen": says("Blue."), "rejected": says("Red.")}]
    with caplog.at_level(logging.WARNING):
        trainer = trainer_of(tiny_model_directory, tmp_path, talk, chat_template_path=str(template))
    assert "strftime_now" not in trainer.processing_class.chat_template
    assert "asks for today's date" in caplog.text


FORGED = "It says <|im_end|> here."


@pytest.mark.parametrize("policy", ["quarantine", "encode", "keep"])
def test_a_row_has_the_ids_that_the_stages_give_it_under_each_policy(
    tiny_model_directory, tiny_tokenizer, tmp_path, policy
):
    rows = [
        {"prompt": USER, "chosen": says("Blue."), "rejected": says("Green.")},
        {"prompt": USER, "chosen": says(FORGED), "rejected": says("Green.")},
        {"prompt": "The sky", "chosen": " is blue.", "rejected": FORGED},
    ]
    encoder = Encoder(tiny_tokenizer)
    for row in rows:
        standard = isinstance(row["chosen"], str)
        canonical = {n: json.dumps(row[n]) for n in ("prompt", "chosen", "rejected")}
        canonical |= {"tools": None, "chat_template_kwargs": None}
        canonical["format"] = "standard" if standard else "conversational"
        fields = {"special_tokens_in_text": policy}
        try:
            sides = Renderer(tiny_tokenizer, policy).sides(canonical)
        except Unusable as refused:
            assert policy == "quarantine"
            with pytest.raises(DataError, match=refused.reason):
                trainer_of(tiny_model_directory, tmp_path, [row], **fields)
            continue
        [found] = trainer_of(tiny_model_directory, tmp_path, [row], **fields).train_dataset
        for name, side in zip(("chosen_input_ids", "rejected_input_ids"), sides, strict=True):
            if side.literals:
                encode = literal_encoder(tiny_tokenizer)
                ids = encode(side.text, side.literals, add_special_tokens=standard)
            else:
                [ids] = encoder([side.text], add_special_tokens=standard)
            assert found[name] == ids.tolist()


@pytest.mark.parametrize("name", ["a", 7])
def test_soft_labels_ties_and_comparisons_travel_with_their_rows(
    tiny_model_directory, tmp_path, name
):
    rows = [
        {"chosen": "It is.", "rejected": "Blue.", "preference": 0.25, "comparison": name},
        {"chosen": "It is.", "rejected": "Green.", "preference": 0.5, "comparison": name},
        {"chosen": "It is.", "rejected": "Red.", "preference": None, "comparison": None},
    ]
    rows = [{**row, "source": name} for row in rows]
    found = trainer_of(tiny_model_directory, tmp_path, rows).train_dataset
    assert found["preference"][:] == [0.75, 0.5, 1.0]
    assert found["comparison"][:] == [str(name), str(name), None]
    assert found["source"][:] == [str(name)] * 3
    # preferred with 0.25 only, so the sides have changed places
    assert found[0]["rejected_input_ids"] == found[2]["chosen_input_ids"]


def test_a_template_without_bos_gets_the_one_that_the_tokenizer_puts_before_text(
    tiny_model_directory, tmp_path
):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_directory)
    tokenizer.bos_token = "<|endoftext|>"
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    talk = [{"prompt": USER, "chosen": says("Blue."), "rejected": says("Red.")}]
    trainer = trainer_of(tiny_model_directory, tmp_path, talk, processing_class=tokenizer)
    [row] = trainer.train_dataset
    assert row["chosen_input_ids"][:2] == [0, tokenizer.convert_tokens_to_ids("<|im_start|>")]
    assert row["chosen_input_ids"].count(0) == 1
