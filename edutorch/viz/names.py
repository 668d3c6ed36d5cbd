"""What things are called: parameters by their module, other tensors by their variable."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..errors import EdutorchError
from .graph import NodeKind

if TYPE_CHECKING:
    from ..nn import Module

Variables = Iterable[tuple[str, Any]]

LIBRARY = "edutorch."


class NotAModelError(EdutorchError, TypeError):
    """Something other than a module was to be watched."""


class Names:
    """Looks up names in `models`, and then among the variables of `frame`.

    With several models, each path begins with the variable that holds its model.
    """

    def __init__(self, models: Iterable[Module] = (), frame: FrameType | None = None) -> None:
        self.models: list[Module] = []  # kept alive: the ids below are theirs
        self.frame = frame
        self.modules: dict[int, str] = {}
        self.classes: dict[str, str] = {}
        self._leaves: dict[int, tuple[NodeKind, str, str]] = {}
        models = list(models)
        for model in models:
            self.learn(model, self._called(model) if len(models) > 1 else "")

    def learn(self, model: Module, prefix: str | None = None) -> None:
        """Take the names from `model`. From the second model on, paths begin with its name."""
        if prefix is None:
            prefix = self._called(model) if self.models else ""
        if not hasattr(model, "named_modules"):
            raise NotAModelError(
                "viz.live",
                f"expected a module, got {type(model).__name__}",
                hint="viz.live(model), or viz.live() to watch whatever runs in the block",
            )
        self.models.append(model)
        for path, module in model.named_modules():
            path = ".".join(part for part in (prefix, path) if part)
            self.modules[id(module)] = path
            self.classes[path] = type(module).__name__
        for path, tensor in model.named_parameters():
            self._leaves[id(tensor)] = "parameter", *_split(prefix, path)
        for path, tensor in model.named_buffers():
            self._leaves[id(tensor)] = "buffer", *_split(prefix, path)

    def name(self, tensor: Any, name: str) -> None:
        """Call a leaf by this name, whatever it is called elsewhere."""
        kind, module, _ = self.of(tensor)
        self._leaves[id(tensor)] = kind, module, name

    def _called(self, model: Module) -> str:
        found = (name for name, value in variables(self.frame) if value is model)
        return next(found, type(model).__name__)

    def of(self, tensor: Any) -> tuple[NodeKind, str, str]:
        """Return kind, module path and name of a leaf `tensor`."""
        found = self._leaves.get(id(tensor))
        if found is not None:
            return found
        from ..nn import Parameter

        kind: NodeKind = "parameter" if isinstance(tensor, Parameter) else "leaf"
        fallback = "leaf" if tensor.requires_grad else "data"
        return kind, "", self.variable_of(tensor) or self._local_name(tensor) or fallback

    def variable_of(self, tensor: Any) -> str:
        """Return the name of the variable that holds a tensor where names are looked up, or ""."""
        return next((name for name, value in variables(self.frame) if value is tensor), "")

    def _local_name(self, tensor: Any) -> str:
        """Return the name of a tensor in the functions that run now, the innermost first.

        Of the library, only the arguments of a layer's `forward` are names a reader knows.
        """
        layer_name = ""
        frame = None if self.frame is None else sys._getframe(1)
        while frame is not None and frame is not self.frame:
            is_library = frame.f_globals.get("__name__", "").startswith(LIBRARY)
            if not is_library or (frame.f_code.co_name == "forward" and not layer_name):
                held = (name for name, value in frame.f_locals.items() if value is tensor)
                name = next(filter(is_written, held), "")
                if name and not is_library:
                    return name
                layer_name = layer_name or name
            frame = frame.f_back
        return layer_name


def _split(prefix: str, path: str) -> tuple[str, str]:
    """Return the module's path and the name in it: ("", "layers.0.weight") -> layers.0, weight."""
    module, _, name = f"{prefix}.{path}".rpartition(".")
    return module.strip("."), name


def variables(frame: FrameType | None) -> Variables:
    """Yield the variables a reader of the code in `frame` would know, innermost first."""
    if frame is None:
        return
    scopes: tuple[Mapping[str, Any], ...] = (
        (frame.f_locals,)
        if frame.f_locals is frame.f_globals
        else (frame.f_locals, frame.f_globals)
    )
    for scope in scopes:
        for name, value in list(scope.items()):
            if is_written(name):
                yield name, value


def is_written(name: str) -> bool:
    """Return True for a name that somebody wrote: not "_", "__name__", or "@py_assert1"."""
    return name.isidentifier() and not name.startswith("_") and not name.endswith("_")


def models_among(found: Variables) -> list[Module]:
    """Return the models among variables: modules with parameters that no other contains."""
    from ..nn import Module

    modules = {id(value): value for _, value in found if isinstance(value, Module)}
    inner = {id(part) for each in modules.values() for part in each.modules() if part is not each}
    outer = (module for key, module in modules.items() if key not in inner)
    return [module for module in outer if any(True for _ in module.parameters())]
