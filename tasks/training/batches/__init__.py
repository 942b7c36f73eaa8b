"""Pairs on their way into the model: read, tokenized, checked, grouped, collated and split."""
