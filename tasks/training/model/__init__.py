"""The model that is trained: loaded with a known head, its family checked, adapters, tokenizer."""
