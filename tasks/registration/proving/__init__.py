"""A version is what was trained: packed, downloaded, scored again by somebody who has only that."""
