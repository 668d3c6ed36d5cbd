"""The table of translations: one short entry for each function of programs.

    @entry("op:relu")
    def relu(b, node, input):
        return b.op("Relu", input)

An entry gets the builder, the node of the program, and the node's arguments, with ONNX values in
place of nodes. It returns a value, or a tuple of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...export.translation import Unsupported, registrar

__all__ = ["TABLE", "Unsupported", "entry"]

Entry = Callable[..., Any]

TABLE: dict[str, Entry] = {}
"""The entries by the name of the function: "op:relu", "new:zeros", "numpy:exp"."""


entry = registrar(TABLE)
"""Registers an entry for functions of some names."""
