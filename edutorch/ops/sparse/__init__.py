"""Sparse tensors: a pattern of indices and the values at them (see README.md)."""
