"""How a micro-batch lies in memory: flat rows without padding, prompts computed once.

plan, grouping           where each sequence lies in the flat row; which share a prompt
on_device, attention     the plan as tensors, and attention over it:
blocks, chunks, ragged   on CPUs by chunks of queries, on GPUs by one variable-length call
pruning                  the last layer computes only the rows that rewards are read at
support, choice          for which models all of this is exact; which layout a run uses
rectangle                padded batches, for all other models
lengths, dealing         what items cost, and how a global batch is divided by these costs
loader, stream           data loaders of divided batches and of shared streams
"""
