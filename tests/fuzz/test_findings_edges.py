"""What seeds 2001 and 2002 found: arguments that do not fit, types that differ, edges of ranges."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch
from edutorch.nn import functional
from tests.devices import DEVICES

INT32 = edutorch.int32


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "bool"])
def test_negative_powers_of_whole_numbers_are_refused_in_words(dtype):
    """NumPy says of bytes that -1 is out of bounds: an OverflowError that named no op."""
    x = edutorch.tensor([1, 2]).to(getattr(edutorch, dtype))
    for compute in (lambda: x**-1, lambda: edutorch.pow(x, -3), lambda: x.clone().pow_(-1)):
        with pytest.raises(RuntimeError, match="pow: Integers to negative integer powers"):
            compute()


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int64"])
def test_negative_bases_wrap_as_other_numbers_do(torch, dtype):
    for base in (-1, -2, 300):
        ours, theirs = (
            base ** library.tensor([1, 2], dtype=getattr(library, dtype))
            for library in (edutorch, torch)
        )
        assert str(ours.dtype) == str(theirs.dtype) and ours.tolist() == theirs.tolist()


NO_TENSOR = ("is_same_size", "is_set_to", "set_", "type_as", "view_as", "reshape_as", "expand_as")


@pytest.mark.parametrize("name", NO_TENSOR)
def test_a_method_that_takes_a_tensor_says_so(name):
    with pytest.raises(TypeError, match=f"{name}: argument .* must be a Tensor"):
        getattr(edutorch.ones(2), name)(1.5)


@pytest.mark.parametrize("name", ["size", "stride"])
def test_a_dim_that_is_missing_is_named(name):
    for shape, dim, words in (
        ((2, 3), 2, "dim 2 of a tensor with 2"),
        ((2, 3), -3, "dim -3 of a tensor with 2"),
        ((), 0, "Dimension specified as 0 but tensor has no dimensions"),
    ):
        with pytest.raises(IndexError, match=f"{name}: .*{words}"):
            getattr(edutorch.ones(*shape), name)(dim)
    with pytest.raises(TypeError, match=f"{name}: argument `dim` must be an int"):
        getattr(edutorch.ones(2), name)("a")


@pytest.mark.parametrize(
    ("pivots", "words"),
    [
        ([0, 1], "between 1 and 2"),
        ([3, 2], "between 1 and 2"),
        ([2], "shape"),
        ([2, 2, 2], "shape"),
    ],
)
def test_pivots_of_another_matrix_are_refused(pivots, words):
    """A pivot of 0 exchanged the last row, one too many exchanged rows again."""
    pivots = edutorch.tensor(pivots, dtype=INT32)
    for solve in (
        lambda: edutorch.lu_unpack(edutorch.eye(2), pivots),
        lambda: edutorch.linalg.lu_solve(edutorch.eye(2), pivots, edutorch.ones(2, 1)),
        lambda: edutorch.lu_solve(edutorch.ones(2, 1), edutorch.eye(2), pivots),
    ):
        with pytest.raises(RuntimeError, match=f"the pivots must be .*{words}"):
            solve()


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("which", ["weight", "bias"])
def test_transposed_convolutions_do_not_convert_either(rank, which):
    """A bias of float64 made the rest of a network float64."""
    dtypes = {"weight": edutorch.float32, "bias": edutorch.float32, which: edutorch.float64}
    weight = edutorch.ones(1, 2, *[1] * rank, dtype=dtypes["weight"])
    bias = edutorch.ones(2, dtype=dtypes["bias"])
    with pytest.raises(RuntimeError, match=f"conv_transpose{rank}d: .*same dtype"):
        getattr(functional, f"conv_transpose{rank}d")(edutorch.ones(1, *[2] * rank), weight, bias)


def wide(size: int) -> edutorch.Tensor:
    return edutorch.full((size,), 0.5, dtype=edutorch.float64, requires_grad=True)


NORMS = {
    "layer_norm": lambda x, w: functional.layer_norm(x, (3,), w[:3], w[:3]),
    "rms_norm": lambda x, w: functional.rms_norm(x, (3,), w[:3]),
    "group_norm": lambda x, w: functional.group_norm(x, 2, w, w),
    "instance_norm": lambda x, w: functional.instance_norm(x, weight=w, bias=w),
    "batch_norm": lambda x, w: functional.batch_norm(x, None, None, w, w, True),
    "batch_norm by averages": lambda x, w: functional.batch_norm(x, w.detach(), w.detach(), w),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_has_the_dtype_of_its_input(name, dtype):
    """Weights of float64 made the rest of a network float64."""
    x = edutorch.arange(24.0).reshape(2, 4, 3).to(getattr(edutorch, dtype)).requires_grad_()
    w = wide(4)
    y = NORMS[name](x, w)
    g_x, g_w = edutorch.autograd.grad(y.sum(), (x, w))
    assert (y.dtype, g_x.dtype, g_w.dtype) == (x.dtype, x.dtype, w.dtype)
    right = NORMS[name](x.detach().double(), w.detach())
    assert edutorch.allclose(y.detach().double(), right, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_a_float32_mask_of_attention_fits_every_query(dtype):
    q = edutorch.ones(1, 2, 2, dtype=getattr(edutorch, dtype))
    mask = edutorch.tensor([[0.0, -math.inf], [0.0, 0.0]])
    y = functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert y.dtype is q.dtype and y.tolist() == q.tolist()
    with pytest.raises(RuntimeError, match="attn_mask to be bool, float32"):
        functional.scaled_dot_product_attention(q, q, q, attn_mask=mask.long())


def test_singular_matrices_leave_the_others_their_tangents():
    """0 · ∞ at one matrix took the tangents of all."""
    A = edutorch.tensor([[[1.0, 0], [0, 2]], [[0, 0], [0, 1]], [[2, 1], [1, 3]]]).double()
    for function in (edutorch.logdet, lambda x: edutorch.linalg.slogdet(x)[1]):
        moved = edutorch.func.jvp(function, (A,), (A + 0.5,))[1]
        expected = [edutorch.linalg.inv(M).mul((M + 0.5).T).sum().item() for M in (A[0], A[2])]
        np.testing.assert_allclose([moved[0].item(), moved[2].item()], expected)
        x = A.clone().requires_grad_()
        (g,) = edutorch.autograd.grad(function(x), x, edutorch.tensor([1.0, 0.0, 2.0]).double())
        assert g[1].tolist() == [[0, 0], [0, 0]]  # no gradient arrives there


@pytest.mark.oracle
@pytest.mark.parametrize("values", [[[0.0]], [[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])
def test_the_gradient_of_qr_at_singular_matrices(torch, values):
    """It raised an error that spoke of `linalg.solve`."""
    gradients, factors = [], []
    for library in (edutorch, torch):
        x = library.tensor(values, dtype=library.float64, requires_grad=True)
        q, r = library.linalg.qr(x)
        factors.append(r.detach().numpy())
        gradients.append(library.autograd.grad(q.sum() + r.sum(), x)[0].numpy())
    # What is left of a pivot of 0 by rounding depends on the computer, and divides the gradient.
    if (factors[0] == factors[1]).all():
        np.testing.assert_array_equal(*gradients)
    else:
        np.testing.assert_allclose(*factors, atol=1e-15)


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_second_derivatives_of_what_is_left_by_tiny_divisors(name):
    """The slope is a whole number; its own slope was 0 · ∞."""
    y = edutorch.tensor([-2.5e-38, 3.0], requires_grad=True)
    z = getattr(edutorch, name)(edutorch.tensor([1, 7], dtype=edutorch.int16), y)
    (g,) = edutorch.autograd.grad(z.sum(), y, create_graph=True)
    assert g[1].item() == -2
    if g.requires_grad:
        (second,) = edutorch.autograd.grad(g.sum(), y, allow_unused=True)
        assert second is None or second.tolist() == [0, 0]


def test_a_diagonal_needs_two_dims():
    for dims in ((-2, -2), (0, -2), (1, 1)):
        with pytest.raises(RuntimeError, match=r"diag_embed: .*twice"):
            edutorch.diag_embed(edutorch.ones(2), dim1=dims[0], dim2=dims[1])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_weighted_binary_loss_has_the_dtype_of_its_input(dtype, reduction):
    x = edutorch.full((2,), 0.5, dtype=getattr(edutorch, dtype), requires_grad=True)
    for weight in (edutorch.float64, edutorch.float32, edutorch.bfloat16, edutorch.int64):
        loss = functional.binary_cross_entropy(
            x, x.detach(), edutorch.full((2,), 2, dtype=weight), reduction=reduction
        )
        assert loss.dtype is x.dtype
        assert loss.max().item() == pytest.approx(
            2 * math.log(2) * (2 if reduction == "sum" else 1), rel=1e-2
        )


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_averages_of_integers_cost_no_digits(name):
    """Beside float64 they became float32: 8 digits."""
    x = edutorch.tensor([[[1.0, 2.0]]], dtype=edutorch.float64)
    off = {"use_input_stats": False} if name == "instance_norm" else {}
    mean, variance = edutorch.zeros(1, dtype=INT32), edutorch.ones(1, dtype=INT32)
    y = getattr(functional, name)(x, mean, variance, **off)
    np.testing.assert_allclose(y.numpy(), x.numpy() / math.sqrt(1 + 1e-5), rtol=1e-14)


INTEGERS = edutorch.ones(2, 2, dtype=INT32)
IN_PLACE = {
    "addmv_": lambda x: x[0].addmv_(x, x[0], beta=math.inf),
    "addmm_": lambda x: x.addmm_(x, x, alpha=math.inf),
    "addbmm_": lambda x: x.addbmm_(x[None], x[None], beta=math.inf),
    "baddbmm_": lambda x: x[None].baddbmm_(x[None], x[None], alpha=math.nan),
    "as_strided_": lambda x: x.as_strided_(1.5, 2.5),
    "put_": lambda x: x.put_(x.long() * 0, "a"),
    "map_": lambda x: x.map_(1.5, max),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms_of_composed_functions_name_themselves(name):
    """They passed on what Python said inside: "cannot convert float infinity to integer"."""
    with pytest.raises((ValueError, TypeError), match=rf"{name}: "):
        IN_PLACE[name](INTEGERS.clone())


def test_scatter_without_a_source_says_so():
    """With `reduce` it made NaN of None."""
    x, index = edutorch.ones(3), edutorch.tensor([0])
    for call in (
        lambda: x.scatter(0, index),
        lambda: x.scatter(0, index, reduce="add"),
        lambda: x.scatter_(0, index, reduce="multiply"),
    ):
        with pytest.raises(TypeError, match="scatter: give `src`"):
            call()


def test_the_gradient_of_a_strided_view_of_nothing():
    x = edutorch.arange(4.0).reshape(1, 4).requires_grad_()
    nothing = x[1:]
    view = edutorch.as_strided(nothing, (2, 2), (2, 1), 0)
    (g,) = edutorch.autograd.grad(view.sum(), nothing)
    assert g.shape == (0, 4)


PAIRS_OF_DTYPES = {
    name: op
    for name, op in edutorch.core.registry.REGISTRY.items()
    if op.family.broadcasts and len(op.inputs) > 1 and op.rules
}


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8"])
@pytest.mark.parametrize("name", sorted(PAIRS_OF_DTYPES))
def test_a_derivative_beside_a_narrower_operand_has_all_its_digits(name, dtype):
    """The rules of pow and igamma took logarithms in float32, that of zeta negated bytes."""
    op = PAIRS_OF_DTYPES[name]
    values = [[2, 3], [5, 1], [1, 2]]
    for position in range(len(op.inputs)):
        results = []
        for narrow in (getattr(edutorch, dtype), edutorch.float64):
            operands = [
                edutorch.tensor(v, dtype=edutorch.float64) for v in values[: len(op.inputs)]
            ]
            operands[position] = edutorch.tensor(values[position], dtype=narrow)
            leaves = [x.requires_grad_() for i, x in enumerate(operands) if i != position]
            try:
                y = op.function(*operands)
                first = edutorch.autograd.grad(
                    y.sum(), leaves, create_graph=True, allow_unused=True, materialize_grads=True
                )
            except (TypeError, RuntimeError):  # other types, or no derivative
                continue
            results.append([t.detach().double().numpy() for t in (y, *first)])
        if len(results) == 2:
            for actual, expected in zip(*results, strict=True):
                np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int64"])
def test_areas_under_whole_numbers_do_not_wrap(dtype):
    """205 + 94 is 43 in bytes, 3 - 94 is 165."""
    y = edutorch.tensor([105, 94, 3], dtype=getattr(edutorch, dtype))
    wide = y.double()
    assert edutorch.trapezoid(y).item() == edutorch.trapezoid(wide).item()
    assert edutorch.trapezoid(wide, y).item() == edutorch.trapezoid(wide, wide).item()
    areas = edutorch.cumulative_trapezoid(y * 1)
    assert areas.tolist() == edutorch.cumulative_trapezoid(wide).tolist()


MISFITS = ("running_mean", "running_var", "weight", "bias")


@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize(("channels", "size"), [(1, 2), (3, 1), (3, 2)])
def test_a_parameter_of_a_norm_does_not_broadcast(channels, size, name):
    """One channel became as many as there were weights."""
    x = edutorch.ones(4, channels, 2)
    sizes = {**dict.fromkeys(MISFITS, channels), name: size}
    parameters = [edutorch.ones(sizes[misfit]) for misfit in MISFITS]
    for call in (
        lambda: functional.batch_norm(x, *parameters),
        lambda: functional.batch_norm(x, *parameters, training=True),
        lambda: functional.instance_norm(x, *parameters),
        lambda: functional.instance_norm(x, *parameters, use_input_stats=False),
    ):
        with pytest.raises(RuntimeError, match=f"`{name}` needs one number for each"):
            call()


@pytest.mark.oracle
@pytest.mark.parametrize("autocast", [False, True])
def test_addr_has_the_dtype_of_all_three(torch, autocast):
    """A 0-d input counts; integers times a fraction were float32, bools times 2 were True."""
    dtypes = ("bfloat16", "float32", "float64", "int64", "int32", "bool")
    for dtype_name in dtypes:
        for other in ("int32", "bool", "bfloat16"):
            for shape, alpha in (((), 2), ((1, 1), 2), ((), 1.5), ((1, 1), 1.5)):
                answers = []
                for library in (edutorch, torch):
                    x = library.ones(shape, dtype=getattr(library, dtype_name))
                    v = library.ones(1, dtype=getattr(library, other))
                    with library.autocast("cpu", dtype=library.bfloat16, enabled=autocast):
                        try:
                            y = library.addr(x, v, v, alpha=alpha)
                        except RuntimeError:  # a fraction of integers
                            answers.append("refused")
                        else:
                            answers.append((str(y.dtype), y.item()))
                assert answers[0] == answers[1], (dtype_name, other, shape, alpha)


PUT = {
    "scatter": lambda x, v: x.scatter(0, edutorch.tensor([0]), v),
    "scatter value": lambda x, v: x.scatter(0, edutorch.tensor([0]), value=v),
    "scatter_": lambda x, v: x.scatter_(0, edutorch.tensor([0]), v),
    "an element": lambda x, v: x.__setitem__(0, v) or x,
    "a mask": lambda x, v: x.__setitem__(x == 1, v) or x,
}


@pytest.mark.parametrize("name", PUT)
def test_numbers_are_put_among_bytes_as_in_pytorch(name):
    """-1 raised NumPy's OverflowError, without a word of the op."""
    x = edutorch.tensor([1, 2], dtype=edutorch.uint8)
    assert PUT[name](x.clone(), -1).tolist() == [255, 2]
    for value in (300, -300, 2**70, math.inf):
        with pytest.raises(RuntimeError, match="without overflow"):
            PUT[name](x.clone(), value)


@pytest.mark.parametrize("name", ["add", "mul", "floor_divide", "bitwise_xor", "clamp"])
def test_a_number_that_no_integer_holds_is_named(name):
    for dtype in (edutorch.uint8, edutorch.int64):
        with pytest.raises(RuntimeError, match=f"{name}: value cannot be converted"):
            getattr(edutorch, name)(edutorch.tensor([1, 2], dtype=dtype), 2**70)


# What seeds 3001 to 3004 found ---------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_cumulative_extremes_of_long_columns(name, dtype, device):
    """A loop over the elements: a column of 66,000 took seconds."""
    values = np.random.default_rng(0).integers(0, 9, (700, 3)).astype(float)
    if dtype.startswith("float"):
        values[500, 0] = math.nan
    x = edutorch.tensor(values).to(getattr(edutorch, dtype)).to(device)
    wide = x.repeat(1, 20)  # a loop along the axis
    for position, part in enumerate(getattr(edutorch, name)(x, 0)):
        expected = getattr(edutorch, name)(wide, 0)[position][:, :3]
        np.testing.assert_array_equal(part.cpu().double().numpy(), expected.cpu().double().numpy())
    accumulate = np.maximum.accumulate if name == "cummax" else np.minimum.accumulate
    result = getattr(edutorch, name)(x, 0).values.cpu().double().numpy()
    np.testing.assert_array_equal(result, accumulate(values, axis=0))


@pytest.mark.parametrize("value", [-3.9e-308, 2e-320, 1e200, -2.0])
@pytest.mark.parametrize("p", [1, 2, 3, 0.5, math.inf])
def test_a_norm_of_one_element_is_its_size(p, value):
    """Its square left the range of the type: a norm and a gradient of 0."""
    x = edutorch.tensor([[value], [3.0]], dtype=edutorch.float64, requires_grad=True)
    for compute in (edutorch.linalg.vector_norm, edutorch.norm):
        y = compute(x, p, dim=1)
        (g,) = edutorch.autograd.grad(y.sum(), x)
        assert y.tolist() == [abs(value), 3.0]
        assert g.tolist() == [[math.copysign(1, value)], [1.0]]


def test_an_area_is_along_the_axis_of_y_where_x_has_more_axes():
    """It sliced x along an axis of y and summed over another one."""
    x = edutorch.tensor([[0.0, 1.0, 2.0], [5.0, 7.0, 2.0]])
    y = edutorch.tensor([1.0, 1.0, 2.0])
    for dim in (-1, 0):
        assert edutorch.trapezoid(y, x, dim=dim).tolist() == [2.5, -5.5]
        areas = edutorch.cumulative_trapezoid(y, x, dim=dim)
        assert areas.tolist() == [[1.0, 2.5], [2.0, -5.5]]
    rows = y.expand(2, 3)
    assert edutorch.trapezoid(rows.T, x[0], dim=0).tolist() == [2.5, 2.5]


def test_no_reflection_keeps_the_graph():
    tau = edutorch.zeros(2, 0, requires_grad=True)
    A = edutorch.ones(2, 3, 2, requires_grad=True)
    C = edutorch.ones(2, 3, 4)
    y = edutorch.ormqr(A, tau, C)
    gradients = edutorch.autograd.grad(y.sum(), (A, tau))
    assert y.tolist() == C.tolist() and not gradients[0].any() and gradients[1].shape == (2, 0)


POLES = {
    "StudentT": (2.0, lambda d: edutorch.distributions.StudentT(d).variance, 0.0),
    "InverseGamma mean": (1.0, lambda d: edutorch.distributions.InverseGamma(d, 1.0).mean, 0.0),
    "InverseGamma": (2.0, lambda d: edutorch.distributions.InverseGamma(d, 1.0).variance, 0.0),
    "Pareto mean": (1.0, lambda d: edutorch.distributions.Pareto(1.0, d).mean, -math.inf),
    "Pareto": (2.0, lambda d: edutorch.distributions.Pareto(1.0, d).variance, -math.inf),
}


@pytest.mark.filterwarnings("ignore:.*its gradient has NaN")
@pytest.mark.parametrize("name", POLES)
def test_the_slope_of_a_moment_where_it_becomes_infinite(name):
    """It was 0 · ∞, or ∞ - ∞."""
    pole, compute, slope = POLES[name]
    x = edutorch.tensor(pole, requires_grad=True)
    y = compute(x)
    moved = edutorch.func.jvp(compute, (x.detach(),), (edutorch.tensor(1.0),))[1]
    assert y.item() == math.inf
    assert (edutorch.autograd.grad(y, x)[0].item(), moved.item()) == (slope, slope)


DEVIATIONS = {
    "LogNormal": lambda D, x: D.LogNormal(3.0 * x, 1.7 * x),
    "Weibull": lambda D, x: D.Weibull(x, 0.19 * x),
    "Exponential": lambda D, x: D.Exponential(0.001 * x),
    "Gamma": lambda D, x: D.Gamma(x, 0.001 * x),
    "Poisson": lambda D, x: D.Poisson(60000.0 * x),
    "Pareto": lambda D, x: D.Pareto(1000.0 * x, 3.0 * x),
    "Uniform": lambda D, x: D.Uniform(0.0 * x, 5000.0 * x),
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_the_deviation_of_a_variance_beyond_16_bits(name):
    results = [
        DEVIATIONS[name](edutorch.distributions, edutorch.tensor([1.0], dtype=dtype)).stddev
        for dtype in (edutorch.float16, edutorch.float32)
    ]
    assert results[0].dtype is edutorch.float16
    assert results[0].item() == pytest.approx(results[1].item(), rel=1e-2)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_an_infinite_element_leaves_a_cumulative_sum_its_derivatives(dtype):
    """exp(∞ - ∞) made the second derivatives of all others NaN."""
    values = [-1.0, 1.0, 0.5]
    seconds = []
    for elements in ([*values, math.inf], values):
        x = edutorch.tensor(elements, dtype=getattr(edutorch, dtype), requires_grad=True)
        y = edutorch.logcumsumexp(x, 0)
        weights = edutorch.arange(1.0, len(elements) + 1).to(x.dtype)
        (g,) = edutorch.autograd.grad((y * weights).sum(), x, create_graph=True)
        (second,) = edutorch.autograd.grad((g * weights).sum(), x)
        seconds.append((g[:3].tolist(), second[:3].tolist()))
        assert len(elements) == 3 or g[3].item() == 4
    np.testing.assert_allclose(*seconds, rtol=1e-2 if dtype == "bfloat16" else 1e-5, atol=1e-6)


@pytest.mark.parametrize("divisor", [-3, 7, 10, -1])
def test_quotients_of_large_integers_have_all_digits(divisor):
    """They were rounded towards zero in float64, which has 53 bits."""
    values = [2268338515373383936, -969617335351958401, 9007199254740993, -7, 0, 6]
    expected = [abs(v) // abs(divisor) * (1 if v * divisor >= 0 else -1) for v in values]
    x = edutorch.tensor(values)
    for other in (divisor, edutorch.tensor(divisor), edutorch.tensor([divisor] * 6)):
        assert edutorch.div(x, other, rounding_mode="trunc").tolist() == expected
    assert x.clone().div_(divisor, rounding_mode="trunc").tolist() == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("enabled", [False, True])
def test_a_norm_beyond_16_bits_scales_slices_under_autocast(dtype, enabled):
    x = edutorch.tensor([[1.0, -13528.0], [1.0, -32992.0], [1.0, 1.0]])
    expected = edutorch.renorm(x, 0.5, 1, 1.0)
    with edutorch.autocast("cpu", dtype=edutorch.bfloat16, enabled=enabled):
        y = edutorch.renorm(x.to(getattr(edutorch, dtype)), 0.5, 1, 1.0)
    assert y.dtype is getattr(edutorch, dtype)
    np.testing.assert_allclose(y.double().numpy(), expected.numpy(), rtol=2e-2)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("weight", [1.6241652552577583, 0.1, 0.3, 3.3, 1e-5])
def test_the_covariance_of_one_weighted_observation_is_undefined(weight):
    """w - w² / w is 0 but for rounding errors: it was 0 for some weights."""
    for weights in ([weight], [0.0, weight, 0.0]):
        x = edutorch.full((len(weights),), 1.7 if len(weights) == 1 else 1.0).double()
        result = edutorch.cov(x, aweights=edutorch.tensor(weights, dtype=edutorch.float64))
        assert math.isnan(result.item())


@pytest.mark.xfail(strict=True, reason="∞ - ∞: σ' is y - y², whose slope is a sum of two terms")
def test_the_second_derivative_of_a_gate_beside_infinity():
    """The limit is -∞, as in PyTorch: a · σ''(b) with a = ∞."""
    b = edutorch.tensor([1.0], requires_grad=True)
    y = functional.glu(edutorch.cat([edutorch.tensor([math.inf]), b]))
    (g,) = edutorch.autograd.grad(y, b, create_graph=True)
    assert edutorch.autograd.grad(g, b)[0].item() == -math.inf


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 1000, 33000])
def test_long_cumulative_sums_of_exponentials(size):
    """A loop took a rounding for each element, and seconds for a long one."""
    values = np.random.default_rng(size).standard_normal((2, size))
    weights = edutorch.tensor(np.random.default_rng(0).random((2, size)))
    x = edutorch.tensor(values, requires_grad=True)
    y = edutorch.logcumsumexp(x, 1)
    expected = np.logaddexp.accumulate(values, axis=1)
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-12, atol=1e-13)
    (g,) = edutorch.autograd.grad((y * weights).sum(), x)
    terms = np.cumsum((weights.numpy() * np.exp(-expected))[:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_allclose(g.numpy(), np.exp(values) * terms, rtol=1e-9)
    narrow = edutorch.logcumsumexp(x.detach().float(), 1)
    np.testing.assert_allclose(narrow.numpy(), expected, rtol=2e-6, atol=1e-6)
    moved = edutorch.func.jvp(lambda t: edutorch.logcumsumexp(t, 1), (x.detach(),), (weights,))[1]
    shares = np.cumsum(weights.numpy() * np.exp(values), axis=1) * np.exp(-expected)
    np.testing.assert_allclose(moved.numpy(), shares, rtol=1e-9)
