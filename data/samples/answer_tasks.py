"""Families about WHAT is answered: topic, unit, sign, order, a small sum, a fact told before.

As in `instruction_tasks`, the rejected answer would be right under another request.
"""

import re
from random import Random

from sample_pair import Family, Pair, Request, polite, two
from vocabulary import FACTS, MEASURES, NAMES, THINGS, TOPICS


def draw_topic(rng: Random) -> Pair:
    """Advice on the asked topic against advice on another one."""
    asked, other = two(rng, tuple(TOPICS))

    def advice(topic: str) -> str:
        first, second = rng.sample(TOPICS[topic][1], 2)
        opening = rng.choice(("First", "You could", "I would", "It helps to", "Always"))
        return f"{opening} {first}{rng.choice((' and ', ', then '))}{second}."

    goal = rng.choice(TOPICS[asked][0])
    question = rng.choice(
        (f"How do I {goal}?", f"I want to {goal}. Any advice?", f"What helps me to {goal}?")
    )
    return Pair((asked,), (polite(rng, question),), advice(asked), advice(other))


def is_on_topic(request: Request, answer: str) -> bool:
    """Whether the answer gives advice of the asked topic and of no other."""
    found = {topic for topic, (_, tips) in TOPICS.items() if any(tip in answer for tip in tips)}
    return found == {request[0]}


def draw_unit(rng: Random) -> Pair:
    """The stated quantity with its unit against the same number with another unit."""
    things, units = MEASURES[rng.choice(tuple(MEASURES))]
    thing, (unit, slip), number = rng.choice(things), two(rng, units), rng.randint(2, 90)
    fact = rng.choice((f"The {thing} measures {number} {unit}.", f"The {thing}: {number} {unit}."))
    question = rng.choice(("How much is that?", "Repeat the number.", "What did I measure?"))

    def answer(written: str) -> str:
        opening = rng.choice(("It is", "That makes", "You measured", f"The {thing} has"))
        return f"{opening} {number} {written}."

    turn = polite(rng, f"{fact} {question}")
    return Pair((number, unit), (turn,), answer(unit), answer(slip))


def has_unit(request: Request, answer: str) -> bool:
    """Whether the answer ends in the asked number and unit."""
    number, unit = request
    return answer.endswith(f" {number} {unit}.")


# what happened -> its sign
EVENTS = {
    "The temperature is {} degrees below zero.": "-",
    "The temperature is {} degrees above zero.": "+",
    "{who} lost {} points.": "-",
    "{who} won {} points.": "+",
    "{who} spent {} euros.": "-",
    "{who} earned {} euros.": "+",
    "The lift went down {} floors.": "-",
    "The lift went up {} floors.": "+",
}


def draw_sign(rng: Random) -> Pair:
    """The change with its sign against the same number with the sign turned."""
    event, number = rng.choice(tuple(EVENTS)), rng.randint(2, 40)
    sign = EVENTS[event]
    slip = "+" if sign == "-" else "-"
    question = rng.choice(("Write it with its sign.", "Which signed number is that?"))

    def answer(written: str) -> str:
        opening = rng.choice(("It is", "The number is", "That is written", "As a number:"))
        return f"{opening} {written}{number}."

    turn = polite(rng, f"{event.format(number, who=rng.choice(NAMES))} {question}")
    return Pair((f"{sign}{number}",), (turn,), answer(sign), answer(slip))


def has_sign(request: Request, answer: str) -> bool:
    """Whether the answer ends in the asked signed number."""
    return answer.endswith(f" {request[0]}.")


def draw_order(rng: Random) -> Pair:
    """Numbers in the asked direction against the opposite one."""
    numbers = rng.sample(range(1, 5), rng.randint(2, 3)) + rng.sample(range(5, 10), 2)
    rng.shuffle(numbers)
    up = rng.random() < 0.5
    asked = rng.choice(
        ("in rising order", "with the smallest first")
        if up
        else ("in falling order", "with the largest first")
    )

    def answer(reverse: bool) -> str:
        opening = rng.choice(("Here they are: ", "Sorted: ", "The order is "))
        return opening + ", ".join(str(n) for n in sorted(numbers, reverse=reverse))

    listed = ", ".join(str(n) for n in numbers)
    turn = polite(rng, f"{rng.choice(('Sort', 'Write', 'Put'))} {listed} {asked}.")
    return Pair(("up" if up else "down",), (turn,), answer(not up), answer(up))


def is_in_order(request: Request, answer: str) -> bool:
    """Whether the numbers of the answer run in the asked direction."""
    numbers = [int(n) for n in re.findall(r"\d+", answer)]
    return numbers == sorted(numbers, reverse=request[0] == "down")


def draw_sum(rng: Random) -> Pair:
    """The right sum or difference of two small numbers against the other operation's result."""
    b = rng.randint(3, 6)
    a = rng.randint(b + 2, 12)
    who, thing, plus = rng.choice(NAMES), rng.choice(THINGS), rng.random() < 0.5
    event = rng.choice(
        ("gets {} more", "finds {} more") if plus else ("gives away {}", "loses {}")
    ).format(b)
    question = rng.choice((f"How many {thing} now?", "How many are there now?", "Count them."))
    right, wrong = (a + b, a - b) if plus else (a - b, a + b)

    def answer(number: int) -> str:
        opening = rng.choice((f"{who} has", "The answer is", "Now there are", "That makes"))
        return f"{opening} {number} {thing}."

    turn = polite(rng, f"{who} has {a} {thing} and {event}. {question}")
    return Pair((right,), (turn,), answer(right), answer(wrong))


def has_sum(request: Request, answer: str) -> bool:
    """Whether the only number of the answer is the right one."""
    return [int(n) for n in re.findall(r"\d+", answer)] == [request[0]]


def draw_recall(rng: Random) -> Pair:
    """What the user said two turns ago against another value of the same kind."""
    told, question, answers, values = FACTS[rng.choice(tuple(FACTS))]
    asked, other = two(rng, values)
    first = rng.choice(("", "Hello! ", "Good morning. ", "Let us talk. ")) + told.format(asked)
    reply = rng.choice(("Nice to hear that.", "I see.", "Thank you for telling me.", "Good."))
    last = rng.choice(("", "By the way: ", "Do you remember? ", "Now tell me. ")) + question
    good, bad = (rng.choice(answers).format(value) for value in (asked, other))
    return Pair((asked,), (first, reply, last), good, bad)


def has_recalled(request: Request, answer: str) -> bool:
    """Whether the answer ends in what the user told."""
    return answer.endswith(f" {request[0]}.")


FAMILIES = {
    "topic": Family(draw_topic, is_on_topic),
    "unit": Family(draw_unit, has_unit),
    "sign": Family(draw_sign, has_sign),
    "order": Family(draw_order, is_in_order),
    "sum": Family(draw_sum, has_sum),
    "recall": Family(draw_recall, has_recalled),
}
