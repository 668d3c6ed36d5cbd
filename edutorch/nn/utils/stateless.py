"""Calling a module with other tensors as its parameters, as `func.functional_call` does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...core.tensor import Tensor
from ...errors import EdutorchError, warn
from ..modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other tensors as its parameters and buffers.

    Args: as for `func.functional_call`.
    """
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated. Please use "
        "`torch.func.functional_call` instead."
    )
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


class UnknownNameError(EdutorchError, RuntimeError):
    """A name is not that of a parameter or buffer of the module."""


@contextmanager
def reparametrize_module(
    module: Module, tensors: Mapping[str, Tensor], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """Replace parameters and buffers by other tensors inside a `with` block."""
    locations = {
        f"{path}.{name}" if path else name: (registry, name)
        for path, submodule in module.named_modules(remove_duplicate=False)
        for registry in (submodule._parameters, submodule._buffers)
        for name in registry
    }
    unknown = [name for name in tensors if name not in locations]
    missing = [name for name in locations if name not in tensors] if strict else []
    if unknown or missing:
        rows = {"unexpected": ", ".join(unknown), "missing": ", ".join(missing)}
        raise UnknownNameError(
            "functional_call",
            f"Error(s) in the names of tensors for {type(module).__name__}",
            {key: text for key, text in rows.items() if text},
            "the names are those of dict(module.named_parameters())",
        )
    replacements = dict(tensors)
    if tie_weights:
        by_id = {
            id(locations[name][0][locations[name][1]]): value for name, value in tensors.items()
        }
        for name, (registry, key) in locations.items():
            tensor = registry[key]
            if tensor is not None and id(tensor) in by_id:
                replacements.setdefault(name, by_id[id(tensor)])
    originals = {name: locations[name][0][locations[name][1]] for name in replacements}
    try:
        for name, value in replacements.items():
            registry, key = locations[name]
            registry[key] = value  # type: ignore[assignment]
        yield
    finally:
        for name, value in originals.items():
            registry, key = locations[name]
            registry[key] = value  # type: ignore[assignment]
