"""A chat template run once per structure of conversation, and replayed by joining strings.

In:  a template, and a conversation: its structure (roles, tools, settings) and its contents.
Out: functions that render other contents for which all tests have the same results (`text.py`), or
     None.

    roles, tools ─┐
                  ├─ template ─ "<|user|>", c[0], "<|assistant|>", c[1], "<|end|>"     joined
    c[0], c[1]  ──┘             not ('</think>' in c[1])                               asked again

This is exact, since contents are symbols while the template runs: every test of a content is
recorded and repeated at each replay, every strip or slice is repeated, and anything else that a
template does with a content ends the trace, so that Jinja renders such rows. So do blocks whose
text symbols cannot follow.
"""

import re
import secrets
from collections.abc import Sequence
from functools import reduce
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.visitor import NodeTransformer

from tasks.templating.environment import environment
from tasks.templating.sandbox import Sandbox
from tasks.templating.traced.filters import traced_filter, traced_test
from tasks.templating.traced.symbols import Part, Symbol, parts_of, value
from tasks.templating.traced.text import Replays, replays_of

HIDING = (
    *(nodes.AssignBlock, nodes.FilterBlock, nodes.CallBlock, nodes.Include, nodes.Import),
    *(nodes.FromImport, nodes.Extends, nodes.Block, nodes.OverlayScope),
    nodes.ScopedEvalContextModifier,
)
"""Blocks that turn their body into plain text, or include another template."""
MARK = f"\U0010fffe{secrets.token_hex(8)}"
"""No template and no text holds it: it is another one in each process."""
_MARKS = re.compile(f"{MARK}(\\d+);")
MOST_TESTS = 64


class _Whole(Extension):
    """`{% generation %}` blocks as plain scopes: their text stays visible."""

    tags = {"generation"}  # noqa: RUF012  (Jinja's own protocol)

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class _Joins(NodeTransformer):
    """`a ~ b` as `(a | string) + (b | string)`, which symbols see."""

    def visit_Concat(self, node: Any) -> nodes.Node:
        """One join as additions."""
        self.generic_visit(node)
        texts = [nodes.Filter(part, "string", [], [], None, None) for part in node.nodes]
        return reduce(nodes.Add, texts)


class _Environment(Sandbox):
    """Returns a macro's text as a symbol where it holds contents."""

    tests_noted: list[tuple[str, bool]]
    written: list[Symbol]

    def call(self, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The call's result; see the class."""
        result = super().call(*args, **kwargs)
        if isinstance(result, str) and MARK in result:
            return joined_symbol(result, self.written, self.tests_noted)
        return result


def tracer(template: str) -> "Tracer | None":
    """A tracer for the template, for one thread; None where the template cannot be traced."""
    env = environment(_Environment, _Whole)
    tree = env.parse(template)
    if next(tree.find_all(HIDING), None) is not None:
        return None
    return Tracer(env, _Joins().visit(tree))


class Tracer:
    """Runs one template on symbols."""

    def __init__(self, env: Any, tree: nodes.Template) -> None:
        self.environment = env
        env.finalize = self._written
        env.filters = {name: traced_filter(name, f) for name, f in env.filters.items()}
        env.tests = {name: traced_test(name, f) for name, f in env.tests.items()}
        source = env.compile(tree)
        self.template = env.template_class.from_code(env, source, env.make_globals(None))

    def trace(
        self, messages: Sequence[dict[str, Any]], contents: Sequence[str], variables: dict[str, Any]
    ) -> Replays | None:
        """How the template renders these messages; None where that cannot be traced.

        `messages` lack their contents; `variables` are the template's others.
        """
        tests = self.environment.tests_noted = list[tuple[str, bool]]()
        self.environment.written = list[Symbol]()
        turns = [
            {**turn, "content": Symbol(((True, f"c[{i}]"),), content, tests)}
            for i, (turn, content) in enumerate(zip(messages, contents, strict=True))
        ]
        try:
            text = self.template.render(messages=turns, **variables)
            symbol = joined_symbol(text, self.environment.written, tests)
        except Exception:  # what the template refuses, Jinja refuses again and says why
            return None
        if len(tests) > MOST_TESTS:
            return None
        return replays_of(parts_of(symbol), dict.fromkeys(tests))

    def _written(self, output: Any) -> Any:
        if not isinstance(output, Symbol):
            return output
        self.environment.written.append(output)
        return f"{MARK}{len(self.environment.written) - 1};"


def joined_symbol(text: str, written: list[Symbol], tests: list[tuple[str, bool]]) -> Symbol:
    """The symbol of a rendered text in which marks stand for symbols."""
    parts: list[Part] = []
    whole: list[str] = []
    for n, piece in enumerate(_MARKS.split(text)):
        if n % 2:
            parts += parts_of(written[int(piece)])
            whole.append(value(written[int(piece)]))
        elif piece:
            parts.append((False, piece))
            whole.append(piece)
    return Symbol(tuple(parts), "".join(whole), tests)
