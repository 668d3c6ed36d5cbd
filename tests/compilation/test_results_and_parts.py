"""Results, gradients and parts of tensors: which memory they show, call after call."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn

BACKENDS = ("aot_eager", "edutorch")
pytestmark = pytest.mark.filterwarnings("error:compile. no code can be generated")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def test_a_result_and_a_gradient_of_equal_elements_are_two_arrays(backend):
    w = torch.ones(3, requires_grad=True)

    def function(x):
        w.grad = None
        (w * x).backward(torch.ones(3))
        return torch.ones(3) * x

    compiled = torch.compile(function, backend=backend)
    for _ in range(3):
        compiled(torch.arange(3.0)).zero_()
        assert w.grad.tolist() == [0.0, 1.0, 2.0]


def test_a_gradient_that_is_returned_through_an_op_is_kept(backend):
    """Where nothing else has them, the arrays of gradients are handed over, not copied."""
    w = torch.ones(3, requires_grad=True)

    def function(x):
        w.grad = None
        (w * x * x).sum().backward()

    compiled = torch.compile(function, backend=backend)
    for _ in range(3):
        compiled(torch.arange(3.0))
        assert w.grad.tolist() == [0.0, 1.0, 4.0]


ROWS = torch.arange(9.0).reshape(3, 3)
PARTS_AT_A_TENSOR = {
    "a row": (lambda x, at: x[at] * 2, True), "with a slice": (lambda x, at: x[at, 1:] + 1, True),
    "behind a slice": (lambda x, at: x[:, at] + 1, True),
    "beside a part that stays": (lambda x, at: (x[at] * 2, x[0]), True),
    "a row itself": (lambda x, at: x[at], False),
    "a part of a row": (lambda x, at: x[at][1:].reshape(2, 1), False),
    "a column of the transpose": (lambda x, at: x.t()[:, at], False),
    "of a tensor from outside": (lambda x, at: ROWS[at], False),
    "a slice": (lambda x, at: x[at : at + 1] * 2, False),
    "narrow": (lambda x, at: x.narrow(0, at, 1), False),
    "select": (lambda x, at: x.select(0, at), False),
    "what is computed of them": (lambda x, at: x.narrow(0, at, 1) + x.select(1, at), True),
    "rows by an array": (lambda x, at: x[at.reshape(1)], True),
}  # fmt: skip
"""By name: a function of a tensor and an index, and whether a graph stands for it."""


@pytest.mark.filterwarnings("ignore:compile. <lambda> runs as it is written")
@pytest.mark.parametrize("name", PARTS_AT_A_TENSOR)
def test_a_part_whose_place_is_a_tensor(name, backend):
    """Another index is another part, and where a result shows its input it shows that part."""
    function, is_compiled = PARTS_AT_A_TENSOR[name]
    compiled = torch.compile(function, backend=backend)
    for index in (0, 2, 1, 0):
        x, at = ROWS.clone(), torch.tensor(index)
        result, expected = compiled(x, at), function(x, at)
        result, expected = (y if type(y) is tuple else (y,) for y in (result, expected))
        for one, other in zip(result, expected, strict=True):
            assert torch.equal(one, other)
            shown = [np.may_share_memory(y.numpy(), x.numpy()) for y in (one, other)]
            assert shown[0] == shown[1]
    assert bool(compiled.broken) != is_compiled
    if is_compiled:
        assert len(compiled.entries) == 1


WRITTEN_AT_A_TENSOR = {
    "a row": (lambda x, at: x[at].add_(1), False),
    "narrow": (lambda x, at: x.narrow(0, at, 1).add_(1), False),
    "select": (lambda x, at: x.select(1, at).mul_(2), False),
    "after a part was read": (lambda x, at: x.mul_(x[at]), False),
    "by assignment": (lambda x, at: x.__setitem__(at, 5.0), True),
    "after rows were copied": (lambda x, at: x.mul_(x[at.reshape(1)]), True),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:compile. <lambda> runs as it is written")
@pytest.mark.parametrize("name", WRITTEN_AT_A_TENSOR)
def test_a_part_that_is_written_shows_in_its_tensor(name, backend):
    write, is_compiled = WRITTEN_AT_A_TENSOR[name]

    def function(x, at):
        write(x, at)
        return x * 2

    compiled = torch.compile(function, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index in (0, 2, 1):
            ours, theirs, at = ROWS + 1, ROWS + 1, torch.tensor(index)
            assert torch.equal(compiled(ours, at), function(theirs, at))
            assert torch.equal(ours, theirs)
    assert bool(compiled.broken) != is_compiled


def test_arrays_of_other_ranks_are_joined(backend):
    def function(x):
        return torch.cat([torch.empty(0), x * 2, x + 1])

    compiled = torch.compile(function, backend=backend)
    x = torch.arange(4.0).reshape(2, 2)
    for _ in range(3):
        assert torch.equal(compiled(x), function(x))
    assert not compiled.broken


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_arrays_are_shared_among_threads(threads, monkeypatch):
    monkeypatch.setattr(torch.settings.State, "threads", threads)

    def function(x):
        y = (x * 2 + 1).tanh()
        return y, y.sum(1), y.sum(0), y.sum()

    compiled = torch.compile(function)
    for _ in range(3):
        x = torch.randn(301, 257)
        for result, expected in zip(compiled(x), function(x), strict=True):
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-3)
    assert not compiled.broken


def test_integers_and_bools_for_which_kernels_have_no_function(backend):
    def function(n, odd):
        return (n & 6, torch.maximum(odd, ~odd), odd + odd, n**n, n.exp(), n.floor(), odd * n,
                -n, n % 3, n // 2, n / 2, n.abs().sqrt())  # fmt: skip

    compiled = torch.compile(function, backend=backend)
    n = torch.arange(6)
    for _ in range(3):
        for result, expected in zip(compiled(n, n % 2 == 1), function(n, n % 2 == 1), strict=True):
            torch.testing.assert_close(result, expected)
    assert not compiled.broken


def test_what_backward_needs_is_apart_from_the_gradients(backend):
    a, w = (torch.ones(3, requires_grad=True) for _ in "aw")
    doubled = torch.full((3,), 2.0)

    def function(x):
        a.grad = None
        h = x.exp()
        (a * h).backward(doubled)
        return w * (doubled * h)

    compiled = torch.compile(function, backend=backend)
    for _ in range(3):
        w.grad = None
        y = compiled(torch.zeros(3))
        a.grad.zero_()
        y.sum().backward()
        assert w.grad.tolist() == [2.0, 2.0, 2.0]
    assert not compiled.broken


def test_results_without_axes_are_arrays_of_their_own(backend):
    def function(x):
        y = x * 2
        return y, y.sum(), y.mean(), y.amax(), y.reshape(()), y.clone()

    compiled = torch.compile(function, backend=backend)
    for _ in range(3):
        result, expected = compiled(torch.tensor(3.0)), function(torch.tensor(3.0))
        for results in (result, expected):
            results[0].add_(1)
        assert [y.item() for y in result] == [y.item() for y in expected]


def test_a_gradient_that_is_one_number_everywhere_can_be_written(backend):
    w = torch.ones(3, requires_grad=True)
    square = torch.ones(2, 2, requires_grad=True)

    def function(x):
        w.grad = square.grad = None
        (w.sum() + (square.t() * x).sum()).backward()

    compiled = torch.compile(function, backend=backend)
    for _ in range(3):
        x = torch.arange(4.0).reshape(2, 2)
        compiled(x)
        w.grad[0] = 5.0
        square.grad[0, 1] = 7.0
        assert w.grad.tolist() == [5.0, 1.0, 1.0]
        assert square.grad.tolist() == [[0.0, 7.0], [1.0, 3.0]]
        assert x.tolist() == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("norm", ["BatchNorm2d", "InstanceNorm2d", "GroupNorm"])
def test_a_norm_over_axes_in_the_middle_stays_one_call(norm, affine, backend):
    """Its reductions cannot be fused; without weight and bias there are fewer gradients."""
    layer = getattr(nn, norm)(*((2, 4) if norm == "GroupNorm" else (4,)), affine=affine)
    compiled = torch.compile(lambda x: layer(x).relu(), backend=backend)
    results = []
    for function in (lambda x: layer(x).relu(), compiled, compiled):
        torch.manual_seed(0)
        layer.zero_grad()
        x = torch.randn(3, 4, 16, 16, requires_grad=True)
        y = function(x)
        y.square().sum().backward()
        results.append([y, x.grad, *(parameter.grad for parameter in layer.parameters())])
    for result in results[1:]:
        torch.testing.assert_close(result, results[0])
    assert len(compiled.entries) == 1
    if backend == "edutorch":
        _, gradients = compiled.entries[0].explanations()
        assert "one kernel computes all its gradients" in str(gradients[1])
        assert "mean(" not in compiled.code
