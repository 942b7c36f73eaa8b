"""How a micro-batch lies in memory (flat rows without padding) and how batches are divided.

plan, grouping           where each sequence lies in the flat row; which share a prompt
on_device, attention     the plan as tensors, and attention over it:
blocks, chunks, ragged   on CPUs by chunks of queries, on GPUs by one variable-length call
pruning                  the last layer computes only the rows that rewards are read at
support, choice          for which models all of this is exact; which layout a run uses
rectangle                padded batches, for all other models
lengths, dealing         what items cost in tokens, and how a global batch is divided by that
loader, stream           data loaders of divided batches and of divided streams
"""
