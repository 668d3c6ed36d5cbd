"""Starting a backward pass: `loss.backward()` and `autograd.grad(loss, x)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ... import backends, dtypes
from ...backends.batching import BatchedBackend
from ...backends.vmap_errors import VmapError
from ...errors import GradientError, ShapeError
from ...modes import current, override_modes
from ..registry import op_function
from ..tensor import Tensor, wrap
from .engine import accumulate, run_backward
from .graph import edge_of

Tensors = Tensor | Sequence[Tensor]


def as_list(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) or tensors is None else list(tensors)


def explain_no_graph(root: Tensor) -> str:
    """Return the likely reason why a tensor has no graph."""
    if root._array.dtype not in dtypes.DIFFERENTIABLE:
        return "whole numbers and bools, as from argmax or x > 0, have no derivative"
    if not current().grad:
        return "gradients are switched off here: compute the loss outside no_grad()"
    return (
        "nothing it was computed from requires a gradient: make a leaf with requires_grad=True, "
        "and compute outside no_grad() and without detach(), .data, .item() and tensor(loss)"
    )


def initial_gradients(name: str, roots: list[Tensor], grad_tensors: Any) -> list[Tensor]:
    """Return the gradient of each root: the given one, or 1 for a single element."""
    gradients = as_list(grad_tensors)
    gradients += [None] * (len(roots) - len(gradients))
    result = []
    for position, (root, gradient) in enumerate(zip(roots, gradients, strict=True)):
        if root._node is None:
            raise GradientError(
                name,
                f"element {position} of tensors does not require grad and does not have a grad_fn",
                {"tensor": f"{tuple(root.shape)} {root.dtype}"},
                explain_no_graph(root),
            )
        if gradient is None:
            if root._array.size != 1:
                raise GradientError(
                    name,
                    "grad can be implicitly created only for scalar outputs",
                    {"tensor": tuple(root.shape)},
                    "reduce it to one number first, for example loss.mean(), or pass `gradient`",
                )
            if root._array.dtype.kind == "c":
                raise GradientError(
                    name,
                    "grad can be implicitly created only for real scalar outputs "
                    f"but got {root.dtype}",
                    hint="a loss is a real number, for example z.abs().sum(); or pass `gradient`",
                )
            gradient = wrap(one_like(root._array))
        elif tuple(gradient.shape) != tuple(root.shape):
            raise ShapeError(
                name,
                "a gradient has the shape of its tensor",
                {"tensor": tuple(root.shape), "gradient": tuple(gradient.shape)},
            )
        result.append(gradient)
    return result


def one_like(array: Any) -> Any:
    """Return ones of an array's shape, dtype and device."""
    if array.__class__ is not numpy.ndarray:
        return backends.of(array).xp.ones_like(array)
    one = numpy.empty(array.shape, array.dtype)  # a quarter of the time of `ones_like`
    one.fill(1)
    return one


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Compute the gradients of `tensors` and add them to the `.grad` of the leaves.

    Args: as for `Tensor.backward`; `grad_tensors` holds a gradient per tensor.

    Raises: GradientError, StaleValueError, ShapeError: as for `Tensor.backward`.

    >>> x = tensor(3.0, requires_grad=True)
    >>> backward(x * x)
    >>> x.grad
    tensor(6.)
    """
    roots = as_list(tensors)
    gradients = initial_gradients("backward", roots, grad_tensors)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        run_backward(roots, gradients, retain, create_graph)
        return
    leaves = as_list(inputs)
    gradient_of = run_backward(roots, gradients, retain, create_graph, leaves)
    for leaf in leaves:
        g = gradient_of[edge_of(leaf)]
        if g is not None:
            accumulate(leaf, g, create_graph)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `outputs` with respect to `inputs`; no `.grad` changes.

    Args:
        only_inputs: accepted; always so.
        allow_unused: return None for an input that no output depends on.
        is_grads_batched: `grad_outputs` have one more dim in front; so have the results,
            which are computed in one pass.
        materialize_grads: return zeros instead of None.

    Raises: GradientError: an input was not used, or needs no gradient.

    >>> x = tensor(3.0, requires_grad=True)
    >>> first, = grad(x ** 3, x, create_graph=True)
    >>> grad(first, x)
    (tensor(18.),)
    """
    roots, wanted = as_list(outputs), as_list(inputs)
    if is_grads_batched:
        return batched_grad(
            roots, wanted, as_list(grad_outputs), retain_graph, create_graph,
            allow_unused=allow_unused, materialize_grads=materialize_grads,
        )  # fmt: skip
    for position, tensor in enumerate(wanted):
        if tensor._node is None:
            raise GradientError(
                "grad",
                f"input {position} does not require grad",
                {"input": tuple(tensor.shape)},
                "call x.requires_grad_() before computing with it",
            )
    gradients = initial_gradients("grad", roots, grad_outputs)
    retain = create_graph if retain_graph is None else retain_graph
    gradient_of = run_backward(roots, gradients, retain, create_graph, wanted)
    results: list[Tensor | None] = []
    for position, tensor in enumerate(wanted):
        g = gradient_of[edge_of(tensor)]
        if g is None and materialize_grads:
            results.append(wrap(backends.of(tensor._array).xp.zeros_like(tensor._array)))
        elif g is None and not allow_unused:
            raise GradientError(
                "grad",
                f"input {position} appears to not have been used in the graph",
                {"input": tuple(tensor.shape)},
                "pass allow_unused=True to get None for it",
            )
        else:
            results.append(g if g is None or isinstance(g, Tensor) else wrap(g))
    return tuple(results)


def batched_grad(
    roots: list[Tensor],
    wanted: list[Tensor],
    starts: list[Tensor],
    retain_graph: bool | None,
    create_graph: bool,
    **options: Any,
) -> tuple[Tensor | None, ...]:
    """Run `grad` for a batch of output gradients: one backward pass inside of `vmap`."""
    retain = create_graph if retain_graph is None else retain_graph
    outer = current().batches
    inner = outer[-1] if outer else backends.of(starts[0]._array)
    level = BatchedBackend(inner, starts[0]._array.shape[0], len(outer) + 1)
    enter, leave = op_function("batched"), op_function("unbatched")
    try:
        with override_modes(batches=(*outer, level)):
            begun = [enter(start, level, 0) for start in starts]
            rows = grad(roots, wanted, begun, retain, create_graph, **options)
    except VmapError:
        if not retain:
            raise
        return grad_one_by_one(roots, wanted, starts, create_graph, **options)
    inside = [
        row if row is None or backends.of(row._array) is level else enter(row, level, None)
        for row in rows
    ]
    return tuple(None if row is None else leave(row, level, 0) for row in inside)


def grad_one_by_one(
    roots: list[Tensor], wanted: list[Tensor], starts: list[Tensor], create_graph: bool,
    **options: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Run `grad` once for each of a batch of output gradients."""
    rows = [
        grad(roots, wanted, [start[i] for start in starts], True, create_graph, **options)  # type: ignore[index]
        for i in range(starts[0]._array.shape[0])
    ]
    columns = zip(*rows, strict=True)
    return tuple(None if column[0] is None else op_function("stack")(column) for column in columns)
