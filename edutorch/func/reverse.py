"""Gradients as functions: `grad(f)` is f', itself a function that can be differentiated.

All of it is reverse mode: run `f` on fresh leaves, then run the graph backwards.
Where the result also belongs to an outer graph, that backward pass is recorded, so
`grad(grad(f))` is the second derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .. import autograd
from ..core.tensor import Tensor
from ..errors import GradientError, ShapeError
from ..ops import cat, ones_like, reshape
from ..utils._pytree import tree_flatten, tree_unflatten
from .arguments import (
    Argnums,
    SelectedArguments,
    Function,
    has_outer_graph,
    detach_tree,
    record_call,
    split_aux,
    flatten_tensors,
)  # fmt: skip


def compute_gradients(
    outputs: Sequence[Tensor], leaves: Sequence[Tensor], starts: Any, nested: bool, retain: bool
) -> tuple[Tensor, ...]:
    """Run backward; an input that nothing depends on has the gradient 0."""
    pairs = [(y, v) for y, v in zip(outputs, starts, strict=True) if y._node is not None]
    found = autograd.grad(
        [y for y, _ in pairs], leaves, [v for _, v in pairs],
        retain_graph=retain or nested, create_graph=nested, materialize_grads=True,
    )  # fmt: skip
    return found  # type: ignore[return-value]  (materialized: never None)


def value_and_grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Return a function that gives `func`'s gradient and its value: (gradient, value).

    Args:
        func: returns one number, or with `has_aux` (one number, anything else).
        argnums: by which arguments to differentiate; each may be a tree of tensors.

    Raises: GradientError: `func` does not return a single number.

    >>> value_and_grad(lambda x: x ** 3)(tensor(2.0))
    (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        chosen = SelectedArguments("grad", args, argnums)
        result, leaves = record_call(func, kwargs, chosen)
        value, aux = split_aux("grad", result, has_aux)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise GradientError(
                "grad",
                "the function must return a single number",
                {"returned": getattr(value, "shape", type(value).__name__)},
                "sum or average the result, or use vjp or jacrev",
            )
        nested = has_outer_graph([value], leaves)
        gradients = compute_gradients([value], leaves, [ones_like(value)], nested, False)
        found = chosen.tree(gradients)
        if not nested:
            value, aux = detach_tree(value), detach_tree(aux)
        return found, (value, aux) if has_aux else value

    return function


grad_and_value = value_and_grad


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Return the derivative of a function of tensors that returns one number.

    Args: as for `value_and_grad`. With `has_aux` the result is (gradient, aux).

    >>> grad(lambda x: x ** 3)(tensor(2.0)), grad(grad(lambda x: x ** 3))(tensor(2.0))
    (tensor(12.), tensor(12.))
    """
    both = value_and_grad(func, argnums, has_aux)

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return function


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Return func(*primals) and the function that takes a gradient back: v ↦ vᵀ J.

    Args:
        primals: tensors, or trees of them; `func` may return such a tree, too.
        has_aux: `func` returns (output, aux), and this (output, function, aux).

    >>> y, back = vjp(lambda x: x * x, tensor([1.0, 2.0]))
    >>> back(tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    if not primals:
        raise GradientError("vjp", "vjp(f, *primals) needs at least one primal")
    chosen = SelectedArguments("vjp", primals, tuple(range(len(primals))))
    result, leaves = record_call(func, {}, chosen)
    output, aux = split_aux("vjp", result, has_aux)
    outputs, spec = flatten_tensors("vjp", output)
    nested = has_outer_graph(outputs, leaves)

    def back(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        tree = cotangents[0] if len(cotangents) == 1 else cotangents
        starts, given = flatten_tensors("vjp", tree)
        if given != spec:
            raise GradientError(
                "vjp", "the gradients must be arranged as the output is",
                {"output": spec, "gradients": given},
            )  # fmt: skip
        for output, start in zip(outputs, starts, strict=True):
            if output.shape != start.shape:
                raise ShapeError(
                    "vjp", "a gradient has the shape of its tensor",
                    {"output": tuple(output.shape), "gradient": tuple(start.shape)},
                )  # fmt: skip
        outer = nested or any(start.requires_grad for start in starts)
        return chosen.tree(compute_gradients(outputs, leaves, starts, outer, True))

    shown = output if nested else detach_tree(output)
    return (shown, back, aux if nested else detach_tree(aux)) if has_aux else (shown, back)


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """Return the function of all partial derivatives: J[i, j] = ∂yᵢ/∂xⱼ, by running backward.

    Args:
        argnums: by which arguments; a tuple gives a tuple of Jacobians.
        has_aux: `func` returns (output, aux), and the function (Jacobian, aux).
        chunk_size: compute so many rows at a time; None: all at once.

    >>> jacrev(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        chosen = SelectedArguments("jacrev", args, argnums)
        result, leaves = record_call(func, kwargs, chosen)
        output, aux = split_aux("jacrev", result, has_aux)
        outputs, spec = tree_flatten(output)
        flatten_tensors("jacrev", output)
        nested = has_outer_graph(outputs, leaves)
        found = tree_unflatten(
            [chosen.tree(jacobian_rows(output, leaves, nested, chunk_size)) for output in outputs], spec
        )
        return (found, aux if nested else detach_tree(aux)) if has_aux else found

    return function


def jacobian_rows(
    output: Tensor, leaves: Sequence[Tensor], nested: bool, chunk_size: int | None
) -> list[Tensor]:
    """Return the Jacobian of one output by each leaf, shaped (*output, *leaf)."""
    flat = reshape(output, (-1,))
    count = flat.numel()
    shapes = [(*output.shape, *leaf.shape) for leaf in leaves]
    if not count or flat._node is None:
        return [leaf.new_zeros(shape) for leaf, shape in zip(leaves, shapes, strict=True)]
    units = flat.new_zeros((count, count)).fill_diagonal_(1)
    parts = [
        autograd.grad(
            flat, leaves, part, retain_graph=True, create_graph=nested, is_grads_batched=True,
            materialize_grads=True,
        )
        for part in units.split(chunk_size or count)
    ]  # fmt: skip
    columns = [each[0] if len(parts) == 1 else cat(list(each)) for each in zip(*parts, strict=True)]
    return [reshape(column, shape) for column, shape in zip(columns, shapes, strict=True)]
