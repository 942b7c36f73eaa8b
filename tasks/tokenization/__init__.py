"""Token ids of every pair that fits, in Arrow."""

from tasks.tokenization.params import TokenizationParams

__all__ = ["TokenizationParams"]
