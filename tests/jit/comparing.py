"""Compares results of programs: nested lists, tuples and dicts of tensors and numbers."""

import edutorch as torch


def same(a, b, tolerance=0.0):
    """Return True if two results are equal, tensors up to a tolerance."""
    if isinstance(a, torch.Tensor):
        if not isinstance(b, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
            return False
        if not tolerance:
            return torch.equal(a, b)
        return not a.numel() or float((a.double() - b.double()).abs().max()) <= tolerance
    if isinstance(a, list | tuple):
        is_sequence = isinstance(b, tuple if isinstance(a, tuple) else list) and len(a) == len(b)
        return is_sequence and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], tolerance) for key in a)
    if tolerance and isinstance(a, float):
        return abs(a - b) <= tolerance
    return a == b and type(a) is type(b)


def copied(values):
    """Return inputs copied, for a program that writes into them."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]
