"""What `test_numbers.py` cannot say in a line: gradients, refusals, randomness, settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.autograd import gradcheck, gradgradcheck
from tests.oracle import require_torch


def random_tensor(*shape: int, seed: int = 0, low: float = 0.2) -> Any:
    values = np.random.default_rng(seed).uniform(low, 2, shape)
    return edutorch.tensor(values, requires_grad=True)


t = edutorch
NAN = t.full((1, 3), math.nan).double()
DIFFERENTIABLE = {
    "ldexp": (lambda x: t.ldexp(x, t.tensor([1, -2, 3])), (2, 3)),
    "frexp": (lambda x: t.frexp(x).mantissa, (2, 3)),
    "float_power": (lambda x: t.float_power(x, 1.5), (2, 3)),
    "rsub": (lambda x: t.rsub(x, x * x, alpha=3), (2, 3)),
    "clamp_min": (lambda x: t.clamp_min(x, 0.7), (2, 3)),
    "clamp_max": (lambda x: t.clamp_max(x, 0.7), (2, 3)),
    "quantile": (lambda x: t.quantile(x, t.tensor([0.3, 0.8]).double(), 1), (2, 3)),
    "nanquantile": (lambda x: t.nanquantile(t.cat([x, NAN.to(x)]), 0.4, 0), (2, 3)),
    "median": (lambda x: t.median(x, 0).values + t.nanmedian(x), (3, 2)),
    "std": (lambda x: t.std(x, 1, unbiased=False) + x.std(0).sum(), (2, 3)),
    "std_mean": (lambda x: t.std_mean(x, (0, 1))[0] * t.var_mean(x)[1], (2, 3)),
    "trapezoid": (lambda x: t.trapezoid(x, x.cumsum(1)), (2, 3)),
    "cumulative_trapezoid": (lambda x: t.cumulative_trapezoid(x, dx=0.5, dim=0), (3, 2)),
    "gradient": (lambda x: t.gradient(x, edge_order=2)[1], (3, 4)),
    "gradient at points": (
        lambda x: t.gradient(x, spacing=(t.tensor([0.0, 1.0, 3.0]),), edge_order=2, dim=0)[0],
        (3, 2),
    ),
    "diff": (lambda x: t.diff(x, 2, 0, prepend=x[:1] * 2), (3, 2)),
    "combinations": (t.combinations, (4,)),
    "cartesian_prod": (lambda x: t.cartesian_prod(x, x * x), (3,)),
    "norm": (lambda x: t.norm(x, "nuc") + t.norm(x, 3, 0).sum(), (2, 3)),
    "nanmean": (lambda x: t.nanmean(x, 0, dtype=t.float64), (2, 3)),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.usefixtures("device")
def test_derivatives(name):
    function, shape = DIFFERENTIABLE[name]
    x = random_tensor(*shape)
    assert gradcheck(function, (x,))
    if name != "norm":  # the nuclear norm's second derivative is not of this file
        assert gradgradcheck(function, (x,))


IN_PLACE = {
    "ldexp_": (2.0 * np.ones(3),), "float_power_": (3,), "clamp_min_": (0.7,),
    "clamp_max_": (0.7,), "copysign_": (-1.0,), "arctan_": (), "divide_": (3.0,),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_gradients_through_in_place_forms(name):
    arguments = [
        t.tensor(argument) if isinstance(argument, np.ndarray) else argument
        for argument in IN_PLACE[name]
    ]

    def function(x: Any) -> Any:
        y = x * x
        z = y * 3  # saves nothing of y
        assert getattr(y, name)(*arguments) is y
        return y + z

    assert gradcheck(function, (random_tensor(2, 3),))


def test_an_in_place_form_changes_no_leaf():
    with pytest.raises(edutorch.errors.GradientError, match="leaf"):
        random_tensor(3).ldexp_(t.tensor(1))


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize(("rows", "mode"), [(25, "donot_use_mm"), (26, "use_mm")])
def test_from_26_rows_on_distances_are_products(rows, mode, batch):
    x, y = random_tensor(*batch, rows, 3) + 1e6, random_tensor(*batch, 4, 3, seed=1) + 1e6
    for pair in ((x, y), (y, x)):
        exact, product = (
            t.cdist(*pair, compute_mode=f"{word}_for_euclid_dist")
            for word in ("donot_use_mm", "use_mm")
        )
        assert not t.equal(exact, product)  # the square of 10⁶ leaves four digits
        assert t.equal(t.cdist(*pair), exact if mode == "donot_use_mm" else product)


def test_a_constant_has_a_deviation_with_gradient_0():
    x = t.ones(3, requires_grad=True)
    x.std().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.usefixtures("device")
def test_many_distances_are_products_of_matrices():
    x, y = random_tensor(2, 30, 3), random_tensor(2, 4, 3, seed=1)
    exact = t.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    for distances in (t.cdist(x, y), t.cdist(x, y, compute_mode="use_mm_for_euclid_dist")):
        assert t.allclose(distances, exact)
    assert gradcheck(t.cdist, (random_tensor(27, 2), random_tensor(2, 2, seed=1)))
    assert t.isfinite(t.autograd.grad(t.cdist(x, x).sum(), x)[0]).all()
    with pytest.raises(ValueError, match="compute_mode"):
        t.cdist(x, y, compute_mode="fast")


# Refused -----------------------------------------------------------------------------------------

x = t.tensor([1.0, 2.0, 3.0])
REFUSED = [
    (lambda: x << 1, "not implemented for floating numbers"),
    (lambda: t.gcd(x, x), "not implemented for floating numbers"),
    (lambda: t.frexp(t.tensor([1])), "not implemented for integers"),
    (lambda: t.quantile(x, 1.5), "q must be between 0 and 1"),
    (lambda: t.quantile(x, t.tensor(0.5).double()), "q must have the type of the input"),
    (lambda: t.quantile(x.half(), 0.5), "float32 or float64"),
    (lambda: t.quantile(x, 0.5, interpolation="cubic"), "interpolation must be one of"),
    (lambda: t.quantile(x[:0], 0.5), "an empty tensor has none"),
    (lambda: t.histogram(x, 0), "at least 1 bin"),
    (lambda: t.histogram(x, 2, range=(2.0, 1.0)), "the wrong way round"),
    (lambda: t.histogram(x, 2, weight=t.ones(2)), "one weight for each"),
    (lambda: t.histogram(x.int(), 2), "expected floating numbers"),
    (lambda: t.histogramdd(x, 2), "points in rows"),
    (lambda: t.histc(x, -1), "needs bins > 0"),
    (lambda: t.histc(t.tensor([math.inf])), "not finite"),
    (lambda: t.trapezoid(x, x, dx=1), "not both"),
    (lambda: t.trapezoid(x, x[:2]), "one `x` for each `y`"),
    (lambda: t.gradient(x[:1]), "more than 1 points"),
    (lambda: t.gradient(x, spacing=[1.0, 2.0]), "needs 1 spacings"),
    (lambda: t.gradient(x, edge_order=3), "edge_order must be 1 or 2"),
    (lambda: t.diff(t.tensor(1.0)), "at least one axis"),
    (lambda: t.diff(x, -1), "n cannot be negative"),
    (lambda: t.combinations(x[None]), "expects a vector"),
    (lambda: t.cartesian_prod(x, x[None]), "expects vectors"),
    (lambda: t.unravel_index(x, (3,)), "expected integers"),
    (lambda: t.nonzero_static(x, size=-1), "size cannot be negative"),
    (lambda: t.searchsorted(x, x, right=True, side="left"), "contradict"),
    (lambda: t.searchsorted(x, x, sorter=t.tensor([0])), "the shape of the rows"),
    (lambda: t.bucketize(x, x[None]), "boundaries must be a vector"),
    (lambda: t.bincount(t.tensor([1]), minlength=-1), "minlength"),
    (lambda: t.bincount(t.tensor([1]), t.ones(2)), "one weight for each"),
    (lambda: t.arange(0, 3, -1), "cannot be reached"),
    (lambda: t.arange(0, math.inf), "not finite"),
    (lambda: t.linspace(0, 1, -1), "steps cannot be negative"),
    (lambda: t.empty_strided((2,), (1, 1)), "one step per axis"),
    (lambda: t.empty_permuted((2, 3), (0, 0)), "name each axis once"),
    (lambda: t.zeros(2, layout="sparse"), "strided"),
    (lambda: t.scalar_tensor(1j), "complex number"),
    (lambda: t.asarray([1.0], copy=False), "a copy is needed"),
    (lambda: t.frombuffer(b"abc", dtype=t.float32), "multiple"),
    (lambda: t.randint(3, 3, (2,)), "low < high"),
    (lambda: t.normal(x, -x), "std >= 0"),
    (lambda: t.bernoulli(x), "from 0 to 1"),
    (lambda: t.poisson(-x), "not negative"),
    (lambda: t.binomial(x, x), "0 <= prob <= 1"),
    (lambda: t.var(x, unbiased=True, correction=1), "not both"),
    (lambda: t.norm(x, "max"), "p must be"),
    (lambda: t.max(x, 0, out=t.empty(())), "tuple of 2 tensors"),
    (lambda: t.std(x, out=t.empty((), dtype=t.int64)), "can't be cast"),
    (lambda: t.rand(2, dtype=t.int64), "draws floating numbers"),
    (lambda: t.bernoulli(x.int() * 0), "floating probabilities"),
    (lambda: t.bernoulli(x * math.nan), "from 0 to 1"),
    (lambda: t.multinomial(t.ones(2, 2, 2), 1), "a vector or rows"),
    (lambda: t.unique(t.ones(2, 0), dim=0), "other axes"),
    (lambda: t.norm(t.ones(2, 2, 2), "nuc"), "two axes"),
    (lambda: t.median(x > 0), "not implemented for bools"),
    (lambda: t.gradient(x.byte()), "negative slope"),
    (lambda: t.set_num_threads(0), "positive"),
    (lambda: t.set_float32_matmul_precision("low"), "precision must be"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number):
    call, message = REFUSED[number]
    with pytest.raises((RuntimeError, ValueError, TypeError), match=message):
        call()


# Random counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.3, 4.0, 9.9, 12.0, 80.0, 5000.0])
def test_poisson_numbers_have_their_mean_and_variance(rate):
    edutorch.manual_seed(0)
    drawn = t.poisson(t.full((40_000,), rate, dtype=t.float64))
    assert (drawn == drawn.floor()).all()
    assert drawn.mean().item() == pytest.approx(rate, abs=4 * math.sqrt(rate / 40_000))
    assert drawn.var().item() == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize(
    ("tries", "chance"), [(1, 0.3), (20, 0.2), (50, 0.5), (300, 0.9), (9999, 0.2)]
)
def test_binomial_numbers_have_their_mean_and_variance(tries, chance):
    edutorch.manual_seed(0)
    drawn = t.binomial(t.full((40_000,), float(tries)).double(), t.tensor(chance).double())
    variance = tries * chance * (1 - chance)
    assert drawn.min().item() >= 0 and drawn.max().item() <= tries
    assert drawn.mean().item() == pytest.approx(tries * chance, abs=4 * math.sqrt(variance / 4e4))
    assert drawn.var().item() == pytest.approx(variance, rel=0.05)


def test_counts_follow_their_distribution():
    """How often each number comes, against its probability."""
    edutorch.manual_seed(2)
    drawn = t.poisson(t.full((100_000,), 20.0)).long().bincount(minlength=60).double() / 1e5
    exact = [math.exp(-20 + k * math.log(20) - math.lgamma(k + 1)) for k in range(60)]
    np.testing.assert_allclose(drawn[:60].numpy(), exact, atol=2e-3)
    drawn = t.binomial(t.full((100_000,), 60.0), t.tensor(0.4)).long().bincount(minlength=61)
    exact = [math.comb(60, k) * 0.4**k * 0.6 ** (60 - k) for k in range(61)]
    np.testing.assert_allclose((drawn.double() / 1e5).numpy(), exact, atol=2e-3)


@pytest.mark.usefixtures("device")
def test_the_same_seed_gives_the_same_counts():
    draws = []
    for _ in range(2):
        generator = edutorch.Generator().manual_seed(3)
        draws.append(t.poisson(t.full((5,), 30.0), generator=generator).tolist())
    assert draws[0] == draws[1]
    before = t.seed()
    assert t.initial_seed() == before
    filled = t.empty(1000, dtype=t.int8).random_()
    assert filled.min().item() >= 0
    assert filled.max().item() > 100
    assert set(t.empty(50).random_(2, 4).tolist()) == {2.0, 3.0}


def test_complex_numbers_are_drawn():
    edutorch.manual_seed(0)
    z = t.randn(50_000, dtype=t.complex64)
    assert (z.abs() ** 2).mean().item() == pytest.approx(1, rel=0.03)
    z = t.rand(50_000, dtype=t.complex128)
    assert z.imag.mean().item() == pytest.approx(0.5, abs=0.01)


# Creation ----------------------------------------------------------------------------------------


def test_memory_is_shared_where_it_is_said(tmp_path):
    buffer = bytearray(8)
    y = t.frombuffer(buffer, dtype=t.float32)
    y[0] = 1
    assert buffer[3] == 0x3F
    array = np.zeros(2)
    t.asarray(array)[0] = 5
    t.asarray(array, copy=True)[0] = 6
    assert array[0] == 5
    file = tmp_path / "numbers"
    t.from_file(str(file), shared=True, size=3, dtype=t.float64)[1] = 2.5
    again = t.from_file(str(file), size=3, dtype=t.float64)
    assert again.tolist() == [0, 2.5, 0]
    again[0] = 9
    assert t.from_file(str(file), size=1, dtype=t.float64).tolist() == [0]
    with pytest.raises(edutorch.errors.ShapeError, match="need 80 bytes"):
        t.from_file(str(file), size=10, dtype=t.float64)


@pytest.mark.usefixtures("device")
def test_out_receives_the_result():
    y = t.ones(2, 3)
    assert t.zeros(2, 3, out=y) is y
    assert y.sum().item() == 0
    values, indices = t.empty(2), t.empty(0, dtype=t.int64)
    result = t.max(t.tensor([[1.0, 5.0], [4.0, 2.0]]), 1, out=(values, indices))
    assert result.values is values
    assert indices.tolist() == [1, 0]


# What cannot be held, or has the gradient 0 -------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: t.tensor([1j]).abs_(), "abs_: in-place abs is not supported for complex"),
        (lambda: t.tensor([1j]).absolute_(), "not supported for complex"),
        (lambda: t.ones(2).float_power_(2), "float_power_: the result is torch.float64"),
        (lambda: t.ones(2).double().float_power_(1j), "the result is torch.complex128"),
        (lambda: t.addr(t.ones(1).int(), t.ones(1).int(), t.ones(1).int(), beta=0.5), "beta"),
        (lambda: t.tensor([2]) ** -1, "negative integer powers"),
        (lambda: t.tensor(2) ** -1, "negative integer powers"),
    ],
)
def test_what_a_type_cannot_hold_is_refused(write, words):
    with pytest.raises(edutorch.errors.DTypeError, match=words):
        write()


def test_gradients_of_steps():
    x = t.tensor([0.5, 1.0], requires_grad=True)
    (slope,) = t.autograd.grad(t.bernoulli(x).sum(), x)
    assert slope.tolist() == [0, 0]
    (slope,) = t.autograd.grad(t.nextafter(x, t.tensor([0.0, 1.0])).sum(), x)
    assert slope.tolist() == [1, 0]  # PyTorch: 0 where there is no step


@pytest.mark.parametrize("dtype", [t.float16, t.bfloat16], ids=str)
def test_halves_are_rounded_once(dtype):
    x = t.full((3,), 1e4, dtype=dtype, requires_grad=True)
    (slope,) = t.autograd.grad(x.logcumsumexp(0).sum(), x)
    assert slope.tolist() == pytest.approx([11 / 6, 5 / 6, 1 / 3], rel=2e-2)
    m = t.tensor([[1.0, 1 / 256]], dtype=dtype)
    product = t.addmm(t.full((1, 1), -1.0, dtype=dtype), m, m.mT, alpha=1, beta=1)
    assert product.item() == pytest.approx(2.0**-16, rel=1e-2)


# Settings ----------------------------------------------------------------------------------------


@pytest.mark.oracle
def test_settings_are_kept_as_in_pytorch():
    torch = require_torch()
    for library in (edutorch, torch):
        library.set_float32_matmul_precision("high")
        assert library.get_float32_matmul_precision() == "high"
        library.set_float32_matmul_precision("highest")
        library.use_deterministic_algorithms(True, warn_only=True)
        assert library.are_deterministic_algorithms_enabled()
        assert library.is_deterministic_algorithms_warn_only_enabled()
        assert library.get_deterministic_debug_mode() == 1
        library.set_deterministic_debug_mode("error")
        assert library.get_deterministic_debug_mode() == 2
        library.set_deterministic_debug_mode(0)
        assert not library.are_deterministic_algorithms_enabled()
        assert not library.is_warn_always_enabled()
        assert library.typename([]) == "list"
        assert library.typename(library.ones(1)) == "torch.FloatTensor"
        before = library.get_num_threads()
        library.set_num_threads(1)
        assert library.get_num_threads() == 1
        library.set_num_threads(before)
        library.set_default_tensor_type("torch.DoubleTensor")
        assert library.ones(1).dtype is library.float64
        library.set_default_tensor_type("torch.FloatTensor")
        assert library.is_storage(library.ones(1).untyped_storage())
        assert not library.is_storage(library.ones(1))
