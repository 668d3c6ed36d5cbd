"""Whatever adds up 16-bit floats adds them up in float32 and rounds once.

A bfloat16 stops growing at 256 ones, a float16 at 2,048, and it cannot count beyond 65,504. So
each function that sums, forward or backward, is called with 300, 3,000 and 70,000 numbers and
compared with itself in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import Tensor
from edutorch.nn import functional as F
from tests.trials import tried

HALVES = ("float16", "bfloat16")
SIZES = (300, 3_000, 70_000)

Case = tuple[Callable[..., Any], Callable[[int], list[np.ndarray]]]
CASES: dict[str, Case] = {}


def near_one(shape: Sequence[int], seed: int) -> np.ndarray:
    """Return positive numbers, so that little cancels."""
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape)


def small(shape: Sequence[int], seed: int) -> np.ndarray:
    """Return numbers whose sum is no larger than a few."""
    return near_one(shape, seed) / max(shape, default=1)


def zeros(n: int) -> Tensor:
    return edutorch.zeros(n, dtype=edutorch.int64)


def add(name: str, function: Callable[..., Any], *shapes: Any, make: Any = near_one) -> None:
    """Add a case; a shape says with "n" which axis is as long as the test wants."""

    def inputs(n: int) -> list[np.ndarray]:
        return [
            make([n if size == "n" else size for size in shape], seed)
            for seed, shape in enumerate(shapes)
        ]

    CASES[name] = function, inputs


# Reductions, on the whole, along the first axis (which NumPy adds up row by row) and the last.
for _name in ("sum", "mean", "nansum", "nanmean", "var", "std", "logsumexp", "norm"):
    _function = getattr(edutorch, _name)
    for _dim, _shape in {0: ("n", 2), 1: (2, "n")}.items():
        add(f"{_name} {_dim}", lambda x, f=_function, d=_dim: f(x, dim=d), _shape)
for _name in ("sum", "mean", "nanmean", "var", "std", "amax", "amin", "max", "min", "norm"):
    add(f"{_name} of all", getattr(edutorch, _name), ("n",))
add("amax of equal ones", lambda x: edutorch.amax(x * 0 + 1), ("n",))
add("var over n", lambda x: edutorch.var(x, correction=0), ("n",))
add("var_mean", lambda x: edutorch.var_mean(x)[0], ("n",))
add("std_mean", lambda x: edutorch.std_mean(x)[1], ("n",))
add("prod", lambda x: edutorch.prod(x[:100]), ("n",))
add("cumsum", lambda x: edutorch.cumsum(x[:3000], 0), ("n",))
add("cumprod", lambda x: edutorch.cumprod(x[:300], 0), ("n",))
add("logcumsumexp", lambda x: edutorch.logcumsumexp(x[:3000], 0), ("n",))
add("softmax", lambda x: edutorch.softmax(x, 0), ("n", 2))
add("log_softmax", lambda x: edutorch.log_softmax(x[:3000], 0), ("n", 2))
add("trapezoid", edutorch.trapezoid, ("n",))
add("vector_norm 1", lambda x: edutorch.linalg.vector_norm(x, 1), ("n",))
add("vector_norm 3", lambda x: edutorch.linalg.vector_norm(x, 3), ("n",))
add("trace", lambda x: edutorch.trace(edutorch.diag(x[:500])), ("n",))
add("cov", edutorch.cov, (2, "n"))
add("corrcoef", lambda x, y: edutorch.corrcoef(edutorch.stack([x, x + y])), ("n",), ("n",))

# Gradients of operands that broadcasting stretched.
add("add", lambda x, y: x + y, ("n", 1), (2,))
add("add row", lambda x, y: x + y, (2, "n"), (2, 1))
add("mul", lambda x, y: x * y, ("n", 1), (1, 2))
add("sub of a number", lambda x, y: x - y, ("n",), ())
add("where", lambda x, y: edutorch.where(x > 1, x, y), ("n",), ())
add("expand", lambda x: x.expand(300, 2), (1, 2))
add("expand n", lambda x, y: y.expand(x.shape[0], 2) + x, ("n", 1), (2,))
add("repeat", lambda x, y: y.repeat(x.shape[0], 1), ("n",), (2,))
add("tile", lambda x, y: edutorch.tile(y, (x.shape[0],)), ("n",), (2,))
add("repeat_interleave", lambda x, y: y.repeat_interleave(x.shape[0]), ("n",), (2,))
add("stack", lambda x, y: edutorch.stack([y] * 300) + x[0], ("n",), (2,))
add("cat", lambda x, y: edutorch.cat([y] * 300), ("n",), (2,))
add("many uses", lambda x, y: edutorch.stack([y * 1 for _ in range(300)]).mean(0), ("n",), (2,))
add("lerp", lambda x, y: edutorch.lerp(x, x + 1, y), ("n",), ())
add("meshgrid", lambda x, y: edutorch.meshgrid(x, y, indexing="ij")[1], ("n",), (2,))
add("as_strided", lambda x, y: y.as_strided((x.shape[0], 2), (0, 1)), ("n",), (2,))

# By position.
add("gather", lambda x, y: edutorch.gather(y, 0, zeros(len(x))), ("n",), (2,))
add("take", lambda x, y: edutorch.take(y, zeros(len(x))), ("n",), (2,))
add("take_along_dim", lambda x, y: edutorch.take_along_dim(y, zeros(len(x)), 0), ("n",), (2,))
add("index", lambda x, y: y[zeros(len(x))], ("n",), (2, 3))
add("index_select", lambda x, y: edutorch.index_select(y, 0, zeros(len(x))), ("n",), (2, 3))
add("scatter_add", lambda x, y: y.scatter_add(0, zeros(len(x)), x), ("n",), (2,), make=small)
add("index_add", lambda x, y: y.index_add(0, zeros(len(x)), x), ("n",), (2,), make=small)
add("index_put", lambda x, y: y.index_put((zeros(len(x)),), x, True), ("n",), (2,), make=small)
add("put_", lambda x, y: (y * 1).put_(zeros(len(x)), x, True), ("n",), (2,), make=small)
for _name in ("sum", "mean", "amax", "prod"):
    add(
        f"scatter_reduce {_name}",
        lambda x, y, r=_name: y.scatter_reduce(0, zeros(len(x)), x * 0 + 1, r), ("n",), (2,),
    )  # fmt: skip
add("index_reduce", lambda x, y: y.index_reduce(0, zeros(len(x)), x, "mean"), ("n",), (2,))
add("cummax", lambda x, y: edutorch.cummax(edutorch.cat([y[:1] + 9, x[:3000]]), 0)[0],
    ("n",), (2,))  # fmt: skip
add("embedding", lambda x, y: F.embedding(zeros(len(x)), y), ("n",), (2, 3))
for _mode in ("sum", "mean", "max"):
    add(
        f"embedding_bag {_mode}",
        lambda x, y, m=_mode: F.embedding_bag(zeros(len(x))[None], y, mode=m), ("n",), (2, 3),
        make=small,
    )  # fmt: skip

# Products.
add("matmul", lambda x, y: x.T @ y, ("n", 2), ("n", 3))
add("matmul of rows", lambda x, y: x @ y, ("n", 2), (2, 3))
add("bmm", edutorch.bmm, (2, 3, "n"), (2, "n", 2), make=small)
add("mv", lambda x, y: edutorch.mv(x, y), (2, "n"), ("n",), make=small)
add("dot", edutorch.dot, ("n",), ("n",), make=small)
add("addmm", edutorch.addmm, (2, 2), (2, "n"), ("n", 2), make=small)
add("addmm bias", edutorch.addmm, (2,), ("n", 1), (1, 2))
add("outer", edutorch.outer, ("n",), (2,))
add("einsum", lambda x, y: edutorch.einsum("ni,nj->ij", x, y), ("n", 2), ("n", 2), make=small)
add("einsum of one", lambda x: edutorch.einsum("ni->i", x), ("n", 2), make=small)
add("einsum of three", lambda x, y: edutorch.einsum("n,n,n->", x, y, x), ("n",), ("n",))
add("tensordot", lambda x, y: edutorch.tensordot(x, y, 1), (2, "n"), ("n", 2), make=small)
add("vecdot", edutorch.linalg.vecdot, ("n",), ("n",), make=small)
add("cdist", edutorch.cdist, (2, "n"), (3, "n"))
add("linear", F.linear, (2, "n"), (3, "n"), (3,), make=small)
add("linear bias", F.linear, ("n", 2), (3, 2), (3,))
add("bilinear", F.bilinear, ("n", 2), ("n", 2), (3, 2, 2), (3,))
add("conv1d", F.conv1d, (1, 2, "n"), (3, 2, 2), (3,))
add("conv2d", F.conv2d, ("n", 1, 2, 2), (2, 1, 2, 2), (2,))
add("conv3d", F.conv3d, ("n", 1, 1, 2, 2), (2, 1, 1, 2, 2), (2,))
add("conv1d of long filters", lambda x, w: F.conv1d(x[..., :3000], w[..., :3000]),
    (1, 1, "n"), (1, 1, "n"))  # fmt: skip
add("conv_transpose1d", F.conv_transpose1d, (1, 2, "n"), (2, 3, 2), (3,))
add("conv_transpose2d", F.conv_transpose2d, ("n", 1, 1, 2), (1, 2, 2, 2), (2,))

# Windows.
for _name in ("avg_pool1d", "max_pool1d", "lp_pool1d"):
    _function, _extra = getattr(F, _name), (2,) if _name == "lp_pool1d" else ()
    add(
        _name,
        lambda x, f=_function, e=_extra: f(x[..., :3000], *e, min(x.shape[-1], 3000)),
        (1, 1, "n"),
    )  # fmt: skip
    add(
        f"{_name} that overlaps",
        lambda x, f=_function, e=_extra: f(x[..., :3000], *e, 300, 1), (1, 1, "n"),
    )  # fmt: skip
add("avg_pool2d", lambda x: F.avg_pool2d(x[..., :3000].reshape(1, 1, -1, 20), 15), ("n",))
add("avg_pool3d", lambda x: F.avg_pool3d(x[:300].reshape(1, 3, 10, 10), (3, 10, 10)), ("n",))
for _rank, _size in {1: (1, 1, "n"), 2: (1, 1, 4, "n"), 3: (1, 1, 2, 2, "n")}.items():
    _function = getattr(F, f"adaptive_avg_pool{_rank}d")
    for _out in (1, 2):
        add(
            f"adaptive_avg_pool{_rank}d to {_out}",
            lambda x, f=_function, o=_out: f(x, o), _size,
        )  # fmt: skip
add("adaptive_avg_pool1d uneven", lambda x: F.adaptive_avg_pool1d(x, 7), (1, 1, "n"))
add("fold", lambda x: F.fold(x[:300].reshape(1, 300, 1).expand(-1, -1, 300), (1, 599), (1, 300)),
    ("n",))  # fmt: skip
add("unfold", lambda x: F.unfold(x[:600].reshape(1, 1, 1, -1), (1, 150)), ("n",))
add("Tensor.unfold", lambda x: x[:3000].unfold(0, 150, 1), ("n",))
add("max_unpool1d", lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
    (1, 1, "n"))  # fmt: skip
for _mode in ("nearest", "linear"):
    add(
        f"interpolate {_mode}",
        lambda x, y, m=_mode: F.interpolate(y, x.shape[0], mode=m), ("n",), (1, 1, 2),
    )  # fmt: skip
add("interpolate area", lambda x: F.interpolate(x, 2, mode="area"), (1, 1, "n"))
add("interpolate bicubic", lambda x, y: F.interpolate(y, (4, len(x)), mode="bicubic"),
    ("n",), (1, 1, 2, 2))  # fmt: skip
add("interpolate smoothly to less",
    lambda x: F.interpolate(x, (1, 1), mode="bilinear", antialias=True),
    (1, 1, 1, "n"))  # fmt: skip
for _mode in ("reflect", "replicate", "circular"):
    add(f"pad {_mode}", lambda x, m=_mode: F.pad(x, (1, 1), mode=m), (1, 1, "n"))
add("replicate far", lambda x, y: F.pad(y, (len(x), 0), mode="replicate"), ("n",), (1, 1, 2))
add("grid_sample", lambda x, y: F.grid_sample(
        y, edutorch.zeros(1, 1, len(x), 2, dtype=y.dtype), align_corners=True),
    ("n",), (1, 1, 2, 2))  # fmt: skip

# Norms: the gradients of weight and bias are sums over the batch.
add("layer_norm", lambda x, w, b: F.layer_norm(x, (2,), w, b), ("n", 2), (2,), (2,))
add("layer_norm of long rows", lambda x: F.layer_norm(x, (x.shape[1],)), (2, "n"))
add("rms_norm", lambda x, w: F.rms_norm(x, (2,), w), ("n", 2), (2,))
add("group_norm", lambda x, w, b: F.group_norm(x, 1, w, b), (1, 2, "n"), (2,), (2,))
add("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ("n", 2), (2,), (2,))
add("instance_norm", lambda x, w, b: F.instance_norm(x, None, None, w, b),
    (1, 2, "n"), (2,), (2,))  # fmt: skip
add("normalize", lambda x: F.normalize(x, dim=0), ("n", 2))
add("prelu", lambda x, w: F.prelu(-x, w), ("n",), (1,))
add("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, dim=0), ("n",), ("n",))
add("pairwise_distance", lambda x, y: F.pairwise_distance(x, 2 * y), ("n",), ("n",))
add("attention", F.scaled_dot_product_attention, (1, 2, 2), (1, "n", 2), (1, "n", 2))

# Losses: of numbers, of probabilities, of classes, of rows. Each is averaged.
for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss",
              "binary_cross_entropy_with_logits", "soft_margin_loss", "kl_div"):  # fmt: skip
    _function = getattr(F, _name)
    add(_name, lambda x, y, f=_function: f(-x, y), ("n",), ("n",))
for _name in ("mse_loss", "l1_loss", "huber_loss"):
    _function = getattr(F, _name)
    add(f"{_name} with weights", lambda x, y, f=_function: f(-x, y, weight=y),
        ("n",), ("n",))  # fmt: skip
add("kl_div batchmean", lambda x, y: F.kl_div(-x, y, reduction="batchmean"), ("n", 2), ("n", 2))
add("binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x / 2, y / 2), ("n",), ("n",))
add("gaussian_nll_loss", lambda x, y: F.gaussian_nll_loss(-x, y, y), ("n",), ("n",))
add("hinge_embedding_loss", lambda x: F.hinge_embedding_loss(x, edutorch.ones(len(x))), ("n",))
add("margin_ranking_loss", lambda x, y: F.margin_ranking_loss(-x, y, edutorch.ones(len(x))),
    ("n",), ("n",))  # fmt: skip
add("triplet_margin_loss", lambda x, y: F.triplet_margin_loss(x, -y, x * 2), ("n", 2), ("n", 2))
add("triplet_margin_with_distance_loss",
    lambda x, y: F.triplet_margin_with_distance_loss(x, -y, x * 2),
    ("n", 2), ("n", 2))  # fmt: skip
add("cosine_embedding_loss",
    lambda x, y: F.cosine_embedding_loss(x, -y, edutorch.ones(len(x))),
    ("n", 2), ("n", 2))  # fmt: skip
add("cosine_embedding_loss of long rows",
    lambda x, y: F.cosine_embedding_loss(x, -y, edutorch.ones(2)), (2, "n"), (2, "n"))  # fmt: skip
add("nll_loss", lambda x: F.nll_loss(-x, zeros(len(x))), ("n", 2))
add("nll_loss with weights", lambda x, w: F.nll_loss(-x, zeros(len(x)), w.detach()), ("n", 2), (2,))
add("nll_loss of images", lambda x: F.nll_loss(-x, zeros(x.shape[2])[None]), (1, 2, "n"))
add("cross_entropy", lambda x: F.cross_entropy(x, zeros(len(x))), ("n", 2))
add("cross_entropy smoothed",
    lambda x: F.cross_entropy(x, zeros(len(x)), label_smoothing=0.5), ("n", 2))  # fmt: skip
add("cross_entropy weighted and smoothed",
    lambda x, w: F.cross_entropy(x, zeros(len(x)), w.detach(), label_smoothing=0.5),
    ("n", 2), (2,))  # fmt: skip
add("cross_entropy of probabilities", lambda x, y: F.cross_entropy(x, y / 2), ("n", 2), ("n", 2))
add("cross_entropy of many classes", lambda x: F.cross_entropy(x, zeros(2)), (2, "n"))
add("multi_margin_loss", lambda x: F.multi_margin_loss(x, zeros(len(x))), ("n", 2))
add("multi_margin_loss of many classes", lambda x: F.multi_margin_loss(x, zeros(2)), (2, "n"))
add("multilabel_margin_loss",
    lambda x: F.multilabel_margin_loss(x, edutorch.tensor([[0, -1]]).expand(len(x), 2)),
    ("n", 2))  # fmt: skip
add("multilabel_soft_margin_loss", lambda x, y: F.multilabel_soft_margin_loss(x, y / 2),
    ("n", 2), ("n", 2))  # fmt: skip


def results(function: Any, arrays: list[np.ndarray], dtype: Any) -> list[np.ndarray]:
    """Return the result, and the gradients of a weighted sum of it, as float64."""
    tensors = [edutorch.tensor(array).to(dtype).requires_grad_() for array in arrays]
    y = function(*tensors)
    y.backward(edutorch.tensor(near_one(y.shape, 7)).to(edutorch.bfloat16).to(dtype))
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    assert gradients, "no gradient"
    return [y.detach().double().numpy(), *(g.double().numpy() for g in gradients)]


def assert_close(got: np.ndarray, expected: np.ndarray, dtype: Any, where: str) -> None:
    """A few roundings of the largest number are granted; too large for a float16 is infinite."""
    info = edutorch.finfo(dtype)
    expected = np.where(np.abs(expected) > info.max, np.copysign(np.inf, expected), expected)
    finite = expected[np.isfinite(expected)]
    largest = max(np.abs(finite).max(initial=0), info.tiny)
    np.testing.assert_allclose(got, expected, rtol=0, atol=4 * info.eps * largest, err_msg=where)


def compare(name: str, half: str, sizes: Sequence[int]) -> None:
    dtype = getattr(edutorch, half)
    function, inputs = CASES[name]
    for n in sizes:
        rounded = [edutorch.tensor(array).to(dtype).double().numpy() for array in inputs(n)]
        expected = results(function, rounded, edutorch.float64)
        got = results(function, rounded, dtype)
        for number, (mine, right) in enumerate(zip(got, expected, strict=True)):
            what = f"gradient {number}" if number else "result"
            assert_close(mine, right, dtype, f"{what} of {n} numbers")


@tried("name", CASES)
def test_a_sum_of_bfloat16_is_rounded_once(name: str) -> None:
    compare(name, "bfloat16", (300,))


@tried("name", CASES)
def test_a_sum_of_float16_is_rounded_once(name: str) -> None:
    compare(name, "float16", (3_000,))


@pytest.mark.slow
@pytest.mark.parametrize("half", HALVES)
@tried("name", CASES)
def test_sums_of_any_size_are_rounded_once(name: str, half: str) -> None:
    compare(name, half, SIZES)
