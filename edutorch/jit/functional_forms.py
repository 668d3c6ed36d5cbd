"""`torch.nn.functional` in TorchScript: each function as a call of PyTorch's operator.

A program that calls `F.relu` gets the function here, translated, as
`__torch__.torch.nn.functional.relu`. The argument lists are those of `nn.functional`; behind `aten`
stand the operators of `operators.py`, with the argument lists of PyTorch's schemas.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor


class AtenOperator:
    """An operator of the archive, named in a form."""

    def __init__(self, name: str) -> None:
        self.aten_operator = self.__name__ = name


class AtenNames:
    """The operators by name: `aten.relu`. They are only translated, never called."""

    aten_names = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return AtenOperator(name)


aten = AtenNames()
Sizes = list[int]


def inlined(form: Any) -> Any:
    """Mark a form of one expression: it is written into the function that calls it.

    So that sizes can be one int, which PyTorch's operators take for all dimensions.
    """
    form.is_inlined = True
    return form


def reduction_number(reduction: str) -> int:
    if reduction == "none":
        return 0
    if reduction == "mean":
        return 1
    if reduction == "sum":
        return 2
    raise ValueError(f"{reduction} is not a valid value for reduction")


# Activations ------------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return aten.relu_(input) if inplace else aten.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return aten.hardtanh_(input, 0.0, 6.0) if inplace else aten.hardtanh(input, 0.0, 6.0)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return aten.silu_(input) if inplace else aten.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    return aten.mish_(input) if inplace else aten.mish(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    return aten.hardswish_(input) if inplace else aten.hardswish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    return aten.hardsigmoid_(input) if inplace else aten.hardsigmoid(input)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    return aten.selu_(input) if inplace else aten.selu(input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return aten.elu_(input, alpha) if inplace else aten.elu(input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return aten.celu_(input, alpha) if inplace else aten.celu(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    if inplace:
        return aten.leaky_relu_(input, negative_slope)
    return aten.leaky_relu(input, negative_slope)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    if inplace:
        return aten.hardtanh_(input, min_val, max_val)
    return aten.hardtanh(input, min_val, max_val)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    return aten.gelu(input, approximate=approximate)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    return aten.glu(input, dim)


def logsigmoid(input: Tensor) -> Tensor:
    return aten.log_sigmoid(input)


def softsign(input: Tensor) -> Tensor:
    return input / (aten.abs(input) + 1)


def tanhshrink(input: Tensor) -> Tensor:
    return input - aten.tanh(input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    return aten.softshrink(input, lambd)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    if dim is None:
        dim = 0 if input.dim() in [0, 1, 3] else 1
    return aten.softmax(input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    if dim is None:
        dim = 0 if input.dim() in [0, 1, 3] else 1
    return aten.log_softmax(input, dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    if dim is None:
        dim = 0 if input.dim() in [0, 1, 3] else 1
    return aten.softmax(-input, dim, dtype)


# Dropout ------------------------------------------------------------------------------------------


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return aten.dropout_(input, p, training) if inplace else aten.dropout(input, p, training)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if inplace:
        return aten.feature_dropout_(input, p, training)
    return aten.feature_dropout(input, p, training)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if inplace:
        return aten.feature_dropout_(input, p, training)
    return aten.feature_dropout(input, p, training)


# Norms ----------------------------------------------------------------------------------------


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    return aten.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    return aten.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False
    )


def layer_norm(
    input: Tensor, normalized_shape: Sizes, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    return aten.layer_norm(input, normalized_shape, weight, bias, eps, False)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    return aten.group_norm(input, num_groups, weight, bias, eps, False)


def rms_norm(
    input: Tensor, normalized_shape: Sizes, weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    return aten.rms_norm(input, normalized_shape, weight, eps)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    size = aten.clamp_min(aten.linalg_vector_norm(input, p, [dim], True), eps)
    return input / aten.expand_as(size, input)


# Pooling and sizes ------------------------------------------------------------------------------


@inlined
def max_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    return aten.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


@inlined
def max_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    return aten.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


@inlined
def avg_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    return aten.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@inlined
def avg_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    return aten.avg_pool2d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@inlined
def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    return aten.adaptive_avg_pool1d(input, output_size)


@inlined
def adaptive_avg_pool2d(input: Tensor, output_size: Sizes) -> Tensor:
    return aten.adaptive_avg_pool2d(input, output_size)


@inlined
def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Tensor:
    return aten.adaptive_max_pool1d(input, output_size)[0]


@inlined
def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Tensor:
    return aten.adaptive_max_pool2d(input, output_size)[0]


def pad(input: Tensor, pad: Sizes, mode: str = "constant", value: float | None = None) -> Tensor:
    return aten.pad(input, pad, mode, value)


def interpolate(
    input: Tensor, size: Sizes | None = None, scale_factor: list[float] | None = None,
    mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    corners = False if align_corners is None else align_corners
    if mode == "nearest" and input.dim() == 3:
        return aten.upsample_nearest1d(input, size, scale_factor)
    if mode == "nearest" and input.dim() == 4:
        return aten.upsample_nearest2d(input, size, scale_factor)
    if mode == "nearest" and input.dim() == 5:
        return aten.upsample_nearest3d(input, size, scale_factor)
    if mode == "linear":
        return aten.upsample_linear1d(input, size, corners, scale_factor)
    if mode == "bilinear":
        return aten.upsample_bilinear2d(input, size, corners, scale_factor)
    if mode == "bicubic":
        return aten.upsample_bicubic2d(input, size, corners, scale_factor)
    raise ValueError(f"the mode {mode} is not supported for this input")


def interpolate_evenly(
    input: Tensor, size: int | None = None, scale_factor: float | None = None,
    mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    sizes: Sizes | None = None
    factors: list[float] | None = None
    if size is not None:
        sizes = [size] * (input.dim() - 2)
    if scale_factor is not None:
        factors = [scale_factor] * (input.dim() - 2)
    return interpolate(input, sizes, factors, mode, align_corners)


interpolate.for_one_size = interpolate_evenly  # type: ignore[attr-defined]


@inlined
def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    return aten.im2col(input, kernel_size, dilation, padding, stride)


# Embeddings, attention ----------------------------------------------------------------------------


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None,
    max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    assert max_norm is None, "an embedding with max_norm is not supported"
    index = -1 if padding_idx is None else padding_idx
    return aten.embedding(weight, input, index, scale_grad_by_freq, sparse)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    return aten.one_hot(tensor, num_classes)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    return aten.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


# Losses ---------------------------------------------------------------------------------------


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None,
    size_average: bool | None = None, ignore_index: int = -100, reduce: bool | None = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction)
    return aten.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None,
    size_average: bool | None = None, ignore_index: int = -100, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    return aten.nll_loss_nd(input, target, weight, reduction_number(reduction), ignore_index)


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    return aten.mse_loss(input, target, reduction_number(reduction))


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    return aten.l1_loss(input, target, reduction_number(reduction))


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    return aten.smooth_l1_loss(input, target, reduction_number(reduction), beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    return aten.huber_loss(input, target, reduction_number(reduction), delta)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    return aten.kl_div(input, target, reduction_number(reduction), log_target=log_target)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    return aten.binary_cross_entropy(input, target, weight, reduction_number(reduction))


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    return aten.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, reduction_number(reduction)
    )


FORMS: dict[str, Any] = {
    name: value
    for name, value in list(globals().items())
    if getattr(value, "__module__", None) == __name__ and type(value) is type(relu)
}
"""The forms by the name of the function in `nn.functional`."""
