"""Why a row has no text that could be trained on, in words."""

from tasks.conversion.unusable import Unusable
from tasks.errors import shown


def over_limit(what: str) -> Unusable:
    """The template does too much for one row; `what` says it."""
    return Unusable(
        "template_timeout",
        "prompt",
        f"the chat template {what}, expected less; mend the template's loops or leave the row out",
    )


def forgery(field: str, token: str) -> Unusable:
    """The row's own words hold a special token."""
    return Unusable(
        "special_token_in_text",
        field,
        f"the text holds the special token {shown(token)}, which the model would read as markup; "
        "mend the row, or set templating.special_tokens_in_text: encode (as ordinary text) or keep",
    )


def looked_into(field: str, token: str) -> Unusable:
    """The template does more with the words that hold a special token than write them."""
    return Unusable(
        "special_token_in_text",
        field,
        f"the text holds the special token {shown(token)}, and the chat template looks into the "
        "text or changes it (its length, a part of it, its letters), so it cannot be hidden from "
        "the template while it is encoded as ordinary text; mend the row or the template, or set "
        "templating.special_tokens_in_text: keep",
    )


def own_bos(token: str) -> Unusable:
    """The row's own words begin with the BOS, which is there once already."""
    return Unusable(
        "special_token_in_text",
        "prompt",
        f"the text begins with {shown(token)}, which stands before every conversation anyway; "
        "take it out of the row",
    )


def private_use(field: str) -> Unusable:
    """The words hold a special token, and a character that stands for such tokens in encoding."""
    return Unusable(
        "special_token_in_text",
        field,
        "the text holds a private-use character from U+F0000 on beside a special token, and both "
        "cannot be told apart when it is encoded; mend the row",
    )


def same_texts() -> Unusable:
    """Both sides come out equal."""
    return Unusable(
        "identical_rendered",
        "chosen",
        "both sides are the same text once rendered: the template drops what differs",
    )
