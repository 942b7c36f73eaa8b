"""What templating asks of a tokenizer, without transformers, whose import costs seconds.

In:  a tokenizer's directory, or a tokenizer of transformers.
Out: its special tokens, its chat template and the rendering of conversations by it; picklable.

It is read from the files alone where these define it completely: a plain `tokenizer.json` that no
class of transformers changes on loading. Other tokenizers are loaded by transformers once, and what
templating needs of them is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tasks.templating.environment import compiled, with_reasoning
from tasks.templating.template import CHAT_TEMPLATE_FILE, read_template
from tasks.templating.tokenizer.loaded import loaded
from tasks.templating.tokenizer.plain_files import plain_files
from tasks.templating.tokenizer.tokenizer_file import TokenizerFile, tokenizer_file

PROBE = "a"
SAME = -1
SILENT = (None, "ByteLevel")
"""Post-processors that put nothing around a text."""
UNUSED = frozenset(
    {"padding", "truncation", "max_length", "return_tensors", "return_dict", "tokenizer_kwargs"}
)
"""Arguments of transformers' apply_chat_template that say nothing about the text."""


@dataclass(frozen=True)
class Flagged:
    """An added token that is special."""

    content: str
    special: bool = True

    def __str__(self) -> str:
        return self.content


@dataclass
class PlainTokenizer:
    """Takes the place of a tokenizer of transformers in the functions of this stage."""

    chat_template: Any
    special_tokens_map: Mapping[str, str]
    all_special_tokens: tuple[str, ...]
    flagged: tuple[str, ...]
    bos_token_id: int | None
    eos_token_id: int | None
    cls_token_id: int | None
    probe_ids: Mapping[bool, list[int]]
    """Ids of `PROBE` with and without the tokenizer's own special tokens; `[SAME]` for both where
    there is no difference."""
    is_fast: bool = True

    @property
    def bos_token(self) -> str | None:
        """The token that begins a text."""
        return self.special_tokens_map.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        """The token that ends a text."""
        return self.special_tokens_map.get("eos_token")

    @property
    def cls_token(self) -> str | None:
        """The token that an encoder's tokenizer begins a text with."""
        return self.special_tokens_map.get("cls_token")

    @property
    def added_tokens_decoder(self) -> dict[int, Flagged]:
        """The added tokens that are special, numbered from 0 (not by their ids)."""
        return dict(enumerate(map(Flagged, self.flagged)))

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        """The ids of the one text that is asked for."""
        assert text == PROBE, "all that templating encodes"
        return {"input_ids": list(self.probe_ids[add_special_tokens])}

    def apply_chat_template(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None = None,
        documents: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        tokenize: bool = False,
        **settings: Any,
    ) -> str:
        """The text of a conversation; raises what the template raises, and TypeError."""
        assert not continue_final_message, "whole conversations only"
        assert not tokenize, "text only"
        if tools is not None and not all(isinstance(tool, dict) for tool in cast(list[Any], tools)):
            raise ValueError("a tool is no object; expected a JSON schema")
        for message in messages:
            if not isinstance(message, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"a message is no object: {message!r}")
        others = {name: item for name, item in settings.items() if name not in UNUSED}
        return compiled(self.chat_template).render(
            messages=with_reasoning(messages),
            tools=tools,
            documents=documents,
            add_generation_prompt=add_generation_prompt,
            **{**self.special_tokens_map, **others},
        )


def plain_tokenizer(directory: Path) -> PlainTokenizer:
    """The tokenizer in a directory.

    Raises:
        ModelError: transformers, which is needed for it, does not load it.
        TemplateError: its chat template is not UTF-8.
    """
    file = tokenizer_file(directory)
    files = file and plain_files(directory, file)
    return _from_files(directory, file, *files) if file and files else _loaded(directory)


def _from_files(
    directory: Path, file: TokenizerFile, added: dict[str, Any], named: dict[str, str]
) -> PlainTokenizer:
    path = directory / CHAT_TEMPLATE_FILE
    ids = {name: int(added[text]["id"]) for name, text in named.items()}
    return PlainTokenizer(
        read_template(path) if path.is_file() else None,
        named,
        tuple(dict.fromkeys(named.values())),
        tuple(text for text, token in added.items() if token["special"]),
        ids.get("bos_token"),
        ids.get("eos_token"),
        ids.get("cls_token"),
        _probe_ids(file),
    )


def _probe_ids(file: TokenizerFile) -> Mapping[bool, list[int]]:
    """`PlainTokenizer.probe_ids`; the encoder, slow to build, is used only where a post-processor
    may add tokens."""
    if _adds_nothing(file.parts["post_processor"]):
        return {True: [SAME], False: [SAME]}
    return {own: file.backend.encode(PROBE, add_special_tokens=own).ids for own in (True, False)}


def _adds_nothing(part: Any) -> bool:
    """Whether a post-processor surely puts no token around a text."""
    kind = part and part.get("type")
    if kind == "Sequence":
        return all(map(_adds_nothing, part["processors"]))
    return kind in SILENT


def _loaded(directory: Path) -> PlainTokenizer:
    """The tokenizer as transformers loads it."""
    whole = loaded(directory)
    flagged = tuple(str(t) for t in whole.added_tokens_decoder.values() if t.special)
    ids = {w: list(whole(PROBE, add_special_tokens=w)["input_ids"]) for w in (True, False)}
    return PlainTokenizer(
        whole.chat_template,
        dict(whole.special_tokens_map),
        tuple(str(token) for token in whole.all_special_tokens),
        flagged,
        whole.bos_token_id,
        whole.eos_token_id,
        whole.cls_token_id,
        ids,
        bool(whole.is_fast),
    )
