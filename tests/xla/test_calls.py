"""Compiled versions by shape, checks that fail, random numbers, and what cannot be compiled."""

from __future__ import annotations

import math
import warnings

import pytest

import edutorch as torch
from edutorch import nn
from edutorch.compilation.compiled_function import BreakError
from edutorch.compilation.pipeline import BackendError
from edutorch.nn import functional as F


def warned(function, *args):
    """Return the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args)
    return [str(warning.message) for warning in caught]


def test_another_shape_is_compiled_once_more_and_a_known_one_is_not():
    compiled = torch.compile(lambda x: (x * 2).tanh().sum(0), backend="jax")
    for rows in (3, 5, 3, 5, 3):
        x = torch.ones(rows, 2)
        assert torch.allclose(compiled(x), (x * 2).tanh().sum(0))
    assert len(compiled.entries) == 2 and len(compiled.retraces) == 1
    text = compiled.explain()
    assert "2 version(s)" in text
    assert text.count("compiled by XLA") == 2 and "x (3, 2)" in text and "x (5, 2)" in text


def test_the_first_call_compiles():
    compiled = torch.compile(lambda x: x.exp(), backend="jax")
    compiled(torch.ones(2))
    assert "compiled by XLA" in compiled.explain()


# Checks that fail -----------------------------------------------------------------------------


def test_an_index_out_of_range_is_told_after_the_call():
    table = nn.Embedding(4, 3)
    compiled = torch.compile(lambda index: table(index) * 2, backend="jax")
    index = torch.tensor([0, 3])
    for _ in range(3):
        assert torch.equal(compiled(index), table(index) * 2)
    assert "1 checks are made by the program" in compiled.explain()
    for wrong in ([0, 4], [-1, 2]):
        with pytest.raises(IndexError) as caught:
            compiled(torch.tensor(wrong))
        with pytest.raises(IndexError) as eager:
            table(torch.tensor(wrong))
        assert str(caught.value) == str(eager.value)
    assert torch.equal(compiled(index), table(index) * 2)  # and it goes on


def test_a_step_whose_check_fails_writes_nothing():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(4, 3), nn.Dropout(0.5), nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(index):
        optimizer.zero_grad()
        loss = model(index).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled, index = torch.compile(step, backend="jax"), torch.tensor([0, 1, 3])
    for _ in range(4):
        compiled(index)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    state = torch.get_rng_state()
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        compiled(torch.tensor([0, 7, 1]))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    compiled(index)
    assert not torch.equal(model[2].weight, before[2])


@pytest.mark.parametrize("index", [[0, 2], [-3, 1]])
def test_indexing_by_tensors_is_checked(index):
    x = torch.arange(6.0).reshape(3, 2)
    compiled = torch.compile(lambda x, i: x[i], backend="jax")
    index = torch.tensor(index)
    for _ in range(2):
        assert torch.equal(compiled(x, index), x[index])
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        compiled(x, torch.tensor([0, 3]))


def matrix(*shape):
    return torch.arange(float(math.prod(shape))).reshape(shape)


INDEX_OPS = {
    "getitem of two": lambda i: matrix(3, 3)[i, i],
    "index_put": lambda i: matrix(3, 2).index_put((i,), torch.ones(2)),
    "setitem": lambda i: matrix(3, 2).index_fill(0, i, 1.0),
    "gather": lambda i: matrix(3, 2).gather(0, i.reshape(1, 2)),
    "scatter": lambda i: matrix(3, 2).scatter(0, i.reshape(1, 2), matrix(1, 2)),
    "scatter_add": lambda i: matrix(3, 2).scatter_add(0, i.reshape(1, 2), matrix(1, 2)),
    "index_select": lambda i: matrix(3, 2).index_select(0, i),
    "index_add": lambda i: matrix(3, 2).index_add(0, i, matrix(2, 2)),
    "index_copy": lambda i: matrix(3, 2).index_copy(0, i, matrix(2, 2)),
    "take": lambda i: matrix(3).take(i),
    "take_along_dim": lambda i: matrix(3, 2).take_along_dim(i.reshape(2, 1), 0),
    "embedding": lambda i: F.embedding(i, matrix(3, 2)),
    "cross_entropy": lambda i: F.cross_entropy(matrix(2, 3), i),
    "nll_loss": lambda i: F.nll_loss(matrix(2, 3), i, ignore_index=1),
}  # fmt: skip


@pytest.mark.parametrize("op", INDEX_OPS)
def test_each_op_with_an_index_is_checked_as_eagerly(op):
    function = INDEX_OPS[op]
    compiled, right = torch.compile(function, backend="jax"), torch.tensor([0, 2])
    for _ in range(2):
        assert torch.allclose(compiled(right), function(right))
    assert not compiled.broken and len(compiled.entries) == 1
    for wrong in ([0, 3], [-4, 2]):
        with pytest.raises((IndexError, ValueError)) as eager:
            function(torch.tensor(wrong))
        with pytest.raises(type(eager.value)) as caught:
            compiled(torch.tensor(wrong))
        assert str(caught.value) == str(eager.value)
    assert torch.allclose(compiled(right), function(right))


def test_integer_division_by_zero_is_checked():
    compiled = torch.compile(lambda x, y: x // y, backend="jax")
    x, y = torch.tensor([7, -7]), torch.tensor([2, 2])
    for _ in range(2):
        assert torch.equal(compiled(x, y), x // y)
    with pytest.raises(ZeroDivisionError):
        compiled(x, torch.tensor([1, 0]))


# Random numbers -------------------------------------------------------------------------------


def test_the_same_seed_drops_the_same_elements_as_eagerly():
    x = torch.ones(50)
    compiled = torch.compile(lambda x: F.dropout(x, 0.5), backend="jax")
    compiled(x)
    torch.manual_seed(3)
    results = [compiled(x) for _ in range(3)]
    torch.manual_seed(3)
    for result in results:
        assert torch.equal(result, F.dropout(x, 0.5))
    assert not torch.equal(results[0], results[1])


@pytest.mark.parametrize(
    "draw",
    [
        lambda x, g: x + torch.rand(3, generator=g),
        lambda x, g: x + torch.randn(3, generator=g),
        lambda x, g: x + torch.randint(0, 9, (3,), generator=g),
        lambda x, g: x[torch.randperm(3, generator=g)],
        lambda x, g: x + torch.rand(3, generator=g) + torch.randn(3, generator=g),
    ],
)
def test_draws_go_on_in_the_same_order(draw):
    x = torch.arange(3.0)
    source = torch.Generator().manual_seed(5)
    compiled = torch.compile(lambda x: draw(x, source), backend="jax")
    results = [compiled(x) for _ in range(3)]
    assert len(compiled.entries) == 1 and not compiled.entries[0].reasons
    again = torch.Generator().manual_seed(5)
    for result in results:
        assert torch.allclose(result, draw(x, again), atol=1e-6)
    assert torch.equal(source.get_state(), again.get_state())


DRAWS = {
    "rand": lambda g: torch.rand(1001, generator=g),
    "rand of float64": lambda g: torch.rand(1001, dtype=torch.float64, generator=g),
    "rand of bfloat16": lambda g: torch.rand(1001, dtype=torch.bfloat16, generator=g),
    "randint": lambda g: torch.randint(-5, 1000, (1001,), generator=g),
    "randint, a third refused": lambda g: torch.randint(0, 2**31 + 2**30, (1001,), generator=g),
    "randint of 64 bits": lambda g: torch.randint(-3, 2**62 + 1, (1001,), generator=g),
    "randperm": lambda g: torch.randperm(1001, generator=g),
}


@pytest.mark.parametrize("how", DRAWS)
def test_the_program_draws_the_same_bits_as_eagerly(how):
    source, again = (torch.Generator().manual_seed(2**64 - 2) for _ in range(2))
    compiled = torch.compile(lambda: DRAWS[how](source), backend="jax")
    for _ in range(3):
        assert torch.equal(compiled(), DRAWS[how](again))
    assert torch.equal(source.get_state(), again.get_state())
    assert not compiled.broken and "1 draws of numbers" in compiled.explain()


@pytest.mark.parametrize(("dtype", "integer"), [("float32", "int32"), ("float64", "int64")])
def test_normal_numbers_differ_by_two_units_at_most(dtype, integer):
    dtype = getattr(torch, dtype)
    source, again = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    compiled = torch.compile(
        lambda: torch.randn(100_001, generator=source, dtype=dtype), backend="jax"
    )
    for _ in range(2):
        drawn, right = compiled(), torch.randn(100_001, generator=again, dtype=dtype)
        bits = [y.numpy().view(integer).astype(float) for y in (drawn, right)]
        assert abs(bits[0] - bits[1]).max() <= 2


def test_nothing_is_drawn_on_the_host(monkeypatch):
    source = torch.Generator().manual_seed(3)
    compiled = torch.compile(lambda: torch.rand(5, generator=source), backend="jax")
    compiled()
    monkeypatch.setattr(type(source.random), "uniform", None)
    assert compiled().shape == (5,)


# Dtypes and writes ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "complex64"])
def test_dtypes_stay_what_they_are(dtype):
    compiled = torch.compile(lambda x: (x * 3 + 1).sum(0), backend="jax")
    x = torch.arange(6).reshape(3, 2).to(getattr(torch, dtype))
    for _ in range(2):
        y = compiled(x)
        assert y.dtype == x.dtype
        assert torch.allclose(y, (x * 3 + 1).sum(0))


def test_writes_into_views_are_seen_in_the_whole():
    def function(x):
        y = x.clone()
        y[1] = 5.0
        y.t()[0, 2] = -1.0
        y[:, 1].mul_(2)
        y.view(-1)[0:2] += 1
        return y

    x = torch.arange(6.0).reshape(3, 2)
    compiled = torch.compile(function, backend="jax")
    for _ in range(3):
        assert torch.equal(compiled(x), function(x))
    assert not compiled.broken


def test_an_argument_that_is_written_is_written():
    compiled = torch.compile(lambda x: x.mul_(2), backend="jax")
    x = torch.ones(3)
    for _ in range(3):
        compiled(x)
    assert x.tolist() == [8.0, 8.0, 8.0]


def test_large_outputs_have_memory_of_their_own():
    compiled = torch.compile(lambda x: (x * 2, x * 2, x, x.t() + 0), backend="jax")
    x = torch.arange(40_000.0).reshape(200, 200)
    wanted = x.clone()
    results = [compiled(x) for _ in range(4)]
    for number, outputs in enumerate(results):
        for output, factor in zip(outputs, (2, 2, 1, 1), strict=True):
            if output is not x:
                right = wanted.t() if output is outputs[3] else wanted * factor
                assert torch.equal(output, right), number
                output.fill_(-1.0)  # is seen nowhere else
    assert torch.equal(x, wanted)


# What cannot be compiled ------------------------------------------------------------------------


def value_dependent(x):
    return x * 2 if x.sum() > 0 else x


def printing(x):
    print("side effect")
    return x * 2


def many_sizes(x):
    return x[x > 0]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (value_dependent, "the way depends on the numbers of a tensor"),
        (printing, "it prints"),
        (many_sizes, "has a size that depends on the numbers"),
    ],
)
def test_the_first_call_says_what_is_not_compiled_and_where(function, reason):
    compiled = torch.compile(function, backend="jax")
    (text,) = warned(compiled, torch.ones(3))
    assert reason in text and "test_calls.py:" in text
    assert warned(compiled, torch.ones(3)) == []
    assert torch.equal(compiled(torch.ones(3)), function(torch.ones(3)))


def untraceable(x):
    return torch.linalg.lstsq(x, x, driver="gelsy").solution


def test_an_op_that_cannot_be_traced_is_named_in_the_first_call():
    compiled = torch.compile(untraceable, backend="jax")
    (text,) = warned(compiled, torch.eye(2))
    assert "cannot be run by XLA" in text and "test_calls.py:" in text
    assert "runs as it is written" in text
    assert torch.allclose(compiled(torch.eye(2)), torch.eye(2))
    with pytest.raises(BreakError, match="cannot be run by XLA"):
        torch.compile(untraceable, backend="jax", fullgraph=True)(torch.eye(2))


def test_arrays_of_another_device_are_named_in_the_first_call():
    compiled = torch.compile(lambda x: x + 1, backend="jax")
    x = torch.ones(3).to("strict")
    (message,) = warned(compiled, x)
    assert "`x` is on the device strict; XLA takes the CPU's (use backend=" in message
    assert compiled(x).cpu().tolist() == [2, 2, 2]
    whole = torch.compile(lambda x: x + 1, backend="jax", fullgraph=True)
    with pytest.raises(BreakError, match="on the device strict"):
        whole(x)


def test_an_unknown_option_is_refused():
    with pytest.raises(BackendError, match="data_parallel"):
        torch.compile(value_dependent, backend="jax", options={"sharded": True})
