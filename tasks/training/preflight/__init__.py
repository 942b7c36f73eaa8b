"""The first minute of a run: a rehearsal on the longest batch, its forecast, memory in pieces."""
