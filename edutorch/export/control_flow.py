"""`torch.cond`, `torch.while_loop` and `torch.scan`: control flow that a program can keep.

Called with ordinary tensors, they run the functions that they are given. While a module is
exported, they run these once to record them: each becomes a graph of its own, an argument of one
node. What such a graph reads from around it (weights, other tensors) becomes an operand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..errors import DTypeError, ShapeError
from ..fx.capture_context import Tracer
from ..fx.capture_patches import current_tracer
from ..fx.graph import Graph, array_meta
from ..fx.node import Node
from ..fx.traced_array import TracedArray, to_held
from ..ops import stack, tensor
from ..utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from .functions import program_function

__all__ = ["cond", "scan", "scan_flat", "while_loop"]


@program_function
def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """Call `true_fn` or `false_fn` with the operands: an `if` that an exported program keeps.

    Args:
        pred: a bool, or a tensor with one element.
        true_fn, false_fn: functions that return tensors of the same shapes and dtypes.
        operands: what the functions are called with.

    Raises: ShapeError, DTypeError: in an export, the functions return different things.

    >>> cond(tensor(True), lambda x: x + 1, lambda x: x - 1, (tensor([1.0]),))
    tensor([2.])
    """
    tracer = exporting_tracer()
    if tracer is None or not isinstance(pred, Tensor):
        return true_fn(*operands) if bool(pred) else false_fn(*operands)
    pred_node = tracer.as_node(pred)
    chosen = 0 if bool(to_held(pred)) else 1
    branches = [
        record_branch(tracer, function, tuple(operands)) for function in (true_fn, false_fn)
    ]
    check_same("cond", "true_fn", branches[0], "false_fn", branches[1])
    free = unite(branches)
    graphs = [branch.graph_with(free) for branch in branches]
    node = tracer.record(cond, (pred_node, *graphs, tuple(free)), {}, tuple=True)
    return node_results(tracer, node, branches[chosen])


@program_function
def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
) -> tuple[Any, ...]:  # fmt: skip
    """Call `body_fn` on its own results while `cond_fn` returns True of them.

    Args:
        cond_fn: returns a bool or a tensor with one element.
        body_fn: returns as many tensors as it takes, of the same shapes and dtypes.
        carried_inputs: the first arguments of both.
        additional_inputs: further arguments, which stay the same.

    Raises: ShapeError, DTypeError: in an export, `body_fn` changes a shape or a dtype.

    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (tensor(0), tensor([1.0])))
    (tensor(3), tensor([8.]))
    """
    tracer = exporting_tracer()
    carried = tuple(carried_inputs)
    if tracer is None:
        while is_true(cond_fn(*carried, *additional_inputs)):
            result = body_fn(*carried, *additional_inputs)
            carried = tuple(result) if isinstance(result, tuple | list) else (result,)
        return carried
    starts = [tracer.as_node(as_tensor(value)) for value in carried]
    values = [held_copy(value) for value in carried]
    test = record_branch(tracer, cond_fn, tuple(additional_inputs), values)
    body = record_branch(tracer, body_fn, tuple(additional_inputs), values)
    check_arrays("while_loop", "carried_inputs", values, "body_fn", body.arrays)
    free = unite([test, body])
    node = tracer.record(
        while_loop, (test.graph_with(free), body.graph_with(free), tuple(starts), tuple(free)), {},
        tuple=True,
    )  # fmt: skip
    with suspended(tracer):
        final = tuple(wrap(value) for value in values)
        while is_true(cond_fn(*final, *additional_inputs)):
            result = body_fn(*final, *additional_inputs)
            final = tuple(result) if isinstance(result, tuple | list) else (result,)
        body.arrays = [np.array(to_held(value)) for value in final]
    body.spec = tree_flatten(carried)[1]
    return node_results(tracer, node, body)


def scan(
    combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """Call `combine_fn(carry, x)` for each slice x of `xs`; it returns the next carry and a result.

    Args:
        init: the first carry: a tensor or a tree of tensors.
        xs: a tensor or a tree of tensors of the same size along `dim`.
        dim: the axis of the slices.
        reverse: whether to begin with the last slice.

    Returns: the last carry, and the results, stacked along `dim` 0.

    >>> scan(lambda total, x: (total + x, total * 1), tensor(0.0), tensor([1.0, 2.0]))
    (tensor(3.), tensor([0., 1.]))
    """
    carries, carry_spec = tree_flatten(init)
    slices, slice_spec = tree_flatten(xs)
    specs: list[TreeSpec] = []

    def combine_flat(*values: Any) -> tuple[Any, ...]:
        carry = tree_unflatten(values[: len(carries)], carry_spec)
        following, result = combine_fn(carry, tree_unflatten(values[len(carries) :], slice_spec))
        leaves, spec = tree_flatten(result)
        specs.append(spec)
        return (*tree_flatten(following)[0], *leaves)

    tracer = exporting_tracer()
    if tracer is None:
        outputs = scan_flat(combine_flat, carries, slices, (), dim, reverse)
    else:
        outputs = record_scan(tracer, combine_flat, carries, slices, dim, reverse)
    carry = tree_unflatten(outputs[: len(carries)], carry_spec)
    return carry, tree_unflatten(outputs[len(carries) :], specs[-1])


@program_function
def scan_flat(
    combine: Callable[..., Any], init: Sequence[Tensor], xs: Sequence[Tensor],
    additional_inputs: Sequence[Any] = (), dim: int = 0, reverse: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Run a scan over flat lists: the last carries, then the results, stacked along axis 0.

    Raises: ShapeError: there is no slice to begin with.

    >>> edutorch.export.control_flow.scan_flat(lambda c, x: (c + x, x), [tensor(0)], [arange(3)])
    (tensor(3), tensor([0, 1, 2]))
    """
    count = xs[0].shape[dim]
    if count == 0:
        raise ShapeError("scan", "there is no slice", {"xs": tuple(xs[0].shape)})
    carries, results = list(init), []
    for index in reversed(range(count)) if reverse else range(count):
        slices = [x.select(dim, index) for x in xs]
        outputs = combine(*carries, *slices, *additional_inputs)
        carries = list(outputs[: len(carries)])
        results.append(outputs[len(carries) :])
    if reverse:
        results.reverse()
    stacked = [stack(list(column)) for column in zip(*results, strict=True)]
    return (*carries, *stacked)


def record_scan(
    tracer: Tracer, combine: Callable[..., Any], carries: list[Any], slices: list[Any], dim: int,
    reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Record a scan as one node."""
    starts = tuple(tracer.as_node(value) for value in carries)
    sources = tuple(tracer.as_node(value) for value in slices)
    values = [held_copy(value) for value in carries]
    held = [to_held(value) for value in slices]
    first = [np.array(np.take(value, 0, dim)) for value in held]
    body = record_branch(tracer, combine, (), [*values, *first])
    check_arrays("scan", "init", values, "the next carry", body.arrays[: len(values)])
    graph = body.graph_with(body.free)
    node = tracer.record(
        scan_flat, (graph, starts, sources, tuple(body.free), dim, reverse), {}, tuple=True
    )
    with suspended(tracer):
        plain = ([wrap(value) for value in values], [wrap(value) for value in held])
        results = scan_flat(combine, *plain, (), dim, reverse)
        body.arrays = [np.array(to_held(value)) for value in results]
    body.spec = tree_flatten(tuple(body.arrays))[1]
    return node_results(tracer, node, body)


# Recording a function as a graph ------------------------------------------------------------------


def exporting_tracer() -> Tracer | None:
    """Return the tracer of this thread if it keeps branches as graphs."""
    tracer = current_tracer()
    if tracer is None or not tracer.is_running() or not tracer.options.keeps_branches:
        return None
    return tracer


class suspended:
    """A block in which a tracer records nothing: tensors show their arrays."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __enter__(self) -> None:
        self.tracer.forward_depth += 1

    def __exit__(self, *exception: object) -> None:
        self.tracer.forward_depth -= 1


@dataclass
class Branch:
    """A recorded function: its graph, of `bound` inputs and then `free` ones, and its results.

    `inner` maps placeholders of its own to nodes from around it; `arrays` are the results of the
    recorded run.
    """

    bound: list[Node]
    nodes: list[Node]
    free: list[Node]
    results: list[Any]
    arrays: list[Any]
    spec: TreeSpec
    inner: dict[Node, Node] = field(default_factory=dict)

    def graph_with(self, free: Sequence[Node]) -> Graph:
        """Return the graph, with a placeholder for each of these nodes from around it."""
        graph = Graph()
        copies: dict[Node, Node] = {}
        for node in (*self.bound, *free):
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
        copies |= {inner: copies[outer] for inner, outer in self.inner.items()}
        for node in self.nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies.get(result, result) for result in self.results))
        graph.eliminate_dead_code()
        return graph


def record_branch(
    tracer: Tracer, function: Callable[..., Any], operands: tuple[Any, ...],
    bound: Sequence[np.ndarray] = (),
) -> Branch:  # fmt: skip
    """Run a function and return what it recorded, which is cut out of the graph.

    Args:
        operands: its last arguments, values from around it.
        bound: its first arguments, which become inputs of its graph.
    """
    for value in operands:
        tracer.as_node(value)  # here, not inside: it may be needed behind the function, too
    mark = tracer.graph._root.prev
    inputs = [bound_input(tracer, value) for value in bound]
    result = function(*(wrap(traced) for traced in inputs), *operands)
    leaves, spec = tree_flatten(result)
    results = [tracer.as_node(leaf) for leaf in leaves]
    arrays = [np.array(to_held(leaf)) for leaf in leaves]
    nodes: list[Node] = []
    node = mark.next
    while node is not tracer.graph._root:
        nodes.append(node)
        node = node.next
    bound_nodes = [traced.node for traced in inputs]
    body = [node for node in nodes if node not in bound_nodes]
    inside = set(nodes)
    wanted = [argument for node in body for argument in node.all_input_nodes]
    wanted += [result for result in results if isinstance(result, Node)]
    free = list(dict.fromkeys(node for node in wanted if node not in inside))
    branch = Branch(bound_nodes, body, free, results, arrays, spec)
    detached = branch.graph_with(free)  # while the nodes still know their arguments
    for node in reversed(nodes):
        tracer.graph.erase_node(node)
    return moved_to(detached, branch)


def bound_input(tracer: Tracer, value: np.ndarray) -> TracedArray:
    """Return an input of a recorded function as a traced array."""
    node = tracer.graph.placeholder("carried")
    node.meta.update(array_meta(value), line=None, module="", phase="forward")
    traced = TracedArray(tracer.backend, value, node)
    tracer.keep_alive.append(value)
    return traced


def moved_to(graph: Graph, branch: Branch) -> Branch:
    """Return a branch with the nodes of `graph`, a copy of what was recorded."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    count = len(branch.bound)
    inner = dict(zip(placeholders[count:], branch.free, strict=True))
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    results = [inner.get(result, result) for result in graph.output_node().args[0]]
    return Branch(
        placeholders[:count], nodes, branch.free, results, branch.arrays, branch.spec, inner
    )


def unite(branches: Sequence[Branch]) -> list[Node]:
    """Return the nodes from around that any of the branches reads."""
    return list(dict.fromkeys(node for branch in branches for node in branch.free))


def node_results(tracer: Tracer, node: Node, branch: Branch) -> Any:
    """Return the results of a node with several of them, as the function would return them."""
    results = []
    for index, value in enumerate(branch.arrays):
        part = tracer.record(operator.getitem, (node, index), {})
        results.append(wrap(tracer.array(value, part)))
    return tree_unflatten(results, branch.spec)


def is_true(result: Any) -> bool:
    """Return what a condition says; that of a program returns a tuple with one element."""
    return bool(result[0] if isinstance(result, tuple) else result)


def as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else tensor(value)


def held_copy(value: Any) -> np.ndarray:
    """Return a copy of the array of a tensor, or of a number."""
    return np.array(to_held(as_tensor(value)))


def check_same(op: str, first_name: str, first: Branch, second_name: str, second: Branch) -> None:
    """Raise an error if two branches do not return the same kinds of values."""
    if first.spec != second.spec:
        raise ShapeError(
            op, "the functions return different structures",
            {first_name: first.spec, second_name: second.spec},
        )  # fmt: skip
    check_arrays(op, first_name, first.arrays, second_name, second.arrays)


def check_arrays(
    op: str, first_name: str, first: Sequence[Any], second_name: str, second: Sequence[Any]
) -> None:
    """Raise an error if the shapes or dtypes of two lists of arrays differ."""
    rows = {
        first_name: [tuple(array.shape) for array in first],
        second_name: [tuple(array.shape) for array in second],
    }
    if rows[first_name] != rows[second_name]:
        raise ShapeError(op, f"{second_name} returns other shapes than {first_name}", rows)
    dtypes = {
        first_name: [str(array.dtype) for array in first],
        second_name: [str(array.dtype) for array in second],
    }
    if dtypes[first_name] != dtypes[second_name]:
        raise DTypeError(op, f"{second_name} returns other dtypes than {first_name}", dtypes)
