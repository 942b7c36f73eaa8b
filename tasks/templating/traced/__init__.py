"""A chat template run once with symbols in place of words: what it does to any words."""
