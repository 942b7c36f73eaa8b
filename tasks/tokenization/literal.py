"""Token ids of a text with literal parts, in which a special token is ordinary text.

    "<|im_start|>user\\nsee <|im_end|><|im_end|>" with literals (21, 31)
        -> [start, u, s, e, r, ..., ids of the ten characters, end]

They come from a copy of the tokenizer that does not match special tokens. Those that the template
wrote are replaced by aliases: single private-use characters, added as tokens with the same flags.
So the text around them is split, normalised and merged as by the tokenizer itself. If a special
token is also a piece of the vocabulary (DeBERTa-v2, T5), the copy's piece gets another name.
"""

import json
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
    """Encodes texts with literal parts; made once per tokenizer by `literal_encoder`."""

    special: SpecialTokens
    backend: "Tokenizer"
    """Knows the aliases; does not match special tokens."""
    genuine: dict[int, int]
    """Id of an alias, or of an added token that has another id here -> the tokenizer's id."""

    def __call__(self, text: str, literals: Literals, *, add_special_tokens: bool) -> Ids:
        """The ids; special tokens are only matched outside of `literals`."""
        parts: list[str] = []
        place = 0
        for start, end in self.special.markup(text, literals):
            parts += [text[place:start], self._alias(text[start:end])]
            place = end
        named = "".join([*parts, text[place:]])
        found = self.backend.encode(named, add_special_tokens=add_special_tokens)
        own = found.special_tokens_mask  # of added tokens, whose ids are the tokenizer's
        ids = zip(found.ids, own, strict=True)
        return np.asarray([i if put else self.genuine.get(i, i) for i, put in ids], dtype=np.int32)

    def _alias(self, token: str) -> str:
        return chr(FIRST_ALIAS + self.special.tokens.index(token))


@lru_cache(maxsize=1)
def literal_encoder(tokenizer: Any) -> LiteralEncoder:
    """The encoder for a fast tokenizer of transformers, which is not changed."""
    from tokenizers import AddedToken

    special = special_tokens(tokenizer)
    assert special is not None, "literals are only given where there are special tokens"
    backend = _without_pieces(tokenizer.backend_tokenizer, special.tokens)
    backend.no_padding()
    backend.no_truncation()
    known = {token.content: token for token in backend.get_added_tokens_decoder().values()}
    aliases = [chr(FIRST_ALIAS + n) for n in range(len(special.tokens))]
    for alias, name in zip(aliases, special.tokens, strict=True):
        token = known[name]
        flags = {flag: getattr(token, flag) for flag in ("lstrip", "rstrip", "single_word")}
        backend.add_tokens([AddedToken(alias, normalized=False, special=False, **flags)])
    backend.encode_special_tokens = True
    named = dict(zip(aliases, special.tokens, strict=True))
    genuine = {
        number: tokenizer.convert_tokens_to_ids(named.get(token.content, token.content))
        for number, token in backend.get_added_tokens_decoder().items()
    }
    return LiteralEncoder(special, backend, genuine)


def _without_pieces(backend: "Tokenizer", names: tuple[str, ...]) -> "Tokenizer":
    """A copy whose model never makes these tokens from ordinary text; ids of pieces are the
    same."""
    from tokenizers import Tokenizer

    text = backend.to_str()
    if all(backend.model.token_to_id(name) is None for name in names):
        return Tokenizer.from_str(text)
    state = json.loads(text)
    model, hidden = state["model"], {name: chr(FIRST_ALIAS) + name for name in names}
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {hidden.get(p, p): number for p, number in vocabulary.items()}
    else:
        model["vocab"] = [[hidden.get(p, p), score] for p, score in vocabulary]
    if "merges" in model:  # without merges that make or use such a token
        pairs = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
        model["merges"] = [m for m in pairs if not {*m, "".join(m)} & hidden.keys()]
    if model.get("unk_token"):
        model["unk_token"] = hidden.get(model["unk_token"], model["unk_token"])
    return Tokenizer.from_str(json.dumps(state))
