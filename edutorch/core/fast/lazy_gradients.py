"""Lazy gradients: objects that stand for a gradient and are materialized later.

The engine treats them as any other gradient: it adds them up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy

from ... import backends
from ...backends.addresses import address_of
from ...backends.kernel_registry import slot
from ...backends.numpy import Array, ArrayOrTensor, Number
from ..precision import LONG, add_up, widen
from ..registry import op_function

if TYPE_CHECKING:
    from ..autograd.engine import Engine
    from ..autograd.graph import Node
    from ..tensor import Tensor


class OutputGradients:
    """The gradients of several outputs of one node."""

    size, base = 1 << 62, None  # so large that the engine adds to it in place

    def __init__(self, node: Node, by_output: dict[int, Any]) -> None:
        self.node, self.by_output = node, by_output
        self.shape, self.dtype = node.shape, node.dtype

    @property
    def _array(self) -> OutputGradients:
        """The object itself; as an attribute it would be a reference cycle."""
        return self

    def __iadd__(self, other: OutputGradients) -> OutputGradients:
        self.by_output.update(other.by_output)
        return self

    __add__ = __iadd__  # not shared: copying for each of n outputs would take n² steps


MAX_ROWS = 256
"""Products are computed once their factors have so many rows: deferring more of them takes memory
and no longer saves time."""


class DeferredMatmulGradient:
    """The gradient of a weight matrix as a sum of products gᵀ x, computed all at once.

    A recurrent network uses the same weights in each step, and each use contributes a product of
    few rows: g₁ᵀ x₁ + g₂ᵀ x₂ + … One product of all rows together is the same sum; it takes two
    thirds of the time, and nothing as large as the weights has to be added.

    Attributes:
        dtype: None, so that the engine calls `match_target`, which defers it only for leaves.
        array_dtype: the dtype of the array to be.
    """

    size, base, dtype = 1 << 62, None, None

    def __init__(self, g: ArrayOrTensor, x: Array, multiply: Callable[[Any, Any], Any]) -> None:
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
        """Return the array. The factors are released before the product, which is large too."""
        if self.gs:
            g, x = join_rows(self.gs), join_rows(self.xs)
            # Released first: the product needs as much memory again.
            self.gs, self.xs, self.rows = [], [], 0
            y = self.multiply(g.T, x)
            self.sum = y if self.sum is None else numpy.add(y, self.sum, out=y)
        return self.sum


class RowBlock(threading.local):
    """Memory for matrices of few rows that will be joined: successive ones lie side by side.

    Else joining the gradients of eight steps would take a tenth as long as their product.
    """

    block: Any = None  # a reference: the memory is freed with the matrices
    row = 0  # the first that is not in use

    def take(self, rows: int, columns: int, dtype: numpy.dtype[Any]) -> Array:
        """Return new memory for a matrix."""
        block, first = self.block and self.block(), self.row
        stop = first + rows
        is_fit = block is not None and stop <= MAX_ROWS and block.dtype is dtype
        if not is_fit or block.shape[1] != columns:
            if rows > MAX_ROWS // 2:
                return numpy.empty((rows, columns), dtype)
            block, first, stop = numpy.empty((MAX_ROWS, columns), dtype), 0, rows
            self.block = ref(block)
        self.row = stop
        return block[first:stop]


new_rows = RowBlock().take


def join_rows(matrices: list[Array]) -> Any:
    """Return matrices as one, one below the other: without a copy where they lie so."""
    first = matrices[0]
    if len(matrices) == 1:
        return first
    base = first.base
    if base.__class__ is numpy.ndarray and base.flags.c_contiguous and base.dtype is first.dtype:
        address, below, strides = address_of(first), 0, base.strides
        for matrix in matrices:
            is_next = matrix.base is base and address_of(matrix) == address + below
            if not is_next or matrix.strides != strides or matrix.shape[1:] != base.shape[1:]:
                break
            below += matrix.nbytes
        else:
            start = (address - address_of(base)) // strides[0]
            return base[start : start + below // strides[0]]
    return numpy.concatenate(matrices)


class OneHotGradient:
    """A gradient with one nonzero element in each row, as that of `nll_loss`.

    Only an op that `takes_one_hot` receives it so; for all others it becomes an array.

    Attributes:
        columns: the column of the nonzero element of each row.
        values: the nonzero elements.
        dtype: None, so that the engine calls `match_target`, as for `DeferredMatmulGradient`.
        array_dtype: the dtype of the array to be.
    """

    size, base, dtype = 0, None, None

    def __init__(
        self, shape: tuple[int, ...], columns: Array, value: Number, array_dtype: numpy.dtype[Any]
    ) -> None:
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

    def add_to(self, y: Array) -> None:
        """Add the nonzero elements to an array."""
        y[numpy.arange(len(y)), self.columns] += self.values


class RowGradient:
    """The gradient of a matrix of which only some rows were used, as that of a sparse embedding.

    It stays so on its way to a leaf, whose `.grad` becomes a sparse tensor; where it meets dense
    gradients, or code that wants an array, it becomes one.

    Attributes:
        rows: the index of each row that was used; a row may occur several times.
        values: the gradients of these rows.
        dtype: None, so that the engine calls `match_target`, as for `DeferredMatmulGradient`.
        array_dtype: the dtype of the array to be.
    """

    size, base, dtype = 0, None, None

    def __init__(self, shape: tuple[int, ...], rows: Array, values: Array) -> None:
        self.shape, self.rows, self.values = shape, rows, values
        self.array_dtype = values.dtype

    def __add__(self, other: Any) -> Any:
        if other.__class__ is not RowGradient:
            return self.materialize() + as_array(other)
        xp = backends.of(self.values).xp
        rows = xp.concatenate((self.rows, other.rows))
        return RowGradient(self.shape, rows, xp.concatenate((self.values, other.values)))

    def materialize(self) -> Any:
        """Return the array."""
        backend = backends.of(self.values)
        y = backend.xp.zeros(self.shape, self.array_dtype)
        backend.scatter_add(y, (self.rows,), self.values)
        return y

    def to_tensor(self) -> Tensor:
        """Return the gradient as a sparse tensor; attached by `ops/sparse/methods.py`."""
        raise NotImplementedError


LAZY = {DeferredMatmulGradient, OneHotGradient, RowGradient}
"""The classes of lazy gradients, which have to become arrays in the end."""

ADD_ONTO, SUM = slot("ADD_ONTO"), slot("sum")

SUM_KERNEL_MIN_SIZE = 180_000
"""From so many elements on, the kernel of `sum` is used for a sum over the first axes."""


def add_large(total: ArrayOrTensor, partial: ArrayOrTensor) -> Any:
    """Return the sum of two gradients that are not small."""
    if total.__class__ is numpy.ndarray:
        # Of the op itself: its kernel also adds the broadcast gradient of a sum.
        y = op_function("add").op.slot(total, partial, 1)
        if y is not None:
            return y
    return total + partial


def add_in_place(total: ArrayOrTensor, partial: ArrayOrTensor) -> None:
    """Add a gradient in place to the sum of earlier ones, which nothing else shares."""
    large = total.__class__ is numpy.ndarray and total.size >= ADD_ONTO.min_size
    if not large or ADD_ONTO(total, partial) is None:
        total += partial


def sum_over(g: ArrayOrTensor, axes: int | tuple[int, ...]) -> Any:
    """Sum a gradient over the axes that broadcasting expanded: 16-bit floats as float32."""
    if g.__class__ is not numpy.ndarray:
        return widen(g).sum(axes)
    if g.size >= SUM_KERNEL_MIN_SIZE:
        y = SUM(g, axes, False, None)
        if y is not None:
            return y
    if g.itemsize == 2:
        return numpy.add.reduce(g, axes, numpy.float32)
    return numpy.add.reduce(g, axes) if g.size <= LONG else add_up(numpy, g, axes, False)


def as_array(g: ArrayOrTensor) -> Any:
    """Return a gradient as an array, materialized if it is lazy."""
    return g.materialize() if g.__class__ in LAZY else g


def can_defer(
    engine: Engine,
    later: DeferredMatmulGradient | OneHotGradient | RowGradient,
    edge: Any,
    target: Node | Array,
) -> bool:
    """Return True if a lazy gradient may stay lazy on its way to a node or a leaf.

    Args:
        target: the node, or the leaf's array, whose shape and dtype the gradient has to match.
    """
    if later.__class__ is RowGradient:
        return stays_sparse(engine, later, edge, target)
    # A conversion needs the elements.
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


def stays_sparse(engine: Engine, rows: RowGradient, edge: Any, target: Node | Array) -> bool:
    """Return True if a gradient of rows stays sparse: at a leaf, with others of its kind."""
    if edge._order or rows.array_dtype != target.dtype or rows.shape != target.shape:
        return False
    hooks = edge._hooks
    if hooks is not None and (hooks.gradient or hooks.before or hooks.after):
        return False  # hooks take and return dense tensors
    waiting_gradient = engine.pending.get(edge)
    return waiting_gradient is None or (
        waiting_gradient.__class__ is RowGradient and target.dtype.itemsize > 2
    )


def takes_one_hot(node: Node) -> bool:
    """Return True if the rule of a node takes `OneHotGradient`; nodes of user functions do not."""
    return getattr(node.op, "takes_one_hot", False)


_PENDING = threading.local()


def register_pending(engine: Engine, edge: Node | Tensor) -> None:
    """Register a leaf or a node whose pending gradient is lazy, in this thread."""
    _PENDING.__dict__.setdefault("edges", []).append((ref(engine), edge))


def materialize_pending() -> None:
    """Materialize all pending gradients, before user code that may write into their factors."""
    for reference, edge in _PENDING.__dict__.pop("edges", ()):
        if (engine := reference()) is not None and edge in engine.pending:  # else it is done
            engine.pending[edge] = as_array(engine.pending[edge])
