"""A glance at a step: its numbers are gathered while its ops run on their fast paths.

Listening to every op makes an op many times slower. But most steps of a loop have the graph of the
step before. So of such a step that is checked, for all ops at once, and only the numbers of what
is on the screen are taken. If anything is different, the glance is worth nothing, and the next
step is looked at in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.autograd.engine import unbroadcast
from ...core.fast.lazy_gradients import as_array
from ...core.tensor import LEAF, Tensor
from ..tensors.summaries import TINY, Stats, summarize
from .packed_values import FewValues, StepValues, PackedValues, row_statistics
from .step_trace import ShapeGroup, BackwardOrder, Constant, RowMap, origin_of

if TYPE_CHECKING:
    from .layer_health import Gauges

node_of, edges_of = attrgetter("_node"), attrgetter("edges")
array_of, dtype_of = attrgetter("_array"), attrgetter("dtype")
writes_of = attrgetter("_writes")

FLOAT_DTYPES = np.dtype("float32"), np.dtype("float64")

MAX_HELD_BYTES = 1 << 23
"""Bytes of results that may be held until backward is over."""

SMALL_TRACE_BYTES = 1 << 17
"""Gradients of so few bytes stay in the caches: to note them all is quicker than to choose."""


def arrays_of(some: Sequence[Any]) -> Iterable[Any]:
    """Return the arrays of tensors; what is an array already stays."""
    tensors = list(map(type, some)).count(Tensor)
    if tensors == len(some):
        return map(array_of, some)
    return [getattr(each, "_array", each) for each in some] if tensors else some


class BoundedBuffer(list[Any]):
    """What is noted where much memory would be held: it is read as soon as that is too much."""

    def __init__(self, read: Callable[[], None], limit: int) -> None:
        super().__init__()
        self.read, self.limit, self.held = read, limit, 0

    def extend(self, items: Iterable[Any]) -> None:
        """Note one more."""
        one, other, *_ = items = tuple(items)
        super().extend(items)
        self.held += getattr(getattr(other, "_array", other), "nbytes", 0)
        self.held += getattr(getattr(one, "_array", None), "nbytes", 0)
        if self.held > self.limit:
            self.held = 0
            self.read()


class FastSampler:
    """Follows one step (see `events.use_op_recorder`), and reads what was noted when backward is over.

    Attributes:
        wrong: the step is not the one that was expected, or it is over.
        written: a result was overwritten before it was read: read the next ones at once.
        gauges: what is told of the activations and parameters as well.
        on_broken: called with the nodes that backward ran through, what came in and what left them,
            if a number was not finite.
        older: the numbers that stand where none are taken.
    """

    def __init__(
        self,
        watched: RowMap,
        gauges: Gauges | None = None,
        eager: bool = False,
        older: PackedValues | StepValues | None = None,
    ) -> None:
        self.watched, self.gauges, self.older = watched, gauges, older
        self.wrong = self.written = False
        self.on_broken: Callable[[Iterable[tuple[Any, Any, Any]]], None] | None = None
        self._ran: tuple[Sequence[Any], ...] = ()  # what the last backward ran through
        self.recorded: list[Any] = []
        self._went_back: list[Any] = []
        self._soon = eager or watched.script.nbytes > MAX_HELD_BYTES  # nothing is kept till the end
        if self._soon:
            self.recorded = BoundedBuffer(self.read_forward, 0 if eager else MAX_HELD_BYTES)
            self._went_back = BoundedBuffer(self.read_backward, MAX_HELD_BYTES)
        self._eager = eager
        self._nodes: list[Any] = []  # of the calls so far
        self._leaves: dict[int, tuple[int, Tensor]] = {}  # by id: what came from outside
        self._bound: dict[int, Tensor] = {}
        self._passes = 0  # of backward, or stretches of one
        self._ended: list[int] = []
        self._wanted: set[Any] = set()  # nodes whose gradients are, where most are not
        self._rows: list[int] = []  # whose numbers those of the arrays are
        self._arrays: list[Any] = []
        self._found = (watched.nothing if older is None else older.numbers).copy()
        self._tiny: FewValues = dict(watched.older_few)
        self._texts: dict[int, str] = dict(watched.older_texts)
        self._aside = 0  # how many ops that are not recorded have come as expected
        self._broken = False  # a number is not finite

    @property
    def kind(self) -> tuple[bool, bool]:
        """What it takes: everything or a part, and gauges or none. Alike ones cost the same."""
        return self.watched.whole, self.gauges is not None

    def unknown(self) -> None:
        """Give up: something was recorded that this cannot follow."""
        self.wrong = True

    def unrecorded(self, op: Any, output: Any, given: Sequence[Any]) -> None:
        """Take the result of an op that is not recorded, and operands from outside.

        Another one than expected (an evaluation now and then) is no reason to look in full: the
        numbers of those that follow stay what they were.
        """
        calls = self.watched.script.aside
        if self._aside >= len(calls) or calls[self._aside].op is not op:
            self._aside = len(calls)
            return
        call, at = calls[self._aside], self.watched.at
        self._aside += 1
        if call.key is None:
            return
        results = self.watched.results
        for number, value in ((call.key, output), *zip(call.given, given, strict=False)):
            row = at.get(number)
            if row is None or (number is not call.key and number in results):
                continue
            if isinstance(value, int | float):
                self._constant(number, value)
            elif isinstance(value, Tensor) and value._array.shape == self.watched.shapes[row]:
                self._take(row, value._array)

    def before_write(self) -> None:
        """Read what was noted before a tensor gets other elements, and another history."""
        self.read_forward()
        self._sum()

    def goes_back(self) -> Callable[[tuple[Any, Any, Any]], None]:
        """Hear that backward begins; return what is to be told of each node it runs through."""
        self.read_forward()  # what nobody looks at need not be kept until the end
        all_of_them = self.watched.most or self.watched.script.nbytes <= SMALL_TRACE_BYTES
        return self._went_back.extend if all_of_them else self._went

    def _went(self, told: tuple[Any, Any, Any]) -> None:
        """Note a node, and its gradients only if somebody looks at them: memory is used again."""
        self._went_back.extend(told if told[0] in self._wanted else (told[0], None, None))

    # Reading ----------------------------------------------------------------------------

    def read_forward(self) -> None:
        """Check the ops that were recorded, and take their results."""
        begin = len(self._nodes)
        if not self.wrong:
            try:
                self.wrong = not self._read(begin)
            except AttributeError:  # an operand is no tensor
                self.wrong = True
        self.recorded.clear()
        if self._soon:
            self._sum()

    def _read(self, begin: int) -> bool:
        """Take the results of the ops from `begin` on; False: they are others than expected."""
        expected, watched = self.watched.expected, self.watched
        if not self.recorded:
            return True
        outputs, given = self.recorded[::2], self.recorded[1::2]
        nodes = list(map(node_of, outputs))
        self._nodes += nodes
        end = len(self._nodes)
        if not expected.are(nodes, begin) or not self._operands_are_right(given, begin):
            return False
        if not watched.most:
            self._wanted.update(watched.wanted.of(nodes, begin)[0])
        shown, rows = watched.values.of(outputs, begin)
        self._rows += rows
        self._arrays += map(array_of, shown)
        writes = () if self._eager else list(map(writes_of, shown))
        if writes.count(None) < len(writes):
            written = (each for each in shown if each._writes is not None)
            if any(each._writes.time > each._node._order for each in written):
                self.written = True
                return False
        if self.gauges is not None:
            for call, output in zip(watched.script.calls[begin:end], outputs, strict=True):
                self.gauges.told(call, output)
        return True

    def _operands_are_right(self, given: Sequence[Any], begin: int) -> bool:
        """Compare from where the operands of the ops came, and take those from outside."""
        expected = self.watched.expected
        edges = list(map(edges_of, self._nodes[begin:]))
        if list(map(len, edges)) != expected.counts[begin : begin + len(edges)]:
            return False
        recorded, first = list(chain.from_iterable(edges)), expected.starts[begin]
        results, calls = expected.results.of(recorded, first)
        if not all(map(is_, results, map(self._nodes.__getitem__, calls))):
            return False
        leaves = zip(*expected.leaves.of(recorded, first), strict=True)
        if not all(self._is_leaf(each, at) for each, at in leaves):
            return False
        others = zip(*expected.outside.of(given, begin), strict=True)
        return all(self._is_other(some[at], each) for some, known in others for at, each in known)

    def _is_other(self, operand: Any, wanted: int | Constant) -> bool:
        """Say whether data, or a number, is there where it was; and take it."""
        if not isinstance(wanted, Constant):
            return self._is_leaf(operand, wanted)
        if isinstance(operand, Tensor) and operand._array.size == 1:  # the 1 of `1 - x`
            operand = operand._array.item()
        if isinstance(operand, int | float):
            self._constant(wanted.number, operand)
            return True
        return False

    def _constant(self, vertex: int, given: float) -> None:
        at = self.watched.at.get(vertex)
        if at is not None:
            number = float(given)
            text = f"{given:.4g}"
            with np.errstate(over="ignore"):
                self._note(
                    at, Stats(1, number, number, number, abs(number), False, text, (number,))
                )

    def _is_leaf(self, tensor: Any, wanted: int) -> bool:
        """Say whether a tensor from outside is the one expected; on its first use, it is."""
        known = self._leaves.get(id(tensor))
        if known is not None and known[0] == wanted:
            return True
        if known is not None and self.watched.script.again.get(wanted) != known[0]:
            return False
        if wanted in self._bound or not isinstance(tensor, Tensor):
            return False
        if tensor._node is not None and tensor._node is not LEAF and tensor._node in self._nodes:
            return False
        self._leaves[id(tensor)] = wanted, tensor  # which keeps it: nobody else gets its id
        self._bound[wanted] = tensor
        at = self.watched.at.get(wanted)
        if at is not None:
            self._take(at, tensor._array)
        shape = self.watched.came.get(wanted)
        return shape is None or tensor._array.shape == shape

    def read_backward(self) -> None:
        """Take the gradients at the nodes that backward ran through, and what left them."""
        if self.recorded:
            self.read_forward()
        if not self.wrong and self._went_back:
            nodes, gradients, partials = (self._went_back[part::3] for part in range(3))
            self._ran = nodes, gradients, partials
            order = self._order_of(nodes)
            shown, rows = order.shown.of(gradients)
            self._rows += rows
            self._arrays += arrays_of(shown)
            for place, index, row in order.flows:
                partial, edge = as_array(partials[place][index]), nodes[place].edges[index]
                if partial is not None and edge is not None:
                    self._flowed(row, partial, edge)
        self._went_back.clear()
        if self._soon:
            self._sum()

    def _order_of(self, ran: Sequence[Any]) -> BackwardOrder:
        """Return where the gradients go that were at these nodes."""
        known = self.watched.backward
        order = known.get(self._passes)
        if order is None or not order.is_that_of(ran, self._nodes):
            numbers = dict(zip(self._nodes, self.watched.expected.numbers, strict=False))
            order = BackwardOrder(self.watched, list(map(numbers.get, ran)), list(map(origin_of, ran)))
            known[self._passes] = order
        self._passes += 1
        return order

    def _take(self, row: int, array: Any) -> None:
        self._rows.append(row)
        self._arrays.append(array)

    def _flowed(self, row: int, partial: Any, edge: Any) -> None:
        """Take what an input received, before broadcasting made it larger."""
        array = partial._array if isinstance(partial, Tensor) else partial
        if hasattr(array, "by_output"):  # of several outputs: its own is the first, others joined
            array = next(iter(array.by_output.values()))
            self._take(row, getattr(array, "_array", array))
            return
        shape = edge.shape if edge._order else edge._array.shape
        self._take(row, array if array.shape == shape else unbroadcast(array, tuple(shape)))

    def backward_ended(self, event: Any) -> None:
        """Read what was noted, before anything is changed; take the gradients of the leaves."""
        self.read_backward()
        if not self.wrong:
            self._take_leaves(event)
        ran, self._ran = self._ran, ()
        if self._broken and ran and self.on_broken is not None:
            self.on_broken(zip(*ran, strict=True))

    def _take_leaves(self, event: Any) -> None:
        nodes = [root._node for root in event.roots if root._node not in (None, LEAF)]
        if nodes:
            youngest = max(nodes, key=lambda node: node._order)
            known = youngest in self._nodes
            place = self._nodes.index(youngest) if known else -1
            self._ended.append(self.watched.expected.numbers[place] if known else -1)
        if not event.accumulated:
            self._sum()
            return
        for number in self.watched.script.received:
            leaf = self._bound.get(number)
            if leaf is not None and self._leaves[id(leaf)][0] != number:
                continue  # it has been written to since, and is another vertex now
            at = self.watched.at.get(number)
            if leaf is not None and leaf._grad is not None:
                if at is not None:
                    self._take(self.watched.nodes + at, leaf._grad._array)
                if self.gauges is not None:
                    self.gauges.received(leaf)
        self._sum()

    def _sum(self) -> None:
        """Summarize the arrays that were gathered, small ones of one shape all together."""
        rows, arrays = self._rows, self._arrays
        if not rows:
            return
        with np.errstate(all="ignore"):  # what float32 cannot hold becomes an infinity
            if list(map(type, arrays)).count(np.ndarray) == len(arrays):
                for alike in self.watched.alike(rows):
                    some = alike.pick(arrays)
                    if alike.alone or not self._sum_together(alike, some):
                        self._sum_one_by_one(alike.rows.tolist(), some)
            else:
                self._sum_one_by_one(rows, arrays)
        rows.clear()
        arrays.clear()

    def _sum_one_by_one(self, rows: list[int], arrays: Sequence[Any]) -> None:
        for row, array in zip(rows, arrays, strict=True):
            if array.__class__ is np.ndarray and array.size == 1 and array.dtype in FLOAT_DTYPES:
                self._note_number(row, array.item(), array.ndim > 0)
            else:
                self._note(row, summarize(array))

    def _note_number(self, row: int, number: float, listed: bool) -> None:
        """Note a single number, as a loss is in each step: much quicker than a summary."""
        finite = math.isfinite(number)
        self._found[row] = 1, number, number, number, abs(number) if finite else math.nan
        self._tiny[row] = (number,), listed
        self._broken |= not finite

    def _note(self, row: int, each: Stats) -> None:
        self._found[row] = each[:5]
        self._tiny[row] = each.few, each.text.startswith("[")
        self._broken |= each.bad
        reals = self.watched.reals
        if each.text and not (each.few and (row >= len(reals) or reals[row])):
            self._texts[row] = each.text

    def _sum_together(self, alike: ShapeGroup, arrays: Sequence[Any]) -> bool:
        """Summarize arrays of one shape; False: they are of another, or no ordinary numbers."""
        shape, count, kind = alike.shape, len(arrays), arrays[0].dtype
        if kind not in FLOAT_DTYPES or list(map(dtype_of, arrays)).count(kind) != count:
            return False
        whole = np.frombuffer(alike.joined(arrays), kind)
        if whole.size != count * math.prod(shape) or not whole.size:
            return False
        data = whole.reshape(count, -1)
        found, finite = row_statistics(data, extremes=self.watched.whole)
        self._broken |= not finite
        self._found[alike.rows] = found  # of a row twice, the later one
        if data.shape[1] <= TINY:
            for row, few in zip(alike.rows.tolist(), data.tolist(), strict=True):
                self._tiny[row] = few, bool(shape)
        return True

    # At its end -------------------------------------------------------------------------

    def finish(self) -> StepValues | None:
        """Return the numbers; None: it was another graph than the one expected."""
        self.read_backward()
        self._sum()
        watched, script = self.watched, self.watched.script
        wrong, self.wrong = self.wrong, True
        if wrong or len(self._nodes) != len(script.calls) or tuple(self._ended) != script.roots:
            return None
        numbers = self._found.take(watched.sources, 0)
        few = partial(few_values, self._tiny, watched.same)
        return StepValues(numbers, self._texts, few, self._broken, self.older)


def few_values(tiny: FewValues, same: Iterable[tuple[int, int]]) -> FewValues:
    """Return the numbers of tiny tensors, also of those that share another's."""
    return tiny | {row: tiny[other] for row, other in same if other in tiny}
