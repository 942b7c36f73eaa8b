"""Whole data sets of one type as those of another, by the names of the field's guide."""
