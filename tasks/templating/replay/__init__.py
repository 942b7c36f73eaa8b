"""Conversations of a structure that was traced: their texts without the template."""
