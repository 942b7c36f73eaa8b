"""Worked rows of the layouts of judged answers, and how tests read them."""

from collections import Counter

from tasks.conversion import Pair, Unusable, checked
from tasks.conversion.layouts import options_of, reader
from tests.conversion.messages import assistant, user


def items(layout, row, columns=None, **options):
    read = reader(layout, columns or {}, options_of("votes", layout, options))
    return [checked(item) if isinstance(item, Pair) else item for item in read(row)]


def first_problem(found):
    return next(item for item in found if isinstance(item, Unusable))


def one(layout, row, columns=None, **options):
    (item,) = items(layout, row, columns, **options)
    if isinstance(item, Unusable):
        raise item
    return item


def sides(pair):
    return pair.prompt, pair.chosen, pair.rejected


def counted(found):
    """(pairs, {reason: pairs that it stands for})"""
    reasons = Counter()
    for item in found:
        if isinstance(item, Unusable):
            reasons[item.reason] += item.pairs
    return sum(isinstance(item, Pair) for item in found), reasons


TALK = ([user("Hi")], [assistant("Hello.")], [assistant("No.")])
KAGGLE = {"id": 1, "model_a": "x", "model_b": "y", "prompt": '["Hi"]', "response_a": '["Hello."]',
          "response_b": '["No."]', "winner_model_a": "1", "winner_model_b": "0",
          "winner_tie": "0"}  # fmt: skip
BATTLE = {"model_a": "x", "model_b": "y", "winner": "model_b",
          "conversation_a": [user("Hi"), assistant("No.")],
          "conversation_b": [user("Hi"), assistant("Hello.")]}  # fmt: skip
VOTED = {"model_a": "x", "model_b": "y", "winner": "model_b", "prompt": "Hi",
         "response_1": "No.", "response_2": "Hello."}  # fmt: skip
RATED = {"prompt": "Hi", "response": "Hello.", "helpfulness": 4, "correctness": 3, "verbosity": "1"}
SHP = {"history": "Hi", "human_ref_A": "Hello.", "human_ref_B": "No.", "labels": 1, "score_A": 24,
       "score_B": 3, "score_ratio": 8.0, "post_id": "x"}  # fmt: skip
PROCESSES = {"original_question": "q", "modified_question": "q", "original_process": ["a", "b"],
             "modified_process": ["a", "c"], "error_steps": [2]}  # fmt: skip
JUDGED = {"prompt": "Hi", "response_a": "No.", "response_b": "Hello.", "label": 2}
