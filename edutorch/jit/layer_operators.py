"""Operators of layers and losses, whose arguments in PyTorch's schemas differ from ours.

Reductions are ints there: 0 is "none", 1 "mean", 2 "sum". An empty list stands for a stride that is
the size of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.tensor import Tensor
from ..nn import functional as F
from .dtype_numbers import as_dtype

REDUCTIONS = ("none", "mean", "sum")
Sizes = Sequence[int]


def loss_operator(loss: Callable[..., Tensor], *settings: str, weighted: bool = False) -> Any:
    """Return a loss that takes its reduction as an int.

    Args:
        loss: the function of `nn.functional`.
        settings: the names of the arguments behind the reduction.
        weighted: whether a weight comes before it.
    """

    def run(input: Tensor, target: Tensor, *args: Any, **named: Any) -> Tensor:
        if weighted and args:
            named["weight"], *args = args  # type: ignore[assignment]
        names = ("reduction", *settings)
        named |= dict(zip(names, args, strict=False))
        named["reduction"] = REDUCTIONS[named.get("reduction", 1)]
        return loss(input, target, **named)

    return run


def bce_with_logits(
    input: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Tensor:
    return F.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight=pos_weight, reduction=REDUCTIONS[reduction]
    )


def kl_div(input: Tensor, target: Tensor, reduction: int = 1, log_target: bool = False) -> Tensor:
    return F.kl_div(input, target, reduction=REDUCTIONS[reduction], log_target=log_target)


def pool_operator(pool: Callable[..., Any], **fixed: Any) -> Any:
    """Return a pooling for which an empty stride is the size of the window."""

    def run(input: Tensor, kernel_size: Sizes, stride: Any = (), *args: Any, **named: Any) -> Any:
        return pool(
            input, one_or_all(kernel_size), one_or_all(stride) or None,
            *map(one_or_all, args), **named, **fixed,
        )  # fmt: skip

    return run


def one_or_all(value: Any) -> Any:
    """Return a list of sizes as a tuple; anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


def convolution(
    input: Tensor, weight: Tensor, bias: Any, stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int, *flags: bool,
) -> Tensor:  # fmt: skip
    """Convolve: the op behind conv1d, …, conv_transpose3d, which traced programs call."""
    rank = weight.ndim - 2
    sizes = [tuple(size) for size in (stride, padding, dilation, output_padding)]
    stride, padding, dilation, output_padding = sizes
    if transposed:
        function = getattr(F, f"conv_transpose{rank}d")
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(F, f"conv{rank}d")(input, weight, bias, stride, padding, dilation, groups)


def conv_operator(rank: int) -> Any:
    """Return `torch.conv1d`, …: sizes are lists, and a padding may be a text."""
    function = getattr(F, f"conv{rank}d")

    def run(
        input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        settings = map(one_or_all, (stride, padding, dilation))
        return function(input, weight, bias, *settings, groups)

    return run


def upsample_operator(mode: str, aligned: bool, **settings: bool) -> Any:
    """Return `torch.upsample_…`: (input, size, [align_corners], scale factors)."""

    def run(input: Tensor, size: Any = None, *args: Any, **named: Any) -> Tensor:
        corners = args[0] if aligned and args else named.get("align_corners")
        factors = list(args[1:] if aligned else args) or [named.get("scale_factors")]
        factors = factors[0] if len(factors) == 1 else factors
        if isinstance(factors, list) and None in factors:
            factors = None
        return F.interpolate(
            input, size=one_or_all(size), scale_factor=None if size else factors, mode=mode,
            align_corners=corners if aligned else None, **settings,
        )  # fmt: skip

    return run


def pad(input: Tensor, pad: Sizes, mode: str = "constant", value: Any = None) -> Tensor:
    return F.pad(input, tuple(pad), mode, 0 if value is None else value)


def pad_operator(mode: str) -> Any:
    """Return `torch.reflection_pad2d` and its kin."""
    return lambda input, padding: F.pad(input, tuple(padding), mode)


def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: Any = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def softmax_operator(function: Callable[..., Tensor]) -> Any:
    """Return `torch.softmax` or `log_softmax`: the dtype is an int."""

    def run(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
        return function(input, dim, dtype=as_dtype(dtype))

    return run


def elu(input: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    return F.elu(input * input_scale if input_scale != 1 else input, alpha) * scale


def vector_norm(
    input: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    return input.norm(ord, one_or_all(dim), keepdim)


def cat_or_same(function: Callable[..., Tensor]) -> Any:
    """Return an op that is written in place where its name ends so."""
    return lambda input, *args, **named: input.copy_(function(input, *args, **named))


def im2col(
    input: Tensor, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Tensor:
    return F.unfold(input, *map(one_or_all, (kernel_size, dilation, padding, stride)))


def col2im(
    input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes, padding: Sizes,
    stride: Sizes,
) -> Tensor:  # fmt: skip
    sizes = map(one_or_all, (output_size, kernel_size, dilation, padding, stride))
    return F.fold(input, *sizes)


ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "gelu": lambda input, *, approximate="none": F.gelu(input, approximate=approximate),
    "silu": F.silu, "mish": F.mish, "elu": elu, "leaky_relu": F.leaky_relu, "hardtanh": F.hardtanh,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "relu6": F.relu6,
}  # fmt: skip

LAYER_OPERATORS: dict[str, Any] = {
    **ACTIVATIONS,
    **{f"{name}_": cat_or_same(function) for name, function in ACTIVATIONS.items()},
    "log_sigmoid": F.logsigmoid, "softshrink": F.softshrink, "glu": F.glu,
    "softmax": softmax_operator(F.softmax), "log_softmax": softmax_operator(F.log_softmax),
    "mse_loss": loss_operator(F.mse_loss), "l1_loss": loss_operator(F.l1_loss),
    "smooth_l1_loss": loss_operator(F.smooth_l1_loss, "beta"),
    "huber_loss": loss_operator(F.huber_loss, "delta"),
    "soft_margin_loss": loss_operator(F.soft_margin_loss),
    "multilabel_margin_loss": loss_operator(F.multilabel_margin_loss),
    "nll_loss": loss_operator(F.nll_loss, "ignore_index", weighted=True),
    "nll_loss_nd": loss_operator(F.nll_loss, "ignore_index", weighted=True),
    "nll_loss2d": loss_operator(F.nll_loss, "ignore_index", weighted=True),
    "cross_entropy_loss": loss_operator(
        F.cross_entropy, "ignore_index", "label_smoothing", weighted=True
    ),
    "binary_cross_entropy": loss_operator(F.binary_cross_entropy, weighted=True),
    "binary_cross_entropy_with_logits": bce_with_logits, "kl_div": kl_div,
    "max_pool1d": pool_operator(F.max_pool1d), "max_pool2d": pool_operator(F.max_pool2d),
    "max_pool3d": pool_operator(F.max_pool3d), "avg_pool1d": pool_operator(F.avg_pool1d),
    "avg_pool2d": pool_operator(F.avg_pool2d), "avg_pool3d": pool_operator(F.avg_pool3d),
    "max_pool1d_with_indices": pool_operator(F.max_pool1d, return_indices=True),
    "max_pool2d_with_indices": pool_operator(F.max_pool2d, return_indices=True),
    "adaptive_avg_pool1d": F.adaptive_avg_pool1d, "adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "adaptive_avg_pool3d": F.adaptive_avg_pool3d,
    "adaptive_max_pool1d": lambda input, size: F.adaptive_max_pool1d(input, size, True),
    "adaptive_max_pool2d": lambda input, size: F.adaptive_max_pool2d(input, size, True),
    "_convolution": convolution, "convolution": convolution,
    **{f"conv{rank}d": conv_operator(rank) for rank in (1, 2, 3)},
    "pad": pad, "constant_pad_nd": lambda input, pad_, value=0: pad(input, pad_, "constant", value),
    **{f"reflection_pad{rank}d": pad_operator("reflect") for rank in (1, 2, 3)},
    **{f"replication_pad{rank}d": pad_operator("replicate") for rank in (1, 2, 3)},
    **{f"upsample_nearest{rank}d": upsample_operator("nearest", False) for rank in (1, 2, 3)},
    **{
        f"_upsample_nearest_exact{rank}d": upsample_operator("nearest-exact", False)
        for rank in (1, 2, 3)
    },
    "upsample_linear1d": upsample_operator("linear", True),
    "_upsample_bilinear2d_aa": upsample_operator("bilinear", True, antialias=True),
    "_upsample_bicubic2d_aa": upsample_operator("bicubic", True, antialias=True),
    "upsample_bilinear2d": upsample_operator("bilinear", True),
    "upsample_bicubic2d": upsample_operator("bicubic", True),
    "upsample_trilinear3d": upsample_operator("trilinear", True),
    "scaled_dot_product_attention": attention, "linalg_vector_norm": vector_norm,
    "im2col": im2col, "col2im": col2im,
    "one_hot": lambda input, count=-1: F.one_hot(input, count),
}  # fmt: skip
