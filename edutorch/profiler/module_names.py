"""Names of modules: their paths in the outermost module that was called first."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary


class ModuleNames:
    """Names of modules, computed when one is first entered. No module is kept alive."""

    def __init__(self) -> None:
        self._paths: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def name(self, module: Any) -> str:
        """Return a name such as 'features.0 (Conv2d)', or 'Net' for the outermost."""
        path = self._paths.get(module)
        if path is None:
            for below, submodule in module.named_modules():
                if not self._paths.get(submodule):
                    self._paths[submodule] = below
            path = self._paths[module]
        class_name = type(module).__name__
        return f"{path} ({class_name})" if path else class_name
