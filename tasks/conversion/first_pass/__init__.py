"""The first pass: the rows of one shard become pairs, and records of them."""
