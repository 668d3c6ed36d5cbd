"""What If, Loop, Scan and SequenceMap do when a model runs."""

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
    return then_branch(*then_args) if bool(pred) else else_branch(*else_args)


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
