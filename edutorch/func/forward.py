"""Forward mode as functions: tangents travel along with the values (see `core/forward.py`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.forward import Level, set_tangent, tangent_of, with_tangents, zeros_as
from ..core.tensor import Tensor
from ..errors import GradientError, ShapeError
from ..modes import changed, current
from ..ops import reshape, stack
from ..utils._pytree import tree_unflatten
from .arguments import Argnums, Chosen, Function, split_aux, tensors_of
from .reverse import jacrev


def pushed(
    name: str, call: Callable[[list[Tensor]], Any], primals: Sequence[Tensor],
    tangents: Sequence[Tensor], has_aux: bool, strict: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the output of `call`, its tangents, and what it returned besides."""
    level = Level()
    duals = [dual(each, tangent, level) for each, tangent in zip(primals, tangents, strict=True)]
    with changed(levels=(*current().levels, level)):
        output, aux = split_aux(name, call(duals), has_aux)
    outputs, spec = tensors_of(name, output)
    moved = [tangent_of(each, level) for each in outputs]
    if strict and any(each is None for each in moved):
        raise GradientError(
            name,
            "The output of f is independent of the inputs. This is not allowed with strict=True.",
        )
    values = [still(each, level) for each in outputs]
    filled = [zeros_as(y) if t is None else t for y, t in zip(outputs, moved, strict=True)]
    return tree_unflatten(values, spec), tree_unflatten(filled, spec), aux


def dual(tensor: Tensor, tangent: Tensor, level: Level) -> Tensor:
    """Return a tensor of the same memory and past that moves along `tangent`."""
    from ..autograd.forward_ad import another

    moving = with_tangents(another(tensor), tensor)
    set_tangent(moving, level, tangent)
    return moving


def still(tensor: Tensor, level: Level) -> Tensor:
    """Return a tensor without its tangent of one level."""
    set_tangent(tensor, level, None)
    return tensor


def jvp(
    func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """Return func(*primals), and how it moves when the primals move along the tangents: J t.

    Args:
        primals: a tuple of tensors, or of trees of them; `tangents` is alike.
        strict: refuse an output that does not depend on the primals.
        has_aux: `func` returns (output, aux), and this (output, moved, aux).

    Raises: GradientError, TypeError, ShapeError: the tangents do not fit.

    >>> jvp(lambda x: x * x, (tensor([1.0, 2.0]),), (tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    for name, each in (("primals", primals), ("tangents", tangents)):
        if not isinstance(each, tuple):
            raise GradientError("jvp", f"Expected {name} to be a tuple, got {type(each).__name__}")
    if not primals:
        raise GradientError("jvp", "Expected primals to be a non-empty tuple")
    chosen = Chosen("jvp", primals, tuple(range(len(primals))))
    moving, spec = tensors_of("jvp", tangents)
    if spec != chosen.spec:
        raise GradientError(
            "jvp", "Expected primals and tangents to have the same python structure",
            {"primals": chosen.spec, "tangents": spec},
        )  # fmt: skip
    for each, tangent in zip(chosen.tensors, moving, strict=True):
        if each.shape != tangent.shape:
            raise ShapeError(
                "jvp", "a tangent has the shape of its tensor",
                {"primal": tuple(each.shape), "tangent": tuple(tangent.shape)},
            )  # fmt: skip
    output, moved, aux = pushed(
        "jvp", lambda duals: chosen.call(func, {}, duals), chosen.tensors, moving, has_aux, strict
    )
    return (output, moved, aux) if has_aux else (output, moved)


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """Return the function of all partial derivatives: J[i, j] = ∂yᵢ/∂xⱼ, a column per forward.

    Args:
        argnums: by which arguments; a tuple gives a tuple of Jacobians.
        has_aux: `func` returns (output, aux), and the function (Jacobian, aux).
        randomness: accepted; the columns are computed one by one.

    >>> jacfwd(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        chosen = Chosen("jacfwd", args, argnums)
        columns: list[list[Tensor]] = []
        spec: Any = None
        aux = output = None
        for tangents in directions(chosen.tensors):
            output, moved, aux = pushed(
                "jacfwd", lambda duals: chosen.call(func, kwargs, duals),
                chosen.tensors, tangents, has_aux,
            )  # fmt: skip
            found, spec = tensors_of("jacfwd", moved)
            columns.append(found)
        if not columns:  # the inputs are empty
            result, aux = split_aux("jacfwd", func(*args, **kwargs), has_aux)
            found, spec = tensors_of("jacfwd", result)
            columns = []
        else:
            found, _ = tensors_of("jacfwd", output)
        by_output = [
            chosen.tree(by_input(each, [c[i] for c in columns], chosen.tensors))
            for i, each in enumerate(found)
        ]
        result = tree_unflatten(by_output, spec)
        return (result, aux) if has_aux else result

    return function


def directions(tensors: Sequence[Tensor]) -> Any:
    """Yield tangents for all tensors: along one number of one of them, each in turn."""
    for which, tensor in enumerate(tensors):
        for index in range(tensor.numel()):
            tangents = [zeros_as(each) for each in tensors]
            tangents[which]._array.reshape(-1)[index] = 1
            yield tangents


def by_input(output: Tensor, columns: list[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Arrange the columns of a Jacobian by inputs, each shaped (*output, *input)."""
    found = []
    for each in inputs:
        count, shape = each.numel(), (*output.shape, *each.shape)
        part, columns = columns[:count], columns[count:]
        found.append(reshape(stack(part, -1), shape) if part else output.new_zeros(shape))
    return found


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """Return the function of all second derivatives: forward mode over reverse mode.

    >>> hessian(lambda x: (x ** 3).sum())(tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """Return func(*primals), and the function t ↦ J t of its tangents.

    >>> y, move = linearize(lambda x: x * x, tensor([1.0, 2.0]))
    >>> move(tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """

    def move(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), move
