"""`edutorch.compile`: capture once, replay without Python per op.

`frontend.py` is the function `edutorch.compile`; the package has another name, since a
package called `compile` would hide it.
"""

from __future__ import annotations

from .compiled_function import Compiled
from .frontend import compile
from .compiled_module import OptimizedModule

__all__ = ["Compiled", "OptimizedModule", "compile"]
