"""edutorch.special beyond what test_every_op.py asks of each op: digits, limits, errors.

The digits are compared with mpmath's where it is installed, and always with a few numbers
that were computed by it (to 17 digits).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch
from edutorch import special
from edutorch.autograd import gradcheck
from edutorch.errors import DTypeError, GradientError, ValueRangeError
from edutorch.ops.special import bernoulli_numbers, zeta_minus_1
from tests.oracle import require_torch

GENERATOR = np.random.default_rng(0)
POSITIVE = [*10.0 ** GENERATOR.uniform(-6, 2.5, 60), 0.5, 1 + 1e-9, 2 - 1e-9, 2.0, 2.5, 10.0, 25.0]
BOTH = [*POSITIVE, *(-GENERATOR.uniform(0.01, 12, 40))]
WAVES = [*GENERATOR.uniform(0.5, 300, 60), 1.9999, 2.0, 2.0001]


def value(function, *arguments):
    tensors = [edutorch.tensor(argument, dtype=edutorch.float64) for argument in arguments]
    return function(*tensors).item()


def mpmath():
    module = pytest.importorskip("mpmath", reason="mpmath has the digits to compare with")
    module.mp.dps = 60
    return module


# name: how mpmath says it, where, how far off, and whether the distance is absolute: a wave is as
# exact as its size next to its zeros too, where a relative error means nothing.
DIGITS = {
    "gammaln": (lambda m, x: m.log(abs(m.gamma(x))), BOTH, 2e-14, False),
    "digamma": (lambda m, x: m.digamma(x), BOTH, 2e-13, False),
    "erf": (lambda m, x: m.erf(x), BOTH, 5e-15, False),
    "erfc": (lambda m, x: m.erfc(x), [x for x in BOTH if x < 26], 2e-14, False),
    "erfcx": (lambda m, x: m.exp(x * x) * m.erfc(x), BOTH, 5e-14, False),
    "ndtr": (lambda m, x: m.erfc(-x / m.sqrt(2)) / 2, [*BOTH, -25.5], 1e-13, False),
    "log_ndtr": (
        lambda m, x: m.log(m.erfc(-x / m.sqrt(2)) / 2),
        [-30.5, *BOTH[-30:]],
        1e-14,
        False,
    ),
    "i0": (lambda m, x: m.besseli(0, x), BOTH, 5e-15, False),
    "i0e": (lambda m, x: m.exp(-abs(x)) * m.besseli(0, x), BOTH, 5e-15, False),
    "i1": (lambda m, x: m.besseli(1, x), BOTH, 5e-15, False),
    "i1e": (lambda m, x: m.exp(-abs(x)) * m.besseli(1, x), BOTH, 5e-15, False),
    "modified_bessel_k0": (lambda m, x: m.besselk(0, x), POSITIVE, 5e-15, False),
    "modified_bessel_k1": (lambda m, x: m.besselk(1, x), POSITIVE, 5e-15, False),
    "scaled_modified_bessel_k0": (lambda m, x: m.exp(x) * m.besselk(0, x), POSITIVE, 5e-15, False),
    "scaled_modified_bessel_k1": (lambda m, x: m.exp(x) * m.besselk(1, x), POSITIVE, 5e-15, False),
    "bessel_j0": (lambda m, x: m.besselj(0, x), WAVES, 2e-15, True),
    "bessel_j1": (lambda m, x: m.besselj(1, x), WAVES, 2e-15, True),
    "bessel_y0": (lambda m, x: m.bessely(0, x), WAVES, 2e-15, True),
    "bessel_y1": (lambda m, x: m.bessely(1, x), WAVES, 2e-15, True),
    "airy_ai": (lambda m, x: m.airyai(x), [x for x in POSITIVE if x < 50], 5e-14, False),
    "entr": (lambda m, x: -x * m.log(x), POSITIVE, 1e-12, False),
}


@pytest.mark.parametrize("name", DIGITS)
def test_digits(name):
    truth, points, tolerance, absolute = DIGITS[name]
    m = mpmath()
    digits = getattr(special, name)(edutorch.tensor(points, dtype=edutorch.float64)).tolist()
    for x, y in zip(points, digits, strict=True):
        expected = truth(m, m.mpf(x))
        if abs(expected) < 1e300 and abs(expected) > 1e-300:
            distance = abs(y - expected) / (1 if absolute else abs(expected))
            assert distance < tolerance, (x, y, expected)


def test_digits_of_a_falling_wave():
    m = mpmath()
    for x in -GENERATOR.uniform(0, 60, 50):
        assert abs(value(special.airy_ai, x) - m.airyai(x)) < 2e-16 * (1 + abs(x) ** 1.5)


def test_digits_of_zeta_and_polygamma():
    m = mpmath()
    for s, q in zip(GENERATOR.uniform(1.01, 30, 40), GENERATOR.uniform(0.01, 90, 40), strict=True):
        with m.workdps(120):
            expected = m.zeta(s, q)
        assert abs(value(special.zeta, s, q) / expected - 1) < 1e-14
    for n in (1, 2, 5):
        for x in [*POSITIVE[:20], -0.3, -2.6, -7.1]:
            ours = special.polygamma(n, edutorch.tensor(x, dtype=edutorch.float64)).item()
            assert abs(ours / m.polygamma(n, x) - 1) < 1e-13


def lower_gamma(m, a, x):
    """P(a, x) by its series, in so many digits that nothing is lost."""
    term = total = m.mpf(1)
    n = 0
    while term > total * m.mpf(10) ** -145:
        n += 1
        term *= x / (a + n)
        total += term
    return total * m.exp(a * m.log(x) - x - m.loggamma(a + 1))


def test_digits_of_the_incomplete_gamma_function():
    """Each of its formulas, and the borders between them."""
    m = mpmath()
    points = [
        (a, a * r) for a in (1e-6, 0.01, 0.7, 5, 19.9, 20.1, 60, 400) for r in (0.4, 0.9, 1.3)
    ]
    points += [(20, 20.9), (21, 10.4), (21, 42.1), (0.5, 2.01), (1e-6, 1.9), (3, 60), (100, 100)]
    with m.workdps(150):
        for a, x in points:
            below = lower_gamma(m, m.mpf(a), m.mpf(x))
            assert abs(value(special.gammainc, a, x) / below - 1) < 2e-13, (a, x)
            assert abs(value(special.gammaincc, a, x) / (1 - below) - 1) < 2e-13, (a, x)


def test_ndtri_undoes_ndtr():
    x = edutorch.linspace(-37, 0, 200, dtype=edutorch.float64)
    np.testing.assert_allclose(special.ndtri(special.ndtr(x)).numpy(), x.numpy(), 1e-13, 1e-13)


@pytest.mark.parametrize(
    ("name", "argument", "expected"),
    [
        ("gammaln", 0.5, 0.57236494292470009), ("gammaln", 1e-10, 23.025850929882737),
        ("digamma", 1.0, -0.57721566490153286), ("erfcx", 100.0, 0.0056416137829894326),
        ("log_ndtr", -40.0, -804.60844201375379), ("ndtri", 0.975, 1.9599639845400542),
        ("i0", 1.0, 1.2660658777520083), ("i1e", 60.0, 0.051179630189028718),
        ("modified_bessel_k0", 3.0, 0.034739504386279248),
        ("bessel_j0", 5.5, -0.0068438694178191715), ("bessel_y1", 30.0, 0.084425570661747235),
        ("airy_ai", 2.0, 0.034924130423274379), ("zeta", 2.0, math.pi**2 / 6),
    ],
)  # fmt: skip
def test_known_numbers(name, argument, expected):
    function = getattr(special, name)
    ours = value(lambda x: function(x, 1) if name == "zeta" else function(x), argument)
    assert ours == pytest.approx(expected, rel=1e-13)


def test_pythons_gamma_agrees():
    for x in (0.1, 0.9, 1.1, 3.7, 9.99, 10.01, 170.5, -0.5, -3.7):
        assert value(special.gammaln, x) == pytest.approx(math.lgamma(x), rel=1e-14, abs=1e-15)


def test_coefficients_are_the_known_ones():
    bernoulli, zeta = bernoulli_numbers.__wrapped__, zeta_minus_1.__wrapped__  # not from a cache
    assert [str(coefficient) for coefficient in bernoulli(4)] == ["1/6", "-1/30", "1/42", "-1/30"]
    assert zeta(2) == pytest.approx(math.pi**2 / 6 - 1, rel=1e-15)
    assert zeta(4) == pytest.approx(math.pi**4 / 90 - 1, rel=1e-15)


# Limits ------------------------------------------------------------------------------------

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("gammaln", (-2.0,), INF), ("gammaln", (-INF,), INF), ("gammaln", (NAN,), NAN),
        ("digamma", (0.0,), -INF), ("digamma", (-0.0,), INF), ("digamma", (-2.0,), NAN),
        ("digamma", (INF,), INF), ("digamma", (-INF,), NAN),
        ("zeta", (1.0, 2.0), INF), ("zeta", (0.5, 2.0), NAN), ("zeta", (2.0, -3.0), INF),
        ("zeta", (2.5, -1.5), NAN), ("zeta", (INF, 1.0), 1.0), ("zeta", (2.0, INF), 0.0),
        ("zeta", (1.0, -1.5), INF), ("zeta", (1.0, 0.0), INF), ("zeta", (0.5, 0.0), NAN),
        ("zeta", (2.0, 0.0), INF), ("zeta", (2.0, -INF), INF), ("zeta", (3.0, -2.0), INF),
        ("gammainc", (0.0, 0.0), NAN), ("gammainc", (0.0, 1.0), 1.0), ("gammainc", (2.0, 0.0), 0.0),
        ("gammainc", (INF, 1.0), 0.0), ("gammainc", (1.0, INF), 1.0), ("gammainc", (INF, INF), NAN),
        ("gammaincc", (-1.0, 1.0), NAN), ("gammaincc", (1.0, -1.0), NAN),
        ("i0", (INF,), INF), ("i1", (-INF,), -INF), ("i0e", (INF,), 0.0),
        ("i0", (712.0,), 2.46841e307),
        ("modified_bessel_k0", (0.0,), INF), ("modified_bessel_k1", (-1.0,), NAN),
        ("scaled_modified_bessel_k0", (INF,), 0.0), ("bessel_j0", (-INF,), 0.0),
        ("bessel_y0", (0.0,), -INF), ("bessel_y1", (INF,), 0.0), ("bessel_y0", (-1.0,), NAN),
        ("airy_ai", (INF,), 0.0), ("airy_ai", (-INF,), 0.0), ("airy_ai", (NAN,), NAN),
        ("spherical_bessel_j0", (0.0,), 1.0), ("spherical_bessel_j0", (INF,), 0.0),
        ("entr", (0.0,), 0.0), ("entr", (-1.0,), -INF), ("entr", (INF,), -INF),
        ("log_ndtr", (-INF,), -INF), ("ndtri", (0.0,), -INF), ("ndtri", (1.0,), INF),
        ("ndtri", (1.5,), NAN), ("erfcx", (-INF,), INF), ("erfcx", (INF,), 0.0),
        ("xlog1py", (0.0, -1.0), 0.0), ("xlog1py", (0.0, NAN), NAN),
    ],
)  # fmt: skip
def test_limits(name, arguments, expected, device):
    ours = value(getattr(special, name), *arguments)
    assert ours == pytest.approx(expected, rel=1e-4, nan_ok=True)


# The face ----------------------------------------------------------------------------------


def test_every_name_of_pytorch_is_there():
    torch = require_torch()
    for name in dir(torch.special):
        function = getattr(torch.special, name)
        if not name.startswith("_") and type(function).__name__ == "builtin_function_or_method":
            assert callable(getattr(special, name)), name
            assert name in special.__all__


def test_second_names_are_the_same_functions():
    assert special.psi is edutorch.digamma and special.expit is edutorch.sigmoid
    assert special.gammainc is edutorch.igamma and special.modified_bessel_i0 is edutorch.i0


def test_polygamma_takes_n_first_and_as_a_method_only(device):
    x = edutorch.tensor([1.0, 2.0], dtype=edutorch.float64, requires_grad=True)
    assert special.polygamma(1, x).tolist() == x.polygamma(1).tolist()
    assert special.polygamma(0, x).tolist() == special.digamma(x).tolist()
    y = x.detach().clone()
    assert y.polygamma_(1) is y
    assert y[0].item() == pytest.approx(math.pi**2 / 6)
    out = edutorch.empty(2, dtype=edutorch.float64)
    assert special.polygamma(2, y, out=out) is out
    assert gradcheck(lambda x: special.polygamma(2, x), x)
    with pytest.raises(ValueRangeError, match="does not support negative n"):
        special.polygamma(-1, x)


def test_multigammaln_wants_a_dimension():
    with pytest.raises(ValueRangeError, match="p has to be greater than or equal to 1"):
        special.multigammaln(edutorch.tensor([3.0]), 0)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta"])
def test_no_derivative_by_the_first_argument(name):
    a = edutorch.tensor([2.0], requires_grad=True)
    x = edutorch.tensor([3.0], requires_grad=True)
    with pytest.raises(GradientError, match="is not implemented"):
        getattr(special, name)(a, x).backward()
    getattr(special, name)(a.detach(), x).backward()
    assert x.grad is not None


def test_integers_have_no_incomplete_gamma():
    with pytest.raises(DTypeError, match="igamma: not implemented for integers"):
        special.gammainc(edutorch.tensor([2]), edutorch.tensor([3]))


def test_polynomials_take_degrees_as_numbers_and_tensors(device):
    x = edutorch.tensor([[0.3], [-1.7]])
    degrees = edutorch.arange(6)
    table = special.legendre_polynomial_p(x, degrees)
    assert tuple(table.shape) == (2, 6)
    for n in range(6):
        assert table[:, n].tolist() == special.legendre_polynomial_p(x[:, 0], n).tolist()
    assert not special.legendre_polynomial_p(x.requires_grad_(), 2).requires_grad
    assert special.hermite_polynomial_h(0.5, degrees.float()).shape == (6,)
    assert special.laguerre_polynomial_l(edutorch.zeros(0), 3).shape == (0,)


HIGH = (1001, 1_000_000, 1_000_001, 1e30)
"""Degrees for which a recurrence takes too long or has rounded too often."""


@pytest.mark.parametrize("family", ["", "shifted_"])
def test_chebyshevs_polynomials_of_a_high_degree(device, family):
    x = np.array([-1.5, -1.0 - 1e-9, -1.0, -0.3, 0.0, 0.7, 1.0, 1.0 + 1e-9, 3.0])
    theta = np.arccos(x.astype(complex))
    points = edutorch.tensor((x + 1) / 2 if family else x, device=device)
    ends = np.abs(x) == 1
    with np.errstate(all="ignore"):
        for n in HIGH[:3]:
            by_definition = {
                "t": np.cos(n * theta), "u": np.sin((n + 1) * theta) / np.sin(theta),
                "v": np.cos((n + 0.5) * theta) / np.cos(theta / 2),
                "w": np.sin((n + 0.5) * theta) / np.sin(theta / 2),
            }  # fmt: skip
            odd = -1.0 if n % 2 else 1.0
            at_ends = {"t": (odd, 1), "u": (odd * (n + 1), n + 1), "v": (odd * (2 * n + 1), 1),
                       "w": (odd, 2 * n + 1)}  # fmt: skip
            for kind, expected in by_definition.items():
                expected[ends] = at_ends[kind]
                function = getattr(special, f"{family}chebyshev_polynomial_{kind}")
                result = function(points, n).numpy(force=True)
                near = np.abs(expected.real) < 1e300
                rounding = 1e-14 * n * np.abs(np.where(ends, 1, n))
                assert (np.abs(result - expected.real) <= 1e-6 * np.abs(result) + rounding)[
                    near
                ].all()
                assert np.isinf(result[~near]).all()


@pytest.mark.parametrize("name", [name for name in dir(special) if "_polynomial_" in name])
def test_no_degree_takes_for_ever(name):
    x = edutorch.tensor([-0.5, 0.0, 1.0, 2.0, 1e300, edutorch.inf, edutorch.nan])
    function = getattr(special, name)
    for n in (1e30, edutorch.tensor(3.0e38), edutorch.inf, -(2**40)):
        if n in (1e30, 3e38) and name.startswith(("laguerre", "legendre")):
            with pytest.raises(ValueError, match=f"{name}: a polynomial of a degree above 100,000"):
                function(x, n)
        else:
            assert function(x, n).shape == x.shape


def test_scaled_bessel_functions_of_the_largest_numbers():
    x = edutorch.tensor([1e299, 1e301, 1e307, 1.7e308], dtype=edutorch.float64)
    for function in (special.i0e, special.i1e):
        expected = 1 / (math.sqrt(2 * math.pi) * np.sqrt(x.numpy()))
        np.testing.assert_allclose(function(x).numpy(), expected, rtol=1e-14)


def test_half_types_are_rounded_once():
    x = edutorch.tensor([0.1, 3.0, 60.0], dtype=edutorch.float16)
    y = special.i0e(x)
    assert y.dtype is edutorch.float16
    assert y.tolist() == special.i0e(x.double()).half().tolist()


def test_gradients_at_0():
    x = edutorch.zeros(1, dtype=edutorch.float64, requires_grad=True)
    for name, slope in {"i0": 0.0, "i1": 0.5, "i1e": 0.5, "bessel_j1": 0.5}.items():
        (gradient,) = edutorch.autograd.grad(getattr(special, name)(x).sum(), x)
        assert gradient.item() == slope, name


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_gradients_of_nothing_times_a_logarithm(name):
    torch = require_torch()
    a, b = [0.0, 0.0, 0.0, 2.0], [2.0, 0.0, -1.0, 3.0]
    results = []
    for library in (edutorch, torch):
        x = library.tensor(a, dtype=library.float64, requires_grad=True)
        y = library.tensor(b, dtype=library.float64)
        getattr(library.special, name)(x, y).sum().backward()
        results.append(x.grad.tolist())
    assert results[0] == pytest.approx(results[1])


def test_every_method_has_its_twin(device):
    x = edutorch.tensor([0.5, 1.5, 4.0], dtype=edutorch.float64) + 1
    for name in ("lgamma", "digamma", "i0", "erf", "erfc"):
        expected = getattr(edutorch, name)(x).tolist()
        y = x.clone()
        assert getattr(y, f"{name}_")() is y and y.tolist() == expected
        assert getattr(x, name)().tolist() == expected
    for name, argument in {"igamma": x, "igammac": x, "mvlgamma": 2, "polygamma": 1}.items():
        y = x.clone()
        assert getattr(y, f"{name}_")(argument).tolist() == getattr(x, name)(argument).tolist()


@pytest.mark.parametrize("letter", "tuvw")
def test_chebyshev_polynomials_of_high_degree_at_their_ends(letter):
    at_1 = {"t": lambda n: 1, "u": lambda n: n + 1, "v": lambda n: 1, "w": lambda n: 2 * n + 1}
    at_minus_1 = {
        "t": lambda n: 1, "u": lambda n: n + 1, "v": lambda n: 2 * n + 1, "w": lambda n: 1,
    }  # fmt: skip
    function = getattr(edutorch.special, f"chebyshev_polynomial_{letter}")
    degrees = [0, 1, 2, 999, 1000, 1001, 1002]
    n = edutorch.tensor(degrees, dtype=edutorch.float64)
    ends = edutorch.tensor([[1.0], [-1.0]], dtype=edutorch.float64)
    expected = [
        [at_1[letter](degree) for degree in degrees],
        [(-1) ** degree * at_minus_1[letter](degree) for degree in degrees],
    ]
    assert function(ends, n).numpy() == pytest.approx(np.array(expected))
