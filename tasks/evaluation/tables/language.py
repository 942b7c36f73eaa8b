"""The language of a text: told by its script where one language stands for it, else by its words.

    "Wie alt ist der Mond?"   latin  ->  wie, ist, der are German words, none is of another   ->  de

Each of a language's commonest function words is a vote, shared among the languages that have it
("de" is Dutch, Spanish, French and Portuguese). What is not clear keeps its script's name: a slice
called "latin" says that nobody knows, and not that it is English.
"""

import re
from collections import Counter

from tasks.evaluation.tables.surface import SCRIPT_CHARACTERS, script

_OF_SCRIPTS = {
    "kana": "ja",
    "han": "zh",
    "hangul": "ko",
    "greek": "el",
    "hebrew": "he",
    "thai": "th",
}
_WORDS = {
    "en": "the and is are of to in that it you for what with how this was a an i my be or can your",
    "de": "der die das und ist nicht ein eine ich zu den mit sie für auf wie was von im es sind",
    "fr": "le la les des est et un une que pas pour dans qui vous je sur de du au il nous avec ce",
    "es": "el la los las de que es y en un una por con para como cómo qué se su del no lo más mi",
    "pt": "o a os as de que é e em um uma não para com como você do da no na se mais por eu",
    "it": "il la di che è e un una per non con sono del della come i gli le si in da mi più cosa",
    "nl": "de het een en van is dat niet ik je voor met op zijn wat hoe te er maar ook aan naar",
    "sv": "och att det som en är på för med inte jag av den till ett har vi kan hur vad om",
    "pl": "i w nie na to się z jest że do jak co o za od po czy dla są ale mnie tak",
    "tr": "ve bir bu için ne de da mi ile çok var nasıl gibi daha olan ben mı kadar en sen",
    "vi": "là của và có không cho các một tôi được những trong với này như bạn người khi thì",
    "id": "yang dan di ini itu dengan untuk tidak dari apa saya adalah ke pada bagaimana akan",
    "ru": "и в не на что я с как это по он но у к из за все так бы от о же для мне вы",
    "uk": "і в не на що я з як це та до є у за від про але для мені ви по він чи й",
    "bg": "и в не на че с как това по е от за да се са ли ще но към който той аз",
    "ar": "في من على أن إلى هذا هو ما لا عن كيف هل التي الذي مع كان هي هذه ذلك أو",
    "fa": "در و به از که این را با است برای آن یک چه می شود خود ما من تا هم",
}
_VOTERS = Counter(word for words in _WORDS.values() for word in words.split())
_VOTES = {
    language: {word: 1 / _VOTERS[word] for word in words.split()}
    for language, words in _WORDS.items()
}
_WORD = re.compile(r"[^\W\d_]+")
LEAST_VOTES = 1.5
CLEARLY = 1.25
"""The first language needs so many times the votes of the second."""


def language(text: str) -> str:
    """ISO 639-1 code of the text's language; the script's name where that is not clear, "none"
    without letters. Read off the leading 500 characters."""
    seen = script(text)
    if seen in _OF_SCRIPTS:
        return _OF_SCRIPTS[seen]
    words = Counter(_WORD.findall(text[:SCRIPT_CHARACTERS].lower()))
    votes = {
        code: sum(times * shares[word] for word, times in words.items() if word in shares)
        for code, shares in _VOTES.items()
    }
    first, second = sorted(votes, key=votes.__getitem__, reverse=True)[:2]
    if votes[first] < LEAST_VOTES or votes[first] < CLEARLY * votes[second]:
        return seen
    return first


def is_told(found: str) -> bool:
    """Whether `language` found a language, and not just a script."""
    return found in _WORDS or found in _OF_SCRIPTS.values()
