"""Functions without a block of their own, creation, and methods: each line must say in
edutorch what it says in PyTorch: the same numbers, types and shapes."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import edutorch
from tests.devices import DEVICES
from tests.golden_lines import HINT, MODULES, golden, written
from tests.oracle import require_torch

# t is the library; `names_for` makes the others: a is (2, 3), b (3, 2), c (2, 3, 4), v (4),
# i holds integers, m is a mask like a, k are positions in rows of a, n has NaN and inf.
LINES = """
t.zeros(2, 3), t.zeros((2, 3)), t.zeros(size=(2,)), t.zeros(()), t.ones(2, dtype=t.int32)
t.empty(0, 3)
t.full((2, 2), 7), t.full((2,), 1.5), t.full((), True), t.full((2,), 3, dtype=t.float64)
t.eye(2), t.eye(2, 3), t.eye(2, dtype=t.int64)
t.arange(4), t.arange(1, 4), t.arange(1, 9, 3), t.arange(0.0, 1.0, 0.25), t.arange(5, 0, -2)
t.arange(0)
t.linspace(0, 1, 5), t.linspace(3, -3, 4), t.linspace(0, 1, 1), t.logspace(0, 3, 4)
t.logspace(0, 3, 4, base=2)
t.tensor([1, 2]), t.tensor(1.5), t.tensor([[True]]), t.tensor([]), t.tensor([1, 2.5])
t.tensor(1j), t.tensor([[], []])
t.tensor([1.9, -1.9], dtype=t.int64), t.tensor([t.tensor(1), t.tensor(2)]), t.as_tensor([1, 2])
t.asarray([1.0]), t.tensor([t.tensor([1.0]), t.tensor([2.0])]), t.tensor([t.tensor([[1]]), 2.5])
t.tensor([[t.tensor([1.0])], [t.tensor([2.0])]]), t.tensor([[2.0], t.tensor([1.0])])
t.tensor([t.tensor([True]), t.tensor([2])]), t.as_tensor([0.5, t.tensor([1])]), t.tensor((v[:1],))
t.zeros_like(a), t.ones_like(i), t.full_like(a, 2), t.zeros_like(a, dtype=t.int8)
t.empty_like(t.zeros(0))
a.new_zeros(2), a.new_ones((2, 2)), i.new_full((2,), 5), a.new_tensor([1, 2])
i.new_zeros(2, dtype=t.float32), a.new_empty(0)
t.tril_indices(3, 4), t.triu_indices(3, 4, 1), t.tril_indices(3, 3, -1)
a + 1, 1 + a, 2 - a, 2 / b, 2.0 ** a, a % 0.7, 2 // b, a // 0.3, -a, +a, abs(a), a @ b, a ** 2
a ** b.T, i / 2, i // 2, i % 3, 2 ** i
i + 0.5, i * 2, m & True, m | m, m ^ True, ~m, i & 3, i | 8, i ^ 5, ~i, m * 2, m + m, m * a
1.5 * m
a == a, a != b.T, a < 0.3, a <= b.T, a > 0, a >= 0, i == 2, (a > 0) & (a < 1)
t.multiply(a, 2), t.subtract(a, 1), t.true_divide(a, 2), t.negative(a), t.absolute(a)
t.greater(a, 0), t.not_equal(i, 2), t.less_equal(a, 0)
t.std(a), t.std(a, 1), a.std(dim=0, keepdim=True), a.std(correction=0), t.var_mean(a, 1)
t.std_mean(a), a.var(0), t.var(c, (0, 2))
t.norm(a), a.norm(p=1), a.norm(2, 1), t.norm(a, math.inf), a.norm(dim=0, keepdim=True)
t.median(v), a.median(1), a.median(dim=0, keepdim=True), t.nansum(n), t.nanmean(n)
t.nanmean(n, 0), t.aminmax(a), t.aminmax(a, dim=1)
t.quantile(a, 0.3), t.quantile(a, 0.5, 1), a.quantile(t.tensor([0.1, 0.9]), 1)
t.quantile(a, 0.4, 0, True), t.quantile(a, 0.3, interpolation="nearest")
t.quantile(a, 0.3, interpolation="lower"), t.quantile(a, 0.3, 1, interpolation="higher")
t.quantile(a, 0.3, interpolation="midpoint")
t.diff(v), t.diff(a, dim=0), t.diff(v, 2), i.diff(), t.diff(a, 0, 1, a, a)
t.trace(a[:, :2]), t.logsumexp(a, 1)
a.argmax(), a.argmax(1), a.argmin(0, True)
a.sum(), a.sum(1), a.sum(dim=(0, 1)), i.sum(), m.sum(), a.mean(0), a.prod(), i.prod(), m.all()
m.any(1), a.amax(1), a.amin((0, 1)), a.sum(dtype=t.float64)
a.max(), a.max(1), a.max(dim=0, keepdim=True), a.min(1), t.max(a, b.T), t.min(a, b.T), i.max()
a.max(-1).values, a.max(1).indices
t.gather(a, 1, i[:0]), t.gather(v, 0, t.tensor([])), t.gather(v, 0, t.tensor(1))
t.gather(t.zeros(3, 0), 0, t.zeros(0, 0, dtype=t.long)), t.gather(v, 0, t.zeros(2, 0).byte())
t.take_along_dim(a, t.tensor([[-1], [0]]), 1), t.take_along_dim(a, t.tensor([[1, -2]]), 1)
t.take_along_dim(a, t.zeros(1, 0, dtype=t.long), 1)
t.take_along_dim(v[None], t.tensor([[-1], [0]]), 1)
t.take(a, t.tensor([-1, 0]), out=t.empty(2)), t.where(m, a, a * 2, out=t.empty(2, 3))
t.atleast_1d([t.tensor(1.0), v]), t.atleast_2d((t.tensor(1), v)), t.atleast_3d(t.tensor(1), v)
t.atleast_1d([]), t.atleast_2d([v]), t.atleast_3d(a)
t.histogram(v)[0].shape, t.histogram(t.tensor([0.0, 1, 2, 2]), 4, density=True)
t.tensor([0.0, 1, 2, 2]).histogram(t.tensor([0.0, 1, 3]), density=True)
2 ** t.tensor(-1), t.tensor(6) ** t.tensor(-8), t.tensor(-8).__rpow__(6), 2 ** t.tensor([-1, 3])
t.tensor([-1, 2]) ** t.tensor(-3), (-1) ** t.tensor(-3), t.tensor([2.0]) ** -1, 2 ** i
a.new([1.5, 2.0]), a.new((1, 2)), a.new(2, 3).shape
v.sort(), a.sort(0, descending=True), v.argsort(), v.argsort(descending=True), a.topk(2)
v.topk(2, largest=False), a.topk(1, 0), t.msort(a), v.kthvalue(2), a.kthvalue(1, 0, True)
a.view(3, 2), a.view(-1), a.reshape(6), a.reshape((3, -1)), a.flatten(), c.flatten(1)
c.flatten(0, 1), t.ravel(a), v.unflatten(0, (2, 2)), c.unflatten(-1, (2, -1))
a.T, c.mT, a.t(), a.transpose(0, 1), t.swapaxes(c, 0, 2), c.permute(2, 0, 1), c.permute((1, 2, 0))
t.movedim(c, 0, 2), t.moveaxis(c, (0, 1), (2, 0)), a.H, a.mH
a.unsqueeze(0), a[None].squeeze(), a[None].squeeze(0), a.squeeze(0), a.expand(2, 2, 3)
v.expand(2, -1), t.broadcast_to(v, (2, 4)), v.expand_as(t.zeros(3, 4)), a.view_as(b)
a.reshape_as(b)
t.broadcast_tensors(v, t.zeros(2, 1)), a.repeat(2, 1), v.repeat(2), t.tile(a, (2,)), a.tile(2, 1)
v.tile((2, 1, 2)), t.repeat_interleave(v, 2), a.repeat_interleave(2, 1)
a.repeat_interleave(t.tensor([1, 2]), dim=0)
t.cat([a, a]), t.cat((a, b.T), dim=1), t.cat([a, i[:3][None]]), t.cat([t.zeros(0), a])
t.concat([v, v]), t.stack([a, a], -1), t.stack((v, i)), t.hstack([a, a]), t.vstack([v, v])
t.hstack([v, v]), t.dstack([v, v]), t.column_stack([v, v])
a.split(2, 1), v.split([1, 3]), v.chunk(3), a.chunk(2), a.unbind(1), t.tensor_split(v, 3)
t.tensor_split(v, (1, 3)), a.tensor_split(2, 1), list(a), v.split(3)
a.narrow(1, 1, 2), a.select(0, 1), a.flip(0), a.flip(0, 1), t.flip(a, (1,)), t.fliplr(a)
t.flipud(a), t.roll(v, 1), t.roll(a, (1, 1), (0, 1)), t.rot90(a), t.rot90(a, 2), a.rot90(3)
t.rot90(a, -1, [1, 0])
v.unfold(0, 2, 1), c.unfold(2, 3, 1), c.unfold(1, 2, 1), t.diag(v), t.diag(a), a.diag(1)
t.diag(v, -1), t.diag_embed(a), t.diag_embed(a, 1), t.diag_embed(a, 0, 0, 2), a.diagonal()
a.diagonal(1)
t.tril(a), t.triu(a, 1), a.tril(-1), t.meshgrid(v, a[0], indexing="ij")
t.meshgrid(i, i[:3], indexing="xy"), t.atleast_1d(t.tensor(1.0)), t.atleast_2d(v), t.atleast_3d(a)
t.gather(a, 1, k), a.gather(0, k[:, :2] % 2), a.index_select(1, t.tensor([2, 0]))
t.take(a, t.tensor([5, 0])), t.take_along_dim(a, a.argsort(1), 1)
a.take_along_dim(t.tensor([[0], [2]]), 1), a.masked_select(m)
t.masked_select(a, t.tensor([True, False, True]))
t.zeros(2, 3).scatter(1, k, a), t.zeros(2, 3).scatter(1, k, 1.5)
t.zeros(2, 3).scatter_(1, k, 1.0), t.zeros(2, 3).scatter_add_(1, k, a)
t.zeros(2, 3).scatter(1, k, value=2)
t.nonzero(m), m.nonzero(as_tuple=True), t.argwhere(m), t.nonzero(t.tensor(5.0))
t.nonzero(t.zeros(0)), t.isin(i, t.tensor([2, 5])), t.isin(i, 2)
t.isin(i, t.tensor([2]), invert=True)
a.masked_fill(m, 9.0), a.clone().masked_fill_(m, -1), a.clone().index_fill_(1, t.tensor([0]), 5.0)
t.where(m, a, 0), t.where(m, 1.0, a), t.where(m, 1, 2), a.where(m, b.T), t.where(m)
t.where(m, a, i[:3])
t.unique(i), t.unique(i, return_counts=True), t.unique(i, return_inverse=True, return_counts=True)
t.bincount(i), t.bincount(i, minlength=8), t.bincount(i, weights=v), t.histc(a, 4)
t.histc(a, 3, -1, 1)
t.searchsorted(t.tensor([1.0, 2.0, 3.0]), a), t.searchsorted(t.tensor([1, 3]), 3)
t.searchsorted(t.tensor([1, 3]), t.tensor([1, 3]), right=True), t.bucketize(i, t.tensor([1, 3]))
t.searchsorted(a.sort(1).values, a)
t.matmul(a, b), t.mm(a, b), t.mv(a, v[:3]), t.dot(v, v), t.outer(v, v), t.bmm(c, c.mT)
t.einsum("ij,jk->ki", a, b), t.einsum("bij,bkj->bik", [c, c]), t.addmm(t.zeros(2), a, b)
t.addmm(t.ones(2), a, b, beta=0.5, alpha=2)
t.addmv(t.ones(2), a, v[:3]), t.baddbmm(t.ones(2, 1, 3), c, c.mT, beta=2), t.inner(v, v)
t.inner(a, a), t.tensordot(a, b, 1), t.tensordot(c, c, ([1, 2], [1, 2])), t.kron(a, b)
t.kron(v, i)
t.cross(a, b.T, dim=1), a.cross(b.T, dim=-1), t.cdist(a, b.T), t.cdist(c, c, p=1.0)
t.trace(a[:, :2])
t.softmax(a, 1), a.softmax(dim=0), t.log_softmax(a, -1), i.softmax(0, dtype=t.float32), a.clamp(0)
a.clamp(max=0.5), t.clip(a, -0.5, 0.5), a.clamp(min=b.T)
t.lerp(a, b.T, 0.3), t.addcmul(a, a, a, value=2), t.addcdiv(a, a, b.T + 5), t.hypot(a, b.T)
t.fmod(a, 0.7), t.remainder(a, -0.7), t.xlogy(b.abs(), b.abs()), t.nan_to_num(n)
t.logaddexp(a, b.T)
a.to(t.float64), a.double(), a.long(), a.int(), a.half(), a.bool(), i.float(), i.byte()
a.type_as(i), a.to(i), a.bfloat16().float(), m.int(), a.contiguous(), a.T.contiguous(), a.clone()
i.char(), i.short()
t.allclose(a, a), t.equal(a, a), t.equal(a, b), t.allclose(a, a + 1e-9), t.is_tensor(a)
t.numel(a), t.is_floating_point(i), t.is_nonzero(t.tensor(0)), a.numel(), a.dim(), a.size()
a.size(1), a.stride(), a.T.stride(), len(a), a.element_size(), a.nbytes
a[0, 0].item(), a.tolist(), float(a[0, 0]), int(i[0]), bool(i[0]), a.ndim, a.shape
a.is_contiguous(), a.T.is_contiguous()
t.zeros(3).fill_(2), t.ones(3).zero_(), t.zeros(2, 3).copy_(v[:3]), t.ones(2).add_(1).mul_(3)
t.ones(3).clamp_(max=0.5), t.ones(2, 2).tril_(), t.ones(3).cumsum_(0), a.clone().exp_().sqrt_()
t.result_type(i, 1.5), t.promote_types(t.int8, t.uint8), t.can_cast(t.float32, t.int32)
t.broadcast_shapes((2, 1), (3,))
t.bernoulli(t.zeros(3)), t.bernoulli(t.ones(3)), t.randint(3, 4, (2,)), t.rand(0), t.randn(2, 0)
t.multinomial(t.tensor([0.0, 1.0]), 1), t.randperm(1), t.normal(2.0, 0.0, (2,))
t.rand_like(t.zeros(0)), t.randn_like(t.zeros(0, 2))
"""


def names_for(library: Any) -> dict[str, Any]:
    def floats(*shape: int, seed: int) -> Any:
        return library.tensor(np.random.default_rng(seed).uniform(-2, 2, shape).round(3).tolist())

    a = floats(2, 3, seed=1)
    return {
        "t": library, "math": math, "a": a, "b": floats(3, 2, seed=2), "v": floats(4, seed=3),
        "c": floats(2, 3, 4, seed=4), "i": library.tensor([2, 1, 4, 2]), "m": a > 0,
        "k": library.tensor([[0, 2, 1], [2, 1, 0]]),
        "n": library.tensor([[1.0, math.nan], [3.0, math.inf]]),
    }  # fmt: skip


def plain(value: Any) -> Any:
    """A result as something both libraries agree on: (dtype, shape, elements)."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "numel"):
        return [plain(item) for item in value]
    if hasattr(value, "detach"):
        return str(value.dtype), tuple(value.shape), value.tolist()
    if type(value).__name__ in ("Size", "dtype"):
        return str(value)
    return value


def close(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, (tuple, list)):
        same_length = isinstance(theirs, (tuple, list)) and len(ours) == len(theirs)
        return same_length and all(map(close, ours, theirs))
    if isinstance(ours, (float, complex)) and not isinstance(theirs, str):
        same = ours == pytest.approx(theirs, rel=2e-5, abs=1e-6, nan_ok=True)
    else:
        same = ours == theirs
    return same and type(ours) is type(theirs)


def expressions() -> list[str]:
    return [text for line in LINES.strip().splitlines() for text in split_expressions(line)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN and 1/0 are meant here
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
        theirs = golden("test_functions", text)
        if not close(ours, theirs):
            wrong.append(f"{text}\n    here:    {ours}\n    PyTorch: {theirs}")
    assert not wrong, "\n".join(wrong)


def outcome(expression: str, library: Any) -> Any:
    """Return the value, or the error: one wrong expression should not hide the others."""
    try:
        return plain(eval(expression, names_for(library)))
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def split_expressions(line: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(line):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append(line[start:place].strip())
            start = place + 1
    return [*parts, line[start:].strip()]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", MODULES)
def test_what_is_written_is_pytorchs(module):
    torch, tests = require_torch(), import_module(f"tests.{module}")
    wrong = [
        text for text in tests.expressions()
        if not close(tests.outcome(text, torch), golden(module, text))
    ]  # fmt: skip
    assert not wrong and set(tests.expressions()) == set(written()[module]), HINT


# What is public ------------------------------------------------------------------------------


def test_public_names_are_functions_with_examples():
    for name in edutorch.ops.__all__:
        value = getattr(edutorch.ops, name)
        assert callable(value), name
        assert value.__module__.startswith("edutorch."), f"{name} comes from elsewhere"
        assert getattr(edutorch, name) is value
        twin = name.endswith("_") and hasattr(edutorch.Tensor, name)
        assert twin or ">>>" in value.__doc__ or isinstance(value, type), name


def test_second_names_are_the_same_functions():
    for name in ("multiply", "arctan2", "concat", "greater", "clip", "moveaxis", "fix"):
        assert getattr(edutorch, name).__name__ != name, "one definition, two names"


@pytest.mark.oracle
def test_names_and_arguments_are_pytorchs():
    """A name that PyTorch has not would break the way back; softplus is in nn.functional there."""
    torch = require_torch()
    strangers = [name for name in edutorch.ops.__all__ if not hasattr(torch, name)]
    assert strangers == ["softplus"]


# Exactness -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(200_000, 2), (2, 50_000, 2), (300_000,)])
@pytest.mark.parametrize("take", ["sum", "mean", "var"])
def test_long_sums_are_exact(shape, take):
    """Adding row to row in float32 would lose four digits here."""
    elements = np.random.default_rng(0).uniform(0.5, 1.0, shape)
    dim = len(shape) - 2 if len(shape) > 1 else 0
    x = edutorch.tensor(elements.astype(np.float32))
    exact = getattr(x.double(), take)(dim).numpy()
    np.testing.assert_allclose(getattr(x, take)(dim).numpy(), exact, rtol=3e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_types_are_added_up_in_float32(dtype):
    ones = edutorch.ones(5000, 2, dtype=getattr(edutorch, dtype))
    assert ones.sum(0).tolist() == pytest.approx([5000, 5000], rel=1e-2)
    assert ones.mean(0).tolist() == [1, 1]
    assert ones.var(0).tolist() == [0, 0]
