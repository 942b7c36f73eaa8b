"""Token ids of every pair that fits, in Arrow."""

from tasks.tokenization.encode import Encoder, shared_prefix_length
from tasks.tokenization.params import TokenizationParams

__all__ = ["Encoder", "TokenizationParams", "shared_prefix_length"]
