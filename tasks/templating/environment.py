"""Chat templates as transformers 5 compiles them, without transformers: Jinja alone is light.

The same sandbox, white-space rules, filters, globals and `{% generation %}` blocks; tests hold the
renderings of both against each other.
"""

import json
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

from jinja2 import Environment, Undefined, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.utils import Namespace

from tasks.conversion.conversation.message_names import REASONING
from tasks.templating.sandbox import Sandbox


class GenerationCall(Extension):
    """`{% generation %}` blocks: the body as it is, in a scope of its own."""

    tags = {"generation"}  # noqa: RUF012  (Jinja's own protocol)

    def parse(self, parser: Any) -> nodes.Node:
        """The block as a call that hands its body on."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class PlainDict:
    """The `dict` of templates: makes dictionaries, and has nothing else to reach."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        """As dict.fromkeys."""
        return dict.fromkeys(*args)


class PlainNamespace(Namespace):
    """A namespace without names that begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, values = args[0], dict(*args[1:], **kwargs)
        for name in values:
            _check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def environment(
    kind: type[Environment] = Sandbox,
    generation: type[Extension] = GenerationCall,
    undefined: type[Undefined] = Undefined,
) -> Any:
    """An environment for chat templates."""
    env: Any = kind(
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=undefined,
        extensions=[generation, "jinja2.ext.loopcontrols"],
    )
    env.filters["tojson"] = tojson
    env.globals |= {"raise_exception": refuse, "strftime_now": _now}
    env.globals |= {"dict": PlainDict(), "namespace": PlainNamespace}
    return env


@lru_cache(maxsize=8)
def compiled(template: str) -> Any:
    """The compiled template."""
    return bound(template, environment())


def bound(template: str, env: Any) -> Any:
    """The compiled template in an environment that may differ from `environment()` in how it treats
    undefined names, and in nothing else."""
    return env.template_class.from_code(env, _code(template), env.make_globals(None))


@lru_cache(maxsize=8)
def _code(template: str) -> CodeType:
    """The Python code that Jinja compiles a template to, shared by all environments."""
    return environment().compile(template)


def tojson(
    x: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON, without the escapes of HTML that Jinja's own filter writes."""
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def refuse(message: Any) -> None:
    """What templates call `raise_exception`."""
    raise TemplateError(message)


def with_reasoning(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages, with their reasoning under all the names by which templates read it."""
    if not any(name in turn for turn in messages for name in REASONING):
        return messages
    named: list[dict[str, Any]] = []
    for turn in messages:
        thought = next((turn[name] for name in REASONING if turn.get(name) is not None), None)
        names = (
            {} if thought is None else {"thinking": thought, **turn, "reasoning_content": thought}
        )
        named.append(names or turn)
    return named


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace of a chat template cannot hold the name {name!r}")


def _now(form: str) -> str:
    import datetime

    return datetime.datetime.now().strftime(form)
