"""`edutorch.compile`: a function is captured once, compiled, and replayed without Python per op.

The package has another name than the function, because a package called `compile` would shadow it.
"""

from __future__ import annotations

from .compiled_function import Compiled, OptimizedModule, compile

__all__ = ["Compiled", "OptimizedModule", "compile"]
