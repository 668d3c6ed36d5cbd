"""Tensors as pictures."""
