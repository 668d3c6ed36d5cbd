"""Modules as functions of their parameters, so that these can be differentiated by."""

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
    """A name fits no parameter and no buffer of the module."""


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in the places of its parameters and buffers.

    Args:
        parameter_and_buffer_dicts: tensors by name, as in `named_parameters()`; or several
            such dicts. What is not named stays as it is.
        args: a tuple of arguments, or a single one.
        tie_weights: a tensor that has two names is replaced under both.
        strict: refuse unknown names, and missing ones.

    Raises: UnknownNameError (a RuntimeError): a name that the module does not have.

    >>> layer = nn.Linear(1, 1)
    >>> other = {"weight": tensor([[2.0]]), "bias": tensor([0.5])}
    >>> func.functional_call(layer, other, tensor([3.0]))
    tensor([6.5000])
    """
    given = parameter_and_buffer_dicts
    dicts = [given] if isinstance(given, Mapping) else list(given)
    tensors: dict[str, Tensor] = {}
    for dict_ in dicts:
        twice = tensors.keys() & dict_.keys()
        if twice:
            raise ValueError(f"{sorted(twice)} appear in multiple dictionaries")
        tensors |= dict_
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrize_module(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def reparametrize_module(
    module: Module, tensors: Mapping[str, Tensor], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """Put tensors in the places of parameters and buffers for a `with` block."""
    places = {
        f"{path}.{name}" if path else name: (registry, name)
        for path, part in module.named_modules(remove_duplicate=False)
        for registry in (part._parameters, part._buffers)
        for name in registry
    }
    unknown = [name for name in tensors if name not in places]
    missing = [name for name in places if name not in tensors] if strict else []
    if unknown or missing:
        rows = {"unexpected": ", ".join(unknown), "missing": ", ".join(missing)}
        raise UnknownNameError(
            "functional_call",
            f"Error(s) in the names of tensors for {type(module).__name__}",
            {key: text for key, text in rows.items() if text},
            "the names are those of dict(module.named_parameters())",
        )
    chosen = dict(tensors)
    if tie_weights:
        owners = {id(places[name][0][places[name][1]]): value for name, value in tensors.items()}
        for name, (registry, key) in places.items():
            held = registry[key]
            if held is not None and id(held) in owners:
                chosen.setdefault(name, owners[id(held)])
    before = {name: places[name][0][places[name][1]] for name in chosen}
    try:
        for name, value in chosen.items():
            registry, key = places[name]
            registry[key] = value  # type: ignore[assignment]
        yield
    finally:
        for name, value in before.items():
            registry, key = places[name]
            registry[key] = value  # type: ignore[assignment]


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of models of one kind, stacked along a new dim 0.

    Raises: RuntimeError: no models, or of several classes, or in several modes.

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
    """Return `func` as it is: writes in place are followed here, nothing has to be removed.

    (In PyTorch it rewrites a function without in-place operations for compilers.)

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
    """Return the tensor itself: inside of `grad` and `jvp` there are ordinary tensors here.

    >>> func.debug_unwrap(tensor(1.0))
    tensor(1.)
    """
    return tensor
