"""Losses of pairs and of ranked answers, their params, and the rows that they need."""
