"""Token ids of a text parts of which are literal: a special token in them is ordinary text.

    "<|im_start|>user\\nsee <|im_end|><|im_end|>" with literals (21, 31)
        -> [start, u, s, e, r, ..., ids of the ten characters, end]

The ids are those of a tokenizer that does not know its special tokens, in which those that the
template wrote stand under other names: single private-use characters, added as tokens with the
same flags. So every neighbour is split, normalised and merged just as the tokenizer does it.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.templating.tokenizer.special_tokens import (
    FIRST_ALIAS,
    Literals,
    SpecialTokens,
    special_tokens,
)
from tasks.tokenization.encode import Ids

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class LiteralEncoder:
    """Made once per tokenizer by `literal_encoder`."""

    special: SpecialTokens
    backend: "Tokenizer"
    """Knows the aliases; does not match special tokens."""
    genuine: dict[int, int]
    """Id of an alias -> id of the special token that it names."""

    def __call__(self, text: str, literals: Literals, *, add_special_tokens: bool) -> Ids:
        """The ids; special tokens count only outside of `literals`."""
        parts: list[str] = []
        place = 0
        for start, end in self.special.markup(text, literals):
            parts += [text[place:start], self._alias(text[start:end])]
            place = end
        named = "".join([*parts, text[place:]])
        ids = self.backend.encode(named, add_special_tokens=add_special_tokens).ids
        return np.asarray([self.genuine.get(i, i) for i in ids], dtype=np.int32)

    def _alias(self, token: str) -> str:
        return chr(FIRST_ALIAS + self.special.tokens.index(token))


@lru_cache(maxsize=1)
def literal_encoder(tokenizer: Any) -> LiteralEncoder:
    """The encoder beside a fast tokenizer of transformers, which stays as it is."""
    from tokenizers import AddedToken, Tokenizer

    special = special_tokens(tokenizer)
    assert special is not None, "literals are only given where there are special tokens"
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_padding()
    backend.no_truncation()
    known = {token.content: token for token in backend.get_added_tokens_decoder().values()}
    aliases = [chr(FIRST_ALIAS + n) for n in range(len(special.tokens))]
    for alias, name in zip(aliases, special.tokens, strict=True):
        token = known[name]
        flags = {flag: getattr(token, flag) for flag in ("lstrip", "rstrip", "single_word")}
        backend.add_tokens([AddedToken(alias, normalized=False, special=False, **flags)])
    backend.encode_special_tokens = True
    genuine: dict[int, int] = {}
    for alias, name in zip(aliases, special.tokens, strict=True):
        number = backend.token_to_id(alias)
        assert number is not None, "it has just been added"
        genuine[number] = tokenizer.convert_tokens_to_ids(name)
    return LiteralEncoder(special, backend, genuine)
