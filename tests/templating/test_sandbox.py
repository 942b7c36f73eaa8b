"""The sandbox that answers from memory lets through what Jinja's own does, and nothing else."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import StrictUndefined, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tasks.templating import sandbox
from tasks.templating.environment import environment
from tasks.templating.sandbox import Sandbox

NAMES = (
    *("role", "content", "nothing", "items", "keys", "get", "clear", "update", "pop", "append"),
    *("format", "format_map", "upper", "index0", "last", "__class__", "_private", "gi_frame"),
    *("mro", "__globals__", "__func__", "name"),
)
OBJECTS = (
    *("message", "messages", "message.content", "messages[9]", "sub", "sub()", "other", "named"),
    *("message.items", "namespace", "message|items", "dict", "loop", "caller", "3", "[]", "none"),
)
ACTIONS = ("{}", "{} is defined", "{}|string", "{}()", "{}('x')", "{}.role", "{}['role']")
ROLE = {"role": "user", "content": "{0.__class__} hello", "name": {"role": "inner"}}


class Other(dict):
    """A dictionary whose items are attributes, too."""

    role = "of the class"


def expressions():
    reached = st.builds(
        lambda form, obj, name: form.format(obj, name),
        st.sampled_from(("{}.{}", "{}['{}']", "({})|attr('{}')", "({})[('{}' ~ '')]")),
        st.sampled_from(OBJECTS),
        st.sampled_from(NAMES),
    )
    return st.builds(lambda action, what: action.format(what), st.sampled_from(ACTIONS), reached)


def outcome(made, text):
    try:
        template = made.from_string(text)
        text = template.render(messages=[ROLE, ROLE], message=ROLE, other=Other(content="c"))
        return re.sub("0x[0-9a-f]+", "0x", text)
    except Exception as error:
        return type(error), str(error)


def written(expression):
    return (
        "{% macro sub() %}{{ caller is defined }}{% endmacro %}"
        "{% set named = namespace(role='r') %}"
        "{% for each in messages %}{{ " + expression + " }}{% endfor %}"
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(expressions(), min_size=1, max_size=4), st.sampled_from((Undefined, StrictUndefined))
)
def test_every_expression_comes_to_what_jinja_s_own_sandbox_makes_of_it(several, undefined):
    ours = environment(Sandbox, undefined=undefined)
    jinja = environment(ImmutableSandboxedEnvironment, undefined=undefined)
    for expression in several * 2:  # the second time from memory
        text = written(expression)
        assert outcome(ours, text) == outcome(jinja, text), expression


class Harmless:
    """Its method has a name that other types may not have."""

    def append(self, _):
        return "harmless"


def test_what_a_type_may_not_have_is_refused_each_time():
    made = environment()
    assert made.from_string("{{ one.append(1) }}").render(one=Harmless()) == "harmless"
    for text in ("{{ message.clear() }}", "{{ [].append(1) }}", "{{ ''.__class__.x }}") * 2:
        assert "is unsafe" in str(outcome(made, text)), text


@pytest.mark.parametrize("many", [1, 3])
def test_only_so_many_answers_are_remembered(many, monkeypatch):
    monkeypatch.setattr(sandbox, "MOST_ANSWERS", many)
    made = environment()
    for name in ("upper", "lower", "title", "strip", "upper"):
        assert made.is_safe_attribute("text", name, None)
        assert not made.is_safe_attribute([], "append", None)
    assert len(made._safe) == many
