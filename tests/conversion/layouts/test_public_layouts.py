"""Data sets in wide use: rows of their published columns, with the nasty ones among them.

Every row is invented; the columns, their kinds and what may be missing are those of the data sets'
own cards. Each is recognised; what is said of the others is in `test_hints`.
"""

import json

import pytest

from tasks.conversion import Pair, Unusable, checked
from tasks.conversion.layouts import LAYOUTS, NAMES, options_of, reader, recognise
from tasks.conversion.preference.answers import Answer


def user(text):
    return {"content": text, "role": "user"}  # in the order of a Parquet struct's fields


def assistant(text):
    return {"content": text, "role": "assistant"}


TALK = ("Hi", "Hello.", "No.")


def reply(text, rank, **more):
    """An answer in a tree of messages."""
    return {"text": text, "role": "assistant", "rank": rank, "replies": [], **more}


CHAT = {"chosen": [user("Hi"), assistant("Hello.")], "rejected": [user("Hi"), assistant("No.")]}
TEXTS = {"chosen": "Hello.", "rejected": "No."}
ULTRA = {"source": "x", "instruction": "Hi", "models": ["a", "b"], "correct_answers": ["None"],
         "incorrect_answers": ["None"], "completions": [
    {"annotations": {
        name: {"Rating": rating, "Rationale": "x", "Type": None, "Rationale For Rating": None}
        for name in ("helpfulness", "honesty", "instruction_following", "truthfulness")},
     "custom_system_prompt": "Be kind.", "model": "a", "principle": "helpfulness", "critique": "x",
     "overall_score": 7.0, "fine-grained_score": 4.0, "response": said}
    for said, rating in (("Hello.", "5"), ("No.", "1"))]}  # fmt: skip
STEER = {"prompt": "Hi", "correctness": 3, "coherence": 4, "complexity": 1, "verbosity": 1}
ARENA = {"model_a": "x", "model_b": "y", "language": "English", "turn": 1}
PARTS = [{"type": "text", "text": "Hi", "image": None, "mimeType": None}]

RECOGNISED = {
    "alpaca preferences": ("alpaca", [
        TEXTS | {"instruction": "Hi", "input": "", "system": "\n"}], None),
    "older alpaca preferences": (
        "alpaca", [{"instruction": "Hi", "input": "", "output": ["Hello.", "No."]}], None,
    ),
    "ms-swift answer": (
        "ms_swift",
        [{"messages": [user("Hi"), assistant("Hello.")], "rejected_response": "No.", "margin": 1}],
        1.0),
    "ms-swift conversations": (
        "ms_swift",
        [{"messages": [user("Hi"), assistant("Hello.")],
          "rejected_messages": [user("Hi"), assistant("No.")]}], None),
    # data set: (layout, rows that make one pair, its margin)
    "lmarena 55k, CSV": ("arena", [ARENA | {
        "prompt": '["Hi"]', "response_a": '["Hello."]', "response_b": '["No."]',
        "winner_model_a": "1", "winner_model_b": "0", "winner_tie": "0"}], None),
    "lmsys 33k": ("arena", [ARENA | {
        "question_id": "q", "winner": "model_b", "judge": "j", "anony": True, "tstamp": 1.5,
        "conversation_a": [user("Hi"), assistant("No.")],
        "conversation_b": [user("Hi"), assistant("Hello.")]}], None),
    "lmarena 140k": ("arena", [ARENA | {
        "winner": "model_a", "evaluation_order": 1,
        "conversation_a": [{"role": "user", "content": PARTS},
                           {"role": "assistant", "content": [PARTS[0] | {"text": "Hello."}]}],
        "conversation_b": [{"role": "user", "content": PARTS},
                           {"role": "assistant", "content": [PARTS[0] | {"text": "No."}]}]}], None),
    "arena expert 5k": ("arena", [ARENA | {
        "winner": "model_a", "conversation_a": json.dumps(CHAT["chosen"]),
        "conversation_b": json.dumps(CHAT["rejected"]), "full_conversation": "x"}], None),
    "lmarena's WSDM cup": ("arena", [ARENA | {
        "id": "x", "prompt": "Hi", "response_a": "No.", "response_b": "Hello.",
        "winner": "model_b"}], None),
    "PPE human preference": ("arena", [ARENA | {
        "question_id": "q", "prompt": "Hi", "response_1": "Hello.", "response_2": "No.",
        "winner": "model_a", "hard_prompt": True, "is_code": False,
        "conv_metadata": {"turns": 1, "sum_assistant_a_tokens": 2}}], None),
    "UltraFeedback": ("ultrafeedback", [ULTRA], 4.0),
    "UltraFeedback binarized": ("trl", [CHAT | {
        "prompt": "Hi", "prompt_id": "x", "messages": CHAT["chosen"], "score_chosen": 8.0,
        "score_rejected": 8.0}], None),
    "UltraFeedback binarized, cleaned": ("trl", [CHAT | {
        "source": "x", "prompt": "Hi", "chosen-rating": 5.0, "chosen-model": "a",
        "rejected-rating": 4.0, "rejected-model": "b"}], None),
    "HelpSteer and HelpSteer2": ("helpsteer", [
        STEER | {"response": "Hello.", "helpfulness": 4},
        STEER | {"response": "No.", "helpfulness": 1}], 3.0),
    "HelpSteer2 preference": ("helpsteer", [{
        "split": "train", "prompt": "Hi", "response_1": "Hello.", "response_2": "No.",
        "preference_strength": -3, "preference_statement": "x", "preference_elaboration": "y",
        "three_most_similar_preferences": [], "all_preferences_unprocessed": []}], 3.0),
    "HelpSteer3 preference": ("helpsteer", [{
        "domain": "general", "language": "english", "context": [{"role": "user", "content": "Hi"}],
        "response1": "No.", "response2": "Hello.", "overall_preference": 1,
        "individual_preference": [{"score": 1, "reasoning": "x", "feedback1": "", "feedback2": ""}],
    }], 1.0),
    "SHP": ("shp", [{
        "post_id": "p", "domain": "askx_train", "upvote_ratio": 0.98, "history": "Hi",
        "c_root_id_A": "a", "c_root_id_B": "b", "created_at_utc_A": 1, "created_at_utc_B": 2,
        "score_A": 52, "score_B": 10, "human_ref_A": "Hello.", "human_ref_B": "No.", "labels": 1,
        "seconds_difference": 1.0, "score_ratio": 5.2}], None),
    "hh-rlhf, any of its helpful and harmless folders": ("hh_rlhf", [{
        "chosen": "\n\nHuman: Hi\n\nAssistant: Hello.",
        "rejected": "\n\nHuman: Hi\n\nAssistant: No."}], None),
    "Nectar": ("nectar", [{
        "prompt": "\n\nHuman: Hi\n\nAssistant: ", "turns": 1, "num_responses": 2,
        "source": ["anthropic-hh"], "good_natured": True, "answers": [
            {"answer": "No.", "model": "a", "rank": 2.0},
            {"answer": "Hello.", "model": "b", "rank": 1.0}]}], None),
    "OpenAssistant's trees": ("message_trees", [{
        "message_tree_id": "a", "tree_state": "ready_for_export", "prompt": {
            "message_id": "a", "text": "Hi", "role": "prompter", "lang": "en", "deleted": False,
            "replies": [reply("No.", 1), reply("Hello.", 0)]}}], None),
    "Skywork reward preference 80K": ("trl", [CHAT | {"source": "magpie_ultra"}], None),
    "Tulu 3 preference mixture": ("trl", [CHAT | {
        "id": "x", "source": "y", "prompt": "Hi", "chosen_rating": 4.75, "rejected_rating": 1.5,
        "chosen_model": "a", "rejected_model": "b"}], None),
    "argilla dpo-mix-7k": ("trl", [CHAT | {
        "dataset": "x", "chosen_rating": 5.0, "rejected_rating": 3.0}], None),
    "Capybara DPO": ("trl", [CHAT | {
        "source": "x", "conversation": [{"input": "Hi", "output": "x"}], "original_response": "x",
        "generation_prompt": ["x"], "raw_generation_responses": ["x"], "new_generations": ["x"],
        "prompt": "Hi", "rating_chosen": 5, "rating_rejected": 4, "chosen_model": "a",
        "rejected_model": "b"}], None),
    "distilabel, Intel orca": ("distilabel", [TEXTS | {
        "system": " ", "input": "Hi", "generations": ["Hello.", "No."], "order": ["a", "b"],
        "labelling_model": "j", "rating": [9.0, 7.0], "rationale": "x", "status": "unchanged",
        "original_chosen": "x", "original_rejected": "y", "chosen_score": 9.0}], 2.0),
    "distilabel, a task's own output": ("distilabel", [{
        "instruction": "Hi", "generations": ["No.", "Hello.", None], "ratings": [1, 5, None],
        "rationales": ["x", "y", None], "model_name": "m"}], 4.0),
    "webgpt comparisons": ("webgpt", [{
        "question": {"dataset": "eli5", "id": "x", "full_text": "Hi"},
        "quotes_0": {"title": [], "extract": []}, "answer_0": "No.", "score_0": -0.33,
        "tokens_0": {"prefix": [], "completion": []}, "quotes_1": {"title": [], "extract": []},
        "answer_1": "Hello.", "score_1": 0.33, "tokens_1": {"prefix": [], "completion": []},
    }], None),
    "prm800k": ("prm800k", [
        {"labeler": "l", "generation": 5, "is_quality_control_question": False,
         "question": {"problem": "Hi", "ground_truth_answer": "x", "pre_generated_steps": None},
         "label": {"total_time": 1, "finish_reason": finish, "steps": [
             {"completions": [{"text": said, "rating": rating, "flagged": False}],
              "human_completion": None, "chosen_completion": chosen}]}}
        for said, rating, chosen, finish in
        (("Hello.", 1, 0, "solution"), ("No.", -1, None, "found_error"))], None),
    "llama-factory, as trl": ("trl", [TEXTS | {"prompt": "Hi"}], None),
}  # fmt: skip


def pairs_of_rows(layout, rows, columns=None, **options):
    """Canonical pairs, as (prompt, chosen, rejected) texts with the margin, and other items."""
    from tasks.conversion.first_pass.joining import Origin, join

    declared = options_of("votes", layout, options)
    read = reader(layout, columns or {}, declared)
    items = [item for row in rows for item in read(row)]
    answers = [(item, Origin("votes", "f", 1, "")) for item in items if isinstance(item, Answer)]
    if answers:
        items = [item for item, _ in join(answers, declared)]
    pairs = [checked(item) for item in items if isinstance(item, Pair)]
    return pairs, [item for item in items if isinstance(item, Unusable)]


def said(side):
    return side if isinstance(side, str) else side[-1]["content"]


@pytest.mark.parametrize("name", RECOGNISED)
def test_a_data_set_in_wide_use_is_recognised_and_gives_what_it_says(name):
    layout, rows, margin = RECOGNISED[name]
    assert recognise("votes", None, {}, rows) == layout
    for row in rows:
        assert [n for n in NAMES if LAYOUTS[n].fits(set(row), row)] == [layout]
    (pair,), _ = pairs_of_rows(layout, rows)
    assert (said(pair.prompt), said(pair.chosen), said(pair.rejected)) == TALK
    assert pair.margin == margin


def test_an_instruction_is_asked_with_its_input_behind_all_that_was_said_before():
    row = ALPACA | {"system": "Be kind.", "history": [["Ho", "Ha"], ["So?", "Yes."]]}
    (pair,) = reader("alpaca", {})(row)
    assert pair.prompt == [
        *({"role": "system", "content": "Be kind."}, user("Ho"), assistant("Ha")),
        *(user("So?"), assistant("Yes."), user("Translate.\nHi")),
    ]
    assert (pair.chosen, pair.rejected) == ([assistant("Hello.")], [assistant("No.")])


def test_all_turns_before_the_better_answer_of_an_ms_swift_row_are_its_prompt():
    turns, better = [user("Ho"), assistant("Ha"), user("Hi")], assistant("Hello.")
    (pair,) = reader("ms_swift", {})(SWIFT | {"messages": [*turns, better]})
    assert (pair.prompt, pair.chosen, pair.rejected) == (turns, [better], [assistant("No.")])


SUMMARIES = {
    "info": {"id": "t3_x", "post": "Long.", "title": "T", "subreddit": "tifu", "site": None,
             "article": None},
    "summaries": [{"text": " Wrong.", "policy": "ref", "note": None},
                  {"text": " Short.", "policy": "sup2", "note": None}],
    "choice": 1, "worker": "w", "batch": "b", "split": "train", "extra": {"confidence": 7},
}  # fmt: skip


def test_summaries_are_asked_for_as_in_the_paper_and_keep_their_leading_space():
    assert recognise("votes", None, {}, [SUMMARIES]) == "summaries"
    (pair,), _ = pairs_of_rows("summaries", [SUMMARIES])
    assert said(pair.prompt) == "SUBREDDIT: r/tifu\nTITLE: T\nPOST: Long.\nTL;DR:"
    assert (said(pair.chosen), said(pair.rejected)) == (" Short.", " Wrong.")
    assert pair.chosen_first is False
    untitled = SUMMARIES | {"choice": 0, "info": {"post": "Long.", "title": None}}
    (pair,), _ = pairs_of_rows("summaries", [untitled])
    assert said(pair.prompt) == "SUBREDDIT: r/\nTITLE: \nPOST: Long.\nTL;DR:"
    assert (said(pair.chosen), pair.chosen_first) == (" Wrong.", True)
    news = SUMMARIES | {"info": {"post": None, "article": "News."}}
    assert said(pairs_of_rows("summaries", [news])[0][0].prompt) == "Article:\nNews.\n\nTL;DR:"


def test_seven_ranked_answers_make_21_pairs_of_one_comparison_less_the_ties():
    answers = [{"answer": f"a{n}", "model": "m", "rank": float(n)} for n in range(1, 8)]
    turns = "\n\nHuman: Hi\n\nAssistant: Hey.\n\nHuman: So?\n\nAssistant: "
    pairs, others = pairs_of_rows("nectar", [{"prompt": turns, "answers": answers}])
    assert len(pairs) == 21
    assert not others
    assert [turn["role"] for turn in pairs[0].prompt] == ["user", "assistant", "user"]
    assert all(said(p.chosen) < said(p.rejected) and p.margin is None for p in pairs)
    assert len({p.comparison for p in pairs}) == 1
    answers[1]["rank"] = 1.0
    pairs, (tie,) = pairs_of_rows("nectar", [{"prompt": turns, "answers": answers}])
    assert (len(pairs), tie.reason, tie.pairs) == (20, "tie", 1)


def prm(finish, *steps, generated=None):
    question = {"problem": "q", "pre_generated_steps": generated}
    return {"question": question, "label": {"finish_reason": finish, "steps": list(steps)}}


def step(*rated, chosen=0, human=None):
    completions = [{"text": text, "rating": rating} for text, rating in rated]
    return {"completions": completions, "chosen_completion": chosen, "human_completion": human}


def test_labelled_steps_become_the_solution_that_the_labeler_walked():
    def answer(row):
        (item,) = reader("prm800k", {})(row)
        return item.completion, item.score

    alternatives = step(("no", -1), ("a", 1), ("b", 0), chosen=1)
    own = step(("x", -1), chosen=None, human={"text": "mine", "rating": None})
    assert answer(prm("solution", alternatives, own)) == ("a\nmine", True)
    wrong = step(("fine", 1), ("e", -1), chosen=None)
    assert answer(prm("found_error", step(("a", 1)), wrong)) == ("a\ne", False)
    whole = prm("found_error", step(("a", 1)), step(("e", -1), chosen=None),
                generated=["a", "e", "f"])  # fmt: skip
    assert answer(whole) == ("a\ne\nf", False)
    other = prm("found_error", step(("a", 1)), wrong, generated=["z", "e", "f"])
    assert answer(other) == ("a\ne", False)


def test_a_prompt_kept_in_another_form_is_left_unread_on_request(convert, pairs_of, quarantine_of):
    row = CHAT | {"prompt": "USER: Hi ASSISTANT:"}
    (entry,) = quarantine_of(convert([CHAT | {"prompt": "Hi"}, row]))
    assert entry["reason"] == "prompt_not_prefix"
    assert "options: {prompt: in_answers}" in entry["message"]
    (pair,) = pairs_of(convert([row], layout="trl", options={"prompt": "in_answers"}))
    assert said(pair["prompt"]) == "Hi"


def test_flat_texts_become_turns_on_request(convert, pairs_of):
    row = TEXTS | {"prompt": "Hi"}
    (pair,) = pairs_of(convert([row], layout="trl", options={"format": "conversational"}))
    assert (said(pair["prompt"]), pair["format"]) == ("Hi", "conversational")


def test_equal_ratings_are_ties_whatever_chosen_beside_them_says():
    row = RECOGNISED["distilabel, Intel orca"][1][0] | {"rating": [8.0, 8.0], "status": "tie"}
    pairs, (tie,) = pairs_of_rows("distilabel", [row])
    assert not pairs
    assert tie.reason == "tie"


WEB = RECOGNISED["webgpt comparisons"][1][0]
BOTH = {"instruction": "Translate.", "input": "Hi"}
ALPACA = TEXTS | BOTH
SWIFT = {"messages": [user("Hi"), assistant("Hello.")], "rejected_response": "No."}
RATED = {"instruction": "Hi", "generations": ["a", "b", None], "ratings": [1, 2, None]}
BAD = [
    ("distilabel", RATED, "unrated", "generations[2]"),
    ("distilabel", RATED | {"ratings": [1, 2, 3]}, "null", "generations[2]"),
    ("distilabel", {"instruction": "Hi", "generations": ["a"], "ratings": [1, 2]}, "bad_score",
     "ratings"),
    ("distilabel", {"instruction": None, "generations": ["a", "b"], "ratings": [1, 2]}, "null",
     "instruction"),
    ("distilabel", {"instruction": "Hi", "generations": ["a", "b"], "ratings": ["good", 2]},
     "bad_score", "ratings[0]"),
    ("nectar", {"prompt": "Hi", "answers": []}, "bad_transcript", "prompt"),
    ("nectar", {"prompt": "\n\nAssistant: ", "answers": []}, "no_prompt", "prompt"),
    ("alpaca", ALPACA | {"instruction": None, "input": " "}, "no_prompt", "instruction"),
    ("alpaca", ALPACA | {"input": 3}, "wrong_type", "input"),
    ("alpaca", ALPACA | {"system": ["Be kind."]}, "wrong_type", "system"),
    ("distilabel", RATED | {"system": ["Be kind."]}, "wrong_type", "system"),
    ("alpaca", ALPACA | {"rejected": ["No."]}, "wrong_type", "rejected"),
    ("alpaca", BOTH | {"output": ["Yes.", "No.", "So?"]}, "wrong_type", "output"),
    ("alpaca", BOTH | {"output": ["Yes.", None]}, "empty_response", "rejected"),
    ("alpaca", BOTH | {"output": "Yes."}, "missing_column", "chosen"),
    ("alpaca", ALPACA | {"history": [["Ho", "Ha"], ["Ho"]]}, "wrong_type", "history[1]"),
    ("alpaca", ALPACA | {"history": [["Ho", None]]}, "null_content",
     "prompt[1].content"),
    ("ms_swift", SWIFT | {"messages": []}, "no_final_assistant", "messages"),
    ("ms_swift", SWIFT | {"messages": [user("Hi")]}, "no_final_assistant", "messages"),
    ("ms_swift", SWIFT | {"messages": "Hi"}, "bad_json", "messages"),
    ("ms_swift", SWIFT | {"rejected_response": ["No."]}, "wrong_type", "rejected_response"),
    ("ms_swift", {"messages": SWIFT["messages"]}, "missing_column", "rejected_response"),
    ("ms_swift", SWIFT | {"rejected_messages": [user("Hi")]}, "no_final_assistant",
     "rejected[0]"),
    ("nectar", {"prompt": None, "answers": []}, "null", "prompt"),
    ("nectar", {"prompt": "\n\nHuman: a", "answers": [{"answer": "a", "rank": "first"},
                                                     {"answer": "b", "rank": 1}]},
     "bad_score", "answers[0].rank"),
    ("nectar", {"prompt": "\n\nHuman: a", "answers": [{"answer": "", "rank": 1}]},
     "empty_response", "answers[0].answer"),
    ("webgpt", WEB | {"score_1": 0.5}, "bad_score", "score_1"),
    ("webgpt", WEB | {"score_0": 0, "score_1": 0}, "tie", "score_0"),
    ("webgpt", WEB | {"score_0": None}, "bad_score", "score_0"),
    ("webgpt", WEB | {"question": {"id": "x"}}, "null", "question"),
    ("webgpt", WEB | {"answer_1": ""}, "empty_response", "chosen"),
    ("summaries", SUMMARIES | {"choice": 2}, "bad_label", "choice"),
    ("summaries", SUMMARIES | {"choice": None}, "null", "choice"),
    ("summaries", SUMMARIES | {"summaries": [{"text": "a"}]}, "wrong_type", "summaries"),
    ("summaries", SUMMARIES | {"summaries": [{"text": "a"}, "b"]}, "wrong_type", "summaries[1]"),
    ("summaries", SUMMARIES | {"info": {"post": " "}}, "no_prompt", "info"),
    ("prm800k", prm("give_up", step(("a", 1))), "unrated", "label.finish_reason"),
    ("prm800k", prm(None, step(("a", 1))), "unrated", "label.finish_reason"),
    ("prm800k", prm("found_error", step(("a", 1))), "bad_steps", "label.steps"),
    ("prm800k", prm("solution", step(("a", -1))), "bad_steps", "label.steps"),
    ("prm800k", prm("solution", step(chosen=None)), "bad_steps", "label.steps[0]"),
    ("prm800k", prm("solution"), "bad_steps", "label.steps"),
    ("prm800k", {"question": None, "label": {"steps": []}}, "null", "question"),
    ("helpsteer", RECOGNISED["HelpSteer3 preference"][1][0] | {"overall_preference": -100},
     "bad_score", "overall_preference"),
    ("helpsteer", RECOGNISED["HelpSteer3 preference"][1][0] | {"context": None}, "null", "context"),
]  # fmt: skip


def refused(layout, row):
    """Why a row, or the first part of it that cannot be used, cannot be."""

    def read():
        for item in reader(layout, {})(row):
            if isinstance(item, Unusable):
                raise item
            checked(item)

    with pytest.raises(Unusable) as caught:
        read()
    assert "found" in caught.value.message
    assert caught.value.message.isprintable()
    return caught.value.reason, caught.value.field


@pytest.mark.parametrize(("layout", "row", "reason", "field"), BAD)
def test_rows_that_cannot_be_used_get_their_reason(layout, row, reason, field):
    assert refused(layout, row) == (reason, field)


@pytest.mark.parametrize("name", RECOGNISED)
def test_lines_and_parquet_of_the_same_rows_give_the_same_pair(tmp_path, pairs_of, name):
    """A table of all rows has a null for what a row lacks, and fields in an order of its own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tasks.artifact import Store
    from tasks.conversion import ConversionParams, step
    from tasks.ingestion import IngestionParams, Source
    from tasks.ingestion import step as ingestion_step

    layout, rows, margin = RECOGNISED[name]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    found = []
    for file in ("rows.jsonl", "rows.parquet"):
        source = Source(name="votes", path=str(tmp_path / file))
        store = Store(tmp_path / "data")
        ingested = store.obtain(ingestion_step(IngestionParams(sources=(source,))))
        made = store.obtain(step(ConversionParams(eval_fraction=0.0), (source,), ingested))
        assert made.report["layouts"] == {"votes": layout}
        (pair,) = pairs_of(made)
        assert (said(pair["prompt"]), said(pair["chosen"]), said(pair["rejected"])) == TALK
        assert pair["margin"] == margin
        found.append(pair["pair_id"])
    assert found[0] == found[1]
