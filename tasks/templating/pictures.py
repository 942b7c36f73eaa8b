"""Images in conversations: where they stand, and what the template leaves of each of them.

In:  messages whose contents may be lists of parts, and the row's images.
Out: the same messages with one part per image; how many placeholders a rendering holds.

    [{"type": "image"}, {"type": "text", "text": "What is it?"}]  and one image
        ->  <|vision_start|><|image_pad|><|vision_end|>What is it?

A template's placeholder is what one image part adds to a conversation, found once with marked
text. A row whose rendering holds more or fewer of them than it has images is left out: an image
that leaves nothing would not be seen, and a placeholder in somebody's own words would be a forgery.
"""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from tasks.conversion.unusable import Unusable
from tasks.errors import TemplateError, shown
from tasks.templating.render import Messages, common_prefix, render

BEFORE, AFTER, ANSWER = "§before§", "§after§", "§answer§"
IMAGE = {"type": "image"}
SIDES = ("chosen", "rejected")
OWN_SPELLING = re.compile(r"""['"]type['"]\s*:""")
"""Where a template prints a list of parts as it is, instead of reading it."""


@dataclass(frozen=True)
class Placeholder:
    """What one image part leaves in a rendering."""

    pattern: "re.Pattern[str]"
    """Any number in it stands for every number: `<|image_1|>`, `<|image_2|>`."""
    wraps: bool
    """Whether the template reads texts only as parts, too."""


@dataclass
class Pictures:
    """What one tokenizer's template makes of images."""

    tokenizer: Any

    @cached_property
    def placeholder(self) -> Placeholder | str:
        """Of the template; or in a sentence why it has none."""
        problems: list[str] = []
        for wraps in (False, True):
            try:
                renderings = [self._probed(images, wraps) for images in range(3)]
            except TemplateError as error:
                problems.append(f"{error}")
                continue
            found = _placeholder(*renderings)
            if isinstance(found, re.Pattern):
                return Placeholder(found, wraps)
            problems.append(found)
        return problems[0]

    def readable(self, messages: Messages) -> Messages:
        """The messages as the template reads them.

        Raises:
            Unusable: image_part, where it does not read image parts.
        """
        found = self.placeholder
        if isinstance(found, str):
            raise text_only(f"the row has images, and {found}")
        return [_wrapped(message) for message in messages] if found.wraps else messages

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
    """From renderings with so many image parts, or what is wrong with them in a sentence."""
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


def with_image_parts(row: dict[str, Any]) -> dict[str, Any]:
    """The canonical row, one part for each of its images, and all of them in `images`.

    Images that no part names stand before the first user's text. Parts without an image of their
    own take the row's images in order, those of both answers too unless each side has them all.

    Raises:
        Unusable: bad_images, where there are more or fewer images than parts for them; image_part,
            where they stand beside texts.
    """
    if row["format"] == "standard":
        if row.get("images") is not None:
            raise text_only("the row has images beside texts")
        return row
    texts = [row["prompt"] or "", *(row[side] for side in SIDES)]
    if row.get("images") is None and not any('"image"' in text for text in texts):
        return row
    prompt: Messages = json.loads(row["prompt"]) if row["prompt"] is not None else []
    sides: list[Messages] = [json.loads(row[side]) for side in SIDES]
    images: list[Any] = json.loads(row["images"]) if row.get("images") else []
    if images and not image_parts([*prompt, *sides[0], *sides[1]]):
        prompt = _begun_with(prompt, len(images))
        row = row | {"prompt": json.dumps(prompt, ensure_ascii=False)}
    every = image_parts([*prompt, *sides[0], *sides[1]])
    own = [part for part in every if part.keys() - {"type"}]
    bare = len(every) - len(own)
    each = [sum(1 for part in image_parts([*prompt, *side]) if part == IMAGE) for side in sides]
    if len(images) != bare and each != [len(images)] * 2:
        raise Unusable(
            "bad_images",
            "images",
            f"found {len(images)} images and {bare} parts of type 'image' without an image of "
            "their own, expected as many of both; mend the row",
        )
    if own:
        named = [{k: v for k, v in part.items() if k != "type"} for part in own]
        row = row | {"images": json.dumps([*images, *named], ensure_ascii=False)}
    return row


def parts_of(messages: Messages) -> list[dict[str, Any]]:
    """The parts of all contents that are lists."""
    contents = (message.get("content") for message in messages)
    lists = [cast(list[dict[str, Any]], c) for c in contents if isinstance(c, list)]
    return [part for content in lists for part in content]


def image_parts(messages: Messages) -> list[dict[str, Any]]:
    """The parts of type image, in order."""
    return [part for part in parts_of(messages) if part.get("type") == "image"]


def other_part(messages: Messages, *, images: bool) -> str | None:
    """The type of the first part that is neither text nor, with `images`, an image; or None."""
    kinds = (str(part.get("type")) for part in parts_of(messages) if "text" not in part)
    return next((kind for kind in kinds if not images or kind != "image"), None)


def missing_text(messages: Messages, rendered: str) -> str | None:
    """What is wrong where the template does not write the parts of a content, or None."""
    for part in parts_of(messages):
        if "text" in part and part["text"].strip() not in rendered:
            return (
                f"the chat template does not write the part {shown(part['text'])} of a content "
                "that is a list of parts; use a template that reads such contents, or write text"
            )
    return None


def text_only(what: str) -> Unusable:
    """A row with something to look at: its tokens would mean nothing to a model of text."""
    return Unusable(
        "image_part",
        "prompt",
        f"{what}, expected text only: the reward models trained here read text, and would judge "
        "the answer without seeing it; leave such rows out of the source",
    )


def _begun_with(prompt: Messages, images: int) -> Messages:
    """The prompt with so many image parts before its first user's text, which is all its content.

    Without such a turn it stays as it is, and the images are too many.
    """
    for place, turn in enumerate(prompt):
        if turn["role"] == "user":
            parts = [*[IMAGE] * images, *_wrapped(turn)["content"]]
            return [*prompt[:place], {**turn, "content": parts}, *prompt[place + 1 :]]
    return prompt


def _wrapped(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its text as a part."""
    content = message.get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}
