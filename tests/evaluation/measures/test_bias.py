"""The bias panel: judges that see only the surface, on data with known leanings."""

import numpy as np
import pytest

from tasks.evaluation.measures.bias import Judges, bias_panel
from tasks.evaluation.measures.intervals import Resampling
from tasks.evaluation.measures.metrics import all_metrics
from tasks.evaluation.measures.null_models import (
    RIDGE,
    NullModel,
    best_null_model,
    differences,
    fit,
    fit_null_models,
)
from tasks.evaluation.tables.answers import answers_of
from tasks.evaluation.tables.scores import Scores
from tasks.evaluation.tables.surface import features, opening, script
from tasks.evaluation.tables.texts import Texts, text_table, texts_of
from tests.evaluation.pieces import made_scores, write_conversion


def answer(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def canonical(i: int, chosen: str, rejected: str) -> dict:
    prompt = [{"role": "user", "content": f"What is {i}?"}]
    sides = {"chosen": answer(chosen), "rejected": answer(rejected)}
    return {"pair_id": f"{i:04d}", "source": "a", "prompt": prompt, **sides}


def texts(tmp_path, pairs: list[tuple[str, str]]) -> Texts:
    write_conversion(tmp_path, [canonical(i, *pair) for i, pair in enumerate(pairs)])
    return texts_of(text_table(tmp_path, [(f"{i:04d}", "a") for i in range(len(pairs))]))


def panel(made: Scores, seen: Texts | None, judges: Judges | None = None) -> dict:
    answers = answers_of(made).several()
    return bias_panel(made, answers, seen, judges or Judges(), Resampling())


def test_marks_of_an_answer_are_counted():
    text = "# Title\n\n- one\n2. two\n* **three** and `x`\n```\ncode\n```\nnot - a list, 2*3*4"
    # a fence opens and one closes: two; and the inline code
    assert dict(zip(("lists", "headers", "bold", "code"), features(text)[1:], strict=True)) == {
        "lists": 3,
        "headers": 1,
        "bold": 1,
        "code": 3,
    }
    assert features("") == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Great question! It is", "praise"),
        ("  That's a really good point.", "praise"),
        ("**Sure**, here", "eager"),
        ("I\u2019d be happy to help", "eager"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("As an AI language model, I cannot say", "refusal"),
        ("I'm sorry to hear that.", "apology"),
        ("I’m afraid I don't understand.", "apology"),
        ("Surely not.", "none"),
        ("The question is great", "none"),
        ("", "none"),
    ],
)
def test_the_opening_of_an_answer(text, expected):
    assert opening(text) == expected


def test_the_script_of_a_text():
    samples = {
        "Hello": "latin",
        "Über größe": "latin",
        "Привет, мир": "cyrillic",
        "你好，世界": "han",
        "日本語のテキスト": "kana",
        "한국어": "hangul",
        "שלום": "hebrew",
        "مرحبا": "arabic",
        "Γειά σου": "greek",
        "Բարեւ": "armenian",
        "नमस्ते": "devanagari",
        "বাংলা": "indic",
        "สวัสดี": "thai",
        "hi, привет": "cyrillic",  # most letters tell
        "hello, да": "latin",
        "hi, да": "cyrillic",  # of as many the first by name
        "\U00020000": "han",
        # what is written in the forms of other blocks than the script's first one
        "\u0750\u08a0": "arabic",
        "\ufee3\ufead\ufea3\ufe92\ufe8e": "arabic",
        "\ufb2a": "hebrew",
        "\ua64b\u1c80": "cyrillic",
        "ﾊﾝｶｸ": "kana",
        "ＡＢＣ": "latin",
        "ﬁ": "latin",
        "\u0780\u0905": "devanagari",
        "\u0710\u0860": "other",
        "2 + 2 = 4": "none",
        "": "none",
    }
    assert {text: script(text) for text in samples} == samples


def test_leanings_of_the_model_stand_beside_those_of_the_data(tmp_path):
    # bold is chosen in 1 of 4 pairs; the model prefers it in 3, and one is a tie
    pairs = [("**b** is", "plain is"), *[("plain", "**b** it")] * 3, ("same", "also")]
    seen = texts(tmp_path, pairs)
    made = made_scores([1.0, -1.0, -2.0, 0.0, 3.0], tokens=[(9, 5), *[(5, 9)] * 2, *[(5, 5)] * 2])
    leanings = panel(made, seen)["leanings"]
    assert (leanings["tokens"]["pairs"], leanings["tokens"]["data"]) == (3, 1 / 3)
    found = leanings["bold"]
    assert (found["pairs"], found["data"], found["model"]) == (4, 1 / 4, (3 + 0.5) / 4)


def test_without_two_answers_to_a_prompt_nothing_is_told_of_prompts():
    found = panel(made_scores([0.0], answers=[("same", "same")]), None)
    nothing = {"groups": 0, "share_of_variance": None, "intraclass_correlation": None}
    assert (found["prompt"], found["length"]["partial_correlation"]) == (nothing, None)


def test_prompts_whose_answers_lie_further_apart_than_any_explain_nothing():
    # in both groups one answer earns 2 and the other 0: all of the variance is within them
    found = panel(made_scores([2.0, 2.0]), None)["prompt"]
    assert (found["groups"], found["share_of_variance"]) == (2, 0.0)
    assert found["intraclass_correlation"] == pytest.approx(-1)


def test_null_models_that_see_nothing_count_as_half_and_say_so(tmp_path):
    seen = texts(tmp_path, [("**b** is", "plain is"), ("one", "two")])
    found = panel(made_scores([1.0, 1.0]), seen)["null_models"]
    assert (found["more_bold"]["decides"], found["more_bold"]["accuracy"]) == (0.5, 0.75)
    assert (found["more_code"]["decides"], found["more_code"]["accuracy"]) == (0.0, 0.5)
    assert found["model"]["accuracy"] == 1.0


def test_each_judge_of_the_surface_is_right_where_more_of_its_mark_was_chosen(tmp_path):
    pairs = [
        ("- a\n- b", "a and b"),
        ("x", "# T\n**b** `c`"),
        ("**b** is more", "is"),
        ("one!", "two"),
    ]
    made = made_scores([1.0] * 4, tokens=[(5, 5), (3, 9), (9, 5), (7, 5)])
    found = panel(made, texts(tmp_path, pairs))["null_models"]
    seen = {name: (judge["decides"], judge["accuracy"]) for name, judge in found.items()}
    # right, wrong, or no difference, which counts 1/2: of the four pairs in their order
    assert seen == {
        "model": (1, 1),
        "longer_tokens": (3 / 4, (0.5 + 0 + 1 + 1) / 4),
        "shorter_tokens": (3 / 4, (0.5 + 1 + 0 + 0) / 4),
        "longer_characters": (3 / 4, (0.5 + 0 + 1 + 1) / 4),
        "more_lists": (1 / 4, (1 + 0.5 + 0.5 + 0.5) / 4),
        "more_headers": (1 / 4, (0.5 + 0 + 0.5 + 0.5) / 4),
        "more_bold": (2 / 4, (0.5 + 0 + 1 + 0.5) / 4),
        "more_code": (1 / 4, (0.5 + 0 + 0.5 + 0.5) / 4),
    }


def test_the_first_tokens_say_the_same_where_the_verdict_is_the_same_ties_included():
    judges = Judges(3, np.array([1.0, -1.0, 9.0, 0.0, 0.0, 2.0]))
    made = made_scores([2.0, 2.0, 9.0, 0.0, -1.0, 1.0], preferences=[1, 1, 0.5, 1, 1, 1])
    judge = panel(made, None, judges)["null_models"]["first_tokens"]
    # the third pair has no right side; of the others, which: right, wrong, tie, tie, right
    assert (judge["tokens"], judge["same"], judge["accuracy"]) == (3, 3 / 5, 3 / 5)
    assert judge["decides"] == 3 / 5


def test_accuracy_by_length_is_of_the_right_pairs():
    tokens = [(22, 12), (22, 12), (12, 22), (22, 22), (24, 22), (22, 24), (25, 22), (22, 25)]
    made = made_scores([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0], tokens=tokens)
    found = panel(made, None)["length"]
    # answers of 20 and 20, and of 22 and 20 tokens are as long; those of 23 and 20 are not
    assert (found["matched"]["pairs"], found["matched"]["accuracy"]) == (3, 2 / 3)
    assert (found["chosen_longer"]["pairs"], found["chosen_longer"]["accuracy"]) == (4, 3 / 4)
    assert (found["chosen_shorter"]["pairs"], found["chosen_shorter"]["accuracy"]) == (3, 1 / 3)
    assert found["balanced_accuracy"] == pytest.approx(13 / 24)


def test_the_fit_is_that_of_a_logistic_regression_on_mirrored_pairs():
    linear = pytest.importorskip("sklearn.linear_model")
    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 3))
    x = x * np.where(x @ [1.0, -2.0, 0.0] + draw.logistic(size=300) > 0, 1, -1)[:, None]
    mirrored, label = np.concatenate([x, -x]), np.repeat([1, 0], 300)
    # every pair stands there twice, so the penalty counts twice
    model = linear.LogisticRegression(C=1 / (2 * RIDGE), fit_intercept=False, tol=1e-10)
    expected = model.fit(mirrored, label).coef_[0]
    assert fit(list(x.T)) == pytest.approx(expected, abs=1e-5)


def test_a_fitted_null_model_finds_the_mark_that_data_prefer(tmp_path):
    pairs = [("- a\n- b", "a and b"), ("- c\n- d", "Sure, c"), ("x", "Sure, x")] * 10
    texts(tmp_path, pairs)
    fitted = fit_null_models(tmp_path, 20)
    assert fitted["format"].pairs == 20
    assert dict(zip(fitted["format"].features, fitted["format"].weights, strict=True))["lists"] > 1
    eager = dict(zip(fitted["opening"].features, fitted["opening"].weights, strict=True))["eager"]
    assert eager < -1
    assert fit_null_models(tmp_path, 0) == {}


def test_a_null_model_judges_by_the_difference_of_its_features(tmp_path):
    seen = texts(tmp_path, [("- a\n- b", "a"), ("a", "a\n# b")])
    model = NullModel(("lists", "headers"), (2.0, -1.0), 1)
    assert model.margin(seen) == pytest.approx([2 * np.log(3), np.log(2)])
    assert differences(seen)["characters"] == pytest.approx([np.log(8 / 2), np.log(2 / 6)])


def placed(tmp_path, first: list[bool | None]) -> Texts:
    """Texts of pairs whose rows had the chosen answer first, second, or in no order."""
    rows = [canonical(i, "yes", "no") | {"chosen_first": f} for i, f in enumerate(first)]
    write_conversion(tmp_path, rows)
    return texts_of(text_table(tmp_path, [(f"{i:04d}", "a") for i in range(len(first))]))


def test_the_judge_of_position_goes_by_the_order_that_rows_had(tmp_path):
    seen = placed(tmp_path, [True] * 7 + [False] * 2 + [None])
    assert seen.first.tolist() == [1.0] * 7 + [-1.0] * 2 + [0.0]
    fitted = fit_null_models(tmp_path, 10)
    found = panel(made_scores([1.0] * 10), seen, Judges(null_models=fitted))
    judge = found["null_models"]["position"]
    assert judge["decides"] == 9 / 10
    assert judge["accuracy"] == (7 + 0.5) / 10
    assert "note" not in judge
    leaning = found["leanings"]["first"]
    assert (leaning["pairs"], leaning["data"], leaning["model"]) == (9, 7 / 9, 7 / 9)


def test_a_habit_of_the_second_place_is_found_as_well(tmp_path):
    seen = placed(tmp_path, [False] * 3 + [True])
    fitted = fit_null_models(tmp_path, 10)
    found = panel(made_scores([1.0] * 4), seen, Judges(null_models=fitted))
    assert found["null_models"]["position"]["accuracy"] == 3 / 4


def test_where_no_order_is_known_the_panel_says_so(tmp_path):
    seen = placed(tmp_path, [None] * 3)
    judges = Judges(null_models=fit_null_models(tmp_path, 10))
    made = made_scores([1.0, 2.0, -1.0])
    judge = panel(made, seen, judges)["null_models"]["position"]
    assert (judge["decides"], judge["accuracy"]) == (0.0, 0.5)
    assert judge["note"] == "no pair says which answer stood first in its row"
    judge = panel(made, None)["null_models"]["position"]
    assert (judge["decides"], judge["accuracy"]) == (None, None)
    assert "the pairs of conversion are not at hand" in judge["note"]
    assert best_null_model({"model": {"accuracy": 0.9}, "position": {"accuracy": 0.8}}) is None


def test_labels_that_follow_the_place_are_warned_of_and_are_no_null_model_of_the_answer(tmp_path):
    seen = placed(tmp_path, [True] * 38 + [False] * 2)
    judges = Judges(null_models=fit_null_models(tmp_path, 40))
    found = all_metrics(made_scores([1.0, -1.0] * 20), seen, Resampling(100), judges=judges)
    told = {w["figure"]: w["message"] for w in found["warnings"]}
    assert "stood first is the chosen one in 95%" in told["bias.leanings.first"]
    assert "bias.null_models.position" not in told
    assert best_null_model(found["bias"]["null_models"])[0] != "position"
