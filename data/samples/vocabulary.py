"""The word tables of the sample tasks: plain data, nothing else.

Every table that a rule consults is disjoint where the rule needs it to be (no action belongs to two
topics, no marker to two voices), and short, because a small model has to learn it from about two
hundred pairs.
"""

NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Hugo", "Ida", "Jonas")

# language -> (subjects, what they do, when or where), in the same order in all four
LANGUAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "English": (
        ("The baker", "The teacher", "The farmer", "The doctor", "The girl", "The old man"),
        ("buys fresh bread", "reads the newspaper", "drinks a cup of tea", "sings a song"),
        ("in the morning", "on Sunday", "with the children", "at the station", "in the garden"),
    ),
    "French": (
        ("Le boulanger", "Le professeur", "Le fermier", "Le médecin", "La fille", "Le vieil homme"),
        ("achète du pain frais", "lit le journal", "boit une tasse de thé", "chante une chanson"),
        ("le matin", "le dimanche", "avec les enfants", "à la gare", "dans le jardin"),
    ),
    "German": (
        ("Der Bäcker", "Der Lehrer", "Der Bauer", "Der Arzt", "Das Mädchen", "Der alte Mann"),
        ("kauft frisches Brot", "liest die Zeitung", "trinkt eine Tasse Tee", "singt ein Lied"),
        ("am Morgen", "am Sonntag", "mit den Kindern", "am Bahnhof", "im Garten"),
    ),
    "Spanish": (
        ("El panadero", "El profesor", "El granjero", "El médico", "La niña", "El anciano"),
        ("compra pan fresco", "lee el periódico", "bebe una taza de té", "canta una canción"),
        ("por la mañana", "el domingo", "con los niños", "en la estación", "en el jardín"),
    ),
}

LISTS: dict[str, tuple[str, ...]] = {
    "fruits": ("apple", "pear", "plum", "cherry", "banana", "lemon", "mango", "fig"),
    "animals": ("horse", "goat", "rabbit", "otter", "eagle", "whale", "tiger", "mouse"),
    "colours": ("red", "green", "blue", "orange", "violet", "white", "brown", "grey"),
    "tools": ("hammer", "saw", "ladder", "drill", "spade", "wrench", "chisel", "rake"),
    "instruments": ("piano", "violin", "flute", "drum", "harp", "trumpet", "cello", "guitar"),
}

# topic -> (what the user wants, what the advice is made of)
TOPICS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gardening": (
        ("grow better tomatoes", "look after my roses", "start a herb garden", "save a dry lawn"),
        ("water the roots", "add compost to the soil", "cut the dead leaves", "plant more seeds"),
    ),
    "cooking": (
        ("make a good soup", "bake a simple cake", "cook rice for guests", "fry potatoes well"),
        ("heat the oven", "stir the sauce slowly", "add salt and butter", "chop the onions"),
    ),
    "money": (
        ("pay off my loan", "plan a monthly budget", "save for a house", "lower my taxes"),
        ("talk to your bank", "keep every receipt", "put cash in savings", "compare the fees"),
    ),
    "sport": (
        ("run a marathon", "get stronger legs", "swim faster", "train for football"),
        ("warm up your muscles", "do more squats", "rest after each race", "follow a coach"),
    ),
    "computers": (
        ("fix my slow laptop", "back up my files", "choose a safe password", "learn to program"),
        ("restart the machine", "update the software", "delete the old files", "write some code"),
    ),
}

# voice -> (what the system turn says, openings, closings); openings and closings are the markers
VOICES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "pirate": (
        "a pirate",
        ("Arr,", "Ahoy matey,", "Aye aye captain,"),
        ("or walk the plank!", "by the seven seas!", "ye landlubber!"),
    ),
    "butler": (
        "a polite butler",
        ("Certainly, sir,", "If I may, madam,", "With great pleasure,"),
        ("at your service.", "as you wish, sir.", "should it please you."),
    ),
    "robot": (
        "a robot",
        ("Beep boop,", "Affirmative,", "Input received,"),
        ("end of message.", "system ready.", "battery is full."),
    ),
    "child": (
        "a small child",
        ("Yay,", "Wow, look,", "Guess what,"),
        ("my mummy said so!", "can we play now?", "that is so fun!"),
    ),
}
ERRANDS = (
    "the shop opens at nine",
    "the bus is late today",
    "it will rain tonight",
    "the key is under the mat",
    "dinner is on the table",
    "the red box is empty",
    "we need two more chairs",
)
ERRAND_QUESTIONS = (
    "What is the news?",
    "Tell me what I should know.",
    "Anything new this morning?",
    "Give me a short report.",
    "What did the note say?",
)

# the words that a sentence must use are not the ones that it must avoid
WANTED_WORDS = ("river", "bridge", "mountain", "forest", "castle")
FORBIDDEN_WORDS = ("lamp", "clock", "candle", "mirror", "letter")
SCENES = ("a quiet evening", "a long walk", "an old friend", "the first snow", "a stormy night")
# the slot takes one of these words
WORD_SENTENCES = (
    "We sat near the {} and talked for hours.",
    "Nobody looked at the {} that day.",
    "She remembered the {} and smiled.",
    "The {} was the only thing I could see.",
    "He drew a small picture of the {} for his sister.",
    "In the end we came back to the {}.",
)

# measure -> (what is measured, units)
MEASURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "length": (("rope", "fence", "table", "trail"), ("metres", "miles", "inches")),
    "weight": (("parcel", "stone", "bag of flour", "suitcase"), ("grams", "pounds", "tonnes")),
    "time": (("film", "meeting", "journey", "lesson"), ("minutes", "hours", "days")),
    "volume": (("bottle", "tank", "bucket", "barrel"), ("litres", "gallons", "cups")),
}

# attribute -> (how the user tells it, how the user asks for it, how it is answered, values)
FACTS: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "name": (
        "My name is {}.",
        "What is my name?",
        ("Your name is {}.", "You are called {}.", "You told me that you are {}."),
        ("Maria", "Peter", "Nora", "Oscar"),
    ),
    "city": (
        "I live in {}.",
        "Where do I live?",
        ("You live in {}.", "Your home is in {}.", "You said that you live in {}."),
        ("London", "Madrid", "Vienna", "Oslo"),
    ),
    "pet": (
        "I have a {} at home.",
        "Which pet do I have?",
        ("You have a {}.", "Your pet is a {}.", "You told me about your {}."),
        ("dog", "cat", "parrot", "turtle"),
    ),
}

THINGS = ("apples", "books", "coins", "stamps", "marbles", "shells")
SHORT_ANSWERS = (
    "Very calm.",
    "Cold and bright.",
    "It was lovely.",
    "Quiet, green and warm.",
    "A small and sunny place.",
    "Old stones and blue water.",
)
LONG_OPENINGS = (
    "There are narrow streets full of people",
    "The air smells of salt and fresh bread",
    "You can hear the bells from every corner",
    "Most of the houses are painted in bright colours",
)
LONG_ENDINGS = (
    "and in the evening everybody meets at the harbour to talk.",
    "while the boats come home slowly under a golden sky.",
    "so that visitors like to stay a little longer than they planned.",
    "and the hills behind it are covered with old olive trees.",
)
PLACES = (
    "the village",
    "the old harbour",
    "the island",
    "your home town",
    "the valley",
    "the market",
)
