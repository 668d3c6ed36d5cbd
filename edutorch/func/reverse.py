"""Reverse-mode transforms: `grad`, `value_and_grad`, `vjp`, `jacrev`.

They call `f` on new leaves, and then run backward. Where the result also belongs to an outer
graph, the backward pass is recorded, so that `grad(grad(f))` is the second derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.autograd.backward import grad as backward_grad
from ..core.tensor import Tensor
from ..errors import GradientError, ShapeError
from ..ops import cat, ones_like, reshape
from ..utils._pytree import tree_flatten, tree_unflatten
from .arguments import (
    Argnums,
    Function,
    SelectedArguments,
    detach_tree,
    flatten_tensors,
    has_outer_graph,
    record_call,
    split_aux,
)  # fmt: skip


def compute_gradients(
    outputs: Sequence[Tensor], leaves: Sequence[Tensor], cotangents: Any, nested: bool, retain: bool
) -> tuple[Tensor, ...]:
    """Run backward; an input that the outputs do not depend on has the gradient 0."""
    # An output that depends on none of the inputs has no graph to walk.
    pairs = [(y, v) for y, v in zip(outputs, cotangents, strict=True) if y._node is not None]
    gradients = backward_grad(
        [y for y, _ in pairs], leaves, [v for _, v in pairs],
        retain_graph=retain or nested, create_graph=nested, materialize_grads=True,
    )  # fmt: skip
    return gradients  # type: ignore[return-value]  (materialized: never None)


def value_and_grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Return a function that returns `func`'s gradient and value: (gradient, value).

    Args:
        func: returns a scalar, or with `has_aux` (a scalar, anything else).
        argnums: the arguments to differentiate by; each may be a tree of tensors.

    Raises: GradientError: `func` does not return a scalar.

    >>> value_and_grad(lambda x: x ** 3)(tensor(2.0))
    (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        selected = SelectedArguments("grad", args, argnums)
        result, leaves = record_call(func, kwargs, selected)
        value, aux = split_aux("grad", result, has_aux)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise GradientError(
                "grad",
                "the function must return a single number",
                {"returned": getattr(value, "shape", type(value).__name__)},
                "sum or average the result, or use vjp or jacrev",
            )
        # Inside of another transform the result is differentiated again: the pass is recorded.
        is_nested = has_outer_graph([value], leaves)
        gradients = compute_gradients([value], leaves, [ones_like(value)], is_nested, False)
        gradient_tree = selected.tree(gradients)
        # Nobody asks for a gradient by these leaves any more: release their graph.
        if not is_nested:
            value, aux = detach_tree(value), detach_tree(aux)
        return gradient_tree, (value, aux) if has_aux else value

    return function


grad_and_value = value_and_grad


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Return the gradient function of a function that returns a scalar.

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
    """Return func(*primals) and the vector-Jacobian product function v ↦ vᵀ J.

    Args:
        primals: tensors, or trees of them; `func` may return such a tree, too.
        has_aux: whether `func` returns (output, aux), and this (output, function, aux).

    >>> y, vjp_fn = vjp(lambda x: x * x, tensor([1.0, 2.0]))
    >>> vjp_fn(tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    if not primals:
        raise GradientError("vjp", "vjp(f, *primals) needs at least one primal")
    selected = SelectedArguments("vjp", primals, tuple(range(len(primals))))
    result, leaves = record_call(func, {}, selected)
    output, aux = split_aux("vjp", result, has_aux)
    outputs, spec = flatten_tensors("vjp", output)
    is_nested = has_outer_graph(outputs, leaves)

    def vjp_fn(
        *cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        # PyTorch takes vjp_fn(v) for one output and vjp_fn(v1, v2) for a tuple of them.
        tree = cotangents[0] if len(cotangents) == 1 else cotangents
        cotangent_tensors, cotangent_spec = flatten_tensors("vjp", tree)
        if cotangent_spec != spec:
            raise GradientError(
                "vjp", "the gradients must be arranged as the output is",
                {"output": spec, "gradients": cotangent_spec},
            )  # fmt: skip
        for output, cotangent in zip(outputs, cotangent_tensors, strict=True):
            if output.shape != cotangent.shape:
                raise ShapeError(
                    "vjp", "a gradient has the shape of its tensor",
                    {"output": tuple(output.shape), "gradient": tuple(cotangent.shape)},
                )  # fmt: skip
        outer = is_nested or any(cotangent.requires_grad for cotangent in cotangent_tensors)
        return selected.tree(compute_gradients(outputs, leaves, cotangent_tensors, outer, True))

    value = output if is_nested else detach_tree(output)
    return (value, vjp_fn, aux if is_nested else detach_tree(aux)) if has_aux else (value, vjp_fn)


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """Return the Jacobian function, J[i, j] = ∂yᵢ/∂xⱼ, computed in reverse mode by rows.

    Args:
        argnums: the arguments to differentiate by; a tuple gives a tuple of Jacobians.
        has_aux: whether `func` returns (output, aux), and the function (Jacobian, aux).
        chunk_size: the number of rows computed at a time; None: all at once.

    >>> jacrev(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        selected = SelectedArguments("jacrev", args, argnums)
        result, leaves = record_call(func, kwargs, selected)
        output, aux = split_aux("jacrev", result, has_aux)
        outputs, spec = tree_flatten(output)
        flatten_tensors("jacrev", output)
        is_nested = has_outer_graph(outputs, leaves)
        jacobian = tree_unflatten(
            [
                selected.tree(jacobian_rows(output, leaves, is_nested, chunk_size))
                for output in outputs
            ],
            spec,
        )
        return (jacobian, aux if is_nested else detach_tree(aux)) if has_aux else jacobian

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
        backward_grad(
            flat, leaves, part, retain_graph=True, create_graph=nested, is_grads_batched=True,
            materialize_grads=True,
        )
        for part in units.split(chunk_size or count)
    ]  # fmt: skip
    columns = [
        leaf_parts[0] if len(parts) == 1 else cat(list(leaf_parts))
        for leaf_parts in zip(*parts, strict=True)
    ]
    return [reshape(column, shape) for column, shape in zip(columns, shapes, strict=True)]


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
