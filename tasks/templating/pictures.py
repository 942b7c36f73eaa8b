"""Images in conversations: where they stand, and what the template leaves of each of them.

In:  messages whose contents may be lists of parts, and the row's images.
Out: the same messages with one part per image; how many placeholders a rendering holds.

    [{"type": "image"}, {"type": "text", "text": "What is it?"}]  and one image
        ->  <|vision_start|><|image_pad|><|vision_end|>What is it?

A template's placeholder is what one image part adds to a conversation, found once with marked
text. A row whose rendering holds more or fewer of them than it has images is left out: an image
that leaves nothing would not be seen, and a placeholder in somebody's own words would be a forgery.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tasks.conversion.conversation.messages import image_parts
from tasks.conversion.unusable import Unusable
from tasks.errors import TemplateError
from tasks.templating.parts import IMAGE, as_parts, text_only
from tasks.templating.render import Messages, common_prefix, render

BEFORE, AFTER, ANSWER = "§before§", "§after§", "§answer§"
OWN_SPELLING = re.compile(r"""['"]type['"]\s*:""")
"""Where a template prints a list of parts as it is, instead of reading it."""


@dataclass(frozen=True)
class Placeholder:
    """What one image part leaves in a rendering."""

    pattern: "re.Pattern[str]"
    """Any number in it stands for every number: `<|image_1|>`, `<|image_2|>`."""
    wraps: bool
    """Whether texts have to be given as parts, too."""


@dataclass
class Pictures:
    """What one tokenizer's template makes of images."""

    tokenizer: Any

    @cached_property
    def placeholder(self) -> Placeholder | str:
        """The template's placeholder; or a sentence that says why it has none."""
        problems: list[str] = []
        for wraps in (False, True):
            try:
                renderings = [self._probed(images, wraps) for images in range(3)]
            except TemplateError as error:
                problems.append(f"{error}")
                continue
            pattern = _placeholder(*renderings)
            if isinstance(pattern, re.Pattern):
                return Placeholder(pattern, wraps)
            problems.append(pattern)
        return problems[0]

    def readable(self, messages: Messages) -> Messages:
        """The messages as the template reads them.

        Raises:
            Unusable: image_part, where it does not read image parts.
        """
        placeholder = self.placeholder
        if isinstance(placeholder, str):
            raise text_only(f"the row has images, and {placeholder}")
        return [as_parts(message) for message in messages] if placeholder.wraps else messages

    def check(self, messages: Messages, rendered: str, side: str) -> None:
        """Raises Unusable, bad_placeholders, unless every image part left its placeholder."""
        placeholder = self.placeholder
        assert isinstance(placeholder, Placeholder), "checked before rendering"
        expected, found = len(image_parts(messages)), len(placeholder.pattern.findall(rendered))
        if expected != found:
            raise Unusable(
                "bad_placeholders",
                side,
                f"the rendered text has {found} image placeholders for {expected} image parts: "
                "the chat template drops image parts of some turns, or the row's own text holds a "
                "placeholder; use a template that keeps all, or mend the row",
            )

    def _probed(self, images: int, wraps: bool) -> str:
        parts = [{"type": "text", "text": BEFORE}, *[IMAGE] * images]
        parts.append({"type": "text", "text": AFTER})
        answer = [{"type": "text", "text": ANSWER}] if wraps else ANSWER
        return render(
            [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}],
            self.tokenizer,
        )


def _placeholder(none: str, one: str, two: str) -> "re.Pattern[str] | str":
    """The pattern, from renderings with no, one and two image parts; or what is wrong with them."""
    if OWN_SPELLING.search(none) or not all(mark in none for mark in (BEFORE, AFTER, ANSWER)):
        return "the chat template does not read contents that are lists of parts"
    if one == none:
        return "the chat template ignores image parts"
    head = common_prefix(none, one)
    tail = none[len(head) :]
    core = one[len(head) : len(one) - len(tail)].strip()
    pattern = re.compile(re.sub(r"\d+", r"\\d+", re.escape(core)))
    counts = [len(pattern.findall(text)) for text in (none, one, two)] if core else []
    if not one.endswith(tail) or counts != [0, 1, 2]:
        return "the chat template does not leave one placeholder for each image part"
    return pattern
