"""`autograd.Function`: the same program in PyTorch and here gives the same gradients."""

from __future__ import annotations

import gc
import weakref

import pytest

import edutorch
from edutorch.autograd import Function, gradcheck, gradgradcheck
from edutorch.errors import GradientError, StaleValueError


def cube(lib):
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    return Cube.apply


def power_and_sum(lib):
    """Two outputs, a scalar argument, and `setup_context`."""

    class PowerAndSum(lib.autograd.Function):
        @staticmethod
        def forward(x, n, w):
            return x**n, (x * w).sum()

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, n, w = inputs
            ctx.save_for_backward(x, w, output[0])
            ctx.n, ctx.shape = n, x.shape

        @staticmethod
        def backward(ctx, g, h):
            x, w, y = ctx.saved_tensors
            assert ctx.shape == x.shape
            return g * ctx.n * y / x + h * w, None, h * x

    return PowerAndSum.apply


def leaves(lib, *rows):
    return [lib.tensor(row, dtype=lib.float64, requires_grad=True) for row in rows]


def programs(lib):
    f, g = cube(lib), power_and_sum(lib)
    yield lambda x, w: f(x * w).sum()
    yield lambda x, w: g(x, 3, w)[0].sum() + g(x, 2, w)[1]
    yield lambda x, w: (lambda y: y[0].sum() * y[1] + f(y[0]).sum())(g(x * w, 2, w))
    yield lambda x, w: g(x, 3, w)[1] * x.sum()  # one output is not used


@pytest.mark.parametrize("number", range(4))
def test_derivatives_are_pytorchs(torch, number):
    results = []
    for lib in (edutorch, torch):
        program = list(programs(lib))[number]
        x, w = leaves(lib, [1.0, 2.0], [3.0, -1.0])
        first = lib.autograd.grad(program(x, w), (x, w), create_graph=True, allow_unused=True)
        loss = sum((gradient * gradient).sum() for gradient in first if gradient is not None)
        second = lib.autograd.grad(loss, (x, w), retain_graph=True)
        loss.backward()
        rows = [*first, *second, x.grad, w.grad]
        results.append([row if row is None else row.tolist() for row in rows])
    for ours, theirs in zip(*results, strict=True):
        assert ours == pytest.approx(theirs)


def test_by_differences():
    x, w = leaves(edutorch, [1.0, 2.0], [3.0, -1.0])
    for program in programs(edutorch):
        assert gradcheck(program, (x, w))
        assert gradgradcheck(program, (x, w))


def test_its_node_in_the_graph(torch):
    results = []
    for lib in (edutorch, torch):
        x, w = leaves(lib, [1.0, 2.0], [3.0, -1.0])
        y, total = power_and_sum(lib)(x * 2, 2, w)
        node = (y.sum() + total).grad_fn
        results.append(
            [
                y.grad_fn is total.grad_fn,
                y.grad_fn.name(),
                type(y.grad_fn).__name__,
                [step and step.name().split(":")[-1] for step, _ in y.grad_fn.next_functions],
                [(step.name(), number) for step, number in node.next_functions],
                y.grad_fn.n,
                [saved_tensor.tolist() for saved_tensor in y.grad_fn.saved_tensors],
            ]
        )
    assert results[0] == results[1]


def settings(lib, materialize):
    seen = []

    class Settings(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(materialize)
            index = x.argmax()
            small = x + 1
            ctx.mark_non_differentiable(index, small)
            seen.append(ctx.needs_input_grad)
            return x * 1, small, index, x * y, "text"

        @staticmethod
        def backward(ctx, *gradients):
            seen.append(
                [gradient if gradient is None else gradient.tolist() for gradient in gradients]
            )
            return gradients[0], None

    x, y = lib.tensor([1.0, 2.0], requires_grad=True), lib.tensor([3.0, 4.0])
    outputs = Settings.apply(x, y)
    outputs[0].sum().backward()
    flags = [output.requires_grad for output in outputs[:4]]
    return seen, flags, outputs[4], x.grad.tolist(), y.grad


@pytest.mark.parametrize("materialize", [True, False])
def test_settings_of_the_context(torch, materialize):
    assert settings(edutorch, materialize) == settings(torch, materialize)


def in_place(lib):
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Double


def test_mark_dirty(torch):
    results = []
    for lib in (edutorch, torch):
        (x,) = leaves(lib, [1.0, 2.0])
        y = x * 3
        z = in_place(lib).apply(y)
        assert z is y
        (y * y).sum().backward()
        results.append((x.grad.tolist(), y.grad_fn.name(), y._version))
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            in_place(lib).apply(x)
    assert results[0] == results[1]


def test_an_input_that_is_returned_gets_a_past_of_its_own(torch):
    results = []
    for lib in (edutorch, torch):

        class Reverse(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, g):
                return -g

        (x,) = leaves(lib, [1.0, 2.0])
        y = Reverse.apply(x)
        y.sum().backward()
        results.append((y is x, x.is_leaf, y.grad_fn.name(), x.grad.tolist()))
    assert results[0] == results[1]


def returning(lib, *gradients):
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * n

        @staticmethod
        def backward(ctx, g):
            return gradients[0] if len(gradients) == 1 else gradients

    return Wrong


@pytest.mark.parametrize(
    ("gradients", "message"),
    [
        (lambda lib: (lib.ones(2),), "incorrect number of gradients .expected 2, got 1"),
        (lambda lib: (lib.ones(2), lib.ones(2)), "different than None at position 2"),
        (lambda lib: (lib.ones(3), None), r"got \[3\] but expected shape compatible with \[2\]"),
    ],
)
def test_wrong_gradients_are_refused(torch, gradients, message):
    for lib in (edutorch, torch):
        (x,) = leaves(lib, [1.0, 2.0])
        with pytest.raises(RuntimeError, match=message):
            returning(lib, *gradients(lib)).apply(x, 2).sum().backward()


def test_more_nones_and_sums_are_fine(torch):
    for lib in (edutorch, torch):
        (x,) = leaves(lib, [1.0, 2.0])
        returning(lib, lib.ones(3, 2), None, None).apply(x, 2).sum().backward()
        assert x.grad.tolist() == [3, 3]
        with pytest.raises(RuntimeError, match="or None"):
            returning(lib, 1.0, None).apply(x, 2).sum().backward()


def test_freed_and_stale_values_are_noticed(torch):
    for lib in (edutorch, torch):
        (x,) = leaves(lib, [1.0, 2.0])
        y = cube(lib)(x).sum()
        y.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            y.backward()
        z = x * 1
        y = cube(lib)(z).sum()
        z.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
        with lib.no_grad():
            assert not cube(lib)(x).requires_grad
    assert issubclass(StaleValueError, GradientError)


def test_once_differentiable(torch):
    for lib in (edutorch, torch):
        once = __import__(f"{lib.__name__}.autograd.function", fromlist=["x"]).once_differentiable

        class Square(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @once
            def backward(ctx, g):
                assert not (g * g).requires_grad  # nothing is recorded in here
                return 2 * ctx.saved_tensors[0] * g

        (x,) = leaves(lib, 3.0)
        Square.apply(x).backward()
        assert x.grad.item() == 6
        (first,) = lib.autograd.grad(Square.apply(x), x, create_graph=True)
        with pytest.raises(RuntimeError):
            first.backward()
        g = lib.tensor(1.0, requires_grad=True)
        (first,) = lib.autograd.grad(Square.apply(x), x, g, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiate twice"):
            first.backward()


def test_an_instance_is_not_called():
    class Old(Function):
        def forward(self, x):
            return x

    with pytest.raises(GradientError, match="Legacy autograd function"):
        Old()(edutorch.ones(1))


@pytest.mark.parametrize("program", [cube, power_and_sum])
def test_no_circle_keeps_memory(program):
    (x,) = leaves(edutorch, [1.0, 2.0])
    gc.collect()
    gc.disable()
    try:
        f = program(edutorch)
        y = f(x) if program is cube else f(x, 2, x)[0]
        gone = weakref.ref(y), weakref.ref(y.grad_fn)
        del y
        assert [tensor_ref() for tensor_ref in gone] == [None, None]
    finally:
        gc.enable()


def test_on_a_device_like_a_gpu(device):
    x = edutorch.tensor([1.0, 2.0], requires_grad=True)
    y, total = power_and_sum(edutorch)(x, 2, x.detach())
    (cube(edutorch)(y).sum() + total).backward()
    assert x.grad.tolist() == [7, 194]


def test_pictures_show_it():
    from edutorch import viz
    from edutorch.viz.graph.names import Names
    from edutorch.viz.live.recorder import Recorder

    x = edutorch.tensor([1.0, 2.0], requires_grad=True)
    w = edutorch.tensor([3.0, 4.0], requires_grad=True)
    y, total = power_and_sum(edutorch)(x, 2, w)
    z = cube(edutorch)(y).sum() + total
    table = viz.draw(z).table()
    assert "PowerAndSum" in table and "Cube" in table and "output 1" in table
    recorder = Recorder(Names())
    with edutorch.events.listening(recorder):
        y, total = power_and_sum(edutorch)(x, 2, w)
        (cube(edutorch)(y).sum() + total).backward()
    recorder.finish()
    labels = [node.label for node in recorder.snapshot.graph.nodes]
    assert {"PowerAndSum", "Cube", "output 0", "output 1"} <= set(labels)
