"""Checks before the first step: a trial step on the longest batch, and the forecast of time, memory
and disk from it; smaller micro-batches where memory runs out."""
