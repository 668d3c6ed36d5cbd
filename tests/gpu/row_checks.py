"""What the kernels on rows have to compute, and how far they may be from it.

A check calls kernels as the ops do and compares them with the definitions in float64. The tests run
all of them, and `mutants.py` those of the text that it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from edutorch import ops
from edutorch.backends.kernel_registry import reference_only
from edutorch.core.op import Op
from edutorch.kernels.gpu import (
    channel_norms,
    cross_entropy,
    cumulative,
    gather,
    norms,
    pooling,
    reductions,
    resampling,
    rnn_cell,
    scatter,
    softmax,
)  # fmt: skip
from edutorch.kernels.gpu.module import CudaModule
from edutorch.kernels.gpu.row_launch import TYPES, module_for
from edutorch.nn import functional as F
from edutorch.nn.functional import normalization, rnn
from edutorch.nn.functional.interpolate import tap_table
from edutorch.ops import statistics

SIZES = (1, 31, 33, 1023, 8193)
DTYPES = {
    "float32": np.float32, "float64": np.float64,
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
}  # fmt: skip
EPS = 1e-3
"""The epsilon of the norms."""

FILES = (
    "softmax", "norms", "reductions", "rnn_cell", "scatter", "pooling", "cross_entropy",
    "channel_norms", "cumulative", "gather", "resampling",
)  # fmt: skip


def row_modules(dtypes: Iterable[str] = TYPES) -> list[CudaModule]:
    """Return the texts of the kernels on rows."""
    return [module_for(file, dtype) for dtype in dtypes for file in FILES]


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0, strided: bool = False) -> np.ndarray:
    """Return normally distributed numbers, as a view with gaps if `strided`."""
    wide = (*shape[:-1], 2 * shape[-1]) if strided else shape
    values = np.random.default_rng(seed).normal(size=wide).astype(DTYPES[dtype])
    return values[..., ::2] if strided else values


def compare(
    what: str, result: Any, definition: Callable[..., Any], arrays: list[Any],
    magnitude: float = 0,
) -> None:  # fmt: skip
    """Raise AssertionError if a result is too far from its definition in float64.

    It may be twice as far from it as the definition in float32 (16-bit floats: in their own dtype),
    and 4 units in the last place of the largest element, or of `magnitude`: a sum of one element
    that nearly cancels is as far off as its terms, and no other element says how large those are.
    """
    with reference_only():
        own = definition(*arrays)
        exact = definition(*[None if a is None else a.astype("float64") for a in arrays])
    results = result if isinstance(result, tuple) else (result,)
    owns, exacts = (x if isinstance(x, tuple) else (x,) for x in (own, exact))
    for number, (y, near, right) in enumerate(zip(results, owns, exacts, strict=True)):
        if right is None:
            assert y is None, what
            continue
        assert y.shape == np.shape(right), f"{what}: {y.shape} for {np.shape(right)}"
        dtype = arrays[0].dtype
        assert y.dtype == dtype, f"{what}: {y.dtype} for {dtype}"
        y, near = np.asarray(y, "float64"), np.asarray(near, "float64")
        unit = float(ml_dtypes.finfo(dtype).eps) * max(float(np.max(np.abs(right))), magnitude)
        # In float64 nothing longer tells how far either is: both sum in an order of their own.
        units = 64 if dtype == np.float64 else 4
        error, allowed = np.abs(y - right), 2 * np.max(np.abs(near - right)) + units * unit
        assert (error <= allowed).all(), (
            f"{what}, result {number}: off by {np.max(error)}, allowed {allowed}"
        )


def rule(op: Op, name: str = "input") -> Callable[..., Any]:
    """Return the function of an op's derivative."""
    return op.joint_rule.function if name == "joint_vjp" else op.rules[name].function


def check_softmax(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """softmax, log_softmax and their derivatives."""
    for n in sizes:
        x, g = draw((3, n), dtype, n, strided=True), draw((3, n), dtype, n + 1)
        for op, logarithm in ((ops.softmax.op, False), (ops.log_softmax.op, True)):
            what = f"{op.name} {dtype} {n}"
            run, back = softmax.forward(logarithm), softmax.backward(logarithm)
            y = run(x, -1, None)
            compare(what, y, lambda x, op=op: op.forward(np, x, -1), [x])
            slope = rule(op)
            compare(f"{what} backward", back(g, y, 1), lambda g, y, r=slope: r(g, y, -1), [g, y])


def check_norms(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """Layer norm and RMS norm, with and without weight and bias, and their derivatives."""
    layer, rms = normalization.native_layer_norm.op, normalization.fused_rms_norm.op
    for n in sizes:
        rows = 70 if n < 100 else 3
        magnitude = rows**0.5 if n == 1 else 0  # of the gradient of the one weight
        x, g = draw((rows, n), dtype, n, strided=True) + 1, draw((rows, n), dtype, n + 1)
        x = x.astype(g.dtype)
        weight, bias = draw((n,), dtype, n + 2), draw((n,), dtype, n + 3)
        for w, b in ((weight, bias), (None, None), (weight, None)):
            what = f"{dtype} {n} {w is not None} {b is not None}"
            y = norms.native_layer_norm()(x, w, b, 1, EPS)
            compare(
                f"layer norm {what}", y,
                lambda x, w, b: layer.forward(np, x, w, b, 1, EPS), [x, w, b],
            )  # fmt: skip
            grads = norms.native_layer_norm_joint_vjp()(g, x, w, b, 1, EPS)
            back = rule(layer, "joint_vjp")
            compare(
                f"layer norm backward {what}", grads,
                lambda g, x, w, b, back=back: back(g, x, w, b, 1, EPS), [g, x, w, b], magnitude,
            )  # fmt: skip
        for w in (weight, None):
            y = norms.fused_rms_norm()(x, w, 1, EPS)
            compare(f"rms norm {n}", y, lambda x, w: rms.forward(np, x, w, 1, EPS), [x, w])
            grads = norms.fused_rms_norm_joint_vjp()(g, x, w, 1, EPS)
            back = rule(rms, "joint_vjp")
            compare(
                f"rms norm backward {n}", grads,
                lambda g, x, w, back=back: back(g, x, w, 1, EPS), [g, x, w], magnitude,
            )  # fmt: skip


def check_reductions(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """sum, mean, var and amax of rows, of columns, and of everything."""
    for n in sizes:
        x = draw((3, n), dtype, n, strided=True)
        for name in ("sum", "mean"):
            forward, run = getattr(ops, name).op.forward, getattr(reductions, name)()
            for dim in (1, None, 0):
                y = run(x, dim, False, None)
                compare(
                    f"{name} {dtype} {n} {dim}", y,
                    lambda x, f=forward, d=dim: f(np, x, d, False), [x],
                )  # fmt: skip
        if n > 1:
            y = reductions.var()(x, 1, True, 1)
            compare(f"var {dtype} {n}", y, lambda x: statistics.var.op.forward(np, x, 1, True), [x])
        y = reductions.amax()(x, 1, False)
        compare(f"amax {dtype} {n}", y, lambda x: ops.amax.op.forward(np, x, 1, False), [x])
    tall = draw((131, 40), dtype)
    y = reductions.sum()(tall, 0, True, None)
    compare(f"sum of columns {dtype}", y, lambda x: ops.sum.op.forward(np, x, 0, True), [tall])


def check_gates(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """The gates of LSTM and GRU, and their derivatives."""
    lstm, gru = rnn.lstm_gates.op, rnn.gru_gates.op
    for k in sizes:
        if k > 2000:  # elementwise: a state of several blocks is enough
            continue
        x, hidden = draw((3, 4 * k), dtype, k, strided=True), draw((3, 3 * k), dtype, k + 1)
        state, g = draw((3, k), dtype, k + 2), draw((2, 3, k), dtype, k + 3)
        what, x3 = f"{dtype} {k}", x[:, : 3 * k]
        y = rnn_cell.lstm_gates()(x, state)
        compare(f"lstm {what}", y, lambda x, c: lstm.forward(np, x, c), [x, state])
        grads = rnn_cell.lstm_gates_joint_vjp()(g, x, state)
        compare(f"lstm backward {what}", grads, rule(lstm, "joint_vjp"), [g, x, state])
        arrays = [x3, hidden, state]
        y = rnn_cell.gru_gates()(*arrays)
        compare(f"gru {what}", y, lambda x, p, h: gru.forward(np, x, p, h), arrays)
        grads = rnn_cell.gru_gates_joint_vjp()(g[0], *arrays)
        compare(f"gru backward {what}", grads, rule(gru, "joint_vjp"), [g[0], *arrays])


def check_scatter(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """Rows added at indices that repeat, are negative, or do not occur."""

    def add(target: np.ndarray, values: np.ndarray) -> np.ndarray:
        wide = target.astype("float64" if target.dtype == np.float64 else "float32")
        np.add.at(wide, index, values.astype(wide.dtype))
        return wide.astype(target.dtype)

    for n in sizes:
        rows = 7
        index = np.random.default_rng(n).integers(-rows, rows - 1, (5, 4))
        target, values = draw((rows, n), dtype, n), draw((5, 4, n), dtype, n + 1)
        before = target.copy()
        assert scatter.add_at()(target, index, values) is target
        compare(f"add_at {dtype} {n}", target, add, [before, values])
    beyond, outside = np.zeros((3, 2), DTYPES[dtype]), np.array([3, -4, 2])
    scatter.add_at()(beyond, outside, np.ones((3, 2), DTYPES[dtype]))
    assert (beyond == [[0, 0], [0, 0], [1, 1]]).all(), "an index out of range was written"
    check_scatter_along_axes(dtype)


def check_scatter_along_axes(dtype: str) -> None:
    """Elements added at an index for each axis, and slices along an axis that is not the first."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(-3, 3, (4, 1)), rng.integers(0, 5, (4, 6))
    for index, shape, selected in (
        ((rows, columns), (3, 5), (4, 6)), ((slice(None), columns[0]), (3, 5, 2), (3, 6, 2)),
    ):  # fmt: skip
        target, values = draw(shape, dtype), draw(selected, dtype, 1)
        right = target.astype("float64")
        np.add.at(right, index, values.astype("float64"))
        assert scatter.add_at()(target, index, values) is target
        unit = 8 * float(ml_dtypes.finfo(target.dtype).eps)
        assert np.allclose(target.astype("float64"), right, rtol=unit, atol=unit), index
    target = np.zeros((2, 3), DTYPES[dtype])
    outside = np.array([0, 1, 2]), np.array([3, -4, 0])
    scatter.add_at()(target, outside, np.ones(3, DTYPES[dtype]))
    assert (target == 0).all(), "an index out of range was added to another row"


POOLINGS = (
    ((2, 2), (2, 2), (0, 0), (1, 1), False),
    ((3, 2), (2, 1), (1, 1), (1, 1), True),
    ((2, 3), (1, 2), (0, 1), (2, 1), False),
    ((2, 3), (2, 1), (0, 0), (1, 1), False),
    ((3,), (2,), (1,), (1,), True),
)
"""Size, stride, padding and dilation of windows, and ceil_mode."""


def check_max_pool(x: np.ndarray, settings: tuple[Any, ...]) -> None:
    """The maximum of windows, its place, and the derivative."""
    op, indices = F.pooling.max_pool.op, F.pooling.max_pool_indices.op
    what, slope = f"max_pool {x.dtype} {x.shape} {settings}", rule(op)
    y = pooling.max_pool()(x, *settings)
    compare(what, y, lambda x: op.forward(np, x, *settings), [x])
    taps = pooling.max_pool_indices()(x, settings)
    with reference_only():
        assert (taps == indices.forward(np, x, settings)).all(), what
    g = draw(y.shape, x.dtype.name, 1)
    grad = pooling.max_pool_input()(g, x, *settings)
    compare(f"{what} backward", grad, lambda g, x: slope(g, x, *settings), [g, x])


def check_avg_pool(x: np.ndarray, settings: tuple[Any, ...]) -> None:
    """The average of windows, and the derivative."""
    op, spread = F.pooling.avg_pool.op, F.pooling.avg_pool_grad.op
    what = f"avg_pool {x.dtype} {x.shape} {settings}"
    y = pooling.avg_pool()(x, *settings)
    compare(what, y, lambda x: op.forward(np, x, *settings), [x])
    g = draw(y.shape, x.dtype.name, 1)
    grad = pooling.avg_pool_grad()(g, x.shape, settings)
    compare(f"{what} backward", grad, lambda g: spread.forward(np, g, x.shape, settings), [g])


def check_pooling(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """Max and average pooling, windows that overlap or exceed the image, and their derivatives."""
    for width in sizes:
        if not 2 < width < 100:  # a plane of several blocks is enough
            continue
        planes = draw((2, 3, 7, width), dtype, width, strided=True)
        planes[0, 0, 1, 1:3] = 2  # of equal maxima, the first
        for settings in POOLINGS:
            lowest = np.full(
                (1, 2, *planes.shape[2:])[-len(settings[0]) - 2 :], -np.inf, planes.dtype
            )
            taps = pooling.max_pool_indices()(lowest, settings)
            with reference_only():  # the padding is as low, but never chosen
                right = F.pooling.max_pool_indices.op.forward(np, lowest, settings)
            assert (taps == right).all(), f"max_pool of -inf {settings}"
            x = planes if len(settings[0]) == 2 else planes[0]
            check_max_pool(x, settings)
            for include, divisor in ((True, None), (False, None), (False, 5)):
                check_avg_pool(x, (*settings[:3], settings[4], include, divisor))


def cross_entropy_definition(
    target: Any, ignored: int, reduction: str, x: Any, weight: Any
) -> tuple[Any, ...]:
    """The loss, and the maximum and the logarithm of the sum of each row."""
    op = F.loss.definitions.fused_cross_entropy.op
    return op.forward(np, x, target, weight, ignore_index=ignored, reduction=reduction)


def check_cross_entropy(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """Cross entropy and its derivative: weights, ignored and unknown classes, all reductions."""
    op = F.loss.definitions.fused_cross_entropy.op
    slope, back = op.rules["input"].function, cross_entropy.fused_cross_entropy_input()
    for n in sizes:
        rows = 5
        x = draw((rows, n), dtype, n, strided=True)
        weight = np.abs(draw((n,), dtype, n + 1)) + DTYPES[dtype](0.5)
        target = np.random.default_rng(n).integers(0, n, 2 * rows)[::2].copy()
        target[:2] = 0, n - 1
        for w, ignored, reduction in (
            (None, -100, "mean"), (weight, int(target[1]), "mean"), (weight, -100, "none"),
            (None, int(target[0]), "sum"), (weight, int(target[2]), "none"),
        ):  # fmt: skip
            what, settings = (
                f"cross entropy {dtype} {n} {ignored} {reduction}",
                (ignored, reduction),
            )

            forward = partial(cross_entropy_definition, target, *settings)

            def gradient(g: Any, x: Any, w: Any, right: Any = (target, settings)) -> Any:
                return slope(g, x, right[0], w, None, None, *right[1])

            loss, *kept = cross_entropy.fused_cross_entropy()(x, target, w, *settings)
            finite = np.isfinite(np.asarray(loss, "d")).all()  # all are ignored: the mean is NaN
            if finite:
                compare(what, loss, lambda x, w, f=forward: f(x, w)[0], [x, w])
                wide = x.astype(kept[0].dtype)
                compare(f"{what}: statistics", kept[0], lambda x, f=forward: f(x, None)[1], [wide])
            g = draw((rows if reduction == "none" else 1,), dtype, 3)
            g = g if reduction == "none" else g.reshape(())
            result = back(g, x, target, w, *kept, *settings)
            compare(f"{what} backward", result, gradient, [g, x, w])
    x = draw((4, 3), dtype)
    loss, *kept = cross_entropy.fused_cross_entropy()(x, np.array([-1, 3, 2, 0]), None, 0, "none")
    assert (np.isnan(np.asarray(loss, "d")) == [True, True, False, False]).all(), "out of range"
    assert loss[3] == 0, "an ignored row"


def check_channel_norms(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """Batch norm and group norm, with and without weight and bias, and their derivatives."""
    batch, group = normalization.native_batch_norm.op, normalization.native_group_norm.op
    for n in sizes:
        if n == 1:  # a set of one element has no variance: its gradient is 0, but for rounding
            continue
        x, g = draw((3, 4, n), dtype, n, strided=True), draw((3, 4, n), dtype, n + 1)
        weight, bias = draw((4,), dtype, n + 2), draw((4,), dtype, n + 3)
        pairs = (weight, bias), (None, None), (weight, None), (None, bias)
        for w, b in pairs if n < 100 else pairs[:1]:
            for op, run, back, settings in (
                (batch, channel_norms.native_batch_norm(),
                 channel_norms.native_batch_norm_joint_vjp(), (EPS,)),
                (group, channel_norms.native_group_norm(),
                 channel_norms.native_group_norm_joint_vjp(), (2, EPS)),
            ):  # fmt: skip
                what, slope = f"{op.name} {dtype} {n} {settings}", rule(op, "joint_vjp")
                compare(
                    what, run(x, w, b, *settings),
                    lambda x, w, b, op=op, s=settings: op.forward(np, x, w, b, *s), [x, w, b],
                )  # fmt: skip
                compare(
                    f"{what} backward", back(g, x, w, b, *settings),
                    lambda g, x, w, b, r=slope, s=settings: r(g, x, w, b, *s), [g, x, w, b],
                )  # fmt: skip


def check_cumulative(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """Running sums of rows."""
    for n in sizes:
        x = draw((3, n), dtype, n, strided=True)
        y = cumulative.cumsum()(x, -1, None)
        compare(f"cumsum {dtype} {n}", y, lambda x: ops.cumsum.op.forward(np, x, 1), [x])


def check_gather(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """Elements picked along each axis, which are copied exactly."""
    run = gather.gather()
    for n in sizes:
        x = draw((3, n, 4) if n < 100 else (1, n, 2), dtype, n, strided=True)
        for dim in (0, 1, 2):
            shape = list(x.shape)
            shape[dim] = 5
            index = np.random.default_rng(n).integers(0, x.shape[dim], shape)
            y, right = run(x, dim - 3, index, False), np.take_along_axis(x, index, dim)
            assert y.dtype == x.dtype, y.dtype
            assert y.shape == right.shape, y.shape
            assert (y == right).all(), f"gather {dtype} {n} {dim}"


def check_resize(dtype: str, sizes: Iterable[int] = SIZES) -> None:
    """Nearest and linear resizing, larger and smaller, along each axis, and the derivative."""
    op, run = F.adaptive.resample_axis.op, resampling.resample_axis()
    for n in sizes:
        for mode, count in (("nearest", 2 * n + 1), ("linear", n // 2 + 1), ("linear", n + 3)):
            table = tap_table(mode, n, count, None, False, False)
            taps = F.adaptive.WindowSums.from_table(table, n)
            for axis, shape in ((1, (2, n)), (0, (n, 3))):
                what = f"resize {dtype} {n} {mode} {count} {axis}"
                x = draw(shape, dtype, n, strided=True)
                y = run(x, axis, taps)
                compare(what, y, lambda x, a=axis, t=taps: op.forward(np, x, a, t), [x])
                g, back = draw(y.shape, dtype, 1), taps.transposed
                grad = run(g, axis, back)
                compare(
                    f"{what} backward", grad, lambda g, a=axis, t=back: op.forward(np, g, a, t), [g]
                )


CHECKS: dict[str, Callable[..., None]] = {
    "softmax": check_softmax,
    "norms": check_norms,
    "reductions": check_reductions,
    "rnn_cell": check_gates,
    "scatter": check_scatter,
    "pooling": check_pooling,
    "cross_entropy": check_cross_entropy,
    "channel_norms": check_channel_norms,
    "cumulative": check_cumulative,
    "gather": check_gather,
    "resampling": check_resize,
}
"""The check of each file in `edutorch/kernels/gpu`."""
