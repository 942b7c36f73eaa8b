r"""Layout `summaries`: a post or an article, two summaries of it, and which of them was chosen.

    {"info": {"id": "t3_x", "subreddit": "tifu", "title": "A title", "post": "A long post."},
     "summaries": [{"text": " Short.", "policy": "sup2"}, {"text": " Wrong.", "policy": "ref"}],
     "choice": 0, "worker": "w", "batch": "b", "split": "train", "extra": {"confidence": 7}}

is one pair: prompt [user "SUBREDDIT: r/tifu\nTITLE: A title\nPOST: A long post.\nTL;DR:"], chosen
[assistant " Short."], rejected [assistant " Wrong."]. An article is asked about as "Article:\n",
the text, "\n\nTL;DR:". These are the forms of the paper's models (arXiv 2009.01325, appendix B).
Rows of the same release that grade one summary along axes compare nothing: no rows of this layout.
"""

from typing import Any

from tasks.conversion.conversation.turns import listed
from tasks.conversion.layouts.columns import Row, is_object, required
from tasks.conversion.preference.conversational import pair_as_conversation
from tasks.conversion.preference.pair import Pair, pair_of
from tasks.conversion.unusable import Unusable, found, not_as_expected

READ = ("info", "summaries", "choice")


def fits(columns: set[str], row: Row) -> bool:
    """Its three columns, and an object as info."""
    return {"info", "summaries", "choice"} <= columns and isinstance(row.get("info"), dict)


def pairs(row: Row) -> list[Pair]:
    """The row's one pair, as messages.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_json, bad_label.
    """
    texts = [_text(entry, i) for i, entry in enumerate(_two(required(row, "summaries")))]
    choice = required(row, "choice")
    if isinstance(choice, bool) or choice not in (0, 1, "0", "1"):
        reason = "null" if choice is None else "bad_label"
        raise Unusable(reason, "choice", f"found {found(choice)}, expected 0 or 1")
    first = int(choice) == 0
    return [pair_as_conversation(pair_of(_prompt(required(row, "info")), texts, first))]


def _two(value: Any) -> list[Any]:
    summaries = listed(value, "summaries", "a list of two summaries")
    if len(summaries) != 2:
        raise Unusable(
            "wrong_type", "summaries", f"found a list of {len(summaries)}, expected two summaries"
        )
    return summaries


def _text(entry: Any, number: int) -> Any:
    if not is_object(entry, "text"):
        raise not_as_expected(entry, f"summaries[{number}]", "an object with 'text'")
    return entry["text"]


def _prompt(info: Any) -> str:
    fields = info if is_object(info) else {}
    post, article = fields.get("post"), fields.get("article")
    if isinstance(post, str) and post.strip():
        subreddit, title = fields.get("subreddit") or "", fields.get("title") or ""
        return f"SUBREDDIT: r/{subreddit}\nTITLE: {title}\nPOST: {post}\nTL;DR:"
    if isinstance(article, str) and article.strip():
        return f"Article:\n{article}\n\nTL;DR:"
    raise Unusable(
        "no_prompt", "info", f"found {found(info)}, expected the text of a post or of an article"
    )
