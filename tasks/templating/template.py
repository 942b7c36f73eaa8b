"""The tokenizer with the chat template that this pipeline trains, evaluates and serves with.

The template's text is fixed here once: a date that it would take from the clock is replaced by the
pinned one, so a conversation renders equally on every day and wherever the model goes.
"""

import re
from datetime import date
from pathlib import Path
from typing import Any

from tasks.errors import TemplateError, shown
from tasks.templating.params import TemplatingParams

CLOCK = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")
UNSTABLE = re.compile(r"\b(strftime_now|random|lipsum)\b")


def load_tokenizer(directory: Path, params: TemplatingParams) -> Any:
    """The tokenizer of `directory` (`PreTrainedTokenizerBase`) with the effective chat template.

    Raises:
        TemplateError: the template does not compile, or depends on the clock or on chance.
    """
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(directory)
    source = template_source(params)
    if source is not None:
        tokenizer.chat_template = source
    if tokenizer.chat_template is not None:
        tokenizer.chat_template = pin(tokenizer.chat_template, params.date)
        _check_syntax(tokenizer.chat_template)
    return tokenizer


def template_source(params: TemplatingParams) -> str | None:
    """The text of the template at `chat_template_path`, or None for the model's own.

    Raises:
        TemplateError: there is no template at that path.
    """
    if params.chat_template_path is None:
        return None
    path = Path(params.chat_template_path)
    if path.is_dir():
        path = path / "chat_template.jinja"
    if not path.is_file():
        raise TemplateError(
            f"templating.chat_template_path: {path} is no file; give a Jinja file, or a tokenizer "
            "directory that holds chat_template.jinja"
        )
    return path.read_text("utf-8")


def pin(template: str, day: date | None) -> str:
    """The template with every date it takes from the clock written out.

    >>> pin("Today is {{ strftime_now('%d %b %Y') }}.", date(2026, 1, 2))
    "Today is {{ '02 Jan 2026' }}."

    Raises:
        TemplateError: it asks the clock and no date is given, or asks for chance.
    """
    if day is not None:
        template = CLOCK.sub(lambda found: repr(day.strftime(found.group(2))), template)
    unstable = UNSTABLE.search(_without_definition_tests(template))
    if unstable:
        advice = "set templating.date" if day is None else "write the value into the template"
        raise TemplateError(
            f"the chat template uses {unstable.group(1)}, so a conversation would render "
            f"differently from day to day or run to run; {advice}"
        )
    return template


def _without_definition_tests(template: str) -> str:
    return re.sub(r"\bstrftime_now\s+is\s+(not\s+)?defined\b", "", template)


def _check_syntax(template: str) -> None:
    from jinja2 import TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    extensions = ["jinja2.ext.loopcontrols"]
    environment = ImmutableSandboxedEnvironment(extensions=[*extensions, _GenerationBlock])
    try:
        environment.parse(template)
    except TemplateSyntaxError as error:
        line = template.splitlines()[error.lineno - 1] if template else ""
        raise TemplateError(
            f"the chat template does not compile: line {error.lineno}: {error.message}; the line "
            f"is {shown(line)}"
        ) from error


def _generation_block() -> type:
    """Jinja's parser extension for transformers' `{% generation %}` blocks: body kept as it is."""
    from jinja2.ext import Extension

    class GenerationBlock(Extension):
        tags = {"generation"}  # noqa: RUF012  (Jinja's own protocol)

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return GenerationBlock


_GenerationBlock = _generation_block()
