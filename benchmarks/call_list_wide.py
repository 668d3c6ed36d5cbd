"""The wider board of `calls.py`: the other public functions that take dense tensors.

As in `call_list.py`. Left out are aliases (`absolute`), in-place forms of what is here, functions
of shapes and dtypes alone, and what has no PyTorch to compare with. `thin` is a matrix of n x 8;
`small` one of at most 64 x 64, for algorithms whose time grows with the cube of it.
"""

from __future__ import annotations

BOTH = {
    "elementwise": """
        torch.acos(inner); torch.acosh(above); torch.asin(inner); torch.asinh(x); torch.atan(x)
        torch.atanh(inner); torch.cosh(x); torch.sinh(x); torch.tan(x); torch.deg2rad(x)
        torch.rad2deg(x); torch.digamma(p); torch.lgamma(p); torch.erfc(x); torch.erfinv(inner)
        torch.exp2(x); torch.expm1(x); torch.log10(p); torch.log2(p); torch.logit(share)
        torch.sinc(x); torch.i0(x); torch.polygamma(1, p); torch.frac(x); torch.reciprocal(p)
        torch.nan_to_num(x); torch.special.ndtr(x); torch.special.log_ndtr(x)
        torch.special.entr(p)
        torch.special.ndtri(share); torch.special.erfcx(x); torch.special.i0e(x)
        torch.special.i1(x); torch.special.i1e(x); torch.special.xlog1py(x, p)
        torch.mvlgamma(above, 2)
        torch.minimum(x, y); torch.fmax(x, y); torch.fmin(x, y); torch.addcdiv(x, y, p)
        torch.logaddexp2(x, y); torch.copysign(x, y); torch.xlogy(x, p); torch.ldexp(x, y)
        torch.add(x, y, alpha=2); torch.sub(x, y, alpha=2); torch.rsub(x, y); torch.pow(2.0, x)
        torch.float_power(p, 2); torch.clamp(x, min=target); torch.lerp(x, y, share)
        torch.where(mask, x, 0.0); 1.0 / p; 1.0 - x; x / 2.0; x % 2.0
    """,
    "activations": """
        F.celu(x); F.hardsigmoid(x); F.hardshrink(x); F.softshrink(x); F.softsign(x)
        F.tanhshrink(x); F.threshold(x, 0.1, 0.0); F.relu6(x); F.mish(x); F.glu(x)
        F.gelu(x, approximate='tanh'); F.softmin(x, 1); F.gumbel_softmax(x); F.rrelu(x)
        torch.log_softmax(x, 0); F.alpha_dropout(x, 0.5, True); F.dropout2d(images, 0.5, True)
    """,
    "reductions": """
        torch.amin(x, 1); torch.aminmax(x, dim=1)[0]; torch.nansum(x); torch.nanmean(x, 1)
        torch.std_mean(x, 1)[0]; torch.var_mean(x, 0)[0]; x.var(0); x.std(); p.prod(); p.prod(0)
        x.norm(1); x.norm(float('inf')); torch.dist(x, y); torch.logsumexp(x, 0); x.amax((0, 1))
        torch.nanmedian(x, 1)[0]; torch.nanquantile(x, 0.5, 1); torch.mode(x[:8], 1)[0]; x.min()
        torch.trace(x); images.mean((2, 3)); images.sum((0, 2, 3)); images.var((0, 2, 3))
    """,
    "along an axis": """
        torch.cummax(x, 1)[0]; torch.cummin(x, 0)[0]; torch.logcumsumexp(x, 1)
        torch.cumprod(p, 0)
        torch.sort(x, 0)[0]; torch.sort(x, 1, descending=True)[0]; torch.topk(x, 5, 0)[0]
        torch.msort(x); torch.diff(x); torch.trapezoid(x); torch.gradient(x)[0]
        torch.renorm(x, 2, 0, 1)
        torch.cumulative_trapezoid(x); torch.softmax(images, 1); torch.cov(thin)
        torch.corrcoef(thin)
    """,
    "indexing": """
        torch.take_along_dim(x, index, 1); torch.take(x, index); x[:, labels]; x[rows, :][:, :4]
        torch.gather(x, 0, index); x[..., None]; x[1:-1, 1:-1]; torch.narrow(x, 1, 0, 4)
        torch.index_copy(x, 0, order, y); torch.index_fill(x, 0, rows, 0.5); x.select(1, 2)
        torch.scatter(x, 1, index, y); torch.scatter_reduce(x, 1, index, y, 'amax')
        torch.index_put(x, (rows, labels), row); torch.select_scatter(x, row, 0, 1)
        torch.slice_scatter(x, y); torch.diagonal_scatter(x, row)
        torch.index_reduce(x, 0, rows, y, 'amax')
        F.embedding_bag(index[:, :8], x); x.masked_fill(mask, 1.0)
    """,
    "joins and shapes": """
        torch.hstack((x, y)); torch.vstack((x, y)); torch.dstack((x, y))
        torch.column_stack((x, y))
        x.unsqueeze(0); x.flatten(); torch.tile(x, (2, 1)); torch.rot90(x); torch.fliplr(x)
        torch.flipud(x); torch.movedim(images, 1, 3); x.swapaxes(0, 1); x.unfold(0, 4, 2)
        torch.broadcast_to(row, (n, n)); torch.meshgrid(row, row, indexing='ij')[0]; x.chunk(2)[0]
        torch.block_diag(x, y); torch.diag(row); torch.diag_embed(row); torch.diag(x)
        x.unbind()[0]
        torch.cartesian_prod(row[:32], row[:32]); torch.combinations(row[:32]); x.view(-1, 2)
        torch.repeat_interleave(x, 2, 0); F.pad(x, (1, 1), value=2.0)
        F.pad(images, (1, 1, 1, 1), mode='reflect'); F.pad(images, (1, 1, 1, 1), mode='replicate')
        F.pad(images, (1, 1, 1, 1), mode='circular'); F.pixel_shuffle(images, 2)
        F.pixel_unshuffle(images, 2); torch.channel_shuffle(images, 2)
        x.as_strided((4, 4), (1, 4))
        F.unfold(images, 3); x.to(torch.float16); x.expand(2, n, n).contiguous()
    """,
    "products": """
        torch.matmul(batch, batch); torch.mv(x, row); row @ x; torch.addmv(row, x, row)
        torch.addr(x, row, row); torch.baddbmm(batch, batch, batch)
        torch.addbmm(batch[0], batch, batch)
        torch.einsum('bij,bjk->bik', batch, batch); torch.einsum('ij,ij->i', x, y)
        torch.einsum('i,j->ij', row, row); torch.tensordot(x, y, 1)
        torch.kron(thin[:8], thin[:8])
        torch.inner(x, row); torch.linalg.cross(thin[:, :3], thin[:, 3:6])
        torch.linalg.vecdot(x, y)
        torch.linalg.multi_dot((thin.t(), x, thin))
        torch.cdist(thin, thin); F.pdist(thin[:64]); F.bilinear(thin, thin, weights); x @ x.t()
        F.linear(x, y); F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        torch.linalg.matrix_power(small, 3); torch.linalg.matrix_exp(small)
    """,
    "linear algebra": """
        torch.linalg.det(small); torch.linalg.slogdet(small)[1]; torch.linalg.qr(small)[0]
        torch.linalg.svdvals(small); torch.linalg.svd(small)[1]; torch.linalg.eigh(small)[0]
        torch.linalg.eigvalsh(small); torch.linalg.pinv(small)
        torch.linalg.lstsq(small, small)[0]
        torch.linalg.lu(small)[2]; torch.linalg.lu_factor(small)[0]; torch.linalg.norm(x)
        torch.linalg.matrix_norm(x); torch.linalg.matrix_norm(small, 2); torch.logdet(small)
        torch.linalg.solve_triangular(system, sides, upper=True); torch.cholesky_inverse(small)
        torch.cholesky_solve(small, small); torch.linalg.cond(small)
        torch.linalg.tensorinv(small, 1)
    """,
    "losses": """
        F.gaussian_nll_loss(x, target, p); F.poisson_nll_loss(x, target)
        F.soft_margin_loss(x, target)
        F.margin_ranking_loss(row, row, row); F.hinge_embedding_loss(x, target)
        F.multi_margin_loss(x, labels); F.multilabel_soft_margin_loss(x, chance)
        F.triplet_margin_loss(x, y, target); F.cosine_embedding_loss(x, y, row)
        F.pairwise_distance(x, y); F.mse_loss(x, target, reduction='none')
        F.cross_entropy(x, labels, label_smoothing=0.1); F.cross_entropy(x, chance)
        F.l1_loss(x, target, reduction='sum'); F.nll_loss(x, labels, reduction='none')
    """,
    "layers": """
        F.instance_norm(images); F.batch_norm(x, zeros, ones, row, row)
        F.local_response_norm(images, 3)
        F.batch_norm(images, None, None, training=True); F.layer_norm(images, images.shape[1:])
        F.conv2d(images, filters, stride=2); F.conv_transpose2d(images, filters.transpose(0, 1))
        F.conv2d(images, filters[:images.shape[1], :1], groups=images.shape[1])
        F.avg_pool1d(signals, 2); F.max_pool1d(signals, 2); F.lp_pool2d(images, 2, 2)
        F.adaptive_max_pool2d(images, 2); F.adaptive_avg_pool1d(signals, 4)
        F.max_pool2d(images, 3, 2)
        F.avg_pool2d(images, 3, 1, 1); F.interpolate(images, scale_factor=2, mode='bicubic')
        F.interpolate(images, scale_factor=0.5, mode='area')
        F.interpolate(signals, scale_factor=2, mode='linear')
        F.affine_grid(turns, (2, 1, 16, 16), False)
        F.grid_sample(images[:2], grid, align_corners=False)
    """,
    "transforms": """
        torch.fft.rfft(x).real; torch.fft.fft(x).real; torch.fft.fft2(x).real
        torch.fft.irfft(torch.fft.rfft(x)); torch.view_as_real(torch.complex(x, y))
    """,
}

FORWARD = {
    "comparisons": """
        x >= y; x < 0.5; torch.isclose(x, y); torch.allclose(x, x); torch.equal(x, x); x != y
        torch.isfinite(x); torch.isinf(x); torch.signbit(x); torch.logical_and(mask, mask); ~mask
        torch.logical_not(mask); mask & mask; mask | mask; torch.logical_xor(mask, mask)
        torch.isin(labels, rows); x.all(); torch.any(mask, 1); torch.heaviside(x, y)
    """,
    "integers": """
        index + index; index * 2; index // 3; index % 7; index & 3; index << 1
        torch.gcd(index, index)
        torch.lcm(index, index); index.sum(); index.max(); index.sum(1); index == 3
        torch.bincount(labels)
        torch.floor_divide(x, p); torch.ceil(x); torch.round(x); torch.trunc(x)
        torch.nextafter(x, y)
    """,
    "positions": """
        x.argmin(0); torch.nonzero(mask); torch.searchsorted(order, labels); torch.unique(labels)
        torch.bucketize(labels, order); torch.count_nonzero(x); torch.histc(x)
        torch.argwhere(mask)
        torch.unique_consecutive(labels); torch.tril_indices(n, n)
        torch.multinomial(share[:8], 4)
        torch.frexp(x)[0]; torch.unravel_index(labels, (n, n))[0]
    """,
    "copies, casts, creation": """
        x.half(); x.bool(); x.long(); mask.float(); x.type(torch.int64); torch.as_tensor(array)
        torch.rand_like(x); torch.randn_like(x); torch.randint(0, 9, (n, n))
        torch.bernoulli(share)
        torch.normal(x, p); torch.poisson(p); torch.empty(n, n); torch.full_like(x, 2.0)
        torch.logspace(0, 1, n); torch.vander(row[:32], 4); torch.hann_window(n); buffer.zero_()
        buffer.mul_(1.0); buffer.fill_(2.0)
        buffer.clamp_(-1, 1); buffer.uniform_(); buffer.normal_(); torch.ones_like(x)
        x.detach(); x.cpu()
    """,
}
