"""How a micro-batch lies in memory: flat rows without padding, prompts computed once.

`plan.py` lays sequences out, `attention.py` attends over the result, `pruning.py` leaves out what
no reward needs, `support.py` says for which models all of that is exact; `rectangle.py` pads for
the others. `lengths.py`, `dealing.py` and `loader.py` share a global batch out by what it costs.
"""
