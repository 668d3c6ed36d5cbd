"""Samples a step while its ops run on their fast paths.

Listening to every op makes an op many times slower. But most steps of a loop have the same graph
as the step before. For such a step that is checked, for all ops at once, and only the values of
what is on the screen are taken. If anything differs, the sample is discarded, and the next
step is sampled in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.numpy import Array
from ...core.autograd.engine import unbroadcast
from ...core.fast.lazy_gradients import as_array
from ...core.op import Op
from ...core.tensor import LEAF, Tensor
from ...events import BackwardEnded
from ..tensors.summaries import TINY, Stats, summarize
from .messages import FewValues, PackedValues, StepValues, row_statistics
from .step_trace import BackwardOrder, Constant, RowMap, ShapeGroup, origin_of

if TYPE_CHECKING:
    from .layer_health import Gauges

node_of, edges_of = attrgetter("_node"), attrgetter("edges")
array_of, dtype_of = attrgetter("_array"), attrgetter("dtype")
writes_of = attrgetter("_writes")

FLOAT_DTYPES = np.dtype("float32"), np.dtype("float64")

MAX_HELD_BYTES = 1 << 23
"""Bytes of results that may be held until backward is over."""

SMALL_TRACE_BYTES = 1 << 17
"""Gradients of so few bytes stay in the caches: recording them all is quicker than choosing."""


def arrays_of(some: Sequence[Any]) -> Iterable[Any]:
    """Return the arrays of tensors; arrays are returned unchanged."""
    tensors = list(map(type, some)).count(Tensor)
    if tensors == len(some):
        return map(array_of, some)
    return [getattr(item, "_array", item) for item in some] if tensors else some


class BoundedBuffer(list[Any]):
    """A list of recorded results that is read as soon as they hold too much memory."""

    def __init__(self, read: Callable[[], None], limit: int) -> None:
        super().__init__()
        self.read, self.limit, self.held = read, limit, 0

    def extend(self, items: Iterable[Any]) -> None:
        """Record one more op, as (output, operands) or (node, gradient, partials)."""
        one, other, *_ = items = tuple(items)
        super().extend(items)
        self.held += getattr(getattr(other, "_array", other), "nbytes", 0)
        self.held += getattr(getattr(one, "_array", None), "nbytes", 0)
        if self.held > self.limit:
            self.held = 0
            self.read()


class LightSampler:
    """Records the ops of one step (`events.use_op_recorder`), and reads them after backward.

    Attributes:
        mismatched: the step is not the one that was expected, or it is over.
        overwritten: a result was overwritten before it was read: read the next ones at once.
        gauges: the panel that also gets the activations and parameters.
        on_broken: called with the nodes that backward ran through, their incoming and outgoing
            gradients, if a value was not finite.
        older: the values that stand where none are taken.
    """

    def __init__(
        self,
        watched: RowMap,
        gauges: Gauges | None = None,
        eager: bool = False,
        older: PackedValues | StepValues | None = None,
    ) -> None:
        self.row_map, self.gauges, self.older = watched, gauges, older
        self.mismatched = self.overwritten = False
        self.on_broken: Callable[[Iterable[tuple[Any, Any, Any]]], None] | None = None
        self._ran: tuple[Sequence[Any], ...] = ()  # what the last backward ran through
        self.recorded: list[Any] = []
        self._backward_records: list[Any] = []
        self._is_bounded = (
            eager or watched.trace.nbytes > MAX_HELD_BYTES
        )  # nothing is kept until the end
        if self._is_bounded:
            self.recorded = BoundedBuffer(self.read_forward, 0 if eager else MAX_HELD_BYTES)
            self._backward_records = BoundedBuffer(self.read_backward, MAX_HELD_BYTES)
        self._eager = eager
        self._nodes: list[Any] = []  # of the calls so far
        self._leaves: dict[int, tuple[int, Tensor]] = {}  # by id: what came from outside
        self._bound: dict[int, Tensor] = {}
        self._passes = 0  # of backward, or stretches of one
        self._root_keys: list[int] = []
        self._wanted: set[Any] = set()  # nodes whose gradients are wanted, where most are not
        self._rows: list[int] = []  # the rows of the arrays that were gathered
        self._arrays: list[Any] = []
        self._statistics = (watched.initial if older is None else older.statistics).copy()
        self._few: FewValues = dict(watched.older_few)
        self._texts: dict[int, str] = dict(watched.older_texts)
        self._unrecorded_count = 0  # how many unrecorded ops have come as expected
        self._broken = False  # a value is not finite

    @property
    def cost_class(self) -> tuple[bool, bool]:
        """What it samples: everything or a part, with or without gauges. Equal means equal cost."""
        return self.row_map.whole, self.gauges is not None

    def unknown(self) -> None:
        """Give up: something was recorded that a light sampler cannot follow."""
        self.mismatched = True

    def unrecorded(self, op: Op, output: object, operands: Sequence[Any]) -> None:
        """Take the result of an op that is not recorded, and its operands from outside the step.

        An unexpected one (an evaluation now and then) is no reason for a full sample: the values of
        those that follow stay what they were.
        """
        calls = self.row_map.trace.unrecorded
        if self._unrecorded_count >= len(calls) or calls[self._unrecorded_count].op is not op:
            self._unrecorded_count = len(calls)
            return
        call, row_of = calls[self._unrecorded_count], self.row_map.row_of
        self._unrecorded_count += 1
        if call.key is None:
            return
        results = self.row_map.results
        for key, value in ((call.key, output), *zip(call.operands, operands, strict=False)):
            row = row_of.get(key)
            if row is None or (key is not call.key and key in results):
                continue
            if isinstance(value, int | float):
                self._take_constant(key, value)
            elif isinstance(value, Tensor) and value._array.shape == self.row_map.shapes[row]:
                self._take(row, value._array)

    def before_write(self) -> None:
        """Read what was recorded before a tensor gets other elements, and another history."""
        self.read_forward()
        self._summarize()

    def begin_backward(self) -> Callable[[tuple[Any, Any, Any]], None]:
        """Handle the start of backward; return the function to call for each node it runs."""
        self.read_forward()  # what is not wanted need not be kept until the end
        all_of_them = self.row_map.wants_most or self.row_map.trace.nbytes <= SMALL_TRACE_BYTES
        return self._backward_records.extend if all_of_them else self._record_node

    def _record_node(self, record: tuple[Any, Any, Any]) -> None:
        """Record a node, and its gradients only if they are wanted, so that memory is reused."""
        self._backward_records.extend(
            record if record[0] in self._wanted else (record[0], None, None)
        )

    # Reading ----------------------------------------------------------------------------

    def read_forward(self) -> None:
        """Check the ops that were recorded, and take their results."""
        begin = len(self._nodes)
        if not self.mismatched:
            try:
                self.mismatched = not self._read(begin)
            except AttributeError:  # an operand is no tensor
                self.mismatched = True
        self.recorded.clear()
        if self._is_bounded:
            self._summarize()

    def _read(self, begin: int) -> bool:
        """Take the results of the ops from `begin` on; return False if they are unexpected."""
        expected, row_map = self.row_map.expected, self.row_map
        if not self.recorded:
            return True
        outputs, inputs = self.recorded[::2], self.recorded[1::2]
        nodes = list(map(node_of, outputs))
        self._nodes += nodes
        end = len(self._nodes)
        if not expected.matches(nodes, begin) or not self._check_operands(inputs, begin):
            return False
        if not row_map.wants_most:
            self._wanted.update(row_map.wanted.select(nodes, begin)[0])
        shown, rows = row_map.values.select(outputs, begin)
        self._rows += rows
        self._arrays += map(array_of, shown)
        writes = () if self._eager else list(map(writes_of, shown))
        # `None`: nothing was ever written into this memory, which is nearly always so.
        if writes.count(None) < len(writes):
            written = (output for output in shown if output._writes is not None)
            if any(output._writes.time > output._node._order for output in written):
                self.overwritten = True
                return False
        if self.gauges is not None:
            for call, output in zip(row_map.trace.calls[begin:end], outputs, strict=True):
                self.gauges.record_activation(call, output)
        return True

    def _check_operands(self, inputs: Sequence[Any], begin: int) -> bool:
        """Compare where the operands of the ops came from, and take those from outside."""
        expected = self.row_map.expected
        edges = list(map(edges_of, self._nodes[begin:]))
        # Whole columns are compared at once: a loop over ops would cost as much as the ops.
        if list(map(len, edges)) != expected.counts[begin : begin + len(edges)]:
            return False
        recorded, first = list(chain.from_iterable(edges)), expected.starts[begin]
        results, calls = expected.results.select(recorded, first)
        if not all(map(is_, results, map(self._nodes.__getitem__, calls))):
            return False
        leaves = zip(*expected.leaves.select(recorded, first), strict=True)
        if not all(self._is_leaf(leaf, key) for leaf, key in leaves):
            return False
        others = zip(*expected.outside.select(inputs, begin), strict=True)
        return all(
            self._is_data(operands[position], wanted)
            for operands, known in others
            for position, wanted in known
        )

    def _is_data(self, operand: object, wanted: int | Constant) -> bool:
        """Return True if data, or a Python number, is the expected operand; take its value."""
        if not isinstance(wanted, Constant):
            return self._is_leaf(operand, wanted)
        if isinstance(operand, Tensor) and operand._array.size == 1:  # the 1 of `1 - x`
            operand = operand._array.item()
        if isinstance(operand, int | float):
            self._take_constant(wanted.key, operand)
            return True
        return False

    def _take_constant(self, vertex: int, value: float) -> None:
        row = self.row_map.row_of.get(vertex)
        if row is not None:
            number = float(value)
            text = f"{value:.4g}"
            with np.errstate(over="ignore"):
                self._record(
                    row, Stats(1, number, number, number, abs(number), False, text, (number,))
                )

    def _is_leaf(self, tensor: object, wanted: int) -> bool:
        """Return True if a tensor from outside is the expected one; its first use always is."""
        known = self._leaves.get(id(tensor))
        if known is not None and known[0] == wanted:
            return True
        if known is not None and self.row_map.trace.again.get(wanted) != known[0]:
            return False
        if wanted in self._bound or not isinstance(tensor, Tensor):
            return False
        # A result of this step is no input, whatever position it came to.
        if tensor._node is not None and tensor._node is not LEAF and tensor._node in self._nodes:
            return False
        self._leaves[id(tensor)] = wanted, tensor  # keeps it alive, so that its id stays unique
        self._bound[wanted] = tensor
        at = self.row_map.row_of.get(wanted)
        if at is not None:
            self._take(at, tensor._array)
        shape = self.row_map.vertex_shapes.get(wanted)
        return shape is None or tensor._array.shape == shape

    def read_backward(self) -> None:
        """Take the gradients at the nodes that backward ran through, and those that left them."""
        if self.recorded:
            self.read_forward()
        if not self.mismatched and self._backward_records:
            nodes, gradients, partials = (self._backward_records[part::3] for part in range(3))
            self._ran = nodes, gradients, partials
            order = self._order_of(nodes)
            shown, rows = order.shown.select(gradients)
            self._rows += rows
            self._arrays += arrays_of(shown)
            for position, index, row in order.flows:
                partial, edge = as_array(partials[position][index]), nodes[position].edges[index]
                if partial is not None and edge is not None:
                    self._take_flow(row, partial, edge)
        self._backward_records.clear()
        if self._is_bounded:
            self._summarize()

    def _order_of(self, ran: Sequence[Any]) -> BackwardOrder:
        """Return where the gradients at these nodes go."""
        known = self.row_map.backward
        order = known.get(self._passes)
        if order is None or not order.matches(ran, self._nodes):
            keys = dict(zip(self._nodes, self.row_map.expected.keys, strict=False))
            order = BackwardOrder(self.row_map, list(map(keys.get, ran)), list(map(origin_of, ran)))
            known[self._passes] = order
        self._passes += 1
        return order

    def _take(self, row: int, array: Array) -> None:
        self._rows.append(row)
        self._arrays.append(array)

    def _take_flow(self, row: int, partial: Tensor | Array, edge: Any) -> None:
        """Take the gradient of an input, reduced to its shape before broadcasting."""
        array = partial._array if isinstance(partial, Tensor) else partial
        if hasattr(array, "by_output"):  # of several outputs: its own is the first, others joined
            array = next(iter(array.by_output.values()))
            self._take(row, getattr(array, "_array", array))
            return
        shape = edge.shape if edge._order else edge._array.shape
        self._take(row, array if array.shape == shape else unbroadcast(array, tuple(shape)))

    def backward_ended(self, event: BackwardEnded) -> None:
        """Read what was recorded, before anything is changed; take the gradients of the leaves."""
        self.read_backward()
        if not self.mismatched:
            self._take_leaves(event)
        # Let go of the nodes and gradients, even if nobody asks for them.
        ran, self._ran = self._ran, ()
        if self._broken and ran and self.on_broken is not None:
            self.on_broken(zip(*ran, strict=True))

    def _take_leaves(self, event: BackwardEnded) -> None:
        nodes = [root._node for root in event.roots if root._node not in (None, LEAF)]
        if nodes:
            youngest = max(nodes, key=lambda node: node._order)
            known = youngest in self._nodes
            position = self._nodes.index(youngest) if known else -1
            self._root_keys.append(self.row_map.expected.keys[position] if known else -1)
        # A pass of `grad` gives no leaf a gradient.
        if not event.accumulated:
            self._summarize()
            return
        for key in self.row_map.trace.received:
            leaf = self._bound.get(key)
            if leaf is not None and self._leaves[id(leaf)][0] != key:
                continue  # it has been written to since, and is another vertex now
            row = self.row_map.row_of.get(key)
            if leaf is not None and leaf._grad is not None:
                if row is not None:
                    self._take(self.row_map.nodes + row, leaf._grad._array)
                if self.gauges is not None:
                    self.gauges.record_gradient(leaf)
        self._summarize()

    def _summarize(self) -> None:
        """Summarize the arrays that were gathered, small ones of one shape together."""
        rows, arrays = self._rows, self._arrays
        if not rows:
            return
        with np.errstate(all="ignore"):  # float32 overflow becomes an infinity
            if list(map(type, arrays)).count(np.ndarray) == len(arrays):
                for alike in self.row_map.group_by_shape(rows):
                    some = alike.pick(arrays)
                    if alike.alone or not self._summarize_jointly(alike, some):
                        self._summarize_separately(alike.rows.tolist(), some)
            else:
                self._summarize_separately(rows, arrays)
        rows.clear()
        arrays.clear()

    def _summarize_separately(self, rows: list[int], arrays: Sequence[Any]) -> None:
        for row, array in zip(rows, arrays, strict=True):
            if array.__class__ is np.ndarray and array.size == 1 and array.dtype in FLOAT_DTYPES:
                self._record_number(row, array.item(), array.ndim > 0)
            else:
                self._record(row, summarize(array))

    def _record_number(self, row: int, number: float, listed: bool) -> None:
        """Record a single number, such as a loss: much quicker than a summary."""
        finite = math.isfinite(number)
        self._statistics[row] = 1, number, number, number, abs(number) if finite else math.nan
        self._few[row] = (number,), listed
        self._broken |= not finite

    def _record(self, row: int, stats: Stats) -> None:
        self._statistics[row] = stats[:5]
        self._few[row] = stats.few, stats.text.startswith("[")
        self._broken |= stats.bad
        reals = self.row_map.is_float_row
        if stats.text and not (stats.few and (row >= len(reals) or reals[row])):
            self._texts[row] = stats.text

    def _summarize_jointly(self, alike: ShapeGroup, arrays: Sequence[Any]) -> bool:
        """Summarize arrays of one shape; return False if they have another one or are no floats."""
        shape, count, dtype = alike.shape, len(arrays), arrays[0].dtype
        if dtype not in FLOAT_DTYPES or list(map(dtype_of, arrays)).count(dtype) != count:
            return False
        whole = np.frombuffer(alike.join_bytes(arrays), dtype)
        if whole.size != count * math.prod(shape) or not whole.size:
            return False
        data = whole.reshape(count, -1)
        statistics, finite = row_statistics(data, extremes=self.row_map.whole)
        self._broken |= not finite
        self._statistics[alike.rows] = statistics  # of a repeated row, the later one
        if data.shape[1] <= TINY:
            for row, few in zip(alike.rows.tolist(), data.tolist(), strict=True):
                self._few[row] = few, bool(shape)
        return True

    # The end ----------------------------------------------------------------------------

    def finish(self) -> StepValues | None:
        """Return the values, or None if the graph was not the expected one."""
        self.read_backward()
        self._summarize()
        row_map, trace = self.row_map, self.row_map.trace
        # From now on nothing is taken: an op after the step would belong to the next one.
        mismatched, self.mismatched = self.mismatched, True
        if (
            mismatched
            or len(self._nodes) != len(trace.calls)
            or tuple(self._root_keys) != trace.roots
        ):
            return None
        statistics = self._statistics.take(row_map.sources, 0)
        few = partial(few_values, self._few, row_map.shared_rows)
        return StepValues(statistics, self._texts, few, self._broken, self.older)


def few_values(tiny: FewValues, shared_rows: Iterable[tuple[int, int]]) -> FewValues:
    """Return the values of tiny tensors, also of those that share another row."""
    return tiny | {row: tiny[other] for row, other in shared_rows if other in tiny}
