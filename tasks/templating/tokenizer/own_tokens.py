"""The special tokens that a tokenizer itself puts around a text, and the one that is missing there.

    decoder   <s> text         an EOS is put at the end of the text: "text</s>"
    encoder   [CLS] text [SEP] it ends texts itself: nothing is put there

Travels inside the registered model: it may import only modules that travel with it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.templating.tokenizer.special_tokens import Literals, SpecialTokens

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BEGINNINGS = ("bos_token", "cls_token")


@dataclass(frozen=True)
class OwnTokens:
    """What a tokenizer puts around a text, and what closes a text before it is tokenized."""

    bos: str | None
    """The BOS that it puts before every text, or BERT's [CLS]; None where it puts neither."""
    bos_name: str
    """What a chat template calls it: `bos_token` or `cls_token`."""
    eos: str | None
    closes: bool
    """Whether it ends every text itself: in its EOS or, having none, in another (BERT: [SEP])."""

    @property
    def end(self) -> str:
        """What closes a text before the tokenizer gets it."""
        return "" if self.closes else self.eos or ""

    def closed(self, text: str) -> str:
        """The text, closed, where special tokens in it are markup: its own BOS or EOS is not
        doubled."""
        text = text.removeprefix(self.bos or "")
        if self.closes:
            return text.removesuffix(self.eos or "")
        return text if text.endswith(self.end) else text + self.end

    def with_literals(
        self, text: str, special: SpecialTokens | None
    ) -> tuple[str, Literals, str | None]:
        """The text, closed, where it is literal, and a special token in the row's own words.

        Without such a token nothing is literal. `special`: None where such tokens are markup.
        """
        if special is None:
            return self.closed(text), (), None
        closed, literals = text + self.end, (0, len(text))
        forged = special.forged(closed, literals)
        return closed, () if forged is None else literals, forged


def own_tokens(tokenizer: Any) -> OwnTokens:
    """What this tokenizer puts around a text."""
    whole, bare = (list(tokenizer("a", add_special_tokens=a)["input_ids"]) for a in (True, False))
    first = whole[0] if whole[:1] != bare[:1] else None
    names = [n for n in BEGINNINGS if first is not None and getattr(tokenizer, f"{n}_id") == first]
    bos, name = (getattr(tokenizer, names[0]), names[0]) if names else (None, BEGINNINGS[0])
    closes = whole[-1:] != bare[-1:] and tokenizer.eos_token_id in (None, whole[-1])
    return OwnTokens(bos, name, tokenizer.eos_token, closes)


def end_of(ids: "npt.NDArray[np.int32]", most: int, tokenizer: Any) -> "npt.NDArray[np.int32]":
    """The last `most` ids, of which the first is still the [CLS] of a sequence that begins with it:
    there an encoder reads its reward."""
    import numpy as np

    if len(ids) <= most:
        return ids
    begins = int(ids[0] == tokenizer.cls_token_id)
    return np.concatenate([ids[:begins], ids[len(ids) - most + begins :]])
