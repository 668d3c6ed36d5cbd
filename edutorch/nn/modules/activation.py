"""Activation modules, softmax modules and multi-head attention."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...modes import no_grad
from ...ops import full, relu
from .. import functional as F
from .. import init
from ..common_types import DeviceLike, DTypeLike
from ..functional.op_decorators import SettingError
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module
from .utils import register_empty

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6",
    "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class InPlaceModule(Module):
    """Base of the activations whose only setting is whether they overwrite their input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def inplace_suffix(module: Module) -> str:
    """Return the end of the repr of an activation that may work in place."""
    return ", inplace=True" if module.inplace else ""


class DimModule(Module):
    """Base of the softmaxes, whose only setting is an axis."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class ShrinkModule(Module):
    """Base of the shrinkages, whose only setting is the threshold λ."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class ReLU(InPlaceModule):
    """Rectified linear unit: y = max(x, 0).

    >>> nn.ReLU()(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute max(x, 0)."""
        return input.relu_() if self.inplace else relu(input)


class Hardtanh(Module):
    """Clip to an interval: y = min(max(x, min_val), max_val).

    >>> nn.Hardtanh()(tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{inplace_suffix(self)}"


class ReLU6(Hardtanh):
    """ReLU with an upper bound of 6: y = min(max(x, 0), 6).

    >>> nn.ReLU6()(tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """ReLU with a small slope below zero: y = max(x, 0) + slope · min(x, 0).

    >>> nn.LeakyReLU(0.1)(tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute x or slope · x."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{inplace_suffix(self)}"


class ELU(Module):
    """Exponential linear unit: y = x above zero, α · (eˣ - 1) below.

    >>> nn.ELU()(tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute x or α · (eˣ - 1)."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{inplace_suffix(self)}"


class SELU(InPlaceModule):
    """Scaled ELU, whose constants keep mean 0 and variance 1 through many layers.

    >>> nn.SELU()(tensor([0.0]))
    tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class SiLU(InPlaceModule):
    """Sigmoid linear unit (swish): y = x · σ(x).

    >>> nn.SiLU()(tensor([2.0]))
    tensor([1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute x · σ(x)."""
        return F.silu(input, self.inplace)


class GELU(Module):
    """Gaussian error linear unit: y = x · Φ(x), with Φ the normal distribution function.

    >>> nn.GELU()(tensor([2.0]))
    tensor([1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Compute x · Φ(x)."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Sigmoid(Module):
    """Logistic sigmoid: y = 1 / (1 + e⁻ˣ).

    >>> nn.Sigmoid()(tensor([0.0]))
    tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute σ(x)."""
        return F.sigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent: y = tanh(x).

    >>> nn.Tanh()(tensor([1.0]))
    tensor([0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute tanh(x)."""
        return F.tanh(input)


class Softsign(Module):
    """Softsign: y = x / (1 + |x|).

    >>> nn.Softsign()(tensor([3.0]))
    tensor([0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute x / (1 + |x|)."""
        return F.softsign(input)


class LogSigmoid(Module):
    """Logarithm of the sigmoid: y = log σ(x).

    >>> nn.LogSigmoid()(tensor([0.0]))
    tensor([-0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute log σ(x)."""
        return F.logsigmoid(input)


class Softplus(Module):
    """Softplus, a smooth ReLU: y = log(1 + exp(βx)) / β.

    >>> nn.Softplus()(tensor([0.0]))
    tensor([0.6931])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Compute log(1 + exp(βx)) / β."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(DimModule):
    """Softmax along `dim`: y = exp(x) / Σ exp(x).

    >>> nn.Softmax(dim=0)(tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute exp(x) / Σ exp(x)."""
        return F.softmax(input, self.dim)


class LogSoftmax(DimModule):
    """Logarithm of the softmax along `dim`: y = x - log Σ exp(x).

    >>> nn.LogSoftmax(dim=0)(tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute x - log Σ exp(x)."""
        return F.log_softmax(input, self.dim)


class CELU(Module):
    """Continuously differentiable ELU: its slope at 0 is 1 for each α.

        y = max(0, x) + min(0, α · (exp(x / α) - 1))

    Paper: Barron, Continuously differentiable exponential linear units, 2017.

    >>> nn.CELU(2.0)(tensor([-2.0, 1.0]))
    tensor([-1.2642,  1.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{inplace_suffix(self)}"


class RReLU(Module):
    """Leaky ReLU with a random slope per element while training, their mean in evaluation.

    Paper: Xu et al., Empirical evaluation of rectified activations, 2015.

    >>> nn.RReLU(0.1, 0.3).eval()(tensor([-1.0, 1.0]))
    tensor([-0.2000,  1.0000])
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}{inplace_suffix(self)}"


class Threshold(Module):
    """Replace elements that are not above a threshold by `value`.

    >>> nn.Threshold(1.0, 20.0)(tensor([0.5, 2.0]))
    tensor([20.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{inplace_suffix(self)}"


class Hardsigmoid(Module):
    """Piecewise linear sigmoid: 0 below -3, 1 above 3, x / 6 + 1/2 between.

    >>> nn.Hardsigmoid()(tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardshrink(ShrinkModule):
    """Hard shrinkage: elements from -λ to λ become 0; all others stay.

    >>> nn.Hardshrink()(tensor([-1.0, 0.4]))
    tensor([-1.,  0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(ShrinkModule):
    """Soft shrinkage: elements from -λ to λ become 0; all others move towards 0 by λ.

    >>> nn.Softshrink()(tensor([-1.0, 0.4]))
    tensor([-0.5000,  0.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Tanhshrink(Module):
    """Tanh shrinkage: y = x - tanh(x).

    >>> nn.Tanhshrink()(tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute x - tanh(x)."""
        return F.tanhshrink(input)


class Softmin(DimModule):
    """Softmax of -x along `dim`: y = exp(-x) / Σ exp(-x).

    >>> nn.Softmin(dim=0)(tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute exp(-x) / Σ exp(-x)."""
        return F.softmin(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels at each pixel of images (n, c, h, w) or (c, h, w).

    >>> nn.Softmax2d()(zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute the softmax over channels. Raises: ValueError: not an image."""
        if input.ndim not in (3, 4):
            raise SettingError(
                "Softmax2d", f"expected input to be 3D or 4D, got {input.ndim}D instead",
                {"input": tuple(input.shape)},
            )  # fmt: skip
        return F.softmax(input, -3)


class Mish(InPlaceModule):
    """Mish: y = x · tanh(softplus(x)) = x · tanh(log(1 + eˣ)).

    >>> nn.Mish()(tensor([2.0]))
    tensor([1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Hardswish(Module):
    """SiLU with a piecewise linear sigmoid: y = x · min(max(x + 3, 0), 6) / 6.

    >>> nn.Hardswish()(tensor([4.0]))
    tensor([4.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class PReLU(Module):
    """Leaky ReLU with learned slopes: a single one, or one per channel (axis 1).

    Paper: He et al., Delving deep into rectifiers, 2015.

    >>> nn.PReLU()(tensor([-2.0, 2.0]))
    tensor([-0.5000,  2.0000], grad_fn=<PreluKernelBackward0>)
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), float(init), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Reset the slopes to their initial value."""
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class GLU(Module):
    """Gated linear unit: y = a · σ(b), with a and b the halves of the input along `dim`.

    >>> nn.GLU()(tensor([3.0, 0.0]))
    tensor([1.5000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class MultiheadAttention(Module):
    """Multi-head attention: head i = softmax(q Wq (k Wk)ᵀ / √d) v Wv.

    The features are split into heads; a last linear layer projects their concatenated outputs.

    Args:
        embed_dim: the number of features of query and output; a multiple of `num_heads`.
        dropout: the dropout probability of the attention weights.
        bias: whether the projections add a bias.
        add_bias_kv: whether to append a learned key and value.
        add_zero_attn: whether to append a key and value of zeros.
        kdim, vdim: the numbers of features of key and value; `embed_dim` by default.
        batch_first: (n, l, e) instead of (l, n, e).

    The weights are initialized with Xavier's uniform distribution, the biases with 0.

    Paper: Vaswani et al., Attention is all you need, 2017.

    >>> x = zeros(5, 2, 8)
    >>> y, weights = nn.MultiheadAttention(8, num_heads=2)(x, x, x)
    >>> y.shape, weights.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 5, 5]))
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise InvalidValueError(
                type(self).__name__,
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead",
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        packed = self._qkv_same_embed_dim  # one weight for the three projections
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if packed else None,
            "q_proj_weight": None if packed else (embed_dim, embed_dim),
            "k_proj_weight": None if packed else (embed_dim, self.kdim),
            "v_proj_weight": None if packed else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        register_empty(self, shapes, device, dtype)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        # As one matrix (3e, e) the packed weight gets smaller values than three of (e, e), as in
        # PyTorch.
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return the output and, with `need_weights`, the attention weights.

        Args:
            query, key, value: (l, n, e), (s, n, kdim), (s, n, vdim), or without n.
            key_padding_mask: (n, s): True masks a key; floats are added to the scores.
            attn_mask: (l, s) or (n · heads, l, s): the same per query.
            average_attn_weights: whether to return the mean of the weights over the heads.
            is_causal: whether `attn_mask` is the causal mask.
        """
        # A single sample has no batch axis that could come first.
        is_transposed = self.batch_first and query.ndim == 3
        if is_transposed:
            query, key, value = (tensor.transpose(0, 1) for tensor in (query, key, value))
        y, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask,
            need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, None, None, average_attn_weights, is_causal,
        )  # fmt: skip
        return (y.transpose(0, 1) if is_transposed else y), weights
