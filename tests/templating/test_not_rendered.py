"""What rows say and a template does not write is told, with how many pairs it is of."""

import pytest

from tasks.model.directory import describe
from tasks.templating.not_rendered import WORDS
from tests.templating.stage_runs import run

PLAIN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
SAID = "{{ m.content }}"
CALLS = PLAIN.replace(SAID, "{{ m.tool_calls | tojson if m.tool_calls else m.content }}")
REASONS = PLAIN.replace(SAID, "{{ m.reasoning_content }}{{ m.content }}")
CALL = {"type": "function", "function": {"name": "find", "arguments": {"what": "sky"}}}
TOOLS = [{"type": "function", "function": {"name": "find"}}]


def row(number, format_="messages", **others):
    prompt, chosen = f"Why {number}?", f"So {number}."
    if format_ == "text":
        return {"prompt": prompt, "chosen": chosen, "rejected": "No.", **others}
    answer = {"role": "assistant", "content": chosen, **others}
    return {
        "prompt": [{"role": "user", "content": prompt}],
        "chosen": [answer],
        "rejected": [{"role": "assistant", "content": "No."}],
    }


ROWS = [
    row(0, reasoning_content="The sky."),
    row(1, reasoning="The sea."),
    row(2, tool_calls=[CALL]),
    row(3),
]


@pytest.mark.parametrize(
    ("template", "rows", "expected"),
    [
        (PLAIN, ROWS[:2] + ROWS[3:], {"reasoning kept": 2}),
        (CALLS, ROWS, {"reasoning kept": 2, "text beside tool calls kept": 1}),
        (REASONS, ROWS[:2] + ROWS[3:], {}),
        (PLAIN, [row(0, "text", tools=TOOLS), row(1, "text")], {"tools beside text kept": 1}),
    ],
)
def test_what_a_template_does_not_write_is_told_with_its_pairs(
    tiny_model_directory, tmp_path, caplog, template, rows, expected
):
    path = tmp_path / "template.jinja"
    path.write_text(template)
    model = describe(tiny_model_directory, {})
    made, _ = run(rows, model, tmp_path, chat_template_path=str(path))
    assert made.report["not_rendered"] == expected
    told = [line for line in caplog.messages if "which the model never sees" in line]
    assert told == [
        f"{WORDS[note]}: up to {pairs} pairs have some, which the model never sees"
        for note, pairs in expected.items()
    ]
