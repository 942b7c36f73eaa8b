"""Conversations as the exact text that the model reads: one rendering for training, evaluation and
serving.

    {"prompt": [user], "chosen": [assistant], "rejected": [assistant]}
        -> chosen = render(prompt + chosen), rejected = render(prompt + rejected)

Each side is rendered as one whole conversation: parts that are rendered apart and joined differ
wherever a template looks at its neighbours.
"""

import json
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from tasks.errors import TemplateError

Messages = list[dict[str, Any]]

ANSWERS = ("chosen", "rejected", "completion")


def render(
    messages: Messages,
    tokenizer: Any,
    tools: list[dict[str, Any]] | None = None,
    **template_kwargs: Any,
) -> str:
    """The text of one conversation, by the tokenizer's chat template.

    Raises:
        TemplateError: the tokenizer has no template, or the template throws.
    """
    return render_with(messages, tokenizer, tools, template_kwargs)


def render_with(
    messages: Messages,
    tokenizer: Any,
    tools: list[dict[str, Any]] | None,
    settings: Mapping[str, Any],
) -> str:
    """`render` with settings that a row brings along: they may be named like our own arguments.

    Raises:
        TemplateError: the tokenizer has no template, or the template throws.
    """
    if tokenizer.chat_template is None:
        raise no_template()
    try:
        return tokenizer.apply_chat_template(
            _without_nulls(messages), tools=tools, tokenize=False, **settings
        )
    except RecursionError as error:
        raise TemplateError(f"the chat template calls itself without an end: {error}") from error
    except thrown() as error:
        raise TemplateError(f"the chat template refuses it: {error}") from error


def thrown() -> tuple[type[Exception], ...]:
    """What a template may throw: its own refusals, and whatever its filters and calls come to."""
    from jinja2 import TemplateError as JinjaError

    of_python = (TypeError, ValueError, LookupError, AttributeError, AssertionError)
    return JinjaError, *of_python, ArithmeticError, MemoryError, RuntimeError


def _without_nulls(messages: Messages) -> Messages:
    """The messages without keys that are null, as a call's content is: many templates would write
    None. transformers leaves them out from 5.24 on; here every version does."""
    return [
        {name: value for name, value in turn.items() if value is not None}
        if isinstance(turn, dict)  # pyright: ignore[reportUnnecessaryIsInstance]
        else turn
        for turn in messages
    ]


def no_template() -> TemplateError:
    """The error for conversations without a template."""
    return TemplateError(
        "the data are conversations, but the tokenizer has no chat template; set "
        "templating.chat_template_path to a Jinja file"
    )


def apply_chat_template(
    example: Mapping[str, Any],
    tokenizer: Any,
    tools: list[dict[str, Any]] | None = None,
    **template_kwargs: Any,
) -> dict[str, Any]:
    """A conversational example of any type in its standard (text) format; text stays as it is.

    `prompt` + answer is the rendering of the whole conversation. Where a template renders the
    prompt alone differently from the prompt within it, the prompt is the text that they share.

    Raises:
        TemplateError: the template refuses a conversation.
    """
    if not any(isinstance(example.get(name), list) for name in ("messages", "prompt", *ANSWERS)):
        return dict(example)
    settings = {**(example.get("chat_template_kwargs") or {}), **template_kwargs}
    tools = parse_tools(example.get("tools")) or tools
    kept = {k: example[k] for k in ("label", "margin") if k in example}
    if "messages" in example:
        return {"text": render_with(example["messages"], tokenizer, tools, settings)} | kept
    prompt: Messages = list(example.get("prompt") or [])
    whole = {
        name: render_with([*prompt, *example[name]], tokenizer, tools, settings)
        for name in ANSWERS
        if name in example
    }
    if "prompt" not in example:
        return whole | kept
    shared = common_prefix(_render_prompt(prompt, tokenizer, tools, settings), *whole.values())
    return {"prompt": shared} | {n: text[len(shared) :] for n, text in whole.items()} | kept


def parse_tools(tools: Any) -> list[dict[str, Any]] | None:
    """Tools as a list of schemas, from a list, JSON text, or nothing."""
    if isinstance(tools, str):
        tools = json.loads(tools)
    return tools or None


def common_prefix(*texts: str) -> str:
    """The longest text that all of them begin with."""
    first, last = min(texts), max(texts)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return first[: sum(1 for _ in same)]


def _render_prompt(
    prompt: Messages, tokenizer: Any, tools: list[dict[str, Any]] | None, settings: dict[str, Any]
) -> str:
    """The prompt alone, up to where the answer begins; a last turn that is an answer stays open."""
    if not prompt:
        return ""
    answered = prompt[-1]["role"] == "assistant"
    opening = {"add_generation_prompt": not answered, "continue_final_message": answered}
    return render_with(prompt, tokenizer, tools, settings | opening)
