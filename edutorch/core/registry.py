"""The registry of all ops by name, for the core, which cannot import the ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .op import Op

REGISTRY: dict[str, Op] = {}


def op_function(name: str) -> Any:
    """Return the public function of an op."""
    return REGISTRY[name].function
