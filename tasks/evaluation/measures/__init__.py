"""Figures, each computed from the tables alone."""
