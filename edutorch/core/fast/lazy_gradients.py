"""What arrives at a node or a leaf, and is no array yet.

To the engine both are gradients like any other: what is there already is added to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy

from ...backends.reference_mode import known_slot
from ..precision import LONG, add_up, widen

if TYPE_CHECKING:
    from ..autograd.engine import Engine
    from ..autograd.graph import Node
    from ..tensor import Tensor


class OutputGradients:
    """The gradients of several outputs of one node, on their way to it together."""

    size, base = 1 << 62, None  # so large that the engine adds to it in place

    def __init__(self, node: Node, by_output: dict[int, Any]) -> None:
        self.node, self.by_output = node, by_output
        self.shape, self.dtype = node.shape, node.dtype

    @property
    def _array(self) -> OutputGradients:
        """Itself; were it kept, the gradients would live on until Python looks for cycles."""
        return self

    def __iadd__(self, other: OutputGradients) -> OutputGradients:
        self.by_output.update(other.by_output)
        return self

    __add__ = __iadd__  # nobody else has it: a copy for each of n outputs would take n² steps


MAX_ROWS = 256
"""Products of so many rows are computed before more of them are kept: a longer wait takes memory
for all their factors, and no longer saves time."""


class DeferredMatmulGradient:
    """The gradient of a weight matrix as a sum of products gᵀ x, computed all at once.

    A network over time uses the same weights in each step, and each use sends back a product of
    few rows: g₁ᵀ x₁ + g₂ᵀ x₂ + … One product of all rows together is the same sum; it takes two
    thirds of the time, and nothing as large as the weights has to be added.

    Attributes:
        dtype: none, so that the engine asks `match_shape_and_dtype`, which keeps only what a leaf waits for.
        array_dtype: the dtype of the array to be.
    """

    size, base, dtype = 1 << 62, None, None

    def __init__(self, g: Any, x: Any, multiply: Callable[[Any, Any], Any]) -> None:
        self.shape, self.array_dtype, self.multiply = (g.shape[1], x.shape[1]), g.dtype, multiply
        self.gs, self.xs, self.rows = [g], [x], len(g)
        self.sum: Any = None  # of the products that are no longer kept

    def __add__(self, other: Any) -> DeferredMatmulGradient:
        both = DeferredMatmulGradient(self.gs[0], self.xs[0], self.multiply)
        both += other
        return both

    def __iadd__(self, other: Any) -> DeferredMatmulGradient:
        if other.__class__ is not DeferredMatmulGradient:
            self.sum = other if self.sum is None else self.sum + other
            return self
        self.gs += other.gs
        self.xs += other.xs
        self.rows += other.rows
        if self.rows >= MAX_ROWS:
            self.materialize()
        return self

    def materialize(self) -> Any:
        """Return the array, and let go of the factors: before the product, which is large too."""
        if self.gs:
            g, x = (
                arrays[0] if len(arrays) == 1 else numpy.concatenate(arrays)
                for arrays in (self.gs, self.xs)
            )
            self.gs, self.xs, self.rows = [], [], 0
            y = self.multiply(g.T, x)
            self.sum = y if self.sum is None else numpy.add(y, self.sum, out=y)
        return self.sum


class OneHotGradient:
    """A gradient that is 0 but for one number in each row, as that of a loss that looks at the
    right class. Only an op that `takes_one_hot` gets it so; for all others it becomes an array.

    Attributes:
        columns: where the number of each row is.
        values: the numbers.
        dtype: none, so that the engine asks `match_shape_and_dtype`, as it does for `DeferredMatmulGradient`.
        array_dtype: the dtype of the array to be.
    """

    size, base, dtype = 0, None, None

    def __init__(self, shape: tuple[int, ...], columns: Any, value: Any, array_dtype: Any) -> None:
        self.shape, self.columns, self.array_dtype = shape, columns, array_dtype
        self.values = numpy.full(
            columns.shape, value, array_dtype
        )  # it may be one number for all rows

    def __add__(self, other: Any) -> Any:
        return self.materialize() + as_array(other)

    def materialize(self) -> Any:
        """Return the array."""
        y = numpy.zeros(self.shape, self.array_dtype)
        self.add_to(y)
        return y

    def add_to(self, y: Any) -> None:
        """Add the numbers to an array, each at its place."""
        y[numpy.arange(len(y)), self.columns] += self.values


LAZY = {DeferredMatmulGradient, OneHotGradient}
"""What arrives in another form than an array, and has to become one in the end."""

ADD, ADD_ONTO, SUM = known_slot("add"), known_slot("add/onto"), known_slot("sum")

SUM_KERNEL_MIN_SIZE = 180_000
"""From so many numbers on, the sum over the first axes is worth asking the kernel of `sum`."""


def add_large(total: Any, partial: Any) -> Any:
    """Return the sum of two gradients that are not small."""
    if total.__class__ is numpy.ndarray and total.size >= ADD.min_size:
        y = ADD(total, partial, 1)
        if y is not None:
            return y
    return total + partial


def add_in_place(total: Any, partial: Any) -> None:
    """Add a gradient to a sum of earlier ones, which is nobody else's."""
    large = total.__class__ is numpy.ndarray and total.size >= ADD_ONTO.min_size
    if not large or ADD_ONTO(total, partial) is None:
        total += partial


def sum_over(g: Any, axes: int | tuple[int, ...]) -> Any:
    """Sum a gradient over the axes that broadcasting stretched: 16-bit floats as float32."""
    if g.__class__ is not numpy.ndarray:
        return widen(g).sum(axes)
    if g.size >= SUM_KERNEL_MIN_SIZE:
        y = SUM(g, axes, False, None)
        if y is not None:
            return y
    if g.itemsize == 2:
        return numpy.add.reduce(g, axes, numpy.float32)
    return numpy.add.reduce(g, axes) if g.size <= LONG else add_up(numpy, g, axes, False)


def as_array(g: Any) -> Any:
    """Return a gradient as an array, whatever it was."""
    return g.materialize() if g.__class__ in LAZY else g


def can_defer(engine: Engine, later: Any, edge: Any, target: Any) -> bool:
    """Return True if what is no array yet may stay so on its way to a node or a leaf.

    Args:
        target: the node, or the leaf's array: what the gradient has to fit.
    """
    if later.array_dtype is not target.dtype or later.shape != target.shape:
        return False
    waiting_gradient, at_leaf = engine.pending.get(edge), not edge._order
    if later.__class__ is DeferredMatmulGradient:  # with others of its kind
        waits = at_leaf and (
            waiting_gradient is None or waiting_gradient.__class__ is DeferredMatmulGradient
        )
    else:
        waits = not at_leaf and waiting_gradient is None and not edge.hooks and takes_one_hot(edge)
    if waits and waiting_gradient is None:
        register_pending(engine, edge)
    return waits


def takes_one_hot(node: Node) -> bool:
    """Return True if the rule of a node takes `OneHotGradient`; nodes of users' functions have no such op."""
    return getattr(node.op, "takes_one_hot", False)


_PENDING = threading.local()


def register_pending(engine: Engine, edge: Node | Tensor) -> None:
    """Note that a leaf or a node waits for an array in a backward pass of this thread."""
    _PENDING.__dict__.setdefault("edges", []).append((ref(engine), edge))


def materialize_pending() -> None:
    """Compute all that is owed: the user's code comes next, and it may write into the factors."""
    for engine, edge in _PENDING.__dict__.pop("edges", ()):
        if (owing := engine()) is not None and edge in owing.pending:  # else it failed, or had it
            owing.pending[edge] = as_array(owing.pending[edge])
