"""Starting a backward pass: `loss.backward()` and `autograd.grad(loss, x)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ... import backends, dtypes
from ...backends.batching import BatchedBackend
from ...backends.batching_rules import VmapError
from ...backends.numpy import Array
from ...errors import CodeLocation, GradientError, ShapeError, user_location
from ...events import BackwardEnded, backward_event, step_event, work
from ...modes import current, override_modes
from ..fast.lazy_gradients import RowGradient, materialize_pending
from ..registry import op_function
from ..storage import strided
from ..tensor import PLAIN_TENSORS, Tensor, wrap
from .engine import (
    Engine,
    conjugate_all,
    register_engine,
    run_posthooks,
    run_prehooks,
    start_reporting,
    stop_reporting,
    warn_of,
)  # fmt: skip
from .graph import accumulate, edge_of, edges_leading_to, reachable
from .nested_calls import run_nested
from .tangents import detach_with_tangents

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


def one_like(array: Array) -> Any:
    """Return ones of an array's shape, dtype and device."""
    if array.__class__ is not numpy.ndarray:
        return backends.of(array).xp.ones_like(array)
    # Every `loss.backward()` comes by.
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
    # With create_graph the saved values are part of the new graph: they must stay.
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        run_backward(roots, gradients, retain, create_graph)
        return
    leaves = as_list(inputs)
    # As `grad` does, so that other leaves stay as they are.
    gradient_of = run_backward(roots, gradients, retain, create_graph, leaves)
    for leaf in leaves:
        g = gradient_of[edge_of(leaf)]
        if g is not None:
            accumulate(leaf, as_tensor(g), create_graph)


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
    options = {"allow_unused": allow_unused, "materialize_grads": materialize_grads}
    for tensor in (*roots, *wanted):
        if tensor.__class__ not in PLAIN_TENSORS and tensor.layout is not strided:
            named = {"is_grads_batched": is_grads_batched, **options}
            args = outputs, inputs, grad_outputs, retain_graph, create_graph
            return tensor.__torch_function__(grad, (type(tensor),), args, named)
    if is_grads_batched:
        return batched_grad(
            roots, wanted, as_list(grad_outputs), retain_graph, create_graph, **options
        )
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
            results.append(None if g is None else as_tensor(g))
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
            # One pass over a batch of gradients: each rule runs once, on arrays with an axis more.
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


def backward_method(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Compute the gradient of this tensor with respect to every leaf behind it.

    Gradients are added to `.grad`: zero them between steps.

    Args:
        gradient: d(final result)/d(this tensor); 1 for a single element.
        retain_graph: keep the saved values, so that backward can run again.
        create_graph: record backward itself, for second derivatives.
        inputs: add gradients only to these leaves.

    Raises: GradientError: nothing was recorded; not a single element and no
        `gradient`; the graph was freed. StaleValueError: a saved value changed.
    """
    backward(self, gradient, retain_graph, create_graph, inputs)


backward_method.__name__, backward_method.__qualname__ = "backward", "Tensor.backward"
Tensor.backward = backward_method  # type: ignore[method-assign]


# Running the engine ---------------------------------------------------------------------

ENGINE = Engine
"""The class of the engine; `reference.py` sets that of the textbook inside `reference_only()`."""


def run_backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Any],
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[Tensor] | None = None,
) -> dict[Any, Any]:
    """Run backward from `roots`, whose gradients are given.

    Without `inputs`, gradients are added to the `.grad` of the leaves. With
    them, returns the gradient of each (by its edge), and touches no `.grad`.
    """
    targets = None if inputs is None else [edge_of(tensor) for tensor in inputs]
    edges = tuple(map(edge_of, roots))
    wanted = None
    if targets is not None:
        wanted = edges_leading_to(edges, targets)
        edges = tuple(edge if edge in wanted else None for edge in edges)
    captured = dict.fromkeys(targets or ())
    modes = current()
    recording = create_graph or bool(modes.levels)  # gradients may have tangents
    engine = ENGINE(recording, retain_graph, wanted, captured)
    backward_event(roots)
    # A pass within another one leaves the reports to that.
    outermost = start_reporting()
    run = run_engine if outermost else run_engine_nested
    if backends.switched_cards:
        from ...backends.cards import restored_cards

        run = restored_cards()(run)
    try:
        if modes.listeners:
            with work("backward", engine, tuple(gradients), "retain" if engine.retain else ""):
                captured = run(engine, edges, gradients, create_graph, targets)
        else:
            captured = run(engine, edges, gradients, create_graph, targets)
    finally:
        stop_reporting(outermost)
        if engine.non_finite_message:
            warn_of(engine.non_finite_message, result_gradients(engine))
    step_event(BackwardEnded, roots, inputs is None)
    return captured


@register_engine("engine")
def run_engine(
    engine: Engine,
    edges: tuple[Any, ...],
    gradients: Sequence[Any],
    create_graph: bool,
    targets: list[Any] | None,
) -> dict[Any, Any]:
    """Run the engine, and give each leaf its gradient."""
    recording, captured = engine.recording, engine.captured
    needs_recording = recording and not create_graph and needs_graph(edges)
    if recording:
        engine.retain = engine.retain or needs_recording
        with override_modes(
            grad=create_graph or needs_recording, autocast=None
        ):  # the dtypes are chosen already
            engine.run(edges, conjugate_all(gradients, True))
    else:
        engine.run(edges, conjugate_all([gradient._array for gradient in gradients], False))
        materialize_pending()
    location = None
    for leaf in engine.leaves:
        if location is None and leaf._grad is not None:
            location = user_location()  # once: the way up to the user's line takes time
        accumulate_leaf(engine, leaf, needs_recording, location)
    if needs_recording:
        captured = {
            edge: None if g is None else detach_with_tangents(g) for edge, g in captured.items()
        }
    for callback in engine.end_callbacks:
        callback(engine)
    return captured


def accumulate_leaf(
    engine: Engine, leaf: Tensor, detach: bool = False, location: CodeLocation | None = None
) -> None:
    """Add the gradient that has reached a leaf to `.grad`, or keep it if it is asked for."""
    recording, hooks = engine.recording, leaf._hooks
    g = engine.take_leaf_gradient(leaf)
    if detach:
        g = detach_with_tangents(g)
    if engine.wanted is not None:
        if leaf in engine.captured:
            engine.captured[leaf] = g
        return
    if hooks:
        g = run_prehooks(hooks, g, recording)
    accumulate(leaf, as_tensor(g), recording, location)
    if hooks:
        run_posthooks(hooks, (), (), g, recording)


def as_tensor(g: Any) -> Tensor:
    """Return a gradient as users see it: that of some rows is a sparse tensor."""
    if isinstance(g, Tensor):
        return g
    return g.to_tensor() if g.__class__ is RowGradient else wrap(g)


def finish(engine: Engine) -> None:
    """Warn about NaN, and call what waits for the end of the pass."""
    if engine.non_finite_message:
        warn_of(engine.non_finite_message, result_gradients(engine))
    for callback in engine.end_callbacks:
        callback(engine)


def run_engine_nested(*arguments: Any) -> dict[Any, Any]:
    """Run the engine inside another backward pass."""
    return run_nested(run_engine, *arguments)


def result_gradients(engine: Engine) -> list[Any]:
    """Return the gradients of the leaves and of the inputs asked for."""
    return [*(leaf._grad for leaf in engine.leaves), *engine.captured.values()]


def needs_graph(edges: Sequence[Any]) -> bool:
    """Return True if a rule behind `edges` needs its node (see `Op.needs_node`)."""
    nodes = reachable([edge for edge in edges if edge is not None], since=1)
    return any(getattr(node.op, "needs_node", False) for node in nodes)
