"""Words for networks: vocabularies, tokenizers, data sets and models, with torchtext's names.

    from edutorch.text import data, models, tokenizers, vocab

Each submodule is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_SUBMODULES = (
    "data", "datasets", "functional", "legacy", "models", "tokenizers", "transforms", "utils",
    "vocab",
)  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    """Load a submodule: `edutorch.text.vocab`."""
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
