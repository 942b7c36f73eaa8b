"""Whatever stands in a row, it becomes a canonical pair or gets a reason; nothing else happens."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.conversion import Unusable, checked
from tasks.conversion.layouts import LAYOUTS, reader
from tasks.conversion.layouts.columns import FIELDS
from tasks.conversion.preference.identity import identify
from tasks.conversion.preference.tool_turns import unmatched_tool_turn

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 2**63), st.floats(allow_nan=False),
    st.sampled_from(["", " ", "a", "a b", "1.5", "{}", "[", "\n\nHuman: a\n\nAssistant: b",
                     "\n\nHuman: a\n\nAssistant: c", "caf\u00e9"]),
    st.text(max_size=5),
)  # fmt: skip
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
PART = st.fixed_dictionaries({"type": st.sampled_from(["text", "image", None])},
                             optional={"text": SCALARS, "value": SCALARS})  # fmt: skip
CALL = st.fixed_dictionaries(
    {},
    optional={"function": JSON, "name": SCALARS, "arguments": JSON, "type": SCALARS, "id": JSON},
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool", "Human", "gpt", "x"]) | JSON},
    optional={
        "content": st.sampled_from(["a", "b", " b"]) | SCALARS | st.lists(PART | JSON, max_size=2),
        "tool_calls": st.lists(CALL, max_size=2) | JSON,
        "tool_call_id": JSON,
        "name": SCALARS,
        "other": JSON,
        "loss_weight": SCALARS,
    },
)
TURN = st.fixed_dictionaries(
    {"from": st.sampled_from(["human", "gpt", "x"]) | SCALARS, "value": SCALARS}
)
SIDE = st.one_of(JSON, st.lists(MESSAGE, max_size=4), TURN, st.sampled_from(["a b", "a c"]))
ROW = st.dictionaries(
    st.sampled_from(["prompt", "chosen", "rejected"])
    | st.sampled_from([*FIELDS, "images", "preferred_output", "non_preferred_output",
                       "chosen_messages", "rejected_messages"]),
    SIDE,
)  # fmt: skip
NESTED = st.fixed_dictionaries(
    {},
    optional={
        "conversations": st.lists(TURN | JSON, max_size=3) | JSON,
        "input": st.fixed_dictionaries({"messages": SIDE}, optional={"tools": JSON}) | JSON,
    },
)
TURNS_ASKING = {"user", "system", "developer"}


@settings(max_examples=200, deadline=None)
@given(row=ROW, nested=NESTED, layout=st.sampled_from(sorted(LAYOUTS)))
def test_any_row_ends_in_canonical_pairs_or_in_a_reason(row, nested, layout):
    row = row | nested
    assert LAYOUTS[layout].fits(set(row), row) in (True, False)
    try:
        pairs = [checked(pair) for pair in reader(layout, {})(row)]
        problem = None
    except Unusable as found:
        pairs, problem = [], found
    if problem:
        assert problem.reason.replace("_", "").isalpha()
        assert problem.field
        assert problem.message.isprintable()
    for pair in pairs:
        for name in (identify(pair, 0, 0.5).pair_id, identify(pair, 0, 0.5).group):
            assert len(bytes.fromhex(name)) == 16
        assert pair.chosen != pair.rejected
        assert pair.margin is None or pair.margin >= 0
        assert all(json.loads(text) for text in (pair.tools, pair.chat_template_kwargs) if text)
        if pair.format == "standard":
            assert pair.prompt is None or isinstance(pair.prompt, str)
            assert pair.chosen.strip()
            assert pair.rejected.strip()
            continue
        assert pair.prompt
        for side in (pair.chosen, pair.rejected):
            assert side[-1]["role"] == "assistant"
            assert unmatched_tool_turn(pair.prompt + side) in (None, *range(99))
            assert side[0]["role"] not in TURNS_ASKING
