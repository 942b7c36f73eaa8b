"""Contents that are lists of parts, and how a row's images are matched with their image parts."""

import json
from typing import Any, cast

from tasks.conversion.conversation.messages import image_parts
from tasks.conversion.unusable import Unusable
from tasks.errors import shown
from tasks.templating.render import Messages

IMAGE = {"type": "image"}
SIDES = ("chosen", "rejected")


def with_image_parts(row: dict[str, Any]) -> dict[str, Any]:
    """The canonical row with one image part for each of its images, and all images in `images`.

    If the row has images but no image parts, parts for them are put before the first user's text.
    Image parts without an image of their own take the row's images in order. They are counted over
    the prompt and both answers, unless each side by itself has as many as the row has images.

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
    parts = image_parts([*prompt, *sides[0], *sides[1]])
    filled = [part for part in parts if part.keys() - {"type"}]
    bare = len(parts) - len(filled)
    bare_per_side = [
        sum(1 for part in image_parts([*prompt, *side]) if part == IMAGE) for side in sides
    ]
    if len(images) != bare and bare_per_side != [len(images)] * 2:
        raise Unusable(
            "bad_images",
            "images",
            f"found {len(images)} images and {bare} parts of type 'image' without an image of "
            "their own, expected as many of both; mend the row",
        )
    if filled:
        named = [{k: v for k, v in part.items() if k != "type"} for part in filled]
        row = row | {"images": json.dumps([*images, *named], ensure_ascii=False)}
    return row


def parts_of(messages: Messages) -> list[dict[str, Any]]:
    """The parts of all contents that are lists."""
    contents = (message.get("content") for message in messages)
    lists = [cast(list[dict[str, Any]], c) for c in contents if isinstance(c, list)]
    return [part for content in lists for part in content]


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
            parts = [*[IMAGE] * images, *as_parts(turn)["content"]]
            return [*prompt[:place], {**turn, "content": parts}, *prompt[place + 1 :]]
    return prompt


def as_parts(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its text as a part."""
    content = message.get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}
