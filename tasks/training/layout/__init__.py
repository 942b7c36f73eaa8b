"""How a micro-batch lies in memory: flat rows without padding, prompts computed once.

`plan.py` lays sequences out, `attention.py` attends over the result, `pruning.py` leaves out what
no reward needs, `support.py` says for which models all of that is exact.
"""
