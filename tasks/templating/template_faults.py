"""What a chat template does wrong whatever the rows are, found out once when it is loaded.

In:  a tokenizer with its effective template.
Out: a TemplateError for what would falsify every conversation; facts for the report else.
"""

from typing import Any

from tasks.errors import TemplateError
from tasks.templating.render import Messages, common_prefix, render, thrown

USER = {"role": "user", "content": "firstmark"}
ANSWER = {"role": "assistant", "content": "answermark"}
AGAIN = {"role": "user", "content": "secondmark"}
PROBES: tuple[Messages, ...] = (
    [USER, ANSWER],
    [{"role": "system", "content": "systemmark"}, USER, ANSWER],
    [USER, ANSWER, AGAIN, {"role": "assistant", "content": "lastmark"}],
)


def check_ends_with_the_answer(tokenizer: Any) -> None:
    """Raises TemplateError when the template opens an answer's turn though nobody asks for it.

    Every conversation would then end in the beginning of a turn, and its reward be read there. The
    sign of it: a whole conversation ends in the text that stands before an answer, and an answer
    with a question behind it is not followed by that text.
    """
    try:
        done = render([USER, ANSWER], tokenizer)
        prompted = render([USER, ANSWER], tokenizer, add_generation_prompt=True)
        goes_on = render([USER, ANSWER, AGAIN], tokenizer)
    except TemplateError:  # the rows tell, each for itself, what the template refuses
        return
    ending = done.rpartition(ANSWER["content"])[2].rstrip()
    before_answer = _between(done, USER, ANSWER).rstrip()
    same = len(common_prefix(ending[::-1], before_answer[::-1]))
    usual = _between(goes_on, ANSWER, AGAIN).startswith(ending)
    if done == prompted and not usual and same >= max(1, len(before_answer) / 2):
        raise TemplateError(
            "the chat template adds the generation prompt without being asked for it: every "
            "conversation would end in the beginning of another answer; put it into "
            "{% if add_generation_prompt %} ... {% endif %}"
        )


def _between(text: str, first: dict[str, str], second: dict[str, str]) -> str:
    return text.partition(first["content"])[2].partition(second["content"])[0]


def is_prefix_stable(tokenizer: Any) -> bool:
    """Whether a prompt rendered alone begins the rendering of the whole, for the probes.

    Nothing here needs it, since both sides are rendered whole; a generator that continues the
    prompt alone reads other text than the reward model where it is not so.
    """
    for messages in PROBES:
        try:
            whole = render(messages, tokenizer)
            prompt = render(messages[:-1], tokenizer, add_generation_prompt=True)
        except TemplateError:
            continue
        if not whole.startswith(prompt):
            return False
    return True


def undefined_names(tokenizer: Any) -> list[str]:
    """Variables and attributes that the template prints though nothing defines them."""
    from jinja2 import Undefined

    from tasks.templating.environment import bound, environment

    printed: set[str] = set()

    class Recorded(Undefined):
        def __str__(self) -> str:
            printed.add(str(self._undefined_name))
            return ""

    template = bound(tokenizer.chat_template, environment(undefined=Recorded))
    for messages in PROBES:
        variables = {"messages": messages, "tools": None, "documents": None}
        variables |= {"add_generation_prompt": False} | tokenizer.special_tokens_map
        try:
            template.render(**variables)
        except thrown():
            continue
    return sorted(printed)
