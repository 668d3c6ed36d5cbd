"""What the fuzzer has found: a case each, as small as it made them.

`FOUND` has calls that PyTorch answers rightly: both libraries must agree. Where float64 says that
PyTorch is wrong, too, a test of its own has the right number.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch
from tests.devices import DEVICES

NAN, INF = float("nan"), float("inf")


def in_place_view(torch: Any, change: Callable[[Any], Any]) -> Any:
    """Forward mode through a view that changes the tensor itself."""
    x, t = torch.ones(1, 2), torch.tensor([[2.0, 3.0]])
    return torch.func.jvp(lambda z: change(z * 1), (x,), (t,))


FOUND: dict[str, Callable[[Any], Any]] = {
    "rsub of bytes": lambda torch: torch.rsub(torch.tensor([0, 200], dtype=torch.uint8), 0.5),
    "rsub of a byte": lambda torch: torch.rsub(torch.tensor(1, dtype=torch.uint8), 0.5),
    "rsub of the least int8": lambda torch: torch.rsub(
        torch.tensor([-128], dtype=torch.int8), 0.5, alpha=2
    ),
    "softmax of ∞": lambda torch: torch.softmax(torch.tensor(INF), 0),
    "softmax of NaN": lambda torch: torch.softmax(torch.tensor(NAN), 0),
    "softmax of a number": lambda torch: torch.softmax(torch.tensor(3.0), 0),
    "log_softmax of -∞": lambda torch: torch.log_softmax(torch.tensor(-INF), 0),
    "unique bfloat16 with NaN": lambda torch: torch.unique(
        torch.tensor([NAN, 1.0, NAN, 0.5], dtype=torch.bfloat16)
    ),
    "unique rows with NaN": lambda torch: torch.unique(
        torch.tensor([[NAN, 1.0], [2.0, 0.0], [1.0, NAN]], dtype=torch.bfloat16), dim=0
    ),
    "addbmm of int16": lambda torch: torch.addbmm(
        torch.tensor(1, dtype=torch.int16), *[torch.ones(1, 2, 2, dtype=torch.int16)] * 2
    ),
    "bilinear of int8": lambda torch: torch.nn.functional.bilinear(
        *[torch.ones(2, 2, dtype=torch.int8)] * 2, torch.ones(1, 2, 2, dtype=torch.int8)
    ),
    "threshold of integers": lambda torch: torch.nn.functional.threshold(
        torch.tensor([1, 7, -3], dtype=torch.int8), 0.5, 5.7
    ),
    "ldexp of float16 by int64": lambda torch: torch.ldexp(
        torch.tensor([1e-4, 1.0], dtype=torch.float16), torch.tensor([20, -30])
    ),
    "ldexp beyond 2^127": lambda torch: torch.ldexp(
        torch.tensor([1e30, 1e-30, 0.0]), torch.tensor([-140, 150, 200])
    ),
    "ldexp by ∞": lambda torch: torch.ldexp(
        torch.tensor([1.0, -2.0, 3.0, 3.0]), torch.tensor([-INF, INF, 1e20, -1e20])
    ),
    "the slope of ldexp by -∞": lambda torch: torch.autograd.grad(
        torch.ldexp(torch.ones(2), y := torch.tensor(-INF, requires_grad=True)).sum(), y
    ),
    "ldexp of integers": lambda torch: torch.ldexp(torch.tensor([3]), torch.tensor([-2])),
    "triangular_solve of one matrix and several sides": lambda torch: torch.triangular_solve(
        torch.ones(3, 2, 1), torch.ones(2, 2)
    ),
    "squeeze_ in forward mode": lambda torch: in_place_view(torch, lambda z: z.squeeze_()),
    "unsqueeze_ in forward mode": lambda torch: in_place_view(torch, lambda z: z.unsqueeze_(0)),
    "t_ in forward mode": lambda torch: in_place_view(torch, lambda z: z.t_()),
    "transpose_ in forward mode": lambda torch: in_place_view(torch, lambda z: z.transpose_(0, 1)),
    "swapaxes_ in forward mode": lambda torch: in_place_view(torch, lambda z: z.swapaxes_(0, 1)),
    "as_strided_ in forward mode": lambda torch: in_place_view(
        torch, lambda z: z.as_strided_((2,), (1,))
    ),
}


def flat(value: Any) -> list[Any]:
    return [t for item in value for t in flat(item)] if isinstance(value, tuple) else [value]


def assert_alike(calculation: Any, torch: Any, **tolerance: float) -> None:
    """Assert that a calculation has the same tensors here and in PyTorch."""
    ours, theirs = (flat(calculation(library)) for library in (edutorch, torch))
    for mine, wanted in zip(ours, theirs, strict=True):
        assert str(mine.dtype) == str(wanted.dtype)
        assert tuple(mine.shape) == tuple(wanted.shape)
        right, result = (t.detach().double().numpy() for t in (wanted, mine))
        np.testing.assert_allclose(result, right, **tolerance)


@pytest.mark.oracle
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_mended(torch, name):
    assert_alike(FOUND[name], torch, rtol=1e-6)


def test_a_power_of_two_beyond_float16_does_not_spoil_the_product():
    """PyTorch answers ∞: 2²⁰ alone is too large for float16."""
    y = edutorch.ldexp(
        edutorch.tensor([1e-4], dtype=edutorch.float16),
        edutorch.tensor([20.0], dtype=edutorch.float16),
    )
    assert y.dtype is edutorch.float16 and y.item() == pytest.approx(104.875)


def test_the_gradient_of_ldexp_by_negative_powers():
    """PyTorch's is 0: its power of two is one of integers there."""
    x = edutorch.tensor([1.5, -2.0], requires_grad=True)
    edutorch.ldexp(x, edutorch.tensor([3, -2])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [8.0, 0.25]


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_the_median_of_no_integers_keeps_their_dtype(name):
    assert getattr(edutorch, name)(edutorch.tensor([], dtype=edutorch.int16)).dtype is (
        edutorch.int16
    )


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradients_of_many_pieces_take_time_by_their_number(create_graph):
    """Each piece that came back once copied all that had come before."""

    def seconds(count: int) -> float:
        x = edutorch.ones(count, requires_grad=True)
        pieces = edutorch.split(x, 1)
        start = time.process_time()
        (g,) = edutorch.autograd.grad(
            pieces, x, [edutorch.ones(1)] * count, create_graph=create_graph
        )
        took = time.process_time() - start
        assert g.tolist() == [1.0] * count
        return took

    few = min(seconds(1000) for _ in range(3))
    assert seconds(16_000) < 16 * few * 6


ACTIVATIONS = (
    "celu elu gelu hardsigmoid hardswish logsigmoid mish selu silu softplus softsign tanhshrink"
).split()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_16_bits_round_once(name, dtype):
    """Their formulas take several steps: in 16 bits a slope at 3 was off by 40 %."""
    function = getattr(edutorch.nn.functional, name)
    x = edutorch.linspace(-8, 8, 2001).to(getattr(edutorch, dtype)).requires_grad_()
    wide = x.detach().double().requires_grad_()
    unit = edutorch.finfo(x.dtype).eps
    y, right = function(x), function(wide)
    (g,) = edutorch.autograd.grad(y.sum(), x)
    (slope,) = edutorch.autograd.grad(right.sum(), wide)
    assert y.dtype is x.dtype and g.dtype is x.dtype
    for actual, expected in ((y, right), (g, slope)):
        error = (actual.double() - expected).abs() / expected.abs().clamp(min=1e-3)
        assert error.max() <= 2 * unit


def tangent(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the tangent of a result whose arguments move by themselves."""
    return edutorch.func.jvp(function, arguments, arguments)[1]


TWICE = [2, 0, 2]


@pytest.mark.parametrize(
    "write",
    [
        lambda x, v, index: x.index_put((index,), v),
        lambda x, v, index: x.index_put((index,), v, accumulate=True),
        lambda x, v, index: x.clone().index_put_((index,), v),
        lambda x, v, index: x.index_copy(0, index, v),
        lambda x, v, index: x.index_add(0, index, v, alpha=2),
        lambda x, v, index: x.scatter(0, index, v),
        lambda x, v, index: x.scatter_add(0, index, v),
        lambda x, v, index: x.put(index, v),
        lambda x, v, index: x.gather(0, index) * 2,
        lambda x, v, index: edutorch.nn.functional.max_unpool1d(v[None], index[None], 1, 1)[0],
    ],
)
def test_a_position_that_is_written_twice_has_the_tangent_of_the_last_write(write):
    """Backward gives both writes the gradient; turned round, that was the sum of the tangents."""
    x, v = edutorch.tensor([1.0, 2.0, 3.0, 4.0]), edutorch.tensor([10.0, 20.0, 30.0])
    index = edutorch.tensor(TWICE)
    moved = tangent(lambda x, v: write(x, v, index), x, v)
    assert moved.tolist() == write(x, v, index).tolist()


def test_a_number_that_is_written_does_not_move():
    x = edutorch.tensor([1.0, 2.0, 3.0])
    index = edutorch.tensor([1])
    for write in (lambda x: x.scatter(0, index, 5.0), lambda x: x.scatter(0, index, value=5.0)):
        assert tangent(write, x).tolist() == [1.0, 0.0, 3.0]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_slope_of_sinc_keeps_its_digits_near_0(dtype):
    """cos πx and sinc x cancel there: at 0.01 half of float32's digits were lost."""
    x = edutorch.tensor(
        [1e-30, 1e-3, 0.01, 0.1, 0.1499, 0.1501, -0.01, 0.0], dtype=edutorch.float64
    )
    u = np.pi * x.numpy()
    right = np.pi * sum(  # of all powers: exact for u below 1
        (-1) ** k * 2 * k * u ** (2 * k - 1) / float(math.factorial(2 * k + 1))
        for k in range(1, 12)
    )
    x = x.to(getattr(edutorch, dtype)).requires_grad_()
    (g,) = edutorch.autograd.grad(edutorch.sinc(x).sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach(), right, rtol=20 * edutorch.finfo(x.dtype).eps)
    (second,) = edutorch.autograd.grad(g.sum(), x)
    assert second[-1].item() == second[0].item() == pytest.approx(-(np.pi**2) / 3)


@pytest.mark.parametrize("name", ["modified_bessel_k0", "modified_bessel_k1"])
def test_bessel_functions_at_the_largest_numbers(name):
    x = edutorch.tensor([1e307, 1.79e308], dtype=edutorch.float64)
    assert getattr(edutorch.special, name)(x).tolist() == [0.0, 0.0]
    scaled = getattr(edutorch.special, f"scaled_{name}")(x)
    np.testing.assert_allclose(scaled, np.sqrt(np.pi / 2) / np.sqrt(x.numpy()), rtol=1e-12)


NUMBERS = {
    name: op
    for name, op in edutorch.core.registry.REGISTRY.items()
    if op.scalars and op.family.broadcasts and len(op.inputs) > 1
}


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_a_number_beside_float64_has_all_its_digits_in_every_rule(name):
    """On another device it is still Python's: log(where(…, 1.0, 0.5)) was float32."""
    op = NUMBERS[name]
    for position in range(len(op.inputs)):
        results = []
        for device in DEVICES:
            x = edutorch.tensor([0.7, 0.2], dtype=edutorch.float64, device=device)
            inputs = [x.clone().requires_grad_() for _ in op.inputs]
            arguments = [*inputs[:position], 0.3, *inputs[position + 1 :]]
            wanted = inputs[:position] + inputs[position + 1 :]
            try:
                y = op.function(*arguments)
                gradients = edutorch.autograd.grad(y.sum(), wanted, allow_unused=True)
            except (TypeError, RuntimeError):  # no number there, or no derivative
                continue
            results.append([t.detach().cpu().tolist() for t in (y, *gradients) if t is not None])
        if len(results) == 2:
            np.testing.assert_allclose(*results, rtol=1e-14)


def test_complex_infinity_is_close_to_itself_only():
    far = complex(-INF, 1.0)
    pairs = edutorch.isclose(edutorch.tensor([1.0 + 0j, far, far]), edutorch.tensor([far, far, 1]))
    assert pairs.tolist() == [False, True, False]


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_an_infinity_outside_of_the_grid_is_not_read(mode):
    image = edutorch.tensor([[[[INF, 1.0], [1.0, NAN]]]])
    grid = edutorch.full((1, 1, 1, 2), -9.0)
    y = edutorch.nn.functional.grid_sample(image, grid, mode=mode, align_corners=False)
    assert y.item() == 0


def test_what_is_put_together_horizontally_may_be_numbers():
    assert edutorch.hstack([edutorch.tensor(1), edutorch.tensor(2)]).tolist() == [1, 2]


def test_solve_ex_never_raises_for_a_singular_matrix():
    """LAPACK rounds the last pivot to 0, which our own elimination does not."""
    A = edutorch.arange(12, dtype=edutorch.float64).reshape(4, 3)[1:] / 8
    for B, left in ((edutorch.ones(3, 1).double(), True), (edutorch.ones(1, 3).double(), False)):
        X, info = edutorch.linalg.solve_ex(A, B, left=left)
        assert info.item() == 3 and X.isinf().all()
    assert edutorch.linalg.inv_ex(A).info.item() == 3
    assert edutorch.lu(edutorch.ones(2, 2))[0].tolist() == [[1, 1], [1, 0]]  # and lu does not


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bfloat16", "float16"])
def test_powers_of_matrices_need_no_lapack(dtype):
    A = edutorch.tensor([[1, 1], [0, 1]]).to(getattr(edutorch, dtype))
    y = edutorch.linalg.matrix_power(A, 5)
    assert y.dtype is A.dtype and y.tolist() == [[1, 5], [0, 1]]


def test_relu_lets_a_gradient_through_where_it_is_nan():
    for x in (edutorch.tensor([1.0, NAN, -1.0]), edutorch.tensor([1.0, NAN, -1.0] * 5000)):
        x.requires_grad_()
        (g,) = edutorch.autograd.grad(edutorch.relu(x).sum(), x)
        assert g[:3].tolist() == [1, 1, 0]


def test_derivatives_of_quotients_by_tiny_numbers():
    tiny = edutorch.tensor([1e-38], requires_grad=True)
    y = edutorch.addcdiv(edutorch.ones(1), edutorch.zeros(1), tiny)
    assert edutorch.autograd.grad(y, tiny)[0].item() == 0


def test_a_grid_of_16_bits_is_read_where_its_numbers_point():
    """Positions were rounded to 16 bits at each step: another pixel was the nearest one."""
    image = edutorch.arange(0.0, 40 * 40).reshape(1, 1, 40, 40) % 7
    grid = (edutorch.rand(1, 9, 9, 2) * 6 - 3).to(edutorch.bfloat16)
    settings = {"mode": "nearest", "padding_mode": "reflection", "align_corners": True}
    sample = edutorch.nn.functional.grid_sample
    narrow = sample(image.to(edutorch.bfloat16), grid, **settings)
    assert narrow.tolist() == sample(image, grid.float(), **settings).tolist()


def test_the_gradients_of_unsafe_parts_take_time_by_their_number():
    """Each was a view by itself, whose gradient is as large as the whole."""

    def seconds(count: int) -> float:
        x = edutorch.ones(count, requires_grad=True)
        start = time.process_time()
        (g,) = edutorch.autograd.grad(sum(edutorch.unsafe_split(x * 1, 1)), x)
        took = time.process_time() - start
        assert g.tolist() == [1.0] * count
        return took

    few = min(seconds(500) for _ in range(3))
    assert seconds(4000) < 8 * few * 6


def test_a_coordinate_that_is_nan_is_seen_in_the_result():
    image = edutorch.ones(1, 1, 2, 2)
    grid = edutorch.tensor([[[[NAN, 0.0], [INF, 0.0], [0.0, 0.0]]]])
    for mode in ("bilinear", "nearest", "bicubic"):
        y = edutorch.nn.functional.grid_sample(image, grid, mode=mode, align_corners=True)
        assert y.flatten().isnan().tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_slope_of_i1e_keeps_its_digits_near_0(dtype):
    """Its y / x is e^-|x| / 2 there, not ½: an error of x / 2."""
    x = edutorch.tensor([1e-9, 1e-8, 1e-4, 2.3e-4], dtype=getattr(edutorch, dtype))
    x.requires_grad_()
    (g,) = edutorch.autograd.grad(edutorch.special.i1e(x).sum(), x)
    v = x.detach().double().numpy()
    right = 0.5 - v + 15 / 16 * v**2 - 7 / 12 * v**3  # of the series of e⁻ˣ I₁
    np.testing.assert_allclose(g, right, rtol=10 * edutorch.finfo(x.dtype).eps)


def test_renorm_of_float16_measures_in_float32():
    """(Σ √x)² of 500 numbers is beyond float16."""
    x = edutorch.ones(500, 1, dtype=edutorch.float16, requires_grad=True)
    y = edutorch.renorm(x, 0.5, 1, 0.1)
    (g,) = edutorch.autograd.grad(y.sum(), x)
    assert g.isfinite().all() and y[0].item() == pytest.approx(0.1 / 500**2, abs=1e-7)


@pytest.mark.parametrize("name", ["all", "any"])
def test_all_and_any_over_no_dims_reduce_nothing(name):
    function = getattr(edutorch, name)
    x = edutorch.tensor([[0.0, 2.0]])
    for shown in (function, edutorch.compile(lambda x, dim: function(x, dim=dim))):
        assert shown(x, dim=()).tolist() == [[False, True]]


def test_the_slopes_of_an_angle_do_not_square():
    """a² + b² of 1e-30 is 0 in float32, of 1e30 it is ∞."""
    for size in (1e-30, 1e30):
        a = edutorch.tensor([3 * size], requires_grad=True)
        b = edutorch.tensor([4 * size], requires_grad=True)
        by_a, by_b = edutorch.autograd.grad(edutorch.atan2(a, b), (a, b))
        assert by_a.item() == pytest.approx(0.16 / size)
        assert by_b.item() == pytest.approx(-0.12 / size)
        z = edutorch.tensor([complex(4 * size, 3 * size)], requires_grad=True)
        (g,) = edutorch.autograd.grad(edutorch.angle(z), z)
        assert g.item() == pytest.approx(complex(-0.12, 0.16) / size)


def test_every_method_is_under_autocast_as_its_function_is():
    """Those of nn and of signals were attached later: `x.prelu(w)` kept float16."""
    from edutorch.amp.lists import POLICIES
    from edutorch.core.composed import composition_of

    for name in {name for policies in POLICIES.values() for name in policies}:
        method = vars(edutorch.Tensor).get(name)
        if method is None or hasattr(method, "op") or not hasattr(method, "__wrapped__"):
            continue
        composition = composition_of(method)
        if composition is not None:
            assert composition.autocasts, name
        else:
            assert method.__globals__["__name__"] == "edutorch.amp.lists", name
    x, w = edutorch.ones(2, 2, dtype=edutorch.float16), edutorch.ones(2, dtype=edutorch.float16)
    with edutorch.autocast("cpu", dtype=edutorch.bfloat16):
        assert x.prelu(w).dtype is edutorch.bfloat16


@pytest.mark.parametrize("name", ["laguerre_polynomial_l", "legendre_polynomial_p"])
def test_too_high_a_degree_is_refused_at_once(name):
    start = time.process_time()
    with pytest.raises(ValueError, match="too many steps"):
        getattr(edutorch.special, name)(edutorch.tensor(0.5, device="strict"), 6e37)
    assert time.process_time() - start < 2


def test_a_product_of_complex_numbers_as_float16_is_that_of_their_real_parts():
    x = edutorch.tensor([1 + 0.5j, 2 + 1j])
    for dtype in (edutorch.float16, edutorch.bfloat16, edutorch.float32):
        assert edutorch.prod(x, dtype=dtype).item() == 2
        assert edutorch.cumprod(x, 0, dtype=dtype).tolist() == [1, 2]
