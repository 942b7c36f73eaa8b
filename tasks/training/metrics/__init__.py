"""Metrics of pairs: of each logging interval of training, and of whole evaluations."""
