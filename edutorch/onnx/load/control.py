"""What If, Loop, Scan and SequenceMap do when a model runs.

What `torch.cond`, `torch.while_loop` and `torch.scan` can say is said with these, so that a loaded
model can be exported again with its control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from .values import torch

Body = Callable[..., tuple[Any, ...]]
Values = tuple[Any, ...]


def cond(
    pred: Tensor, then_branch: Body, then_args: Values, else_branch: Body, else_args: Values
) -> Values:
    """Run one of two graphs, each on its own arguments."""
    count = len(then_args)
    return torch.cond(
        pred, lambda *values: tuple(then_branch(*values[:count])),
        lambda *values: tuple(else_branch(*values[count:])), (*then_args, *else_args),
    )  # fmt: skip


def loop(
    body: Body, max_trips: Tensor | None, keep: Tensor | None, carried: Values, captured: Values
) -> Values:
    """Run a graph until it says stop, or for a number of times.

    Args:
        body: takes (count, keep, *carried, *captured), returns (keep, *carried, *rows).
        max_trips: the most times, or None.
        keep: whether to begin at all, or None.

    Returns: the last carried values, and the rows of all times stacked.
    """
    if count_rows(body, len(carried)) == 0:
        return loop_without_rows(body, max_trips, keep, carried, captured)
    trips = None if max_trips is None else int(max_trips)
    going = keep is None or bool(keep)
    rows: list[Values] = []
    count = 0
    while going and (trips is None or count < trips):
        flag = torch.tensor(going)
        going_on, *results = body(torch.tensor(count), flag, *carried, *captured)
        carried, row = tuple(results[: len(carried)]), tuple(results[len(carried) :])
        rows.append(row)
        going = bool(going_on)
        count += 1
    return (*carried, *stacked(rows, body, 1 + len(carried)))


def count_rows(body: Body, carried: int) -> int | None:
    """Return how many results the graph of a Loop stacks, or None for another function."""
    graph: Any = getattr(body, "graph", None)
    return None if graph is None else len(graph.output_node().args[0]) - 1 - carried


def loop_without_rows(
    body: Body, max_trips: Tensor | None, keep: Tensor | None, carried: Values, captured: Values
) -> Values:
    """Run a loop that only carries values: it can be exported."""

    def goes_on(count: Tensor, going: Tensor, *values: Any) -> Any:
        return going if max_trips is None else torch.logical_and(going, count < max_trips)

    def turn(count: Tensor, going: Tensor, *values: Any) -> Values:
        following, *results = body(count, going, *values, *captured)
        return (count + 1, following.reshape(()), *results)

    begins = torch.tensor(True) if keep is None else keep.reshape(())
    _, _, *results = torch.while_loop(goes_on, turn, (torch.tensor(0), begins, *carried))
    return tuple(results)


def stacked(rows: list[Values], body: Body, first: int) -> Values:
    """Return each column of rows as one tensor, with empty ones where there are no rows."""
    if rows:
        return tuple(torch.stack(list(column)) for column in zip(*rows, strict=True))
    graph: Any = getattr(body, "graph", None)
    outputs = graph.output_node().args[0] if graph is not None else ()
    empty = []
    for node in outputs[first:]:
        known = node.meta.get("onnx")
        shape = [size if isinstance(size, int) else 0 for size in (known and known.shape) or ()]
        empty.append(torch.zeros([0, *shape], dtype=known.dtype if known else None))
    return tuple(empty)


def scan(
    body: Body, states: Values, inputs: Values, captured: Values, input_axes: Sequence[int],
    input_directions: Sequence[int], output_axes: Sequence[int], output_directions: Sequence[int],
) -> Values:  # fmt: skip
    """Run a graph on every slice of the inputs; states go from one run to the next.

    Args:
        input_axes: the axis of each input that is walked along, 0 by default.
        input_directions: 1 for those that are walked backwards.

    Returns: the last states, and the rows of all runs stacked.
    """
    axes = [*input_axes, *[0] * (len(inputs) - len(input_axes))]
    sizes = {value.shape[axis] for value, axis in zip(inputs, axes, strict=True)}
    ways = {bool(way) for way in (*input_directions, *output_directions)}
    is_plain = len(set(axes)) == len(sizes) == 1 and len(ways) < 2 and not any(output_axes)
    if is_plain and 0 not in sizes:
        return scan_one_way(body, states, inputs, captured, axes[0], ways == {True})
    walked = [list(value.unbind(axis)) for value, axis in zip(inputs, axes, strict=True)]
    for index, direction in enumerate(input_directions):
        if direction:
            walked[index].reverse()
    lengths = {len(slices) for slices in walked}
    if len(lengths) > 1:
        raise InvalidValueError("Scan", "its inputs have different lengths", {"lengths": lengths})
    rows = []
    for slices in zip(*walked, strict=True):
        results = body(*states, *slices, *captured)
        states, row = tuple(results[: len(states)]), tuple(results[len(states) :])
        rows.append(row)
    columns = list(stacked(rows, body, len(states)))
    for index, column in enumerate(columns):
        if index < len(output_directions) and output_directions[index]:
            column = column.flip(0)
        axis = output_axes[index] if index < len(output_axes) else 0
        columns[index] = column.movedim(0, axis)
    return (*states, *columns)


def scan_one_way(
    body: Body, states: Values, inputs: Values, captured: Values, axis: int, reverse: bool
) -> Values:
    """Run a scan along one axis, in one direction: it can be exported."""

    def step(carry: Values, slices: Values) -> tuple[Values, Values]:
        results = tuple(body(*carry, *slices, *captured))
        return results[: len(states)], results[len(states) :]

    last, rows = torch.scan(step, states, inputs, dim=axis, reverse=reverse)
    return (*last, *rows)


def batched_scan(
    body: Body, states: Values, inputs: Values, captured: Values, input_axes: Sequence[int],
    input_directions: Sequence[int], output_axes: Sequence[int], output_directions: Sequence[int],
) -> Values:  # fmt: skip
    """Run `scan` on every sample of a batch: what Scan did up to opset 8."""
    samples = [
        scan(body, tuple(state[i] for state in states), tuple(value[i] for value in inputs),
             captured, input_axes, input_directions, output_axes, output_directions)
        for i in range(inputs[0].shape[0])
    ]  # fmt: skip
    return tuple(torch.stack(list(column)) for column in zip(*samples, strict=True))


def sequence_map(
    body: Body, sequence: list[Tensor], others: Values, captured: Values
) -> tuple[list[Tensor], ...]:
    """Run a graph on each tensor of a sequence, and on those of other sequences beside it."""
    rows = [
        body(item, *(o[i] if isinstance(o, list) else o for o in others), *captured)
        for i, item in enumerate(sequence)
    ]
    return tuple(list(column) for column in zip(*rows, strict=True))
