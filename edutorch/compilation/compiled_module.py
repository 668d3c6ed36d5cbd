"""A compiled module: a wrapper around the original module."""

from __future__ import annotations

from typing import Any

from ..nn import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """Runs a module compiled. Everything else is delegated to the module itself, `_orig_mod`."""

    def __init__(self, mod: Module, compiled: Any) -> None:
        super().__init__()
        self._orig_mod = mod
        self.__dict__["_compiled"] = compiled
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled module."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("_modules", {}).get("_orig_mod")
        if module is None or name == "_orig_mod":
            if module is None:
                raise AttributeError(name)
            return module
        return getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__ or name == "_orig_mod":
            super().__setattr__(name, value)
        elif name == "training":
            self.__dict__["training"] = value
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Any:
        return self._orig_mod[index]  # type: ignore[index]

    def __deepcopy__(self, memo: dict[int, Any]) -> OptimizedModule:
        import copy

        module = copy.deepcopy(self._orig_mod, memo)
        return OptimizedModule(module, self.__dict__["_compiled"].copy_for(module))

    def __reduce__(self) -> Any:
        return OptimizedModule.rebuilt, (self._orig_mod, self.__dict__["_compiled"].settings)

    @staticmethod
    def rebuilt(module: Module, settings: dict[str, Any]) -> OptimizedModule:
        """Compile a module again after unpickling or copying."""
        from .frontend import compile

        return compile(module, **settings)

    def __repr__(self) -> str:
        body = repr(self._orig_mod).replace("\n", "\n  ")
        return f"OptimizedModule(\n  (_orig_mod): {body}\n)"
