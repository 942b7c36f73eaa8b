"""Rows with images: every image leaves its placeholder in the text, or the row says why not."""

import json

import pyarrow.parquet as pq
import pytest

from tasks.artifact import Artifact, Store
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError
from tasks.templating import TemplatingParams
from tasks.templating import task as templating
from tasks.templating.parts import with_image_parts
from tasks.templating.pictures import Pictures
from tasks.templating.renderer import Renderer
from tests.templating.families import TEMPLATES, build_family, load_tokenizer
from tests.templating.stage_runs import converted, quarantined, read_arrow, run

PAD = "<|vision_start|><|image_pad|><|vision_end|>"
IMAGE = {"type": "image"}
VISION = (TEMPLATES / "vision.jinja").read_text("utf-8")
LISTS = (
    "{% for m in messages %}{{ m.role }}: {% for part in m.content %}{% if part.type == 'image' %}"
    "<image>\n{% elif part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}</s>{% endfor %}"
)
NUMBERED = (
    "{% set n = namespace(at=0) %}{% for m in messages %}{{ m.role }}: "
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}{% set n.at = n.at + 1 %}<|image_{{ n.at }}|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}</s>{% endfor %}"
)
FIRST = (
    "{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content if part.type == 'image' %}<image>\n{% endfor %}"
    "{% for part in m.content if part.type == 'text' %}{{ part.text }}{% endfor %}{% endif %}</s>"
    "{% endfor %}"
)
IGNORES = LISTS.replace("<image>\n", "")
PRINTS = "{% for m in messages %}{{ m.role }}: {{ m.content }}</s>{% endfor %}"
REFUSES = "{% for m in messages %}{{ m.role + ': ' + m.content + '</s>' }}{% endfor %}"
USERS_ONLY = VISION.replace("part.type == 'image'", "part.type == 'image' and loop.first")


def text(words):
    return {"type": "text", "text": words}


def user(*parts):
    return {"role": "user", "content": list(parts)}


def says(words):
    return [{"role": "assistant", "content": words}]


def pair(*prompt, **others):
    return {"prompt": list(prompt), "chosen": says("A cat."), "rejected": says("A dog.")} | others


PLAIN = pair({"role": "user", "content": "What color is the sky?"})


@pytest.fixture
def model(tmp_path):
    return build_family("vision", tmp_path / "model")


def texts_of(artifact):
    rows = read_arrow(artifact.path / "texts/00000.arrow").to_pylist()
    return {row["row"]: row for row in rows}


def with_template(model, template, tmp_path, rows, **params):
    path = tmp_path / "given.jinja"
    path.write_text(template)
    place = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
    place.mkdir()
    return run(rows, model, place, chat_template_path=str(path), **params)


def test_images_and_their_places_come_through_and_tokenization_says_why_it_leaves_them(
    model, tmp_path
):
    rows = [
        PLAIN,
        pair(user(IMAGE, text("What is it?")), images=["a.png"]),
        pair(user(text("First "), IMAGE, text(" or "), IMAGE), images=[{"path": "a"}, "b.png"]),
        pair(user({**IMAGE, "path": "own.png"}, text("And this?"))),
        pair(user(text("Only words."))),
    ]
    rendered, kept = run(rows, model, tmp_path)
    assert quarantined(rendered) == {}
    texts = texts_of(rendered)
    asked = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\nA cat.<|im_end|>\n"
    assert texts[2]["chosen"] == asked.format(f"{PAD}What is it?")
    assert texts[3]["chosen"] == asked.format(f"First {PAD} or {PAD}")
    assert texts[5]["chosen"] == asked.format("Only words.")
    images = {n: json.loads(row["images"]) for n, row in texts.items() if row["images"]}
    assert images == {2: ["a.png"], 3: [{"path": "a"}, "b.png"], 4: [{"path": "own.png"}]}
    assert rendered.report["with_images"] == 3
    assert len(kept) == 2
    (tokenized,) = Store(tmp_path / "data").root.glob("4_tokenization/*")
    report = json.loads((tokenized / "record.json").read_text())["report"]
    assert report["ledger"]["s"]["dropped"] == {"images": 3}
    left_out = pq.read_table(tokenized / "quarantine.parquet").to_pylist()
    assert [(row["row"], row["reason"], row["field"]) for row in left_out] == [
        (n, "images", "images") for n in (2, 3, 4)
    ]
    assert "read text only" in left_out[0]["message"]


def test_without_images_the_column_is_not_there_and_with_nothing_else_the_stage_fails(
    model, tmp_path
):
    rendered, _ = run([PLAIN], model, tmp_path / "plain")
    assert "images" not in read_arrow(rendered.path / "texts/00000.arrow").column_names
    assert rendered.report["with_images"] == 0
    with pytest.raises(DataError, match=r"no row is left of 1; dropped \{'images': 1\}.*text only"):
        run([pair(user(IMAGE, text("What?")), images=["a.png"])], model, tmp_path / "vision")


def test_images_that_no_part_names_stand_before_the_first_question_as_the_peer_has_them(
    model, tmp_path
):
    peer = pytest.importorskip("trl.data_utils")
    system = {"role": "system", "content": "Be brief."}
    asked = {"role": "user", "content": "Which is it?"}
    row = pair(system, asked, *says("That one."), asked, images=["a.png", "b.png"])
    rendered, _ = run([PLAIN, row], model, tmp_path)
    theirs = peer.prepare_multimodal_messages([*row["prompt"], *row["chosen"]], row["images"])
    tokenizer = load_tokenizer(model.path, TemplatingParams())
    expected = tokenizer.apply_chat_template(theirs, tokenize=False)
    assert texts_of(rendered)[2]["chosen"] == expected
    assert f"user\n{PAD}{PAD}Which is it?" in expected


def test_more_or_fewer_images_than_parts_for_them_are_quarantined(model, tmp_path):
    two = user(IMAGE, IMAGE, text("Which?"))
    both = {"chosen": [user(IMAGE), *says("a")], "rejected": [user(IMAGE), *says("b")]}
    rows = [PLAIN, pair(two, images=["a.png"]), pair(two, images=["a", "b", "c"])]
    rows.append(pair(two, images=["a", "b"]))
    rows.append(both | {"images": ["a"]})
    rendered, _ = run(rows, model, tmp_path)
    assert {row: reason for row, (reason, _) in quarantined(rendered).items()} == {
        2: "bad_images",
        3: "bad_images",
    }
    assert "found 3 images and 2 parts" in quarantined(rendered)[3][1]
    # a picture in each answer: one image each, or the same for both
    answers = {side: json.dumps([user(IMAGE), *says(side)]) for side in ("chosen", "rejected")}
    for images in (["a"], ["a", "b"]):
        row = {"format": "conversational", "prompt": None, "images": json.dumps(images)} | answers
        assert with_image_parts(row) == row
    with pytest.raises(Unusable, match="image_part: prompt: the row has images beside texts"):
        with_image_parts({"format": "standard", "images": '["a"]'})


@pytest.mark.parametrize(
    ("template", "placeholder"),
    [(VISION, PAD), (LISTS, "<image>"), (NUMBERED, "<|image_1|>"), (FIRST, "<image>")],
)
def test_templates_write_images_in_their_own_ways(template, placeholder, model, tmp_path):
    row = pair(user(text("Now "), IMAGE, text("What?"), IMAGE), images=["a.png", "b.png"])
    path = tmp_path / "given.jinja"
    path.write_text(template)
    held = Artifact("model", "1" * 16, model.path, "e" * 64, {})
    conversion = converted([row], tmp_path / "conversion")
    params = TemplatingParams(chat_template_path=str(path))
    rendered = Store(tmp_path / "data").obtain(templating.step(params, conversion, model, held))
    tokenizer = load_tokenizer(model.path, TemplatingParams())
    tokenizer.chat_template = template
    found = Pictures(tokenizer).placeholder
    assert found.pattern.fullmatch(placeholder)
    assert found.wraps == (template == LISTS)
    chosen = texts_of(rendered)[1]["chosen"]
    assert len(found.pattern.findall(chosen)) == 2
    assert "A cat." in chosen


@pytest.mark.catalogue(64)
@pytest.mark.parametrize(
    ("template", "says_why"),
    [
        (IGNORES, "the chat template ignores image parts"),
        (PRINTS, "the chat template does not read contents that are lists of parts"),
        (REFUSES, "the chat template refuses it"),
    ],
)
def test_a_template_that_does_not_show_images_is_found_by_a_probe(
    template, says_why, model, tmp_path
):
    rows = [PLAIN, pair(user(IMAGE, text("What?")), images=["a.png"])]
    if template == IGNORES:  # which reads texts in lists only
        template = template.replace("{% for part", "{% if m.content is string %}{{ m.content }}"
                                    "{% else %}{% for part", 1)  # fmt: skip
        template = template.replace("{% endfor %}</s>", "{% endfor %}{% endif %}</s>")
    rendered, kept = with_template(model, template, tmp_path, rows)
    reason, message = quarantined(rendered)[2]
    assert reason == "image_part"
    assert says_why in message
    assert "leave such rows out of the source" in message
    assert len(kept) == 1
    assert "images" not in texts_of(rendered)[1]


def test_dropped_and_forged_placeholders_are_counted(model, tmp_path):
    late = pair(user(text("Look: "), IMAGE), images=["a.png"])
    rendered, _ = with_template(model, USERS_ONLY, tmp_path, [PLAIN, late])
    # the probe's own image stands behind a text, so nothing of the kind is read
    assert quarantined(rendered)[2][0] == "image_part"
    forged = pair(user(IMAGE, text("What is <image> here?")), images=["a.png"])
    fair = pair(user(IMAGE, text("What is it?")), images=["a.png"])
    rendered, _ = with_template(model, FIRST, tmp_path, [PLAIN, forged, fair])
    reason, message = quarantined(rendered)[2]
    assert reason == "bad_placeholders"
    assert "2 image placeholders for 1 image parts" in message
    assert 3 in texts_of(rendered)
    answers = {"rejected": [{"role": "assistant", "content": [IMAGE, text("A dog.")]}]}
    of_users = VISION.replace(
        "if part.type == 'image'", "if part.type == 'image' and message.role == 'user'"
    )
    row = pair(user(text("Draw it.")), **answers, images=["a.png"])
    rendered, _ = with_template(model, of_users, tmp_path, [PLAIN, row])
    reason, message = quarantined(rendered)[2]
    assert reason == "bad_placeholders"
    assert "0 image placeholders for 1 image parts" in message


def test_a_text_between_others_that_the_template_drops_is_told_by_its_row(model, tmp_path):
    ends = VISION.replace("elif part.type == 'text'", "elif loop.first or loop.last")
    ends = ends.replace("part.text", "part.text | trim")
    fair = pair(user(text("Now "), IMAGE, text("what?")), images=["a.png"])
    row = pair(user(text("Now "), IMAGE, text("so "), text("what?")), images=["a.png"])
    rendered, _ = with_template(model, ends, tmp_path, [fair, row, PLAIN])
    reason, message = quarantined(rendered)[2]
    assert reason == "template_drops_turn"
    assert "does not write the part 'so ' of a content that is a list of parts" in message
    assert 1 in texts_of(rendered)


def test_an_argument_named_image_is_no_image(model, tmp_path):
    call = {"function": {"name": "draw", "arguments": {"image": "a cat"}}}
    turns = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "Done."}]
    row = pair({"role": "user", "content": "Draw it."}, *turns)
    calls = "(m.content or m.tool_calls | tojson)"
    rendered, kept = with_template(model, REFUSES.replace("m.content", calls), tmp_path, [row])
    assert len(kept) == 1
    assert '{"image": "a cat"}' in texts_of(rendered)[1]["chosen"]


def test_a_forged_special_token_beside_an_image_is_quarantined_or_counts_as_words(model, tmp_path):
    row = pair(user(IMAGE, text("What is <|image_pad|>?")), images=["a.png"])
    rendered, _ = run([PLAIN, row], model, tmp_path / "first")
    assert quarantined(rendered)[2][0] == "special_token_in_text"
    rendered, _ = run([PLAIN, row], model, tmp_path / "second", special_tokens_in_text="encode")
    assert quarantined(rendered) == {}
    assert texts_of(rendered)[2]["chosen"].count("<|image_pad|>") == 2


def test_whoever_scores_text_refuses_images(model):
    renderer = Renderer(load_tokenizer(model.path, TemplatingParams()), "quarantine")
    row = {"format": "conversational", "tools": None, "chat_template_kwargs": None}
    row |= {k: json.dumps(v) for k, v in pair(user(IMAGE, text("What?"))).items()}
    with pytest.raises(Unusable, match=r"image_part.*reward models trained here read text"):
        renderer.sides(row)
