"""The modules `torch.utils.data._utils.collate` and `.worker`, from which PyTorch code imports."""

from __future__ import annotations

import sys

from . import collate
from . import fetch as worker

__all__ = ["collate", "worker"]

# With a path, empty or not, a module counts as a package: `import ..._utils.collate` then finds the
# submodules where they are registered.
__path__: list[str] = []
for _name in __all__:
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
