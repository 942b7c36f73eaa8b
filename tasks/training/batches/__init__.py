"""Pairs on their way into the model: read, tokenized where raw, kept together, collated, cut."""
