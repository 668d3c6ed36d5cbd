"""Complex tensors against PyTorch: values, both derivatives, views, hooks, errors.

Gradients are PyTorch's: the direction in which the loss grows fastest, the conjugate of what
flows through the graph (see the head of edutorch/core/autograd/engine.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch.autograd import gradcheck, gradgradcheck
from tests.oracle import require_torch
from tests.trials import tried

GENERATOR = np.random.default_rng(0)


def some(*shape):
    return GENERATOR.normal(size=shape) + 1j * GENERATOR.normal(size=shape)


Z, W, SQUARE = some(3, 4), some(3, 4), some(2, 3, 3)
X = GENERATOR.normal(size=(3, 4))

SPECIAL = np.array([
    0, 1, -1, 1j, -1j, complex(-2, 0.0), complex(-2, -0.0), complex(2, -0.0), 3j, 0.5, -0.5,
    complex(0.0, -0.0), complex(-0.0, 0.0), complex(0, 0.5), 100 + 100j, -100 + 1j, 1e-8 + 1e-8j,
    1e10, 700 + 1j, -800j, complex(np.inf, 1), complex(np.nan, 1), complex(1, np.inf),
])  # fmt: skip
"""Zero, both sides of the cuts of log, sqrt, asin, atanh …, large and small ones."""

ONE_NUMBER = (
    "abs acos acosh angle asin asinh atan atanh conj conj_physical cos cosh exp exp2 expm1 "
    "isfinite isinf isnan isreal log log10 log1p log2 logical_not neg positive real imag "
    "reciprocal rsqrt sgn sigmoid sin sinc sinh sqrt square tan tanh"
).split()
TWO_NUMBERS = "add div eq isclose logical_and logical_or logical_xor mul ne pow sub".split()
TOLERANCE = {"complex128": 1e-10, "complex64": 3e-5}


def theirs(torch, array, dtype="complex128", grad=False):
    dtype = dtype if np.iscomplexobj(array) else "float64"
    return torch.tensor(array, dtype=getattr(torch, dtype), requires_grad=grad)


def ours(array, dtype="complex128", grad=False, **options):
    dtype = dtype if np.iscomplexobj(array) else "float64"
    return edutorch.tensor(array, dtype=getattr(edutorch, dtype), requires_grad=grad, **options)


def same(result, expected, tolerance=1e-8):
    assert str(result.dtype) == str(expected.dtype)
    assert tuple(result.shape) == tuple(expected.shape)
    result, expected = result.numpy(force=True), expected.detach().resolve_conj().numpy()
    for part in (np.real, np.imag):  # -inf + 1j is not compared well as one number
        np.testing.assert_allclose(part(result), part(expected), tolerance, tolerance)


def compared(function, *arrays):
    """Assert that values and gradients of `function(module, *tensors)` are PyTorch's."""
    torch = require_torch()
    inputs = [theirs(torch, array, grad=True) for array in arrays]
    mine = [ours(array, grad=True) for array in arrays]
    expected, result = function(torch, *inputs), function(edutorch, *mine)
    same(result, expected)
    (expected.abs() ** 3).sum().backward()
    (result.abs() ** 3).sum().backward()
    for tensor, other in zip(mine, inputs, strict=True):
        if other.grad is None:
            assert tensor.grad is None or not tensor.grad.any()
        else:
            same(tensor.grad, other.grad)


# One number at a time ----------------------------------------------------------------------------


@pytest.mark.oracle
@tried("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", ONE_NUMBER)
def test_functions_of_one_number(name, dtype, device):
    torch = require_torch()
    expected = getattr(torch, name)(theirs(torch, Z, dtype))
    same(getattr(edutorch, name)(ours(Z, dtype)), expected, TOLERANCE[dtype])


@pytest.mark.oracle
@pytest.mark.parametrize("name", ONE_NUMBER)
def test_special_numbers(name, device):
    torch = require_torch()
    expected = getattr(torch, name)(theirs(torch, SPECIAL))
    same(getattr(edutorch, name)(ours(SPECIAL)), expected, 1e-9)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ONE_NUMBER)
def test_derivatives_of_functions_of_one_number(name):
    torch = require_torch()
    if not getattr(torch, name)(theirs(torch, Z, grad=True)).requires_grad:
        assert not getattr(edutorch, name)(ours(Z, grad=True)).requires_grad
        return
    compared(lambda module, z: getattr(module, name)(z), Z)
    z = ours(Z[:2], grad=True)
    assert gradcheck(getattr(edutorch, name), z)
    assert gradgradcheck(getattr(edutorch, name), z)


@pytest.mark.oracle
@tried("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", TWO_NUMBERS)
def test_functions_of_two_numbers(name, dtype, device):
    torch = require_torch()
    pairs = [(Z, W), (Z, W[0]), (Z[:, :1], W[:1])]
    for a, b in pairs:
        expected = getattr(torch, name)(theirs(torch, a, dtype), theirs(torch, b, dtype))
        same(getattr(edutorch, name)(ours(a, dtype), ours(b, dtype)), expected, TOLERANCE[dtype])


NUMBERS = {
    "plus": lambda m, z: 2j + z, "minus": lambda m, z: (1 - 2j) - z, "times": lambda m, z: z * 1j,
    "over": lambda m, z: z / (1 + 1j), "under": lambda m, z: 1j / z, "square": lambda m, z: z**2,
    "cube": lambda m, z: z**3, "root": lambda m, z: z**0.5, "to i": lambda m, z: z**1j,
    "i to": lambda m, z: 1j**z, "2 to": lambda m, z: 2**z, "to 0": lambda m, z: z**0,
    "to -1": lambda m, z: z**-1, "add alpha": lambda m, z: m.add(z, z, alpha=1j),
    "sub alpha": lambda m, z: m.sub(z, z * z, alpha=2 - 1j),
    "where": lambda m, z: m.where(z.real > 0, z, 2j * z),
    "lerp": lambda m, z: m.lerp(z, z * z, 0.3), "addcmul": lambda m, z: m.addcmul(z, z, z.conj()),
    "addcdiv": lambda m, z: m.addcdiv(z, z, z + 3),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", NUMBERS)
def test_with_python_numbers(name):
    compared(NUMBERS[name], Z)
    assert gradgradcheck(lambda z: NUMBERS[name](edutorch, z), ours(Z[:1], grad=True))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
@tried("order", ["complex first", "real first"])
def test_real_numbers_next_to_complex_ones_have_real_gradients(name, order):
    a, b = (Z, X) if order == "complex first" else (np.abs(X) + 0.5, Z)
    compared(lambda module, a, b: getattr(module, name)(a, b), a, b)
    pair = ours(a[:1], grad=True), ours(b[:1], grad=True)
    assert gradcheck(getattr(edutorch, name), pair)
    assert gradgradcheck(getattr(edutorch, name), pair)


# Many numbers ------------------------------------------------------------------------------------

CHAINS = {
    "|z|": lambda m, z: z.abs().sum(), "sum": lambda m, z: z.sum(0),
    "mean": lambda m, z: z.mean(1, keepdim=True), "prod": lambda m, z: z.prod(1),
    "prod of all": lambda m, z: z.prod(), "cumsum": lambda m, z: z.cumsum(1),
    "cumprod": lambda m, z: z.cumprod(0), "norm": lambda m, z: m.linalg.vector_norm(z),
    "1-norm": lambda m, z: m.linalg.vector_norm(z, 1, dim=1), "dot": lambda m, z: m.dot(z[0], z[1]),
    "3-norm": lambda m, z: m.linalg.vector_norm(z, 3, dim=0), "var": lambda m, z: z.var(),
    "var of rows": lambda m, z: z.var(1, correction=0), "std": lambda m, z: z.std(0),
    "matmul": lambda m, z: z @ z.T, "conjugate transpose": lambda m, z: z @ z.mH,
    "matmul of a vector": lambda m, z: z @ z[0], "outer": lambda m, z: m.outer(z[0], z[1]),
    "bmm": lambda m, z: m.bmm(z[None], z.mT[None]),
    "einsum": lambda m, z: m.einsum("ij,kj->ik", z, z.conj()),
    "Hermitian form": lambda m, z: (z.conj() * (z * 2)).sum().real,
    "real of a product": lambda m, z: (z * (1 - 2j) * z).real,
    "imag of a product": lambda m, z: (z * z.flip(0)).imag,
    "pairs": lambda m, z: m.view_as_real(z * z).prod(-1),
    "from pairs": lambda m, z: m.view_as_complex(m.view_as_real(z).flip(-1)) * z,
    "parts": lambda m, z: m.complex(z.imag, z.real * z.imag),
    "polar": lambda m, z: m.polar(z.abs(), 2 * z.angle()),
    "spectrum": lambda m, z: m.fft.ifft(m.fft.fft(z) * m.fft.fft(z.conj())),
    "filter": lambda m, z: m.fft.irfft(m.fft.rfft(z.real) * z[:, :3], 4),
    "views": lambda m, z: z.T.reshape(2, 6)[:, ::2].unsqueeze(0).expand(2, 2, 3) * 1j,
    "pick": lambda m, z: z[[0, 2, 0]] * z[1], "join": lambda m, z: m.cat([z, z * 1j]).roll(1, 0),
    "diagonal": lambda m, z: m.diag_embed(z.diagonal()) @ z[:3],
    "triangle": lambda m, z: z.tril() @ z.T.triu(), "masked": lambda m, z: z[z.real > 0] ** 2,
    "filled": lambda m, z: z.masked_fill(z.imag > 0, 1j),
    "phase": lambda m, z: z / z.abs(), "sgn": lambda m, z: z.sgn() * z,
    "std of all": lambda m, z: m.std(z), "trace": lambda m, z: (z @ z.T).trace(),
    "softened": lambda m, z: z.sigmoid() * z.tanh(), "exponent": lambda m, z: (0.1 * z) ** z,
    "log": lambda m, z: (z * 1j).log() + z.sqrt(), "phases": lambda m, z: (1j * z.angle()).exp(),
    "diff": lambda m, z: z.diff(dim=0),
    "2d spectrum": lambda m, z: m.fft.fft2(z, norm="ortho").abs(),
    "shifted": lambda m, z: m.fft.fftshift(m.fft.hfft(z)), "Hermitian": lambda m, z: z.mH @ z,
    "to complex and back": lambda m, z: (z.real + 0j) * (z.imag * 1j + z.abs()),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_ops(name):
    compared(CHAINS[name], Z)
    z = ours(Z, grad=True)
    assert gradcheck(lambda z: CHAINS[name](edutorch, z), z)
    assert gradgradcheck(lambda z: CHAINS[name](edutorch, z), z)


MATRICES = {
    "batched": lambda m, a, b: a @ b, "bmm": lambda m, a, b: m.bmm(a, b.mH),
    "einsum": lambda m, a, b: m.einsum("bij,bkj->bik", a, b),
    "tensordot": lambda m, a, b: m.tensordot(a[0], b, ([1], [2])),
    "baddbmm": lambda m, a, b: m.baddbmm(a, a, b, beta=1j, alpha=2),
    "kron": lambda m, a, b: m.kron(a[0], b[1]),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", MATRICES)
def test_products_of_matrices(name):
    compared(MATRICES[name], SQUARE, SQUARE[::-1].copy())
    pair = ours(SQUARE, grad=True), ours(SQUARE[::-1].copy(), grad=True)
    assert gradgradcheck(lambda a, b: MATRICES[name](edutorch, a, b), pair)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CHAINS)
def test_second_derivatives_are_pytorchs(name):
    torch = require_torch()
    results = []
    for module, z in ((torch, theirs(torch, Z, grad=True)), (edutorch, ours(Z, grad=True))):
        loss = (CHAINS[name](module, z).abs() ** 3).sum()
        (g,) = module.autograd.grad(loss, z, create_graph=True)
        (again,) = module.autograd.grad((g.abs() ** 2).sum(), z)
        results.append(again)
    same(results[1], results[0], 1e-7)


# Views -------------------------------------------------------------------------------------------


def test_parts_are_views(device):
    z = edutorch.tensor([1 + 2j, 3 + 4j])
    z.real[0] = 5
    z.imag.mul_(10)
    assert z.tolist() == [5 + 20j, 3 + 40j]
    pairs = edutorch.view_as_real(z)
    pairs[1, 0] = -1
    assert z[1].item() == -1 + 40j
    again = edutorch.view_as_complex(pairs)
    again[0] = 0
    assert z[0].item() == 0 and again.data_ptr() == z.data_ptr()


def _write(part):
    """Return a function that writes into a slice of a tensor of the graph, and goes on."""

    def function(module, z):
        y = z * 1
        part(module, y, z)
        return y * y

    return function


WRITES = {
    "real part": _write(lambda m, y, z: y.real.mul_(2)),
    "imaginary part": _write(lambda m, y, z: y.imag.zero_()),
    "a row of pairs": _write(lambda m, y, z: m.view_as_real(y)[0].mul_(3)),
    "one part from another": _write(lambda m, y, z: y.real[0].copy_(z.imag[1])),
    "of a transposed tensor": _write(lambda m, y, z: y.T.real.mul_(2)),
    "all of it": _write(lambda m, y, z: y.mul_(1j).add_(z).div_(2j).pow_(2)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", WRITES)
def test_writes_into_parts_in_the_graph(name):
    compared(WRITES[name], Z)


def test_real_numbers_do_not_become_complex_in_place():
    with pytest.raises(edutorch.errors.DTypeError, match="can't be cast"):
        edutorch.ones(2).mul_(1j)


def test_a_write_to_a_part_that_backward_needs_is_noticed():
    z = edutorch.tensor([1 + 2j], requires_grad=True) * 1
    y = z * z
    z.detach().real.zero_()
    with pytest.raises(edutorch.errors.StaleValueError):
        y.abs().sum().backward()


def test_parts_of_transposed_numbers():
    z = edutorch.tensor(Z).T
    np.testing.assert_array_equal(z.real.numpy(), Z.T.real)
    np.testing.assert_array_equal(edutorch.view_as_real(z)[..., 1].numpy(), Z.T.imag)


def test_real_numbers_have_no_imaginary_part():
    x = edutorch.tensor([1.0])
    assert x.real.data_ptr() == x.data_ptr()
    for wrong in (lambda: x.imag, lambda: edutorch.view_as_real(x)):
        with pytest.raises(edutorch.errors.DTypeError):
            wrong()


# What users see of gradients ---------------------------------------------------------------------


def seen_by_hooks(module, z):
    """Return every gradient that user code sees in one backward pass."""
    seen = []

    class Twice(module.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * (2 + 1j)

        @staticmethod
        def backward(ctx, g):
            seen.append(g)
            return g * (2 - 1j)

    middle = z * (1 + 2j)
    middle.retain_grad()
    middle.register_hook(seen.append)
    end = Twice.apply(middle)
    end.register_hook(lambda g: g * 1j)
    end.grad_fn.register_hook(lambda grad_inputs, outputs: seen.extend([*grad_inputs, *outputs]))
    loss = (end.abs() ** 2).sum()
    z.register_hook(lambda g: g + 1j)
    loss.backward()
    return [*seen, middle.grad, z.grad]


@pytest.mark.oracle
def test_hooks_see_pytorchs_gradients():
    torch = require_torch()
    expected = seen_by_hooks(torch, theirs(torch, Z, grad=True))
    seen = seen_by_hooks(edutorch, ours(Z, grad=True))
    assert len(seen) == len(expected)
    for mine, other in zip(seen, expected, strict=True):
        same(mine, other)


@pytest.mark.oracle
def test_a_gradient_to_start_with_is_pytorchs():
    torch = require_torch()
    a, b = theirs(torch, Z, grad=True), ours(Z, grad=True)
    (a * a).backward(theirs(torch, W))
    (b * b).backward(ours(W))
    same(b.grad, a.grad)
    same(
        edutorch.autograd.grad(b**3, b, ours(W))[0],
        torch.autograd.grad(a**3, a, theirs(torch, W))[0],
    )


def test_backward_of_a_complex_number_needs_a_start():
    z = edutorch.tensor([1 + 1j], requires_grad=True)
    with pytest.raises(RuntimeError, match="complex"):
        (z * z).sum().backward()


def test_descending_along_the_gradient_finds_the_target():
    target = edutorch.tensor(Z)
    z = edutorch.zeros_like(target, requires_grad=True)
    optimizer = edutorch.optim.SGD([z], lr=0.25)
    for _ in range(60):
        optimizer.zero_grad()
        ((z - target).abs() ** 2).sum().backward()
        optimizer.step()
    assert edutorch.allclose(z.detach(), target)


# What has no meaning -----------------------------------------------------------------------------

REFUSED = {
    "lt": lambda z: z < z, "le": lambda z: z <= 1, "gt": lambda z: z > z, "ge": lambda z: z >= 1j,
    "max": lambda z: z.max(), "min of rows": lambda z: z.min(1), "argmax": lambda z: z.argmax(),
    "argmin": lambda z: z.argmin(1), "amax": lambda z: z.amax(0), "amin": lambda z: z.amin(),
    "maximum": lambda z: edutorch.maximum(z, z), "minimum": lambda z: edutorch.minimum(z, z),
    "sort": lambda z: z.sort(), "argsort": lambda z: z.argsort(), "topk": lambda z: z.topk(1),
    "median": lambda z: z.median(), "kthvalue": lambda z: z.kthvalue(1),
    "cummax": lambda z: z.cummax(0), "clamp": lambda z: z.clamp(0, 1), "floor": lambda z: z.floor(),
    "ceil": lambda z: z.ceil(), "round": lambda z: z.round(), "trunc": lambda z: z.trunc(),
    "frac": lambda z: z.frac(), "sign": lambda z: z.sign(), "remainder": lambda z: z % 2,
    "floor_divide": lambda z: z // 2, "fmod": lambda z: z.fmod(2), "hypot": lambda z: z.hypot(z),
    "atan2": lambda z: z.atan2(z), "erf": lambda z: z.erf(), "and": lambda z: z & z,
    "mode": lambda z: z.mode(), "quantile": lambda z: z.quantile(0.5), "histc": lambda z: z.histc(),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_complex_numbers_have_no_order(name, device):
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        REFUSED[name](edutorch.tensor(Z))
