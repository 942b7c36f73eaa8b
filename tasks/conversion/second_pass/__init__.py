"""The second pass: what the pairs of all shards say of each other, and which are left."""
