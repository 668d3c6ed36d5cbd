"""Calls that `test_vmap_calls.py` maps over a batch, by the shapes of one example's arguments.

Each line is an expression in x, y, z; `t` is the library (edutorch or PyTorch), `F` its
`nn.functional`. In the names of arguments: numbers from 0.1 to 0.9 (`p`), any numbers (`r`),
integers below 4 (`i`), a permutation of 0 … 3 (`q`), a positive definite matrix (`s`). In
front of the shape: `-` means that all examples share the argument.
"""

from __future__ import annotations

# fmt: off
GROUPS: dict[str, str] = {}

GROUPS["p(3,4)"] = """
t.abs(x)  t.exp(x)  t.log(x)  t.sqrt(x)  t.rsqrt(x)  t.sin(x)  t.cos(x)  t.tan(x)  t.asin(x)
t.atan(x)  t.sinh(x)  t.tanh(x)  t.atanh(x)  t.sigmoid(x)  t.relu(x-0.5)  t.neg(x)  t.square(x)
t.reciprocal(x)  t.floor(x*5)  t.round(x*5)  t.sign(x-0.5)  t.expm1(x)  t.log1p(x)  t.erf(x)
t.lgamma(x)  t.digamma(x)  t.isnan(x)  t.sinc(x)  t.clamp(x,0.3,0.6)  t.nan_to_num(x)  2-x  1/x
2**x  x**2  F.gelu(x)  F.silu(x)  F.elu(x)  F.leaky_relu(x-0.5)  F.softplus(x)  F.hardtanh(x)
F.mish(x)  F.logsigmoid(x)
"""

GROUPS["p(3,4) p(4)"] = GROUPS["p(3,4) -p(4)"] = """
t.add(x,y)  t.sub(x,y)  t.mul(x,y)  t.div(x,y)  t.maximum(x,y)  t.atan2(x,y)  t.fmod(x,y)
t.hypot(x,y)  t.pow(x,y)  t.logaddexp(x,y)  t.eq(x,y)  t.lt(x,y)  t.where(x>y,x,y)
t.where(x>0.5,x,0.0)  t.lerp(x,y,0.3)  t.addcmul(x,x,y,value=2)  x.masked_fill(x>y,1.5)
t.outer(x[:,0],y)  x@y  t.mv(x,y)  t.cat([x,y[None]])  t.isclose(x,y)  t.copysign(x,-y)
x.clone().add_(y)  x.clone().copy_(y)  t.remainder(x,y)  t.cdist(x,y[None])  F.mse_loss(x[0],y)
F.smooth_l1_loss(x[0],y)  F.binary_cross_entropy(x[0],y)  F.kl_div(x[0],y,reduction="sum")
F.cosine_similarity(x,y,dim=-1)  F.layer_norm(x,(4,),y,y)
F.binary_cross_entropy_with_logits(x[0],y)
"""

GROUPS["r(3,4)"] = """
x.sum()  x.sum(0)  x.sum(-1,keepdim=True)  x.sum((0,1))  x.mean()  x.mean(1)  x.prod()  x.prod(0)
x.amax(1)  x.amin((0,1))  x.std(0)  x.var()  x.logsumexp(1)  (x>0).all(0)  (x>0).any()
t.count_nonzero(x,0)  t.norm(x)  t.norm(x,dim=1)  x.argmax(0)  x.argmin()  x.median(0).values
t.nansum(x)  x.cumsum(0)  x.cumsum(-1)  x.cumprod(1)  x.logcumsumexp(0)  x.cummax(0)
t.quantile(x,0.4,dim=0)  t.diff(x,dim=0)  t.cov(x)  t.trapezoid(x)  t.sort(x,dim=0)
t.sort(x,descending=True)  t.argsort(x)  t.topk(x,2)  t.max(x,0)  t.min(x,1,keepdim=True)
t.kthvalue(x,2)  x.reshape(4,3)  x.reshape(-1)  x.view(2,-1)  x.permute(1,0)  x.transpose(0,1)  x.T
x.unsqueeze(0)  x.unsqueeze(-1)  x.unsqueeze(1).squeeze()  x.expand(2,-1,-1)  x.flip(0)
x.flip((0,1))  x.roll(1,0)  x.roll(2)  x.repeat(2,1)  t.tile(x,(2,))
t.repeat_interleave(x,2,dim=1)  x.movedim(0,1)  x.flatten()  x.chunk(2,1)  x.split(2,0)
x.unbind(0)  t.cat([x,x*2],1)  t.stack([x,x+1],-1)  t.hstack([x,x])  x.narrow(1,1,2)  x.select(0,1)
x.diagonal()  t.diag_embed(x)  t.tril(x)  t.triu(x,1)  t.rot90(x)  x.unfold(1,2,1)
t.meshgrid(x[0],x[1],indexing="ij")  x.T.contiguous()  x.clone()  t.broadcast_tensors(x,x[0])  x[0]
x[-1]  x[1:]  x[:,::2]  x[None]  x[...,0]  x[...,None]  x[[0,2]]  x[:,[0,2,1]]  x[[0,2],[1,3]]
x[1,[0,2]]  x[1:,[0,2]]  x.reshape(3,2,2)[[0,1],:,[0,1]]  x[t.tensor([True,False,True])]
put(x,0,1.0)  put(x,(slice(None),1),x[:,0]*2)  put(x,[0,2],x[:2])  t.softmax(x,0)
t.log_softmax(x,-1)  F.normalize(x,dim=0)  F.glu(x)  F.pad(x,(1,2))  F.pad(x,(1,2),mode="reflect")
F.rms_norm(x,(4,))  t.einsum("ij->ji",x)  t.einsum("ij,kj",x,x)  t.fft.rfft(x).abs()
t.fft.fft2(x).real  t.fft.irfft(t.fft.rfft(x))  t.fft.fftshift(x)  t.linalg.svdvals(x)
t.linalg.qr(x.T)[1].abs()  t.linalg.pinv(x)  t.linalg.vector_norm(x,dim=1)  t.linalg.matrix_norm(x)
t.zeros_like(x)+x  x.new_zeros(2)+x[0,0]  t.full_like(x,2.0)*x  t.arange(4)*x  (x*3).long()
x.to(t.float32)  x.clone().mul_(2)  t.complex(x,x).abs()  t.ones(2,dtype=t.float64)  t.kron(x,x)
t.trace(x)  t.linalg.cross(x[:,:3],x[:,1:])  F.unfold(x[None,None],2)
"""

GROUPS["r(3,4) r(4,2)"] = GROUPS["r(3,4) -r(4,2)"] = GROUPS["-r(3,4) r(4,2)"] = """
x@y  t.mm(x,y)  t.tensordot(x,y,1)  t.einsum("ij,jk->ik",x,y)  t.einsum("ij,jk->ki",x,y)
t.einsum("...j,jk->...k",x,y)  x[0]@y  x@y[:,0]  x[0]@y[:,0]  x[None]@y  x[:,None,:]@y
t.bmm(x[None],y[None])  F.linear(x,y.T)  F.linear(x[0],y.T,y[0])  t.addmm(x[:,:2],x,y)
t.inner(x,y.T)  t.linalg.solve(x[:,:3]+3*t.eye(3),y[:3])
F.scaled_dot_product_attention(x[:,:2],y,y)
"""

GROUPS["r(4,3) i(2,3)"] = GROUPS["-r(4,3) i(2,3)"] = """
x.gather(0,y)  x.scatter_add(0,y,x[:2])  x[y]  x[y[0]]  x[y[0],:2]  x[y%3,y%3]  x[:,y%3]
x[y[0]%2,:,None]  x[y[0,0]]  x.reshape(4,3,1)[:,y%3,y*0]  x.reshape(4,1,3)[y,:,y%3]
x.index_select(0,y[0])  x.index_add(0,y[0],x[:3])  t.take(x,y)  t.take_along_dim(x,y,0)
x.index_fill(0,y[0],2.0)  x[:,0].index_put((y[0],),x[0],accumulate=True)  F.embedding(y,x)
F.one_hot(y,4)  F.cross_entropy(x[:2,:3],y[:,0]%3)  F.cross_entropy(x[:,0],y[0,0])
F.nll_loss(x[:3],y[0]%3,reduction="none")  F.cross_entropy(x[:3],y[0]%3,weight=x[0].exp())
F.cross_entropy(x[:3],y[0]%3,label_smoothing=0.1)  y&1  y<<1  y//2  y.float()
"""

GROUPS["r(4,3) q(4)"] = """
put(x,y[:2],0.5)  put(x,y[:2],x[1:3])  x.scatter(0,y[:,None],x[:,:1])  x.index_copy(0,y[:2],x[:2])
"""

GROUPS["s(3,3) r(3,2)"] = GROUPS["-s(3,3) r(3,2)"] = """
t.linalg.inv(x)+y[0,0]  t.linalg.det(x)*y  t.linalg.slogdet(x)[1]*y  t.linalg.cholesky(x)@y
t.linalg.solve(x,y)  t.linalg.solve(x,y[:,0])  t.linalg.eigh(x)[0]*y[:,0]
t.linalg.matrix_power(x,3)@y  t.linalg.matrix_exp(x/9)@y
t.linalg.solve_triangular(t.tril(x),y,upper=False)  t.linalg.lstsq(x,y)[0]
"""

GROUPS["r(2,4,6,6) r(4,2,3,3)"] = """
F.conv2d(x,y,groups=2)  F.conv2d(x[:,:2],y,padding=1)  F.conv2d(x[:,:2],y,y[:,0,0,0],stride=2)
F.conv_transpose2d(x,y)  F.conv1d(x[:,:2,0],y[...,0])  F.max_pool2d(x,2)*y[0,0,0,0]
F.avg_pool2d(x,2)*y[0,0,0,0]  F.adaptive_avg_pool2d(x,2)*y[0,0,0,0]  F.group_norm(x,2)*y[0,0,0,0]
F.batch_norm(x,None,None,training=True)*y[0,0,0,0]  F.instance_norm(x)*y[0,0,0,0]
F.interpolate(x,scale_factor=2)*y[0,0,0,0]
F.interpolate(x,scale_factor=2,mode="bilinear")*y[0,0,0,0]  F.pixel_shuffle(x,2)*y[0,0,0,0]
"""
GROUPS["r(2,4,6,6) -r(4,2,3,3)"] = GROUPS["r(2,4,6,6) r(4,2,3,3)"]
GROUPS["-r(2,4,6,6) r(4,2,3,3)"] = GROUPS["r(2,4,6,6) r(4,2,3,3)"]
# fmt: on

CALLS = [
    (arguments, text)
    for arguments, lines in GROUPS.items()
    for line in lines.strip().splitlines()
    for text in line.split("  ")
    if text.strip()
]
