"""Forward-mode transforms: `jvp`, `jacfwd`, `hessian`, `linearize`.

The tangent rules of ops are in `core/autograd/forward_mode.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.autograd.tangents import (
    Level,
    make_alias,
    set_tangent,
    tangent_of,
    with_tangents,
    zeros_as,
)
from ..core.tensor import Tensor
from ..errors import GradientError, ShapeError
from ..modes import current, override_modes
from ..ops import movedim, reshape
from ..utils._pytree import tree_flatten, tree_unflatten
from .arguments import Argnums, Function, SelectedArguments, flatten_tensors, split_aux
from .reverse import jacrev
from .vmap import vmap


def push_forward(
    name: str, call: Callable[[list[Tensor]], Any], primals: Sequence[Tensor],
    tangents: Sequence[Tensor], has_aux: bool, strict: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the output of `call`, its tangents, and its auxiliary output."""
    level = Level()
    duals = [
        make_dual_tensor(primal, tangent, level)
        for primal, tangent in zip(primals, tangents, strict=True)
    ]
    with override_modes(levels=(*current().levels, level)):
        output, aux = split_aux(name, call(duals), has_aux)
    outputs, spec = flatten_tensors(name, output)
    output_tangents = [tangent_of(output, level) for output in outputs]
    if strict and any(tangent is None for tangent in output_tangents):
        raise GradientError(
            name,
            "The output of f is independent of the inputs. This is not allowed with strict=True.",
        )
    values = [drop_tangent(output, level) for output in outputs]
    filled = [
        zeros_as(y) if t is None else t for y, t in zip(outputs, output_tangents, strict=True)
    ]
    return tree_unflatten(values, spec), tree_unflatten(filled, spec), aux


def make_dual_tensor(tensor: Tensor, tangent: Tensor, level: Level) -> Tensor:
    """Return an alias of a tensor with a tangent."""
    alias = with_tangents(make_alias(tensor), tensor)
    set_tangent(alias, level, tangent)
    return alias


def drop_tangent(tensor: Tensor, level: Level) -> Tensor:
    """Return a tensor without its tangent of one level."""
    set_tangent(tensor, level, None)
    return tensor


def jvp(
    func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """Return func(*primals) and the Jacobian-vector product J t with the tangents t.

    Args:
        primals: a tuple of tensors, or of trees of them; `tangents` has the same structure.
        strict: whether an output that does not depend on the primals is an error.
        has_aux: whether `func` returns (output, aux), and this (output, J t, aux).

    Raises: GradientError, TypeError, ShapeError: the tangents do not fit.

    >>> jvp(lambda x: x * x, (tensor([1.0, 2.0]),), (tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple):
            raise GradientError("jvp", f"Expected {name} to be a tuple, got {type(value).__name__}")
    if not primals:
        raise GradientError("jvp", "Expected primals to be a non-empty tuple")
    selected = SelectedArguments("jvp", primals, tuple(range(len(primals))))
    tangent_tensors, spec = flatten_tensors("jvp", tangents)
    if spec != selected.spec:
        raise GradientError(
            "jvp", "Expected primals and tangents to have the same python structure",
            {"primals": selected.spec, "tangents": spec},
        )  # fmt: skip
    for tensor, tangent in zip(selected.tensors, tangent_tensors, strict=True):
        if tensor.shape != tangent.shape:
            raise ShapeError(
                "jvp", "a tangent has the shape of its tensor",
                {"primal": tuple(tensor.shape), "tangent": tuple(tangent.shape)},
            )  # fmt: skip
    output, output_tangents, aux = push_forward(
        "jvp",
        lambda duals: selected.call(func, {}, duals),
        selected.tensors,
        tangent_tensors,
        has_aux,
        strict,
    )
    return (output, output_tangents, aux) if has_aux else (output, output_tangents)


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """Return the Jacobian function, J[i, j] = ∂yᵢ/∂xⱼ, computed in forward mode by columns.

    Args:
        argnums: the arguments to differentiate by; a tuple gives a tuple of Jacobians.
        has_aux: whether `func` returns (output, aux), and the function (Jacobian, aux).
        randomness: the behaviour of random functions, as in `vmap`.

    >>> jacfwd(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        selected = SelectedArguments("jacfwd", args, argnums)
        spec: Any = None

        def column(*tangents: Tensor) -> Any:
            nonlocal spec
            _, tangent_tree, aux = push_forward(
                "jacfwd", lambda duals: selected.call(func, kwargs, duals),
                selected.tensors, tangents, has_aux,
            )  # fmt: skip
            output_tangents, spec = flatten_tensors("jacfwd", tangent_tree)
            aux_leaves, aux_spec = tree_flatten(aux)
            aux_tensors = [leaf for leaf in aux_leaves if isinstance(leaf, Tensor)]
            return output_tangents, aux_tensors, OpaqueValue((aux_leaves, aux_spec))

        if sum(tensor.numel() for tensor in selected.tensors):
            mapped_column = vmap(column, 0, (0, 0, None), randomness)
            columns, aux_tensors, opaque = mapped_column(*basis_tangents(selected.tensors))
            first = iter([stacked_aux[0] for stacked_aux in aux_tensors])
            aux_leaves = [next(first) if isinstance(x, Tensor) else x for x in opaque.value[0]]
            aux = tree_unflatten(aux_leaves, opaque.value[1])
        else:
            result, aux = split_aux("jacfwd", func(*args, **kwargs), has_aux)
            outputs, spec = flatten_tensors("jacfwd", result)
            columns = [output.new_zeros((0, *output.shape)) for output in outputs]
        by_output = [selected.tree(split_by_input(column, selected.tensors)) for column in columns]
        result = tree_unflatten(by_output, spec)
        return (result, aux) if has_aux else result

    return function


class OpaqueValue:
    """Wraps a value that a mapped function returns, to pass it through `vmap` unchanged."""

    def __init__(self, value: Any) -> None:
        self.value = value


def basis_tangents(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return one-hot tangents for all tensors: row i is the i-th basis vector."""
    total, start, tangents = sum(tensor.numel() for tensor in tensors), 0, []
    for tensor in tensors:
        rows = tensor.new_zeros((total, tensor.numel()))
        rows[start : start + tensor.numel()].fill_diagonal_(1)
        start += tensor.numel()
        tangents.append(reshape(rows, (total, *tensor.shape)))
    return tangents


def split_by_input(columns: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Split the columns of a Jacobian by inputs, each shaped (*output, *input)."""
    parts, start, output = [], 0, tuple(columns.shape[1:])
    for input_ in inputs:
        part = columns[start : start + input_.numel()]
        start += input_.numel()
        parts.append(reshape(movedim(part, 0, -1), (*output, *input_.shape)))
    return parts


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """Return the Hessian function: forward mode over reverse mode.

    >>> hessian(lambda x: (x ** 3).sum())(tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """Return func(*primals) and the linear function t ↦ J t.

    >>> y, jvp_fn = linearize(lambda x: x * x, tensor([1.0, 2.0]))
    >>> jvp_fn(tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """

    def push(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), push
