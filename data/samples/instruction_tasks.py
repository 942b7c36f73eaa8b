"""Families about HOW to answer: language, format, voice, length, and a word to use or to avoid.

The rejected answer is always a good answer to another request of the same family, so the answers
alone do not tell which one is better.
"""

import json
import re
from random import Random

from sample_pair import Family, Pair, Request, polite, two
from vocabulary import (
    ERRAND_QUESTIONS,
    ERRANDS,
    FORBIDDEN_WORDS,
    LANGUAGES,
    LISTS,
    LONG_ENDINGS,
    LONG_OPENINGS,
    PLACES,
    SCENES,
    SHORT_ANSWERS,
    VOICES,
    WANTED_WORDS,
    WORD_SENTENCES,
)


def draw_language(rng: Random) -> Pair:
    """A sentence in the asked language against one in another language."""
    asked, other = two(rng, tuple(LANGUAGES))
    subject = rng.randrange(len(LANGUAGES["English"][0]))

    def sentence(language: str) -> str:
        subjects, actions, moments = LANGUAGES[language]
        return f"{subjects[subject]} {rng.choice(actions)} {rng.choice(moments)}."

    who = LANGUAGES["English"][0][subject].lower()
    question = rng.choice((f"What does {who} do?", f"Tell me about {who}.", f"Where is {who} now?"))
    order = rng.choice(
        (f"Answer in {asked}.", f"Reply in {asked}, please.", f"I only understand {asked}.")
    )
    if rng.random() < 0.3:
        return Pair((asked,), (polite(rng, question),), sentence(asked), sentence(other), order)
    turn = polite(rng, f"{question} {order}")
    return Pair((asked,), (turn,), sentence(asked), sentence(other))


def is_in_language(request: Request, answer: str) -> bool:
    """Whether the answer opens with a subject of the asked language."""
    return any(answer.startswith(f"{subject} ") for subject in LANGUAGES[str(request[0])][0])


FORMATS = {
    "JSON list": lambda items: json.dumps(items),
    "bulleted list": lambda items: "\n".join(f"- {item}" for item in items),
    "numbered list": lambda items: "\n".join(f"{n}. {item}" for n, item in enumerate(items, 1)),
    "line in upper case": lambda items: ", ".join(items).upper(),
}


def draw_format(rng: Random) -> Pair:
    """The same things in the asked format against another format."""
    asked, other = two(rng, tuple(FORMATS))
    kind = rng.choice(tuple(LISTS))
    good = rng.sample(LISTS[kind], rng.randint(2, 5))
    bad = rng.sample(LISTS[kind], rng.randint(2, 5))
    turn = rng.choice(
        (f"Name some {kind} as a {asked}.", f"I need a {asked} of {kind}.",
         f"Which {kind} do you know? Write a {asked}.")
    )  # fmt: skip
    return Pair((asked,), (polite(rng, turn),), FORMATS[asked](good), FORMATS[other](bad))


def is_in_format(request: Request, answer: str) -> bool:
    """Whether the answer parses as the asked format."""
    lines = answer.split("\n")
    if request[0] == "JSON list":
        return answer.startswith("[") and isinstance(json.loads(answer), list)
    if request[0] == "bulleted list":
        return all(line.startswith("- ") for line in lines)
    if request[0] == "numbered list":
        return all(re.match(rf"{n}\. \w", line) for n, line in enumerate(lines, 1))
    return answer.isupper()


def draw_voice(rng: Random) -> Pair:
    """A message in the voice of the system turn against another voice."""
    asked, other = two(rng, tuple(VOICES))

    def message(voice: str) -> str:
        _, openings, closings = VOICES[voice]
        return f"{rng.choice(openings)} {rng.choice(ERRANDS)}, {rng.choice(closings)}"

    who = VOICES[asked][0]
    system = rng.choice((f"You are {who}.", f"Speak like {who}.", f"Play the part of {who}."))
    question = polite(rng, rng.choice(ERRAND_QUESTIONS))
    return Pair((asked,), (question,), message(asked), message(other), system)


def has_voice(request: Request, answer: str) -> bool:
    """Whether the answer opens and closes in the asked voice."""
    _, openings, closings = VOICES[str(request[0])]
    return answer.startswith(openings) and answer.endswith(closings)


def draw_length(rng: Random) -> Pair:
    """An answer within the asked number of words against one on the other side of it."""
    short = " ".join(rng.sample(SHORT_ANSWERS, rng.randint(1, 2)))
    long = f"{rng.choice(LONG_OPENINGS)} {rng.choice(LONG_ENDINGS)}"
    place = rng.choice(PLACES)
    question = rng.choice(
        (f"What is {place} like?", f"Describe {place}.", f"How do you like {place}?")
    )
    if rng.random() < 0.5:
        most = rng.randint(10, 14)
        bound = rng.choice((f"Use at most {most} words.", f"No more than {most} words."))
        return Pair(("most", most), (polite(rng, f"{question} {bound}"),), short, long)
    least = rng.randint(11, 15)
    bound = rng.choice((f"Use at least {least} words.", f"Not less than {least} words."))
    return Pair(("least", least), (polite(rng, f"{question} {bound}"),), long, short)


def keeps_length(request: Request, answer: str) -> bool:
    """Whether the number of words is on the asked side of the bound."""
    side, bound = request
    words = len(answer.split())
    return words <= int(bound) if side == "most" else words >= int(bound)


def draw_wanted(rng: Random) -> Pair:
    """A sentence with the word that it must use against one with another word."""
    word, other = two(rng, WANTED_WORDS)
    order = rng.choice((f'Use the word "{word}".', f'It must mention a "{word}".'))
    good, bad = word_sentences(rng, word, other)
    return Pair((word,), (scene_turn(rng, order),), good, bad)


def draw_forbidden(rng: Random) -> Pair:
    """A sentence with any other word against one with the word that it must not use."""
    word, other = two(rng, FORBIDDEN_WORDS)
    order = rng.choice((f'Do not use the word "{word}".', f'Leave out the word "{word}".'))
    bad, good = word_sentences(rng, word, other)
    return Pair((word,), (scene_turn(rng, order),), good, bad)


def scene_turn(rng: Random, order: str) -> str:
    """The user's turn that asks for one sentence under an order about a word."""
    scene = rng.choice(SCENES)
    opening = rng.choice((f"Write about {scene}.", f"One sentence about {scene}, please."))
    return polite(rng, f"{opening} {order}")


def word_sentences(rng: Random, word: str, other: str) -> tuple[str, str]:
    """Two different sentences, one around each word."""
    first, second = rng.sample(WORD_SENTENCES, 2)
    return first.format(word), second.format(other)


def uses_word(request: Request, answer: str) -> bool:
    """Whether the asked word is in the answer."""
    return re.search(rf"\b{request[0]}\b", answer) is not None


def avoids_word(request: Request, answer: str) -> bool:
    """Whether the forbidden word is not in the answer."""
    return not uses_word(request, answer)


FAMILIES = {
    "language": Family(draw_language, is_in_language),
    "format": Family(draw_format, is_in_format),
    "voice": Family(draw_voice, has_voice),
    "length": Family(draw_length, keeps_length),
    "wanted word": Family(draw_wanted, uses_word),
    "forbidden word": Family(draw_forbidden, avoids_word),
}
