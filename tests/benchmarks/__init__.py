"""Benchmarks: the peer and this project side by side. Not part of the tests; see `__main__.py`."""
