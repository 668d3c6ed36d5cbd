"""Backward, one node at a time."""
