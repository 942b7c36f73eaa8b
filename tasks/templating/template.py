"""The tokenizer with the chat template that this pipeline trains, evaluates and serves with.

The template's text is fixed here once: a date that it would take from the clock is replaced by the
pinned one, so a conversation renders equally on every day and wherever the model goes.
"""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any, cast

from tasks.errors import TemplateError, shown
from tasks.templating.limits import CPU_SECONDS, OverLimit, cpu_limit
from tasks.templating.params import TemplatingParams
from tasks.templating.template_faults import check_ends_with_the_answer
from tasks.templating.tokenizer.bos import with_one_bos

CHAT_TEMPLATE_FILE = "chat_template.jinja"
CLOCK = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")


def with_effective_template(tokenizer: Any, params: TemplatingParams) -> Any:
    """The tokenizer (of transformers, or a plain one), its chat template as it will be used.

    Raises:
        TemplateError: the template does not compile, depends on the clock or on chance, writes the
            BOS twice, opens an answer that nobody asked for, or takes too long.
    """
    source = template_source(params)
    if source is not None:
        tokenizer.chat_template = source
    if tokenizer.chat_template is not None:
        tokenizer.chat_template = pin(merged_template(tokenizer.chat_template), params.date)
        try:
            with cpu_limit(CPU_SECONDS):
                tokenizer.chat_template = with_one_bos(tokenizer)
                check_ends_with_the_answer(tokenizer)
        except OverLimit as error:
            raise TemplateError(
                f"rendering a conversation of three short turns with the chat template {error}; "
                "mend the template"
            ) from None
    return tokenizer


def template_source(params: TemplatingParams) -> str | None:
    """The text of the template at `chat_template_path`, or None for the model's own.

    Raises:
        TemplateError: there is no template at that path.
    """
    if params.chat_template_path is None:
        return None
    path = Path(params.chat_template_path)
    if (path / CHAT_TEMPLATE_FILE).is_file():
        return read_template(path / CHAT_TEMPLATE_FILE)
    if path.is_file():
        return read_template(path)
    if template := _of_settings(path / "tokenizer_config.json"):
        return merged_template(template)
    what = "holds no chat template" if path.is_dir() else "is no file"
    raise TemplateError(
        f"templating.chat_template_path: {path} {what}; give a Jinja file, or a tokenizer's "
        f"directory with {CHAT_TEMPLATE_FILE}, or with chat_template in its tokenizer_config.json"
    )


def _of_settings(path: Path) -> Any:
    """The template, or the named ones, in a tokenizer's settings, where older versions of
    transformers wrote them; None where there is none."""
    try:
        template = json.loads(path.read_bytes())["chat_template"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(template, list):
        return template
    return {each["name"]: each["template"] for each in cast(list[dict[str, str]], template)}


def read_template(path: Path) -> str:
    """The text of a Jinja file, without the byte order mark that editors put before it.

    Raises:
        TemplateError: it is not UTF-8.
    """
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TemplateError(
            f"the chat template {path} is not UTF-8: {error.reason} at byte {error.start}; save it "
            "as UTF-8"
        ) from None


def pin(template: str, day: date | None) -> str:
    """The template with every date it takes from the clock written out.

    >>> pin("Today is {{ strftime_now('%d %b %Y') }}.", date(2026, 1, 2))
    "Today is {{ '02 Jan 2026' }}."

    Raises:
        TemplateError: it asks the clock and no date is given, or asks for chance.
    """
    if day is not None:
        template = CLOCK.sub(lambda call: _written_out(call, day), template)
    unstable = _unstable(template)
    if unstable:
        advice = "set templating.date" if day is None else "write the value into the template"
        raise TemplateError(
            f"the chat template uses {unstable}, so a conversation would render "
            f"differently from day to day or run to run; {advice}"
        )
    return template


def _written_out(call: "re.Match[str]", day: date) -> str:
    """The string that a call of the clock comes to, its escapes read as Jinja reads them."""
    try:
        form = call[2].encode("ascii", "backslashreplace").decode("unicode-escape")
        return repr(day.strftime(form))
    except ValueError:  # half an escape, half a character: the template is refused for it below
        return call[0]


def merged_template(template: Any) -> str:
    """One template of a tokenizer's named ones: `tool_use` where there are tools, else `default`.

    Raises:
        TemplateError: several templates, and none of them is `default`.
    """
    if isinstance(template, str):
        return template
    named = cast(dict[str, str], template)
    if "default" not in named:
        raise TemplateError(
            f"the tokenizer has the chat templates {', '.join(sorted(named))}, but no 'default'; "
            "set templating.chat_template_path to the one that is meant"
        )
    if "tool_use" not in named:
        return named["default"]
    return "{%- if tools %}" + named["tool_use"] + "{% else %}" + named["default"] + "{% endif %}"


def _unstable(template: str) -> str | None:
    """What in a template changes from day to day or run to run, or None.

    Raises:
        TemplateError: it does not compile, or holds half a character; names the line.
    """
    from jinja2 import TemplateSyntaxError, nodes

    from tasks.templating.environment import compiled, environment

    try:
        tree = environment().parse(template)
        compiled(template)  # which looks for filters and tests as well
    except TemplateSyntaxError as error:
        line = re.split("\r\n|\r|\n", template)[error.lineno - 1]  # as Jinja counts lines
        raise TemplateError(
            f"the chat template does not compile: line {error.lineno}: {error.message}; the line "
            f"is {shown(line)}"
        ) from error
    except (SyntaxError, RecursionError) as error:  # Python's, at what Jinja made of it
        told = getattr(error, "msg", error)
        raise TemplateError(f"the chat template does not compile: {told}; mend it") from error
    for text in tree.find_all((nodes.TemplateData, nodes.Const)):
        if re.search("[\ud800-\udfff]", str(text.as_const())):
            raise TemplateError(
                f"the chat template holds a lone surrogate in line {text.lineno}, which no "
                "encoding has; write the whole character"
            )
    tested = {
        id(test.node) for test in tree.find_all(nodes.Test) if test.name in ("defined", "undefined")
    }
    for name in tree.find_all(nodes.Name):
        if name.name in ("strftime_now", "lipsum") and id(name) not in tested:
            return name.name
    chance = any(f.name == "random" for f in tree.find_all(nodes.Filter))
    return "random" if chance else None
