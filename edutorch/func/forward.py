"""Forward mode as functions: tangents travel along with the values (see `core/autograd/forward_mode.py`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.autograd.forward_mode import Level, set_tangent, tangent_of, with_tangents, zeros_as
from ..core.tensor import Tensor
from ..errors import GradientError, ShapeError
from ..modes import override_modes, current
from ..ops import movedim, reshape
from ..utils._pytree import tree_flatten, tree_unflatten
from .arguments import Argnums, SelectedArguments, Function, split_aux, flatten_tensors
from .reverse import jacrev
from .vmap import vmap


def push_forward(
    name: str, call: Callable[[list[Tensor]], Any], primals: Sequence[Tensor],
    tangents: Sequence[Tensor], has_aux: bool, strict: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the output of `call`, its tangents, and what it returned besides."""
    level = Level()
    duals = [
        make_dual_tensor(primal, tangent, level) for primal, tangent in zip(primals, tangents, strict=True)
    ]
    with override_modes(levels=(*current().levels, level)):
        output, aux = split_aux(name, call(duals), has_aux)
    outputs, spec = flatten_tensors(name, output)
    moved = [tangent_of(output, level) for output in outputs]
    if strict and any(each is None for each in moved):
        raise GradientError(
            name,
            "The output of f is independent of the inputs. This is not allowed with strict=True.",
        )
    values = [drop_tangent(output, level) for output in outputs]
    filled = [zeros_as(y) if t is None else t for y, t in zip(outputs, moved, strict=True)]
    return tree_unflatten(values, spec), tree_unflatten(filled, spec), aux


def make_dual_tensor(tensor: Tensor, tangent: Tensor, level: Level) -> Tensor:
    """Return a tensor of the same memory and past that moves along `tangent`."""
    from ..autograd.forward_ad import make_alias

    moving = with_tangents(another(tensor), tensor)
    set_tangent(moving, level, tangent)
    return moving


def drop_tangent(tensor: Tensor, level: Level) -> Tensor:
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
    chosen = SelectedArguments("jvp", primals, tuple(range(len(primals))))
    moving, spec = flatten_tensors("jvp", tangents)
    if spec != chosen.spec:
        raise GradientError(
            "jvp", "Expected primals and tangents to have the same python structure",
            {"primals": chosen.spec, "tangents": spec},
        )  # fmt: skip
    for tensor, tangent in zip(chosen.tensors, moving, strict=True):
        if tensor.shape != tangent.shape:
            raise ShapeError(
                "jvp", "a tangent has the shape of its tensor",
                {"primal": tuple(tensor.shape), "tangent": tuple(tangent.shape)},
            )  # fmt: skip
    output, moved, aux = push_forward(
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
        randomness: what random functions do while all columns are computed at once, as in `vmap`.

    >>> jacfwd(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        chosen = SelectedArguments("jacfwd", args, argnums)
        spec: Any = None

        def column(*tangents: Tensor) -> Any:
            nonlocal spec
            _, moved, aux = push_forward(
                "jacfwd", lambda duals: chosen.call(func, kwargs, duals),
                chosen.tensors, tangents, has_aux,
            )  # fmt: skip
            found, spec = flatten_tensors("jacfwd", moved)
            others, shape = tree_flatten(aux)
            besides = [other for other in others if isinstance(other, Tensor)]
            return found, besides, OpaqueValue((others, shape))

        if sum(tensor.numel() for tensor in chosen.tensors):
            each_way = vmap(column, 0, (0, 0, None), randomness)
            columns, besides, kept = each_way(*basis_tangents(chosen.tensors))
            first = iter([beside[0] for beside in besides])
            others = [next(first) if isinstance(x, Tensor) else x for x in kept.value[0]]
            aux = tree_unflatten(others, kept.value[1])
        else:
            result, aux = split_aux("jacfwd", func(*args, **kwargs), has_aux)
            found, spec = flatten_tensors("jacfwd", result)
            columns = [each.new_zeros((0, *each.shape)) for each in found]
        by_output = [chosen.tree(split_by_input(column, chosen.tensors)) for column in columns]
        result = tree_unflatten(by_output, spec)
        return (result, aux) if has_aux else result

    return function


class OpaqueValue:
    """Holds something that a mapped function returns besides, as it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


def basis_tangents(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tangents for all tensors: row i moves along number i of them all."""
    total, start, found = sum(tensor.numel() for tensor in tensors), 0, []
    for tensor in tensors:
        rows = tensor.new_zeros((total, tensor.numel()))
        rows[start : start + tensor.numel()].fill_diagonal_(1)
        start += tensor.numel()
        found.append(reshape(rows, (total, *tensor.shape)))
    return found


def split_by_input(columns: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Arrange the columns of a Jacobian by inputs, each shaped (*output, *input)."""
    found, start, output = [], 0, tuple(columns.shape[1:])
    for input_ in inputs:
        part = columns[start : start + input_.numel()]
        start += input_.numel()
        found.append(reshape(movedim(part, 0, -1), (*output, *input_.shape)))
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
