"""The second pass: pairs of all shards are compared with each other, and some are dropped."""
