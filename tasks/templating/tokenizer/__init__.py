"""What templating asks of a tokenizer: its file, its special tokens, what it puts around texts."""
