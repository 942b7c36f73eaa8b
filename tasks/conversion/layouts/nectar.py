r"""Layout `nectar`: a transcript that ends where the answer begins, and several answers with ranks.

    {"prompt": "\n\nHuman: Hi\n\nAssistant: ",
     "answers": [{"answer": "Hello.", "model": "x", "rank": 1.0},
                 {"answer": "No.", "model": "y", "rank": 2.0}], "turns": 1, "source": ["z"]}

is one pair: prompt [user "Hi"], chosen [assistant "Hello."], rejected [assistant "No."]. Rank 1 is
the best; seven answers make 21 pairs, less the ties. Ranks tell an order and no distance, so there
is no margin. Earlier turns stand in the transcript; how those are told apart says `hh_rlhf`.
"""

from typing import Any

from tasks.conversion.conversation.messages import Messages
from tasks.conversion.conversation.turns import listed
from tasks.conversion.layouts.columns import Row, is_object, required
from tasks.conversion.layouts.hh_rlhf import split_turns
from tasks.conversion.options import RankingOptions
from tasks.conversion.preference.answers import Item, ranked
from tasks.conversion.preference.conversational import as_conversation
from tasks.conversion.preference.scores import Score, score_of_rank, without_margins
from tasks.conversion.unusable import Unusable, not_as_expected

READ = ("prompt", "answers")


def fits(columns: set[str], row: Row) -> bool:
    """A prompt, and answers that are objects with an answer and a rank."""
    answers = row.get("answers")
    first = next(iter(answers), None) if isinstance(answers, list) else None
    return "prompt" in columns and is_object(first, "answer", "rank")


def read(row: Row, options: RankingOptions) -> list[Item]:
    """The row's pairs, as messages; the answers that cannot be compared, one by one.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_json, bad_transcript, no_prompt,
            unpaired_alone.
    """
    prompt = _prompt(required(row, "prompt"))
    answers: list[tuple[str, Any, Score]] = []
    for i, entry in enumerate(listed(required(row, "answers"), "answers")):
        fields = entry if is_object(entry) else {}
        answer = fields.get("answer") if fields else entry
        score = score_of_rank(fields.get("rank"), f"answers[{i}].rank")
        answers.append((f"answers[{i}].answer", answer, score))
    return [as_conversation(i) for i in without_margins(ranked(answers, prompt, options))]


def _prompt(text: Any) -> Messages:
    """The transcript's turns, less the answer's that it opens."""
    if not isinstance(text, str):
        raise not_as_expected(text, "prompt", "a transcript as text")
    turns = split_turns(text, "prompt")
    if turns[-1]["role"] == "assistant" and not turns[-1]["content"].strip():
        turns = turns[:-1]
    if not turns or turns[-1]["role"] != "user":
        raise Unusable(
            "no_prompt",
            "prompt",
            "found no Human's turn before the answer, expected the transcript to end in one, or in "
            "an Assistant's that is still empty",
        )
    return turns
