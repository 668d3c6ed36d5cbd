"""The table of translations into C++: one short entry for each function of programs.

    @entry("op:relu")
    def relu(node, input):
        return f"edu::relu<float>({input})"

An entry gets the node of the program and its arguments, with a `Value` or a `Scalar` in place of
nodes. It returns an expression; the functions of `edu::` are those in `runtime/`, and those that
`elementwise.py` writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..translation import Unsupported, registrar

__all__ = ["TABLE", "Unsupported", "entry"]

TABLE: dict[str, Callable[..., Any]] = {}
"""The entries by the name of the function: "op:relu", "new:zeros", "numpy:exp"."""

entry = registrar(TABLE)
"""Registers an entry for functions of some names."""
