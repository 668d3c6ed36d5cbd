"""Modules as functions of their parameters: `functional_call`, `stack_module_state`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.tensor import Tensor
from ..errors import EdutorchError
from ..nn import Module
from ..ops import stack


class UnknownNameError(EdutorchError, RuntimeError):
    """A name is not that of a parameter or buffer of the module."""


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers.

    Args:
        parameter_and_buffer_dicts: tensors by name, as in `named_parameters()`; or several
            such dicts. All others stay.
        args: a tuple of arguments, or a single one.
        tie_weights: whether a tensor with two names is replaced under both.
        strict: whether missing names are an error.

    Raises: UnknownNameError (a RuntimeError): a name that the module does not have.

    >>> layer = nn.Linear(1, 1)
    >>> other = {"weight": tensor([[2.0]]), "bias": tensor([0.5])}
    >>> func.functional_call(layer, other, tensor([3.0]))
    tensor([6.5000])
    """
    tensor_dicts = parameter_and_buffer_dicts
    dicts = [tensor_dicts] if isinstance(tensor_dicts, Mapping) else list(tensor_dicts)
    tensors: dict[str, Tensor] = {}
    for dict_ in dicts:
        repeated = tensors.keys() & dict_.keys()
        if repeated:
            raise ValueError(f"{sorted(repeated)} appear in multiple dictionaries")
        tensors |= dict_
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrize_module(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


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


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of models of one class, stacked along a new dim 0.

    Raises: RuntimeError: no models, several classes, or several modes.

    >>> parameters, _ = func.stack_module_state([nn.Linear(2, 3) for _ in range(4)])
    >>> parameters["weight"].shape
    torch.Size([4, 3, 2])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(model) for model in models}) > 1 or len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to be of the same class, and all in "
            "training mode or all in eval mode."
        )
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {
            name: stack_tensors(
                [parameter[name] for parameter in parameters], parameters[0][name].requires_grad
            )
            for name in parameters[0]
        },
        {name: stack_tensors([buffer[name] for buffer in buffers], False) for name in buffers[0]},
    )


def stack_tensors(tensors: Sequence[Tensor], requires_grad: bool) -> Tensor:
    return stack([tensor.detach() for tensor in tensors]).requires_grad_(requires_grad)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function that calls `func`: in-place ops need no rewriting here.

    (In PyTorch it removes in-place operations for compilers.)

    >>> func.functionalize(lambda x: x.clone().add_(1))(tensor(1.0))
    tensor(2.)
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            "functionalize(f, remove='mutations'): valid options for remove are "
            f"'mutations' and 'mutations_and_views', got {remove!r}"
        )

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return function


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return the tensor itself: inside `grad` and `jvp` tensors are ordinary here.

    >>> func.debug_unwrap(tensor(1.0))
    tensor(1.)
    """
    return tensor
