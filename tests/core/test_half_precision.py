"""16-bit floats on every path: sums of gradients, Python numbers, counts, single elements."""

from __future__ import annotations

import itertools
import math

import pytest

import edutorch
from edutorch import func, nn
from edutorch.nn import functional as F
from tests.trials import tried

HALVES = ("float16", "bfloat16")
MANY = 4_096  # where ones in float16 stop at 2,048, and ones in bfloat16 at 256


def ones(*shape, half, **settings):
    return edutorch.ones(*shape, dtype=getattr(edutorch, half), **settings)


# Sums of gradients -----------------------------------------------------------------------------


def uses(x):
    """Return a sum that uses `x` 600 times, by one node each: sums of 0.3 soon become inexact."""
    return 0.3 * edutorch.stack([x * 1 for _ in range(600)]).sum()


MEETINGS = {
    "leaf": lambda x: uses(x),
    "node": lambda x: uses(x * 1),
    "view": lambda x: uses(x[:1]),
    "piece": lambda x: uses(edutorch.unbind(x)[0]),
    "pieces": lambda x: uses(sum(edutorch.split(x, 1))),
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("create_graph", [False, True])
@tried("name", MEETINGS)
def test_gradients_of_many_uses_are_added_up_in_float32(name, create_graph, half):
    x = ones(1, half=half, requires_grad=True)
    (g,) = edutorch.autograd.grad(MEETINGS[name](x), x, create_graph=create_graph)
    assert g.dtype is x.dtype
    assert g.item() == pytest.approx(180, rel=0.003)
    MEETINGS[name](x).backward(create_graph=create_graph)
    assert x.grad.dtype is x.dtype
    assert x.grad.item() == pytest.approx(180, rel=0.003)


@pytest.mark.parametrize("half", HALVES)
def test_hooks_see_the_rounded_sum(half):
    x = ones(2, half=half, requires_grad=True)
    seen = []
    y = x * 1
    for tensor in (x, y):
        tensor.register_hook(seen.append)
    y.retain_grad()
    edutorch.stack([y * 1 for _ in range(600)]).sum().backward()
    for g in (*seen, y.grad, x.grad):
        assert g.dtype is x.dtype
        assert g.tolist() == [600, 600]


def test_a_gradient_of_float32_meets_as_before():
    x = edutorch.ones(3, requires_grad=True)
    edutorch.stack([x * 1 for _ in range(300)]).sum().backward()
    assert x.grad.tolist() == [300, 300, 300]


# Every path ------------------------------------------------------------------------------------


def indices(rows):
    return edutorch.zeros(len(rows), dtype=edutorch.int64, device=rows.device)


SUMS = {
    "broadcast": lambda x, rows: rows + x,
    "mean": lambda x, rows: (rows * x).mean(0) * MANY,
    "gather": lambda x, rows: x[indices(rows)] + rows[:, 0],
    "scatter": lambda x, rows: (0 * x).scatter_add(0, indices(rows), rows[:, 0]) * x,
    "linear": lambda x, rows: F.linear(rows, edutorch.ones_like(rows[:1]), x),
    "largest of equal ones": lambda x, rows: (rows * x).amax() * MANY,
}


def by_backward(loss, x, rows):
    (g,) = edutorch.autograd.grad(loss(x.requires_grad_(), rows), x)
    return g


PATHS = {
    "cpu": by_backward,
    "strict": lambda loss, x, rows: by_backward(loss, x.to("strict"), rows.to("strict")).cpu(),
    "compiled": lambda loss, x, rows: by_backward(edutorch.compile(loss), x, rows),
    "func.grad": lambda loss, x, rows: func.grad(loss)(x, rows),
    "func.jacrev": lambda loss, x, rows: func.jacrev(loss)(x, rows),
    "vmap of grad": lambda loss, x, rows: edutorch.vmap(func.grad(loss), (0, None))(x[None], rows)[
        0
    ],
    "forward mode": lambda loss, x, rows: func.jacfwd(loss)(x, rows),
}


@pytest.mark.parametrize("half", HALVES)
@tried("path", PATHS)
@tried("name", SUMS)
def test_each_path_adds_up_in_float32(name, path, half):
    x, rows = ones(1, half=half), ones(MANY, 1, half=half)
    g = PATHS[path](lambda x, rows: SUMS[name](x, rows).sum(), x, rows)
    assert g.dtype is x.dtype
    assert g.item() == pytest.approx(MANY, rel=0.02)


@pytest.mark.parametrize("half", HALVES)
def test_autocast_with_weights_in_float32(half):
    layer = nn.Linear(1, 1)
    with edutorch.autocast("cpu", dtype=getattr(edutorch, half)):
        loss = layer(edutorch.ones(MANY, 1)).sum()
    loss.backward()
    assert layer.bias.grad.dtype is edutorch.float32
    assert layer.bias.grad.item() == MANY
    assert layer.weight.grad.item() == MANY


@pytest.mark.parametrize("half", HALVES)
def test_examples_of_vmap_are_added_up_in_float32(half):
    x = ones(1, half=half, requires_grad=True)
    edutorch.vmap(lambda row: row + x)(ones(MANY, 1, half=half)).sum().backward()
    assert x.grad.item() == MANY


@pytest.mark.parametrize("half", HALVES)
def test_a_hessian_is_added_up_in_float32(half):
    rows = ones(MANY // 4, 2, half=half)
    H = func.hessian(lambda x: ((rows * x) ** 2).sum())(ones(2, half=half))
    assert H.tolist() == [[MANY / 2, 0], [0, MANY / 2]]


# Python numbers, and counts --------------------------------------------------------------------

NUMBERS = {
    "x / 70000": lambda x: x / 70000,
    "x * 1e-6": lambda x: x * 1e-6,
    "x * 0.1": lambda x: x * 0.1,
    "0.1 * x": lambda x: 0.1 * x,
    "70000 / x": lambda x: 70000 / x,
    "by a tensor": lambda x: x / edutorch.tensor(70000.0),
    "in place": lambda x: (x * 1).div_(70000),
}


@pytest.mark.parametrize("half", HALVES)
@tried("name", NUMBERS)
def test_a_number_is_not_rounded_to_16_bits(name, half):
    x = edutorch.full((3,), 3.0, dtype=getattr(edutorch, half), requires_grad=True)
    y, right = NUMBERS[name](x), NUMBERS[name](edutorch.full((3,), 3.0, requires_grad=True))
    assert y.dtype is x.dtype
    assert edutorch.equal(y, right.to(x.dtype))
    y.sum().backward()
    double = edutorch.full((3,), 3.0, dtype=edutorch.float64, requires_grad=True)
    NUMBERS[name](double).sum().backward()
    edutorch.testing.assert_close(x.grad.double(), double.grad, rtol=0.01, atol=1e-7)


def test_a_tensor_without_axes_decides_as_before():
    x = ones(2, half="float16")
    assert (x[0] * edutorch.tensor(3.0)).dtype is edutorch.float32
    assert (x * edutorch.tensor(3.0)).dtype is edutorch.float16
    assert (x[0] / edutorch.tensor(3)).dtype is edutorch.float16


def test_a_mean_of_more_elements_than_float16_can_count():
    x = ones(3, 224, 224, half="float16", requires_grad=True)
    for function in (edutorch.mean, edutorch.nanmean, edutorch.amax, edutorch.max, edutorch.median):
        x.grad = None
        y = function(x)
        y.backward()
        assert y.item() == 1
        assert x.grad.double().sum().item() == pytest.approx(1, abs=0.01)


# Single elements, integers, and values outside the range of float32 ----------------------------

SPREADS = ("var", "std", "var_mean", "std_mean")


def spread_of(name, x, **settings):
    y = getattr(edutorch, name)(x, **settings)
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@tried("name", SPREADS)
def test_the_spread_of_too_few_elements_has_the_gradient_of_pytorch(name, dtype, torch):
    for count, correction in itertools.product((1, 2), (0, 1, 2)):
        if count == 2 and correction == 2:
            continue  # infinite with the sign of the distance here, without a sign there
        results = []
        for library in (edutorch, torch):
            x = library.arange(count).to(getattr(library, dtype)).requires_grad_()
            y = getattr(library, name)(x, correction=correction)
            y = y[0] if isinstance(y, tuple) else y
            y.backward()
            results.append([y.detach().cfloat().tolist(), x.grad.cfloat().tolist()])
        ours, theirs = (edutorch.tensor([value, *grads]) for value, grads in results)
        edutorch.testing.assert_close(ours, theirs, equal_nan=True, rtol=0.01, atol=0)


@tried("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
@tried("name", SPREADS)
def test_integers_have_no_spread(name, dtype):
    x = edutorch.tensor([1, 2, 4, 5]).to(getattr(edutorch, dtype))
    with pytest.raises(RuntimeError, match="expected a floating point or complex dtype"):
        spread_of(name, x)


@pytest.mark.parametrize("size", [1e30, 1e18, 1e-16, 1e-18, 1e-20, 1e-22, 1e-30])
@pytest.mark.parametrize("dim", [None, 0])
def test_a_standard_deviation_whose_square_is_no_float32(size, dim):
    x = edutorch.tensor([[1 * size, size], [2 * size, 3 * size], [3 * size, 5 * size]])
    x.requires_grad_()
    y = edutorch.std(x, dim)
    y.sum().backward()
    double = x.detach().double().requires_grad_()
    expected = edutorch.std(double, dim)
    expected.sum().backward()
    edutorch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=0)
    edutorch.testing.assert_close(x.grad.double(), double.grad, rtol=1e-5, atol=1e-6)
    assert edutorch.std(edutorch.full((3,), size)) == 0


def test_the_variance_itself_is_infinite_there():
    assert math.isinf(edutorch.var(edutorch.tensor([1e30, 2e30])))


@pytest.mark.parametrize("half", HALVES)
def test_rms_norm_adds_the_eps_of_what_it_computes_in(half, torch):
    x = [[1e-3, 2e-3, 4e-3]]
    ours, theirs = (
        library.nn.functional.rms_norm(library.tensor(x).to(getattr(library, half)), (3,))
        for library in (edutorch, torch)
    )
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("half", HALVES)
def test_cross_entropy_takes_probabilities_of_16_bits(half):
    dtype = getattr(edutorch, half)
    scores = edutorch.zeros(3, 2, dtype=dtype, requires_grad=True)
    loss = F.cross_entropy(scores, edutorch.full((3, 2), 0.5, dtype=dtype))
    loss.backward()
    assert loss.dtype is dtype
    assert loss.item() == pytest.approx(math.log(2), rel=0.01)
    assert scores.grad.tolist() == [[0, 0]] * 3


# Three operands --------------------------------------------------------------------------------

TERMS = {
    "add": lambda a, b, c: edutorch.add(a, b, alpha=0.3),
    "sub": lambda a, b, c: edutorch.sub(a, b, alpha=0.3),
    "rsub": lambda a, b, c: edutorch.rsub(a, b, alpha=0.3),
    "rsub of a number": lambda a, b, c: edutorch.rsub(a, 3, alpha=0.3),
    "sub of a number": lambda a, b, c: edutorch.sub(a, 3, alpha=0.3),
    "sub in place": lambda a, b, c: a.clone().sub_(b, alpha=0.3),
    "lerp": lambda a, b, c: edutorch.lerp(a, b, 0.3),
    "lerp in place": lambda a, b, c: a.clone().lerp_(b, 0.7),
    "lerp by a tensor": edutorch.lerp,
    "addcmul": edutorch.addcmul,
    "addcmul of a value": lambda a, b, c: edutorch.addcmul(a, b, c, value=0.3),
    "addcdiv": edutorch.addcdiv,
    "addcdiv of a value": lambda a, b, c: edutorch.addcdiv(a, b, c, value=0.3),
}


@pytest.mark.parametrize("half", HALVES)
@tried("name", TERMS)
def test_a_sum_of_products_is_rounded_once(name, half):
    edutorch.manual_seed(0)
    operands = [(edutorch.rand(500) + 0.5).to(getattr(edutorch, half)) for _ in range(3)]
    y = TERMS[name](*operands)
    assert y.dtype is operands[0].dtype
    assert edutorch.equal(y, TERMS[name](*(x.float() for x in operands)).to(y.dtype))
