"""Text as token ids, in batches, without Python touching an id.

Rendered conversations already have all special tokens; plain text gets those that the tokenizer
adds, such as a BOS.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Encoder:
    """Encodes texts with a tokenizer of transformers."""

    tokenizer: Any

    def __call__(self, texts: list[str], *, add_special_tokens: bool) -> list[Ids]:
        """One int32 array per text, never truncated, never padded."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            encoded = self.tokenizer(texts, add_special_tokens=add_special_tokens)["input_ids"]
            return [np.asarray(ids, dtype=np.int32) for ids in encoded]
        backend.no_padding()
        backend.no_truncation()
        encodings = backend.encode_batch_fast(texts, add_special_tokens=add_special_tokens)
        return [np.asarray(encoding.ids, dtype=np.int32) for encoding in encodings]
