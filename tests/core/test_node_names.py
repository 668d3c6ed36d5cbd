"""`grad_fn.name()`: PyTorch's name of the node, for the functions that students call."""

import re

import pytest

import edutorch
from edutorch.core.op import NODE_NAME
from edutorch.core.registry import REGISTRY
from edutorch.profiler import profile

# Each call, with x (3, 4) that requires grad and y (3, 4) that does not.
NAMES = {
    "x.clamp(0,1)": "ClampBackward1",
    "x.clamp(min=0)": "ClampBackward1",
    "x.clamp(max=1)": "ClampBackward1",
    "x.clamp(y,y)": "ClampBackward0",
    "x.clamp(0)": "ClampBackward1",
    "x.clamp_min(0)": "ClampMinBackward0",
    "x.clamp_min(y)": "ClampMinBackward1",
    "x.clamp_max(1)": "ClampMaxBackward0",
    "torch.div(x,2,rounding_mode='floor')": "DivBackward2",
    "torch.div(x,y,rounding_mode='floor')": "DivBackward2",
    "x/2": "DivBackward0",
    "x/y": "DivBackward0",
    "x%2": "RemainderBackward0",
    "x%y": "RemainderBackward1",
    "torch.fmod(x,2)": "FmodBackward0",
    "torch.fmod(x,y)": "FmodBackward1",
    "2-x": "RsubBackward1",
    "torch.rsub(x,2)": "RsubBackward1",
    "torch.rsub(x,y)": "RsubBackward0",
    "x**2": "PowBackward0",
    "x**y": "PowBackward1",
    "2**x": "PowBackward2",
    "torch.lerp(x,y,0.5)": "LerpBackward0",
    "torch.lerp(x,y,y)": "LerpBackward1",
    "x.masked_fill(y>1,0.)": "MaskedFillBackward0",
    "x.masked_fill(y>1,torch.tensor(0.))": "MaskedFillBackward1",
    "x.index_fill(0,torch.tensor([0]),1.)": "IndexFillBackward0",
    "x.index_fill(0,torch.tensor([0]),torch.tensor(1.))": "IndexFillBackward1",
    "x.scatter(0,torch.zeros(1,4,dtype=torch.int64),y)": "ScatterBackward0",
    "x.scatter(0,torch.zeros(1,4,dtype=torch.int64),1.)": "ScatterBackward1",
    "x.round()": "RoundBackward0",
    "x.round(decimals=2)": "RoundBackward1",
    "torch.copysign(x,y)": "CopysignBackward0",
    "torch.copysign(x,1.)": "CopysignBackward1",
    "x.max()": "MaxBackward1",
    "x.max(0)": "MaxBackward0",
    "torch.max(x,y)": "MaximumBackward0",
    "torch.maximum(x,y)": "MaximumBackward0",
    "x.median()": "MedianBackward0",
    "x.median(0)": "MedianBackward1",
    "x.nanmedian()": "NanmedianBackward0",
    "x.nanmedian(0)": "NanmedianBackward1",
    "x.mean()": "MeanBackward0",
    "x.mean(0)": "MeanBackward1",
    "x.sum()": "SumBackward0",
    "x.sum(0)": "SumBackward1",
    "x.sum((0,1))": "SumBackward1",
    "x.prod()": "ProdBackward0",
    "x.prod(0)": "ProdBackward1",
    "x.squeeze()": "SqueezeBackward0",
    "x.squeeze(0)": "SqueezeBackward1",
    "x.squeeze((0,1))": "SqueezeBackward2",
    "x.sort()": "SortBackward0",
    "x.topk(2)": "TopkBackward0",
    "x.kthvalue(1)": "KthvalueBackward0",
    "x.std()": "StdBackward0",
    "x.var()": "VarBackward0",
    "x.var(0)": "VarBackward0",
    "x[0]": "SelectBackward0",
    "x[:,1]": "SelectBackward0",
    "x[0,1]": "SelectBackward0",
    "x[torch.tensor([0])]": "IndexBackward0",
    "x[None]": "UnsqueezeBackward0",
    "x[1:]": "SliceBackward0",
    "x[y>1]": "IndexBackward0",
    "x.t()": "TBackward0",
    "x.T": "PermuteBackward0",
    "x.view(-1)": "ViewBackward0",
    "x.reshape(-1)": "ViewBackward0",
    "x.flatten()": "ViewBackward0",
    "x.unfold(0,2,1)": "UnfoldBackward0",
    "x.expand(2,3,4)": "ExpandBackward0",
    "x.norm()": "LinalgVectorNormBackward0",
    "x.norm(dim=0)": "LinalgVectorNormBackward0",
    "x.norm(3)": "LinalgVectorNormBackward0",
    "torch.linalg.vector_norm(x)": "LinalgVectorNormBackward0",
    "torch.linalg.matrix_norm(x)": "LinalgVectorNormBackward0",
    "x@y.t()": "MmBackward0",
    "x@y[0]": "MvBackward0",
    "x[0]@y[0]": "DotBackward0",
    "torch.mm(x,y.t())": "MmBackward0",
    "torch.bmm(x[None],y.t()[None])": "BmmBackward0",
    "x.abs()": "AbsBackward0",
    "torch.where(y>1,x,y)": "WhereBackward0",
    "x.softmax(0)": "SoftmaxBackward0",
    "x.log_softmax(0)": "LogSoftmaxBackward0",
    "x.to(torch.float64)": "ToCopyBackward0",
    "x.double()": "ToCopyBackward0",
    "x.clone()": "CloneBackward0",
    "x.split(2)": "SplitBackward0",
    "x.chunk(2)": "SplitBackward0",
    "x.unbind()": "UnbindBackward0",
    "x.logsumexp(0)": "LogsumexpBackward0",
    "x.cumsum(0)": "CumsumBackward0",
    "x.repeat(2,1)": "RepeatBackward0",
    "x.permute(1,0)": "PermuteBackward0",
    "x.movedim(0,1)": "PermuteBackward0",
    "x.transpose(0,1)": "TransposeBackward0",
    "x.swapaxes(0,1)": "TransposeBackward0",
    "x.square()": "PowBackward0",
    "F.gelu(x)": "GeluBackward0",
    "F.selu(x)": "EluBackward0",
    "F.celu(x)": "CeluBackward0",
    "F.elu(x)": "EluBackward0",
    "F.relu6(x)": "HardtanhBackward0",
    "F.hardtanh(x)": "HardtanhBackward0",
    "F.glu(x)": "GluBackward0",
    "F.silu(x)": "SiluBackward0",
    "F.mish(x)": "MishBackward0",
    "F.hardswish(x)": "HardswishBackward0",
    "F.hardsigmoid(x)": "HardsigmoidBackward0",
    "F.logsigmoid(x)": "LogSigmoidBackward0",
    "F.prelu(x,torch.ones(1))": "PreluKernelBackward0",
    "F.mse_loss(x,y)": "MseLossBackward0",
    "F.smooth_l1_loss(x,y)": "SmoothL1LossBackward0",
    "F.huber_loss(x,y)": "HuberLossBackward0",
    "F.nll_loss(x,torch.tensor([0,1,2]))": "NllLossBackward0",
    "F.embedding(torch.tensor([0]),x)": "EmbeddingBackward0",
    "F.layer_norm(x,(4,))": "NativeLayerNormBackward0",
    "F.group_norm(x[None],1)": "NativeGroupNormBackward0",
    "F.dropout(x)": "MulBackward0",
    "torch.frexp(x)": "FrexpBackward0",
    "torch.linalg.svd(x)": "LinalgSvdBackward0",
    "torch.linalg.qr(x)": "LinalgQrBackward0",
    "torch.linalg.pinv(x)": "LinalgPinvBackward0",
    "torch.cummax(x,0)": "CummaxBackward0",
    "x.mode(0)": "ModeBackward0",
    "torch.var_mean(x)": "VarMeanBackward0",
    "x.index_select(0,torch.tensor([0]))": "IndexSelectBackward0",
    "x.gather(0,torch.zeros(1,4,dtype=torch.int64))": "GatherBackward0",
    "x.diag()": "DiagonalBackward0_copy",
    "torch.diagonal(x)": "DiagonalBackward0",
    "x.narrow(0,0,1)": "SliceBackward0",
    "x.select(0,1)": "SelectBackward0",
    "torch.stack([x,x])": "StackBackward0",
    "torch.cat([x,x])": "CatBackward0",
    "x.T.contiguous()": "CloneBackward0",
    "torch.dot(x[0],y[0])": "DotBackward0",
    "x.amax()": "AmaxBackward0",
    "x.amin(0)": "AminBackward0",
    "torch.aminmax(x)": "AminmaxBackward0",
    "torch.slogdet(torch.eye(3)+0*x[:, :3])": "LinalgSlogdetBackward0",
    "torch.linalg.det(torch.eye(3)+x[:, :3])": "LinalgDetBackward0",
    "x.relu()": "ReluBackward0",
    "x.sigmoid()": "SigmoidBackward0",
    "torch.sqrt(x)": "SqrtBackward0",
    "x.rsqrt()": "RsqrtBackward0",
    "F.pad(x,(1,1))": "ConstantPadNdBackward0",
    "F.pixel_shuffle(torch.rand(1,4,2,2,requires_grad=True),2)": "PixelShuffleBackward0",
    "F.unfold(torch.rand(1,1,4,4,requires_grad=True),2)": "Im2ColBackward0",
    "F.fold(torch.rand(1,4,9,requires_grad=True),(4,4),2)": "Col2ImBackward0",
    "x[:]": "SliceBackward0",
    "x[...]": "AliasBackward0",
    "x[:, None]": "UnsqueezeBackward0",
    "x[None, 0]": "SelectBackward0",
    "x[0, 1:]": "SliceBackward0",
    "x[1:, 0]": "SelectBackward0",
    "x[-1]": "SelectBackward0",
    "x[..., 0]": "SelectBackward0",
    "x[[0, 1]]": "IndexBackward0",
    "x[:, torch.tensor([0])]": "IndexBackward0",
    "F.hardshrink(x)": "HardshrinkBackward0",
    "F.threshold(x,0.1,0.)": "ThresholdBackward0",
    "F.conv2d(x[None,None],torch.ones(1,1,2,2))": "ConvolutionBackward0",
    "F.conv_transpose2d(x[None,None],torch.ones(1,1,2,2),torch.ones(1))": "ConvolutionBackward0",
    "F.pad(x[None],(1,1),mode='reflect')": "ReflectionPad1DBackward0",
    "F.pad(x[None,None],(1,1,1,1),mode='replicate')": "ReplicationPad2DBackward0",
    "F.interpolate(x[None,None],scale_factor=2,mode='bilinear')": "UpsampleBilinear2DBackward0",
    "F.interpolate(x[None],4)": "UpsampleNearest1DBackward0",
    "F.avg_pool2d(x[None,None],2)": "AvgPool2DBackward0",
    "F.max_pool2d(x[None,None],2)": "MaxPool2DWithIndicesBackward0",
    "F.adaptive_avg_pool2d(x[None,None],2)": "AdaptiveAvgPool2DBackward0",
    "F.batch_norm(x,None,None,training=True)": "NativeBatchNormBackward0",
    "torch.addmm(x,torch.ones(3,2),torch.ones(2,4))": "AddmmBackward0",
    "torch.cdist(x,y)": "CdistBackward0",
    "torch.trace(x)": "TraceBackward0",
    "torch.take(x,torch.tensor([0]))": "TakeBackward0",
    "torch.bernoulli(x)": "BernoulliBackward0",
    "torch.special.i0e(x)": "SpecialI0EBackward0",
    "torch.cummin(x,0)": "CumminBackward0",
    "x.min()": "MinBackward1",
    "x.min(0)": "MinBackward0",
    "F.binary_cross_entropy(x,y.clamp(0,1))": "BinaryCrossEntropyBackward0",
    "F.binary_cross_entropy_with_logits(x,y)": "BinaryCrossEntropyWithLogitsBackward0",
    "torch.fft.rfft(x)": "FftR2CBackward0",
    "torch.fft.ifft(x+0j)": "FftC2CBackward0",
    "x.to(torch.float16)": "ToCopyBackward0",
}

# One node here, where PyTorch records several: it has the name of the function.
OWN = {
    "F.linear(x, y, torch.ones(3))": "LinearBackward0",
    "F.l1_loss(x, y)": "L1LossBackward0",
    "torch.outer(x[0], y[0])": "OuterBackward0",
    "torch.einsum('ij->i', x)": "EinsumBackward0",
    "F.max_pool1d(x, 2)": "MaxPool1DBackward0",
}


def name_of(torch, call):
    """Return the name of the node of a call's first result."""
    torch.manual_seed(0)
    x, y = torch.rand(3, 4, requires_grad=True), torch.rand(3, 4) + 0.5
    result = eval(call, {"torch": torch, "F": torch.nn.functional, "x": x, "y": y})
    tensor = result if isinstance(result, torch.Tensor) else result[0]
    return tensor.grad_fn.name()


@pytest.mark.parametrize("expected", sorted(set(NAMES.values()) | set(OWN.values())))
def test_a_node_has_the_name_that_it_has_in_pytorch(expected):
    calls = [call for call, name in (NAMES | OWN).items() if name == expected]
    ours = {call: name_of(edutorch, call) for call in calls}
    assert ours == dict.fromkeys(calls, expected)


def test_the_names_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    assert {call: name_of(torch, call) for call in NAMES} == NAMES


def test_a_name_is_that_of_the_class_and_is_printed():
    x = edutorch.ones(2, 2, requires_grad=True)
    total = x.sum(0)
    assert type(total.grad_fn).__name__ == total.grad_fn.name() == "SumBackward1"
    assert "grad_fn=<AddmmBackward0>" in repr(edutorch.addmm(x, x, x))
    total.sum().backward()
    assert total.grad_fn.name() == "SumBackward1"  # also when what was saved is gone


def test_what_is_only_handed_through_keeps_its_name():
    x = edutorch.ones(2, 2, requires_grad=True).exp()
    edutorch.nn.functional.dropout(x, 0.0)
    edutorch.nn.functional.pad(x, (0, 0), mode="reflect")
    edutorch.rot90(x, 0)
    assert x.grad_fn.name() == "ExpBackward0"


# Names of PyTorch's C++ functions that are no public functions.
OF_PYTORCH = set(
    "ToCopy Slice FftC2C FftR2C FftC2R Im2Col Col2Im ScaledDotProductFlashAttentionForCpu "
    "MaxPool2DWithIndices Convolution CopySlices AvgPool2D SparseAddmm SparseSampledAddmm "
    "PreluKernel".split()
)
PARTS_OF_VMAP = {"Batched", "Unbatched"}


def plain(name):
    return name.replace("_", "").lower()


def test_a_write_is_named_as_in_pytorch():
    x = edutorch.ones(3, requires_grad=True)
    names = []
    for write in (lambda y: y[0].fill_(2.0), lambda y: y[:2].mul_(2), lambda y: y.mul_(2),
                  lambda y: y.copy_(x), lambda y: y.__setitem__(0, 2.0)):  # fmt: skip
        y = x * 1
        write(y)
        names.append(y.grad_fn.name())
    assert names == ["CopySlices", "CopySlices", "MulBackward0", "CopyBackwards", "CopySlices"]


def test_each_op_has_a_public_name():
    torch, functional = edutorch, edutorch.nn.functional
    spaces = (torch, functional, torch.linalg, torch.fft, torch.special, torch.Tensor)
    public = {plain(name) for space in spaces for name in dir(space) if not name.startswith("_")}
    private = set()
    for op in REGISTRY.values():
        for name in NODE_NAME.findall(op.node):
            title = name.partition("Backward")[0]
            short = re.sub("^(linalg|special|native|fused)", "", plain(title))
            if op.rules and short not in public and plain(title) not in public:
                private.add(title)
    assert private <= OF_PYTORCH | PARTS_OF_VMAP


CALLS = {
    "F.hardtanh(x)": "hardtanh", "F.relu6(x)": "relu6", "F.elu(x)": "elu", "F.silu(x)": "silu",
    "F.leaky_relu(x)": "leaky_relu", "F.mish(x)": "mish", "x.max(0)": "max", "x.min(0)": "min",
    "x.sort()": "sort", "x.median()": "median", "x.cummax(0)": "cummax", "x.frexp()": "frexp",
    "x.to(torch.float64)": "to", "torch.einsum('ij->i', x)": "einsum", "x.mode(0)": "mode",
    "F.conv1d(x, y[:, :, None])": "conv1d", "F.max_pool1d(x, 2)": "max_pool1d",
    "F.binary_cross_entropy(x, y - 0.5)": "binary_cross_entropy",
    "F.scaled_dot_product_attention(x, x, x)": "scaled_dot_product_attention",
    "torch.linalg.matrix_rank(x)": "linalg.matrix_rank", "torch.fft.rfft(x)": "fft.rfft",
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_profile_names_the_function_that_was_called(call):
    edutorch.manual_seed(0)
    x, y = edutorch.rand(4, 4, requires_grad=True), edutorch.rand(4, 4) + 0.5
    with profile() as told:
        eval(call, {"torch": edutorch, "F": edutorch.nn.functional, "x": x, "y": y})
    names = {row.key for row in told.key_averages()}
    assert CALLS[call] in names
    assert names.isdisjoint(op.name for op in REGISTRY.values() if op.name not in op.public)
