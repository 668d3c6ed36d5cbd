"""Calls of collectives, as a record has them."""

from edutorch.distributed.recorder import Call


def call(number: int, start: float, end: float, name: str = "all_reduce") -> Call:
    return Call(number, 0, end > 0, False, 4, start, end, name, "float32", "train.py:3")
