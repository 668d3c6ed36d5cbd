"""Functions that compute with numbers, each line as in PyTorch: values, types, shapes; see
`test_functions.py`, whose names a, b, c, i, … mean the same here."""

from __future__ import annotations

from typing import Any

import pytest

import edutorch
from tests.devices import DEVICES
from tests.golden_lines import golden
from tests.test_functions import close, names_for, plain, split_expressions

LINES = """
i << 1, 1 << i, i >> 1, 9 >> i, i.clone().__ilshift__(2), t.bitwise_right_shift(-i, 1), i << 70
t.bitwise_left_shift(i, i), i.bitwise_left_shift_(2), i.bitwise_right_shift(1)
t.gcd(i, i * 6), t.lcm(i, t.tensor(3)), i.gcd_(t.tensor(2)), i.lcm(i + 1)
t.copysign(a, -1), t.copysign(a, b.T), i.copysign(-0.0), t.copysign(i, a[0, 0])
a.clone().copysign_(b.T)
t.fmax(n, t.tensor(2.0)), t.fmin(n, t.tensor(2.0)), a.fmax(b.T), t.fmin(i, a[0, 0])
t.float_power(i, 2), t.float_power(a, i[:3]), t.float_power(2, i), v.double().float_power_(2)
i.float_power(-1.5)
t.frexp(a), a.frexp().exponent, t.frexp(t.tensor([0.0, 8.0])), t.frexp(v.double())
t.heaviside(t.tensor([-1.0, 0.0, 2.0]), t.tensor(0.5)), t.heaviside(i - 2, i)
t.heaviside(t.tensor([math.nan, 0.0]), t.tensor([3.0]))
t.ldexp(a, t.tensor([1, 2, 3])), t.ldexp(i, i), a.clone().ldexp_(t.tensor(2))
t.logaddexp2(a, b.T), t.logaddexp2(v * 1000, v)
t.nextafter(a, b.T), t.nextafter(v, t.tensor(0.0)), v.double().nextafter_(t.tensor(9.0).double())
t.rsub(a, 1), t.rsub(a, b.T, alpha=2), t.rsub(i, 3), t.rsub(i, 2, alpha=2), t.rsub(i, 1.5)
t.clamp_min(a, 0), t.clamp_max(a, b.T), i.clamp_min(2.5), a.clone().clamp_max_(0.5), i.clamp_max(3)
a.clone().absolute_(), a.clone().arctan_(), a.clone().subtract_(1), a.clone().divide_(2)
a.clone().multiply_(i[:3]), a.clone().greater_(0), a.clone().less_equal_(0), a.clone().negative_()
a.clone().clip_(0, 1), a.clone().fix_(), a.clone().true_divide_(3), a.clone().not_equal_(1)
a.clone().arctan2_(b.T), a.clone().greater_equal_(0), a.clone().less_(0)
t.is_signed(i), t.is_signed(m), t.is_same_size(a, a), t.is_same_size(a, b), t.get_device(a)
t.is_distributed(a), t.is_inference(a), t.var_mean(a, axis=1), t.trapezoid(a, dim=-2)
t.round(a, decimals=1), t.round(a * 100, decimals=-1)
t.div(i, 2, rounding_mode="floor"), t.div(a, 0.3, rounding_mode="trunc"), i.div(3)
i.clone().div_(2, rounding_mode="trunc"), t.div(-i, 3, rounding_mode="trunc")
t.nan_to_num(n, 1.0), t.nan_to_num(n, nan=2.0, posinf=7.0, neginf=-7.0), n.nan_to_num(posinf=0.5)
t.clamp(a, b.T, b.T + 1), a.clamp(max=b.T), t.clamp(i, min=2, max=3), i.clamp(1.5)
t.clamp(a, t.tensor(0.0), t.tensor(1.0))
t.nanquantile(n.clamp(max=9), 0.5), n.clamp(max=9).nanquantile(0.3, 1, True)
t.nanquantile(n.clamp(max=9), t.tensor([0.2, 0.8]), dim=0)
t.quantile(n, 0.5), t.quantile(n, 0.5, 0), t.quantile(c, t.tensor([0.1, 0.9]), 1, keepdim=True)
t.quantile(c, 0.25, -1, True, interpolation="midpoint"), t.quantile(v, t.tensor([0.5]))
t.quantile(a, t.tensor([0.5, 0.1]), keepdim=True), t.quantile(a, 0.5, 1, interpolation="nearest")
t.quantile(t.tensor(3.0), 0.5), v.quantile(t.tensor(0.3)), t.quantile(c, 0.7, 1)
t.quantile(c, t.tensor([0.2, 0.4]), 0, interpolation="lower"), t.nanquantile(c, 0.2, 2)
t.median(t.tensor([1.0, math.nan, 2.0])), t.median(n, 1), t.nanmedian(n, 0), t.nanmedian(n)
t.median(i), i.median(0), t.median(c, 1, True), c.nanmedian(-1), t.median(t.zeros(0))
t.median(t.tensor(2.0), 0), t.nanmedian(i)
t.histogram(v, 4), t.histogram(a, 3, range=(-1.0, 1.0)), v.histogram(t.tensor([-1.0, 0.0, 2.0]))
t.histogram(v, 3, weight=v.abs()), t.histogram(v, 3, density=True), t.histogram(t.ones(3), 2)
t.histogram(v, t.tensor([-2.0, 0.0, 2.0]), density=True, weight=t.ones(4))
t.histogramdd(b, [2, 3]), t.histogramdd(b, 2, range=[-2.0, 2.0, -1.0, 1.0], density=True)
t.histogramdd(b, [t.tensor([-2.0, 0.0, 2.0])] * 2, weight=t.ones(3))
t.histogramdd(c, bins=[1, 2, 1, 2])
t.histc(v, 5), t.histc(v, bins=3, min=-1, max=1), v.histc(2), t.histc(t.ones(3), 2)
t.trapezoid(v), t.trapezoid(a, dx=2), t.trapezoid(a, dim=0), t.trapezoid(a, v[:3]), t.trapz(v, v)
t.trapezoid(a, b.T), t.trapezoid(c, t.tensor([1.0, 2.0, 4.0]), dim=1), t.trapezoid(i)
t.trapezoid(v[:1]), t.trapezoid(v[:0]), t.cumulative_trapezoid(v), t.trapezoid(i, dx=0.5)
t.cumulative_trapezoid(a, v[:3]), t.cumulative_trapezoid(c, dx=0.5, dim=0)
t.gradient(v), t.gradient(v, spacing=2.0), t.gradient(a, dim=1), t.gradient(c[:, :, :])
t.gradient(v, spacing=(t.tensor([0.0, 1.0, 3.0, 4.0]),)), t.gradient(v, edge_order=2)
t.gradient(v, spacing=(t.tensor([0.0, 1.0, 3.0, 4.0]),), edge_order=2), t.gradient(a, spacing=0.5)
t.gradient(a, spacing=[2.0, 3.0]), t.gradient(a, dim=(1,), spacing=[t.tensor([0.0, 2.0, 3.0])])
t.gradient(i), t.gradient(c, dim=(-1, 1), edge_order=2)
t.combinations(v), t.combinations(v, 3), t.combinations(i, 2, True), t.combinations(i, r=0)
t.combinations(v[:1]), t.cartesian_prod(v, v[:2]), t.cartesian_prod(v), t.cartesian_prod(i, i, i)
t.range(0, 3), t.range(1, 2, 0.5), t.range(3, -1, -2), t.range(0, 3, dtype=t.int64)
t.scalar_tensor(3), t.scalar_tensor(2.5, dtype=t.float64), t.scalar_tensor(True)
t.empty_permuted((2, 3), (1, 0)).stride(), t.empty_strided((2, 3), (1, 2)).stride()
t.empty_strided((2, 0), (1, 1)).shape, v.new_empty_strided((2, 2), (1, 2)).stride()
v.new_empty_strided((2, 2), (1, 2)).dtype, v.new_zeros(size=(2,))
v.new_full((2,), 3, dtype=t.int64)
t.bucketize(v, t.tensor([-1.0, 1.0]), right=True), t.bucketize(2, t.tensor([1, 2]))
t.bucketize(i, t.tensor([1, 2]), out_int32=True), t.bucketize(0.5, t.tensor([0.0, 1.0]))
t.searchsorted(t.tensor([1, 3, 5]), i, side="right")
t.searchsorted(t.tensor([1, 3]), 3, side="left")
t.searchsorted(t.tensor([5, 1, 3]), i, sorter=t.tensor([1, 2, 0])), t.searchsorted(v.sort()[0], a)
t.searchsorted(a.sort()[0], a, out_int32=True, right=True), t.searchsorted(t.tensor([]), v)
t.searchsorted(a, b.T, sorter=a.argsort())
t.unravel_index(t.tensor([4, 5]), (2, 3)), t.unravel_index(i, (5,))
t.unravel_index(i[:, None], [2, 3])
t.unravel_index(t.tensor(3), 4)
t.nonzero_static(t.tensor([0, 5, 7]), size=3), t.nonzero_static(m, size=2)
t.nonzero_static(m, size=9, fill_value=7), m.nonzero_static(size=0)
t.nonzero(m, as_tuple=True), t.nonzero(a, as_tuple=False)
t.unique(n), t.unique(a, sorted=True, return_inverse=True), a.unique(dim=0, return_counts=True)
t.unique_consecutive(i, return_inverse=True, return_counts=True)
a.sum(dtype=t.float64), i.sum(dtype=t.int32), i.prod(dtype=t.float32), a.cumsum(1, dtype=t.float64)
i.cumprod(0, dtype=t.float32), m.sum(0, dtype=t.uint8), a.nansum(), n.nansum(0, dtype=t.float64)
n.nanmean(1, True, dtype=t.float64), i.nansum(), a.mean(dtype=t.float64), i.mean(dtype=t.float32)
m.all((0, 1)), m.any((0, 1), keepdim=True), c.all(dim=(0, 2)), c.any(dim=-1)
a.std(False), a.var(False), t.var(a, True), a.std(0, False), a.var(1, True, True)
t.std(c, (0, 1), False)
a.var(unbiased=False), a.std(dim=1, unbiased=False, keepdim=True), a.var(1, keepdim=True)
a.std(1, correction=0), a.var(correction=2), t.var_mean(a, False), t.std_mean(a, 1, False, True)
t.var_mean(a, dim=(0, 1), correction=0), t.std_mean(c, (0, 2), unbiased=False), c.std((0, 1))
c.var([0])
v.std(correction=0.5), t.std(a, [0, 1]), t.var(a, dim=None, keepdim=True)
a.max(dim=1), t.max(a, other=b.T), t.min(a, 1, True), a.min(b.T), t.max(i)
a.aminmax(dim=0, keepdim=True)
a.argmax(1, keepdim=True), a.argmin(keepdim=True), a.argmax(dim=None), a.logcumsumexp(1)
t.count_nonzero(m, 1), t.count_nonzero(a), t.count_nonzero(c, (0, 1)), t.cummax(a, 1), a.cummin(0)
a.kthvalue(2, keepdim=True), v.mode(), a.mode(1, True), a.topk(2, 1, False), a.topk(1, sorted=True)
v.argsort(stable=True), v.sort(stable=True, descending=True)
v.sort(dim=0, descending=False, stable=False)
t.diff(v, prepend=v[:1]), t.diff(a, append=a[:, :2]), t.diff(m, dim=0), t.diff(v, n=9), t.diff(v, 0)
t.diff(a, 2, 0), t.diff(a, dim=0, prepend=a, append=a)
t.norm(a, "nuc"), t.norm(a, 0), t.norm(a, -math.inf, 1), t.norm(c, dim=(0, 2))
t.norm(c, 3, [0, 1], True)
a.norm(p="fro"), a.norm(dtype=t.float64), a.norm("nuc", dim=(0, 1)), a.norm(1, 0, keepdim=True)
v.norm(2.5)
t.bincount(i, v, 7), t.bincount(i, weights=i), t.bincount(t.zeros(0, dtype=t.int64), minlength=2)
t.take(a, t.tensor([[0, -1]]))
t.arange(end=3), t.arange(1, 2.5), t.arange(t.tensor(3)), t.arange(0, 3, dtype=t.float64)
t.arange(3.0), t.arange(0, 1, 0.1), t.arange(-1, 1, 0.5, dtype=t.float32)
t.linspace(t.tensor(1.0), t.tensor(2.0), 3), t.linspace(0, 10, 4, dtype=t.int64)
t.linspace(0, 1, 0)
t.linspace(0, 1, steps=3, dtype=t.float64), t.logspace(0, 1, 2, base=2.0)
t.logspace(start=0, end=2, steps=3)
t.linspace(1j, 2, 3), t.linspace(5, 5, 2), t.logspace(-1, 1, 3, 3)
t.logspace(0, 2, 3, dtype=t.int32)
t.full((2,), True), t.full((), 1j), t.full((2,), 1 + 2j, dtype=t.complex128)
t.full((1,), t.tensor(2))
t.full((2,), 2, out=t.empty(2)), t.zeros(2, out=t.ones(2)), t.arange(3, out=t.empty(3))
t.ones(3, out=t.empty(0, dtype=t.int64)), t.linspace(0, 1, 3, out=t.empty(3, dtype=t.float64))
t.eye(2, out=t.empty(2, 2))
t.zeros(2, layout=t.strided), t.ones(2, pin_memory=False)
t.empty(0, memory_format=t.contiguous_format)
t.zeros_like(a.T).stride(), t.ones_like(a.T, memory_format=t.contiguous_format).stride()
t.empty(2, 3, 4, 5, memory_format=t.channels_last).stride()
t.zeros_like(a, layout=t.strided, pin_memory=False)
t.full_like(a, 1.5, memory_format=t.preserve_format), t.empty_like(t.zeros(0), requires_grad=True)
t.zeros(2, requires_grad=True).requires_grad, t.asarray([1, 2], dtype=t.float64), t.asarray(v) is v
t.asarray(v, copy=True) is v, t.asarray(3.5)
t.asarray(v, dtype=t.float64, requires_grad=True).requires_grad
t.frombuffer(bytearray(b"abcd"), dtype=t.uint8)
t.frombuffer(bytearray(8), dtype=t.float32, count=1, offset=4)
t.tril_indices(3, 3, offset=1), t.triu_indices(2, 3, offset=-1)
t.max(a, 1, out=(t.empty(2), t.empty(2, dtype=t.int64)))
t.sort(v, out=(t.empty(4), t.empty(0, dtype=t.int64)))
t.median(a, 1, out=(t.empty(2), t.empty(2, dtype=t.int64))), t.std(a, 1, out=t.empty(2))
t.topk(v, 2, out=(t.empty(2), t.empty(2, dtype=t.int64))), t.quantile(v, 0.5, out=t.empty(()))
t.cumsum(v, 0, out=t.empty(4)), t.norm(a, out=t.empty(())), t.max(a, b.T, out=t.empty(2, 3))
t.histc(v, 4, out=t.empty(4)), t.bucketize(v, v.sort()[0], out=t.empty(4, dtype=t.int64))
t.mode(a, 1, out=(t.empty(2), t.empty(2, dtype=t.int64)))
t.cummax(v, 0, out=(t.empty(4), t.empty(4, dtype=t.int64)))
t.kthvalue(v, 1, out=(t.empty(()), t.empty((), dtype=t.int64))), t.nansum(v, out=t.empty(()))
t.msort(v, out=t.empty(4))
t.aminmax(v, out=(t.empty(()), t.empty(())))
t.frexp(v, out=(t.empty(4), t.empty(4, dtype=t.int32)))
t.normal(2.0, 0.0, (2, 2)), t.normal(v, t.zeros(4)), t.normal(v, 0.0)
t.normal(1.5, t.zeros(2).double())
t.normal(0.0, 0.0, size=(2,), dtype=t.float64), t.normal(v, 0.0, out=t.empty(4))
t.randint(5, 6, size=(2,)), t.randint(low=0, high=1, size=(2,)), t.randint(high=1, size=(2,))
t.randint(1, size=(3,))
t.randint(0, 1, (2,), dtype=t.float32), t.randint_like(a, 1)
t.randint_like(i, 3, 4, dtype=t.float64)
t.rand(size=(2, 0)), t.rand(0, out=t.empty(0)), t.rand_like(a, dtype=t.float64).dtype
t.randn_like(a.T).stride()
t.randperm(1, dtype=t.int32), t.bernoulli(t.ones(2), 0.0), t.ones(2).bernoulli(p=0)
t.bernoulli(t.zeros(2), out=t.ones(2))
t.poisson(t.zeros(3)), t.binomial(t.tensor([3.0, 4.0]), t.tensor([1.0, 0.0]))
t.multinomial(t.tensor([0.0, 1.0]), 1, out=t.empty(0, dtype=t.int64))
t.xlogy(0, a), a.clone().xlogy_(b.T.abs()), t.isreal(a), t.signbit(a), t.std(t.ones(3))
t.norm(i.float())
t.logsumexp(t.zeros(0), 0), t.logsumexp(t.zeros(0, 2), 0, True), t.histogram(t.zeros(0), 2)
t.multinomial(t.zeros(0, 2), 1)
2 ** (i - 2), i ** (i - 3), (-1) ** (i - 3), t.pow(i.char(), (i - 3).char()), (i - 2) ** (i - 3)
t.addmm(k[:, :2], k[:, :2], k[:, 1:], beta=0.5, alpha=1.6), t.addr(m[:, :2], m[0, :2], m[1, :2])
t.addmv(i[:2], k[:, :2], i[:2], beta=0.5)
t.addbmm(k[:, :2], k[None, :, :2], k[None, :, 1:], beta=0.5)
t.baddbmm(k[None, :, :2], k[None, :, :2], k[None, :, 1:], alpha=1.6)
t.nn.functional.avg_pool1d(i[None] - 3, 2), t.nn.functional.avg_pool2d(k[None] - 1, 2, padding=1)
t.nn.functional.hardtanh(i - 3, -1.5, 1.5), t.nn.functional.hardshrink(v, out=t.empty(4))
t.nn.functional.softshrink(v, out=t.empty(4)), t.nn.functional.logsigmoid(v, out=t.empty(4))
t.nn.functional.linear(a, a, out=t.empty(2, 2)), t.nn.functional.avg_pool2d(a[None], 2, out=v[:0])
t.softmax(v, 0, out=t.empty(4)), t.log_softmax(a, 1, out=t.empty(2, 3))
t.softmax(v[:0], 0, out=v[:0])
t.isin(i, i[:1], out=t.empty(4, dtype=t.bool)), t.linalg.vander(v[0], N=3)
t.slice_scatter(a, a[:1], 0, 1, 2, out=t.empty(2, 3))
t.linalg.pinv(a[:, :2].double() * (1 + 1j), hermitian=True)
"""


def expressions() -> list[str]:
    return [text for line in LINES.strip().splitlines() for text in split_expressions(line)]


ON_GPU = {"t.get_device(a)": 0}
"""What is right on the first GPU, where it differs from the CPU."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("line", LINES.strip().splitlines(), ids=lambda line: line[:40])
def test_line(line, device):
    edutorch.set_default_device(device)
    try:
        outcomes = {text: outcome(text, edutorch) for text in split_expressions(line)}
    finally:
        edutorch.set_default_device("cpu")
    wrong = []
    for text, ours in outcomes.items():
        theirs = golden("test_numbers", text)
        if device == "cuda":  # PyTorch's outcomes are of the CPU
            theirs = ON_GPU.get(text, theirs)
        if not close(ours, theirs):
            wrong.append(f"{text}\n    here:    {ours}\n    PyTorch: {theirs}")
    assert not wrong, "\n".join(wrong)


def outcome(expression: str, library: Any) -> Any:
    """Return the value, or the error: one wrong expression should not hide the others."""
    try:
        return plain(eval(expression, names_for(library)))
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
