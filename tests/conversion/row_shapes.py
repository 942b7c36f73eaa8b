"""Rows in the shapes that preference data comes in, sound ones and others."""


def talk(role, text):
    return [{"role": role, "content": text}]


TEXTS = [
    *(
        "a",
        "b",
        " b",
        "It\u2019s so. ",
        "two words",
        "two words more",
        "a\n\nAssistant: b",
        "\u202ex",
    ),
    *("caf\u00e9", "e\u0301", "\u4e2d\u6587", "\u00c9t\u00e9", "me@example.com", 'say "no" \\ \t'),
    *("", " "),
]
ORDERS = [
    *[["user"], ["system", "user", "assistant", "user"]] * 4,
    *([], ["assistant"], ["human", "gpt", "human"], ["user", "tool"], ["user", "assistant"]),
]
MORE = [
    *[{}] * 4,
    *({"score": 1}, {"margin": 1.5}, {"margin": None, "tools": None, "images": None}),
    *({"margin": -1}, {"tools": "[]"}, {"chat_template_kwargs": {"a": 1}}, {"images": []}),
    *({"system": "Be kind."}, {"margin": "2", "score": 3.5}),
]


def shaped(draw, layout):
    """A row in one of the shapes that rows of these layouts have, most often a sound one."""
    roles, texts = draw.choice(ORDERS), draw.choices(TEXTS[: draw.choice([8, 14, 16])], k=6)
    asked = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    a, b = texts[4:]
    better, worse = talk("assistant", a), talk("assistant", b)
    if draw.random() < 0.1:
        worse = [*worse, *draw.choice([asked, better])]
    text = draw.choice([" ".join(texts[: len(asked)]), texts[0]])
    said = {"user": "Human", "assistant": "Assistant", "system": "Human"}
    begun = "".join(f"\n\n{said.get(m['role'], 'x')}: {m['content']}" for m in asked)
    shapes = [
        {"prompt": asked, "chosen": better, "rejected": worse},
        {"chosen": asked + better, "rejected": asked + worse},
        {"prompt": asked, "chosen": asked + better, "rejected": asked + worse},
        {"prompt": text, "chosen": asked + better, "rejected": asked + worse},
        {"prompt": text, "chosen": better, "rejected": worse},
        {"prompt": asked, "chosen": a, "rejected": b},
        {"prompt": text, "chosen": a, "rejected": b},
        {"prompt": text, "chosen": text + a, "rejected": f"{text} {b}"},
        {"chosen": f"{text} {a}", "rejected": f"{text} {b}"},
        {"prompt": draw.choice([None, {}, 1]), "chosen": asked + better, "rejected": asked + worse},
        {"prompt": asked, "chosen": better, "rejected": b},
        {"prompt": asked, "chosen": a, "rejected": worse},
    ]
    if layout == "hh_rlhf":
        shapes = [
            {"chosen": f"{begun}\n\nAssistant: {a}", "rejected": f"{begun}\n\nAssistant: {b}"}
        ]
    elif layout == "sharegpt_ranking":
        turns = [{"from": m["role"], "value": m["content"]} for m in asked]
        answers = [{"from": "gpt", "value": text} for text in (a, b)]
        shapes = [{"conversations": turns, "chosen": answers[0], "rejected": answers[1]}]
    row = draw.choice(shapes)
    if draw.random() < 0.3:
        row = {name: turned(value) for name, value in row.items()}
    if draw.random() < 0.2:
        row = {name: in_a_table(value) for name, value in row.items()}
    if layout == "columns":
        row |= {"score": draw.choice([None, 0, 2.5]), "system": draw.choice([None, "Be kind."])}
    return row | draw.choice(MORE)


def turned(value):
    """Messages with their keys the other way round."""
    if isinstance(value, list):
        return [dict(reversed(message.items())) for message in value]
    return value


def in_a_table(value):
    """Messages with the keys that other rows of one table have, null here."""
    if isinstance(value, list):
        return [{"name": None, **message, "tool_calls": None} for message in value]
    return value


SOURCES = {
    "trl": ("trl", {}, {}),
    "in_answers": ("trl", {}, {"prompt": "in_answers"}),
    "talk": ("trl", {}, {"format": "conversational"}),
    "renamed": ("trl", {"chosen": "rejected", "rejected": "chosen"}, {}),
    "hh": ("hh_rlhf", {}, {}),
    "gpt": ("sharegpt_ranking", {}, {}),
    "names": ("columns", {"margin": "score", "system": "system"}, {}),
    "plain": ("columns", {}, {"tool_turns": "quarantine"}),
}


ASK, YES, NO = talk("user", "Is it so?"), talk("assistant", "Yes, a."), talk("assistant", "No, b.")
SAID = {"prompt": ASK, "chosen": YES, "rejected": NO}
TRANSCRIPTS = {s: f"\n\nHuman: So?\n\nAssistant: {s}" for s in ("chosen", "rejected")}
SOUND = [
    ("trl", SAID),
    ("trl", SAID | {"margin": 1.5, "score": 2}),
    ("trl", SAID | {"tools": None, "images": None}),
    ("trl", {name: turned(value) for name, value in SAID.items()}),
    ("trl", {name: in_a_table(value) for name, value in SAID.items()}),
    ("trl", {"chosen": in_a_table(ASK + YES), "rejected": in_a_table(ASK + NO)}),
    ("trl", {"chosen": ASK + YES, "rejected": ASK + NO}),
    ("trl", {"prompt": ASK, "chosen": ASK + YES, "rejected": ASK + NO}),
    ("trl", {"prompt": "Is it so?", "chosen": ASK + YES, "rejected": ASK + NO}),
    ("trl", {"prompt": "Is it so?", "chosen": YES, "rejected": NO}),
    ("trl", {"prompt": ASK, "chosen": "Yes", "rejected": "No"}),
    ("trl", {"prompt": "Is it so?", "chosen": "Yes", "rejected": "No"}),
    ("trl", {"chosen": "Is it so? Yes", "rejected": "Is it so? No"}),
    ("in_answers", {"prompt": "?", "chosen": ASK + YES, "rejected": ASK + NO}),
    ("talk", {"prompt": "Is it so?", "chosen": "Yes", "rejected": "No"}),
    ("renamed", SAID),
    ("names", SAID | {"score": 2.5, "system": "Be kind."}),
    ("hh", TRANSCRIPTS),
    (
        "gpt",
        {"conversations": [{"from": "human", "value": "So?"}], "chosen": "Yes", "rejected": "No"},
    ),
]
