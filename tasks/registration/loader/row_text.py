"""The token ids of a row, the same as in training, also for special tokens in its own words.

    {"messages": [...]}   rendered by the chat template (given_messages.py), no special token added;
                          tools without keys that are null
    "text"                closed by the EOS, and with the special tokens that the tokenizer adds

What a special token in a row's own words becomes is the score contract's
`rendering.special_tokens_in_text`: `keep` reads it as markup, `encode` as ordinary text, and
`quarantine` refuses the row. Travels inside the registered model: it may import only modules that
travel with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.conversion.conversation.message_names import RENDERING
from tasks.conversion.conversation.schema_nulls import schema_without_nulls
from tasks.registration.loader.given_messages import as_in_training
from tasks.templating.tokenizer.own_tokens import own_tokens
from tasks.templating.tokenizer.special_tokens import (
    ALIASES,
    Literals,
    Policy,
    SpecialTokens,
    special_tokens,
)
from tasks.templating.tokenizer.stand_ins import DOCUMENTS, held, with_literals
from tasks.tokenization.literal import literal_encoder

REMOVE = "Remove the token"
GIVE_MESSAGES = (
    "If a chat template rendered the text, give its messages in its place: they are rendered here, "
    "as in training; if none did, remove the token"
)


@dataclass
class RowTexts:
    """Renders and encodes rows with one tokenizer."""

    tokenizer: Any
    policy: Policy
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """`tools` for rows without any; `chat_template_kwargs` for all rows, whose own come first."""

    def __post_init__(self) -> None:
        self.special = None if self.policy == "keep" else special_tokens(self.tokenizer)
        self.own = own_tokens(self.tokenizer)
        _settings(self.options)  # refused before there are rows

    def ids(
        self,
        content: Any,
        options: Mapping[str, Any],
        check: Callable[[str], None] = lambda _: None,
    ) -> list[int]:
        """The ids of a text or of messages; `check` sees the text before it is encoded.

        Raises:
            ValueError: a special token in the row's own words, and the policy does not allow it;
                or half of a surrogate pair.
        """
        is_text = isinstance(content, str)
        text, literals = self._text(content) if is_text else self._conversation(content, options)
        check(encodable(text))
        if literals:
            encode = literal_encoder(self.tokenizer)
            return encode(text, literals, add_special_tokens=is_text).tolist()
        return list(self.tokenizer(text, add_special_tokens=is_text)["input_ids"])

    def _text(self, content: str) -> tuple[str, Literals]:
        text, literals, forged = self.own.with_literals(content, self.special)
        if forged is None:
            return text, ()
        what_to_do = REMOVE if self.tokenizer.chat_template is None else GIVE_MESSAGES
        where = f"the text at {content.find(forged)}"
        return self._literal(text, literals, forged, where, what_to_do)

    def _conversation(self, content: Any, options: Mapping[str, Any]) -> tuple[str, Literals]:
        messages = as_in_training(content)
        tools = schema_without_nulls(options.get("tools") or self.options.get("tools")) or None
        settings = {**_settings(self.options), **_settings(options)}
        if self.special and self.policy == "quarantine":
            _check_words(messages, tools, settings, self.special)

        def rendering(messages: Any, tools: Any, settings: dict[str, Any]) -> str:
            return self.tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, **settings
            )

        text, literals, forged = with_literals(rendering, self.special, messages, tools, settings)
        if forged is None:
            return text, ()
        return self._literal(text, literals, forged, "the conversation, once rendered,")

    def _literal(
        self, text: str, literals: Literals, forged: str, where: str, what_to_do: str = REMOVE
    ) -> tuple[str, Literals]:
        if self.policy == "quarantine":
            raise _forgery(where, forged, what_to_do)
        if ALIASES.search(text):
            raise ValueError(
                f"{where} holds a private-use character from U+F0000 on beside the special token "
                f"{forged!r}: both cannot be told apart when it is encoded; remove the character"
            )
        return text, literals


def encodable(text: str) -> str:
    """The text itself, if it can be encoded as UTF-8.

    Raises:
        ValueError: half of a surrogate pair stands alone, as where JSON was cut within an emoji.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text holds {text[error.start]!a}, half of a character, at {error.start} of its "
            "rendered form; it was cut within an emoji or the like: remove it"
        ) from error
    return text


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = options.get("chat_template_kwargs") or {}
    if names := sorted(RENDERING.intersection(settings)):
        raise ValueError(
            f"chat_template_kwargs holds {names[0]!r}; expected settings for the template that the "
            "model was trained with, such as enable_thinking: leave it out"
        )
    return settings


def _check_words(
    messages: list[Any], tools: Any, settings: Mapping[str, Any], special: SpecialTokens
) -> None:
    for number, message in enumerate(messages):
        if forged := held(message, special):
            raise _forgery(f"messages[{number}] ({message['role']})", forged)
    for name, value in (("tools", tools), (DOCUMENTS, settings.get(DOCUMENTS))):
        if forged := held(value, special):
            raise _forgery(name, forged)


def _forgery(where: str, forged: str, what_to_do: str = REMOVE) -> ValueError:
    return ValueError(
        f"{where} holds the special token {forged!r}, which the model would read as markup; it was "
        f"trained without such rows. {what_to_do}, or have it read as ordinary text: load the "
        "model with special_tokens_in_text='encode', or start its server with "
        "--special-tokens-in-text encode"
    )
