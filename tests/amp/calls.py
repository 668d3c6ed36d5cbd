"""Expressions that call functions with and without an autocast policy, and their tensors.

They are written once and evaluated in both libraries: `t` is the library.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tests.test_functions import split_expressions

LINES = """
t.addmm(s, a, b), t.addbmm(s, c, c.mT), t.baddbmm(s, c, c.mT), t.addmv(s, a, v), t.addr(s, v, v)
t.mv(a, v), t.dot(v, v), t.vdot(v, v), t.ger(v, v), t.outer(v, v), t.inner(v, v), t.inner(a, a)
t.tensordot(a, b, 1), t.chain_matmul(a, b, a), t.linalg.multi_dot([a, b, a])
t.einsum("ij,jk->ik", a, b), t.einsum("ij->i", a), t.einsum("ij,ij->ij", a, a)
t.einsum("i,i->", v, v), t.einsum("ii->i", q), t.einsum("ij,jk,kl->il", a, b, a)
t.einsum("i,j->ij", v, v), t.einsum("ij,ij->i", a, a), t.einsum("ij->ji", a)
t.einsum("bij,bjk->bik", c, c.mT), t.einsum("...i,i->...", a, v), t.einsum("ij,->ij", a, v[0])
a @ b, a.matmul(b), q.matrix_power(2), t.matrix_exp(q), t.linalg.matrix_power(q, 3)
t.linalg.vecdot(a, a), t.kron(a, b), t.cov(a), t.corrcoef(a), t.cross(a, a, dim=1)
t.linalg.cross(a, a), t.cdist(a, a), t.cdist(a, a, p=1.0), F.pdist(a), t.dist(a, a * 2)
t.renorm(a, 2, 0, 1.0), t.trace(q), t.norm(a), a.norm(dim=1), t.linalg.norm(a)
t.linalg.vector_norm(a), t.linalg.matrix_norm(a), t.nuclear_norm(q), t.frobenius_norm(a, (0, 1))
t.norm(a, p=1), t.linalg.matrix_norm(a, "nuc"), t.linalg.norm(a, 1), F.normalize(a)
t.quantile(a, 0.5), t.nanquantile(a, 0.5), a.quantile(0.5, 1), t.median(a), t.std(a), t.var(a)
t.var_mean(a), t.mean(a), t.sum(a), a.sum(1), t.nansum(a), t.nanmean(a), t.prod(a), a.prod(1)
t.cumsum(a, 0), t.cumprod(a, 0), t.logcumsumexp(a, 0), t.logsumexp(a, 1), t.softmax(a, 1)
t.log_softmax(a, 1), F.softmax(a, 1), F.log_softmax(a, 1), F.softmin(a, 1), a.softmax(1)
t.sum(a, dtype=t.float64), F.softmax(a, 1, dtype=t.float64), t.cumsum(a, 0, dtype=t.float64)
F.gumbel_softmax(a), t.exp(a), a.exp(), t.log(p), t.log1p(p), t.log2(p), t.log10(p), t.expm1(a)
t.pow(p, 2), p ** 2, 2 ** a, p ** p, 2 / p, 1.0 / p, p / 2, t.reciprocal(p), t.rsqrt(p), t.sqrt(p)
t.acos(a * 0.1), t.asin(a * 0.1), t.atan(a), t.cosh(a), t.sinh(a), t.tan(a), t.tanh(a)
t.sigmoid(a), t.erfinv(a * 0.1), t.erf(a), F.softplus(a), F.gelu(a), F.silu(a), F.mish(a)
F.elu(a), F.selu(a), F.celu(a), F.logsigmoid(a), F.hardswish(a), F.leaky_relu(a), F.tanhshrink(a)
F.softsign(a), F.glu(a[:, :2]), t.square(a), t.atan2(a, a), t.addcmul(a, a, a), t.addcdiv(a, a, p)
t.logaddexp(a, a), t.xlogy(a, p), t.logit(p), t.special.expit(a), t.special.log_softmax(a, 1)
t.special.softmax(a, 1), t.special.expm1(a), t.special.entr(p), t.special.xlog1py(p, p)
t.lerp(a, a, 0.5), t.hypot(a, a), t.sinc(a), t.float_power(p, 2), F.linear(a, a)
F.linear(a, a, v[:2]), F.bilinear(a, a, w3), F.prelu(a, s), t.prelu(a, s), F.conv1d(c, c)
F.conv2d(x, x), F.conv3d(y3, y3), F.conv_transpose1d(c, d)
F.conv_transpose2d(x, x.transpose(0, 1)), F.conv_transpose3d(y3, y3.transpose(0, 1))
t.conv1d(c, c), t.conv2d(x, x), t.conv_tbc(c, d[:1], v), F.conv2d(x, x, padding="same")
F.conv1d(c, c, padding="same")
t.convolution(x, x, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1), F.layer_norm(a, (3,))
t.layer_norm(a, (3,)), F.group_norm(x, 1), t.group_norm(x, 1), F.rms_norm(a, (3,))
t.rms_norm(a, (3,)), F.rms_norm(a, (3,), v), F.batch_norm(x, None, None, training=True)
F.instance_norm(x), t.native_layer_norm(a, (3,), None, None, 1e-5), F.local_response_norm(c, 2)
F.local_response_norm(x, 2), F.local_response_norm(x[0], 2), F.local_response_norm(y3, 2)
F.layer_norm(a, (3,), v, v), F.batch_norm(x, v[:2] * 1, p[0, :2] * 1, v[:2], v[:2])
F.mse_loss(a, a), F.l1_loss(a, a), F.smooth_l1_loss(a, a), F.huber_loss(a, a), F.kl_div(a, p)
F.nll_loss(a, k), F.cross_entropy(a, k), F.cross_entropy(a, p)
F.cross_entropy(a, k, label_smoothing=0.1), F.poisson_nll_loss(a, p), F.gaussian_nll_loss(a, a, p)
F.binary_cross_entropy(p, p), F.binary_cross_entropy_with_logits(a, p)
F.cosine_embedding_loss(a, a, k * 2 - 1), F.hinge_embedding_loss(a, k[0] * 2 - 1)
F.margin_ranking_loss(v, v, kv), F.soft_margin_loss(a, a), F.multi_margin_loss(a, k)
F.multilabel_margin_loss(a, k[:, None].expand(2, 3) * 1), F.multilabel_soft_margin_loss(a, p)
F.triplet_margin_loss(a, a, a), F.triplet_margin_with_distance_loss(a, a, a)
F.cosine_similarity(a, a), F.pairwise_distance(a, a), F.nll_loss(x, kk), F.cross_entropy(x, kk)
F.mse_loss(a, a.float()), F.l1_loss(a, a.float())
F.ctc_loss(a.reshape(2, 1, 3).log_softmax(2), k[:1, None], k[:1] * 0 + 2, k[:1] * 0 + 1)
t.cosine_similarity(a, a), t.binary_cross_entropy_with_logits(a, p), t.kl_div(a, p)
t.poisson_nll_loss(a, p, True, False, 1e-8, 1), t.cosine_embedding_loss(a, a, k * 2 - 1)
t.margin_ranking_loss(v, v, kv), t.triplet_margin_loss(a, a, a)
t.hinge_embedding_loss(a, k[0] * 2 - 1), F.avg_pool1d(c, 2), F.avg_pool2d(x, 2)
F.avg_pool3d(y3, 2), F.max_pool1d(c, 2), F.max_pool2d(x, 2), F.max_pool3d(y3, 2)
F.max_pool3d(y3, 2, return_indices=True), F.max_pool3d(y3, 2, 2, 0, 1, False, True)
F.max_pool3d(y3, 2, 2, 0, 1, True, False), F.adaptive_avg_pool1d(c, 2), F.adaptive_avg_pool2d(x, 2)
F.adaptive_avg_pool3d(y3, 2), F.adaptive_max_pool2d(x, 2), F.adaptive_max_pool3d(y3, 2)
F.lp_pool1d(c, 2, 2), F.lp_pool2d(x, 2, 2), F.fractional_max_pool2d(x, 2, output_size=1)
F.fractional_max_pool3d(y3, 2, output_size=1)
F.max_unpool1d(F.max_pool1d(c, 2).to(c.dtype), kk1, 2), F.max_unpool2d(x2, kk2, 2)
F.max_unpool3d(x3, kk3, 2), F.pad(c, (1, 1)), F.pad(c, (1, 1), mode="reflect")
F.pad(x, (1, 1, 1, 1), mode="reflect"), F.pad(y3, (1, 1, 1, 1, 1, 1), mode="reflect")
F.pad(c, (1, 1), mode="replicate"), F.pad(x, (1, 1, 1, 1), mode="replicate")
F.pad(y3, (1, 1, 1, 1, 1, 1), mode="replicate"), F.pad(x, (1, 1, 1, 1), mode="circular")
F.grid_sample(x, g), t.grid_sampler(x, g, 0, 0, False), F.affine_grid(th, (1, 2, 2, 2))
F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=2, mode="bilinear")
F.interpolate(x, scale_factor=2, mode="bicubic"), F.interpolate(c, scale_factor=2, mode="linear")
F.interpolate(c, scale_factor=2), F.interpolate(y3, scale_factor=2, mode="trilinear")
F.interpolate(y3, scale_factor=2), F.interpolate(x, scale_factor=2, mode="nearest-exact")
F.interpolate(x, scale_factor=2, mode="area")
F.interpolate(x, scale_factor=2, mode="bilinear", antialias=True)
F.interpolate(x, scale_factor=2, mode="bicubic", antialias=True), F.pixel_shuffle(x4, 2)
F.fold(fo, (2, 2), 2), F.unfold(x, 2), F.embedding(k, a), F.embedding_bag(k[None], a)
F.one_hot(k), F.scaled_dot_product_attention(x, x, x)
F.scaled_dot_product_attention(x, x, x, is_causal=True), F.dropout(a, 0.5)
F.threshold(a, 0.1, 0.0), t.cat([a, a]), t.cat([a, a.float()]), t.stack([a, a.float()])
t.hstack([a, a.float()]), t.vstack([a, a.float()]), t.column_stack([a, a.float()])
t.dstack([a, a.float()]), t.concat([a, a.float()]), t.where(a > 0, a, a.float()), a + a.float()
t.addcmul(a, a.float(), a), t.atan2(a, a.float()), t.block_diag(a, a.float())
t.index_copy(a, 0, k[:1], a[:1].float()), t.scatter_add(a, 0, k[None, :1], a)
t.index_put(a, (k,), a), t.index_add(a, 0, k, a), t.scatter_add(a, 0, k[None, :1], a.float())
a.clone().scatter_add_(0, k[None, :1], a), a.clone().index_copy_(0, k[:1], a[:1])
a.clone().addmm_(a, q3), a.clone().exp_(), a.clone().add_(a.float()), a.clone().pow_(2)
a.clone().cumsum_(0), t.linalg.inv(q), t.inverse(q), t.linalg.solve(q, q), t.linalg.det(q)
t.det(q), t.logdet(q), t.linalg.slogdet(q), t.linalg.cholesky(q), t.cholesky(q)
t.linalg.cholesky_ex(q), t.cholesky_solve(q, q), t.cholesky_inverse(q), t.linalg.qr(q), t.qr(q)
t.linalg.svd(q), t.svd(q), t.linalg.svdvals(q), t.linalg.eig(q), t.linalg.eigvals(q)
t.linalg.eigh(q), t.linalg.eigvalsh(q), t.linalg.lstsq(q, q), t.linalg.pinv(q), t.pinverse(q)
t.linalg.cond(q), t.linalg.matrix_rank(q), t.linalg.inv_ex(q), t.linalg.lu(q)
t.linalg.lu_factor(q), t.triangular_solve(q, q), t.linalg.solve_triangular(q, q, upper=False)
t.geqrf(q), t.orgqr(q, q[0]), t.ormqr(q, q[0], q), t.linalg.householder_product(q, q[0])
t.linalg.tensorinv(q, ind=1), t.linalg.tensorsolve(q, q[0]), t.lu_solve(q, q, k32)
t.linalg.matrix_exp(q), t.logdet(q), t.linalg.vander(v), t.vander(v), t.linalg.ldl_factor(q)
t.fft.fft(v), t.fft.rfft(v), t.fft.ifft(v), t.fft.irfft(t.fft.rfft(v.float())), t.fft.fft2(a)
t.fft.fftn(a), t.fft.hfft(v.float() + 0j), t.fft.ihfft(v)
t.stft(v12, 4, return_complex=True, window=t.ones(4)), t.polar(v, v)
t.view_as_complex(a[:, :2] * 1), t.fft.fftshift(v), t.fft.hfftn(v.float() + 0j), t.fft.ihfft2(a)
t.lstm_cell(a, (a, a), w12, w12, v12, v12), t.gru_cell(a, a, w9, w9, v9, v9)
t.rnn_tanh_cell(a, a, q3, q3, v, v), t.rnn_relu_cell(a, a, q3, q3, v, v)
t.lstm(c, (h0, h0), [w12, w12, v12, v12], True, 1, 0.0, False, False, True)
t.gru(c, h0, [w9, w9, v9, v9], True, 1, 0.0, False, False, True)
t.rnn_tanh(c, h0, [q3, q3, v, v], True, 1, 0.0, False, False, True)
t.trapezoid(v), t.diff(v), t.gradient(v), t.cumulative_trapezoid(v), t.histc(v, 3)
t.bincount(kv, weights=v), t.aminmax(a), t.std_mean(a), t.special.gammaln(p)
t.special.logsumexp(a, 1), t.special.erfcx(a), t.clamp(a, 0, 1), t.nan_to_num(a), t.angle(a)
t.logspace(0, 1, 2), t.bernoulli(p), t.normal(a, p), t.multinomial(p, 1), t.meshgrid(v, v)
t.combinations(v), t.cartesian_prod(v, v), t.repeat_interleave(a, 2), t.roll(a, 1)
t.addmm(s, a.float(), b), t.result_type(a, a)
"""

VALUES: dict[str, tuple[int, ...]] = {
    "a": (2, 3), "b": (3, 2), "c": (2, 3, 3), "d": (3, 3, 3), "s": (), "v": (3,), "w3": (2, 3, 3),
    "x": (1, 2, 4, 4), "y3": (1, 2, 4, 4, 4), "x2": (1, 2, 1, 1), "x3": (1, 2, 1, 1, 1),
    "g": (1, 2, 2, 2), "th": (1, 2, 3), "x4": (1, 4, 2, 2), "fo": (1, 4, 1), "q3": (3, 3),
    "w12": (12, 3), "h0": (1, 2, 3), "w9": (9, 3), "v12": (12,), "v9": (9,),
}  # fmt: skip
INTEGERS: dict[str, Any] = {
    "k": [0, 1], "kk": [[[0, 1, 1, 0]] * 4], "kk1": [[[0]] * 3] * 2, "kk2": [[[[0]]] * 2],
    "kk3": [[[[[0]]]] * 2], "kv": [1, 1, 1],
}  # fmt: skip


@cache
def tensors(t: Any, dtype: str) -> dict[str, Any]:
    """Return the tensors used in the expressions: floating ones of a dtype, and integers."""
    random, tensor_dtype = np.random.default_rng(0), getattr(t, dtype)
    made = {
        name: t.tensor(random.normal(size=shape).tolist(), dtype=tensor_dtype)
        for name, shape in VALUES.items()
    }
    made |= {name: t.tensor(value) for name, value in INTEGERS.items()}
    made["q"] = t.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]], dtype=tensor_dtype)
    made["p"] = t.tensor([[0.2, 0.3, 0.5], [0.1, 0.7, 0.2]], dtype=tensor_dtype)
    made["k32"] = t.tensor([1, 2, 3], dtype=t.int32)
    return {"t": t, "F": t.nn.functional, **made}


EXPRESSIONS = [
    split_expression
    for line in LINES.strip().splitlines()
    for split_expression in split_expressions(line)
]


def types_of(result: Any) -> list[str]:
    """Return the names of the dtypes in a result, in order."""
    if hasattr(result, "dtype"):
        return [str(result.dtype).removeprefix("torch.")]
    if isinstance(result, tuple | list):
        return [name for item in result for name in types_of(item)]
    return []
