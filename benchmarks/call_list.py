"""The calls that `calls.py` times: everyday ones of training code and notebooks.

An expression is the call, and the name of its row; the same text runs in edutorch and in PyTorch.
Those in `BOTH` are timed forward, and forward with backward; those in `FORWARD` have no derivative.
What x, y, p and the other names are is written in `call_inputs.py`.
"""

from __future__ import annotations

BOTH = {
    "elementwise": """
        x + y; x - y; x * y; x / p; x * 2.0; x + 1.0; -x; x ** 2; p ** 0.5; p ** y
        torch.exp(x); torch.log(p); torch.log1p(p); torch.sqrt(p); torch.rsqrt(p); torch.abs(x)
        torch.sin(x); torch.cos(x); torch.tanh(x); torch.sigmoid(x); torch.erf(x)
        torch.square(x); x.clamp(-1, 1); torch.maximum(x, y)
        torch.where(mask, x, y); torch.lerp(x, y, 0.3)
        torch.addcmul(x, y, p, value=0.5); torch.fmod(x, p); torch.remainder(x, p)
        torch.hypot(x, y); torch.logaddexp(x, y); torch.atan2(x, p); x.masked_fill(mask, 0.0)
    """,
    "broadcasting": """
        x + row; x * column; x - x.mean(1, keepdim=True); row.expand(n, n) * x
        row[:, None] * row[None, :]; x / p.sum(1, keepdim=True)
    """,
    "activations": """
        F.relu(x); F.leaky_relu(x); F.elu(x); F.selu(x); F.gelu(x); F.silu(x)
        F.softplus(x); F.hardswish(x); F.hardtanh(x); F.logsigmoid(x); F.prelu(x, slope)
    """,
    "reductions": """
        x.sum(); x.mean(); x.sum(0); x.sum(1); x.mean(0); x.mean(1); x.var(); x.std(1); x.max()
        x.max(1)[0]; x.amax(0); x.min(0)[0]; p.prod(1); x.norm(); x.norm(dim=1)
        torch.linalg.vector_norm(x, dim=0); torch.logsumexp(x, 1); x.median(); x.median(1)[0]
    """,
    "along an axis": """
        torch.cumsum(x, 1); torch.cumsum(x, 0); torch.cumprod(p, 1); torch.sort(x, 1)[0]
        torch.topk(x, 5)[0]; torch.kthvalue(x, 7)[0]; torch.quantile(x, 0.5, 1)
        torch.flip(x, (1,)); torch.roll(x, 3, 1); torch.tril(x); torch.triu(x); torch.diagonal(x)
        torch.softmax(x, 1); torch.softmax(x, 0); torch.log_softmax(x, 1)
    """,
    "indexing": """
        x[2]; x[:, 1:]; x[::2]; x[rows]; x[mask]; x[rows, labels]; torch.gather(x, 1, index)
        torch.index_select(x, 0, rows); torch.scatter_add(x, 1, index, y)
        torch.scatter(x, 1, index, 0.5); torch.index_add(x, 0, rows, y)
        torch.masked_select(x, mask); torch.masked_scatter(x, mask, y); F.embedding(rows, x)
    """,
    "joins and shapes": """
        torch.cat((x, y)); torch.cat((x, y), 1); torch.stack((x, y)); x.reshape(-1); x.t()
        x.split(n // 2)[0]; x.repeat(1, 2); torch.repeat_interleave(x, 2, 1); F.pad(x, (1, 1))
        images.permute(0, 2, 3, 1).contiguous()
    """,
    "copies and casts": """
        x.clone(); x.t().contiguous(); x.to(torch.bfloat16); x.double()
    """,
    "products": """
        x @ y; x @ row; torch.addmm(row, x, y); F.linear(x, y, row); torch.bmm(batch, batch)
        torch.outer(row, row); torch.dot(row, row); torch.einsum('ij,kj->ik', x, y)
        F.scaled_dot_product_attention(heads, heads, heads)
    """,
    "linear algebra": """
        torch.linalg.solve(system, sides); torch.linalg.cholesky(system); torch.linalg.inv(system)
    """,
    "losses": """
        F.mse_loss(x, target); F.l1_loss(x, target); F.huber_loss(x, target)
        F.smooth_l1_loss(x, target); F.cross_entropy(x, labels); F.nll_loss(x, labels)
        F.binary_cross_entropy(share, chance); F.binary_cross_entropy_with_logits(x, chance)
        F.kl_div(x, chance, reduction='batchmean'); F.cosine_similarity(x, y); F.normalize(x)
    """,
    "layers": """
        F.layer_norm(x, (n,), row, row); F.rms_norm(x, (n,), row)
        F.batch_norm(x, None, None, row, row, training=True)
        F.group_norm(images, 2); F.dropout(x, 0.5); F.conv1d(signals, taps, padding=1)
        F.conv2d(images, filters, padding=1); F.max_pool2d(images, 2); F.avg_pool2d(images, 2)
        F.adaptive_avg_pool2d(images, 1); F.interpolate(images, scale_factor=2)
        F.interpolate(images, scale_factor=2, mode='bilinear')
    """,
}

FORWARD = {
    "comparisons": "x > y; x == 0; torch.sign(x); torch.floor(x); torch.isnan(x)",
    "positions": "x.argmax(1); x.argmax(); torch.argsort(x, 1); F.one_hot(labels, n)",
    "counts": "mask.sum(); torch.any(mask)",
    "copies and casts": "x.int(); index.float(); buffer.copy_(y); buffer.add_(y)",
    "Python and NumPy": """
        x.numpy(); torch.from_numpy(array); scalar.item(); x.tolist(); torch.tensor(numbers)
    """,
    "creation": """
        torch.zeros(n, n); torch.ones(n, n); torch.full((n, n), 0.5); torch.arange(n * n)
        torch.eye(n); torch.linspace(0, 1, n); torch.zeros_like(x)
        torch.rand(n, n); torch.randn(n, n); torch.randperm(n)
    """,
}
