"""Norms, convolutions, activations, dropout, embeddings and losses as `torch.<name>`.

Each has PyTorch's argument list there, and calls the function of `nn.functional`.
"""

from __future__ import annotations

from collections.abc import Sequence

from edutorch.core.composed import recorded_as, takes_out
from edutorch.core.tensor import Tensor
from edutorch.errors import ShapeError
from edutorch.modes import no_grad
from edutorch.nn import functional as F
from edutorch.nn.functional import (  # with the same argument lists
    adaptive_avg_pool1d,
    avg_pool1d,
    bilinear,
    celu,
    celu_,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_similarity,
    hardshrink,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool3d,
    native_channel_shuffle,
    pairwise_distance,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    relu_,
    rms_norm,
    selu,
    selu_,
    threshold,
    threshold_,
)  # fmt: skip
from edutorch.nn.functional.activation import apply_in_place
from edutorch.nn.functional.adaptive import OutputSize
from edutorch.nn.functional.dropout import apply_dropout, channel_shape, check_probability
from edutorch.nn.functional.embedding import renormalize_rows
from edutorch.nn.functional.grid_sample import (
    affine_grid_generator,
    grid_sampler,
    grid_sampler_2d,
    grid_sampler_3d,
)  # fmt: skip
from edutorch.nn.functional.loss.ctc import Lengths
from edutorch.nn.functional.loss.reduction import reduce_losses
from edutorch.nn.functional.loss.regression import pointwise_kl_div
from edutorch.nn.functional.op_decorators import SettingError
from edutorch.nn.functional.sliding_window import Size
from edutorch.nn.utils.weight_norm import norm_except_dim
from edutorch.ops import (
    arange,
    argmax,
    bincount,
    mean,
    ones_like,
    rand,
    reshape,
    rsqrt,
    searchsorted,
    stack,
    var,
    where,
    zeros,
)  # fmt: skip
from edutorch.ops.random import Generator

__all__ = [
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "affine_grid_generator", "alpha_dropout",
    "alpha_dropout_", "avg_pool1d", "batch_norm", "bilinear", "binary_cross_entropy_with_logits",
    "celu", "celu_", "channel_shuffle", "constant_pad_nd", "conv1d", "conv2d", "conv3d", "conv_tbc",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
    "cosine_embedding_loss", "cosine_similarity", "ctc_loss", "dropout", "dropout_", "embedding",
    "embedding_bag", "embedding_renorm_", "feature_alpha_dropout", "feature_alpha_dropout_",
    "feature_dropout", "feature_dropout_", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
    "group_norm", "hardshrink", "hinge_embedding_loss", "instance_norm", "kl_div", "layer_norm",
    "margin_ranking_loss", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool3d",
    "native_batch_norm", "native_channel_shuffle", "native_dropout", "native_group_norm",
    "native_layer_norm", "norm_except_dim", "pairwise_distance", "pdist", "pixel_shuffle",
    "pixel_unshuffle", "poisson_nll_loss", "prelu", "relu_", "rms_norm", "rrelu", "rrelu_", "selu",
    "selu_", "threshold", "threshold_", "triplet_margin_loss",
]  # fmt: skip


# Norms ----------------------------------------------------------------------------------------


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """Layer norm; see `nn.functional.layer_norm`.

    >>> layer_norm(tensor([[1.0, 3.0]]), (2,)).round(decimals=2)
    tensor([[-1.,  1.]])
    """
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Group norm; see `nn.functional.group_norm`.

    >>> group_norm(tensor([[1.0, 3.0]]), 1).round(decimals=2)
    tensor([[-1.,  1.]])
    """
    return F.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Batch norm; see `nn.functional.batch_norm`.

    >>> x = tensor([[1.0], [3.0]])
    >>> batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False).round(decimals=2)
    tensor([[-1.],
            [ 1.]])
    """
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Instance norm; see `nn.functional.instance_norm`.

    >>> x = tensor([[[1.0, 3.0]]])
    >>> instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False).round(decimals=2)
    tensor([[[-1.,  1.]]])
    """
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Layer norm, with the mean and 1 / √(variance + ε) of each sample.

    >>> native_layer_norm(tensor([[1.0, 3.0]]), (2,), None, None, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    y = F.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = tuple(range(-len(tuple(normalized_shape)), 0))
    return y, *moments(input.detach(), dims, eps)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Group norm, with the mean and 1 / √(variance + ε) of each group, (N, group).

    >>> native_group_norm(tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    y = F.group_norm(input, group, weight, bias, eps)
    grouped = reshape(input, (N, group, C // group * HxW))
    centre, scale = moments(grouped, (2,), eps)
    return y, reshape(centre, (N, group)), reshape(scale, (N, group))


@takes_out
@recorded_as("NativeBatchNormBackward0")
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Batch norm, with the mean and 1 / √(variance + ε) of each channel (empty in evaluation).

    >>> x = tensor([[1.0], [3.0]])
    >>> native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1:]
    (tensor([2.]), tensor([1.0000]))
    """
    y = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    # PyTorch returns empty tensors where it computed no statistics.
    if not training:
        nothing = zeros(0, dtype=input.dtype, device=input.device)
        return y, nothing, nothing.clone()
    dims = (0, *range(2, input.ndim))
    centre, scale = moments(input.detach(), dims, eps)
    return y, reshape(centre, (-1,)), reshape(scale, (-1,))


def moments(input: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """Return the mean and 1 / √(variance + ε) over some axes, which are kept with size 1."""
    variance = var(input, dims, keepdim=True, correction=0)
    return mean(input, dims, True), rsqrt(variance + eps)


# Padding, convolution, pooling ----------------------------------------------------------------


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """Pad the last axes with a constant; see `nn.functional.pad`.

    >>> constant_pad_nd(ones(2), (1, 0), 5)
    tensor([5., 1., 1.])
    """
    return F.pad(input, pad, "constant", value)


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Size, padding: Size, dilation: Size,
    transposed: bool, output_padding: Size, groups: int,
) -> Tensor:  # fmt: skip
    """A convolution over as many axes as the filters have, or a transposed one.

    >>> x, w = tensor([[[1.0, 2.0, 4.0]]]), tensor([[[-1.0, 1.0]]])
    >>> convolution(x, w, None, (1,), (0,), (1,), False, (0,), 1)
    tensor([[[1., 2.]]])
    """
    axes = f"{weight.ndim - 2}d"
    if transposed:
        conv_transpose = getattr(F, f"conv_transpose{axes}")
        return conv_transpose(
            input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return getattr(F, f"conv{axes}")(input, weight, bias, stride, padding, dilation, groups)


def adaptive_max_pool1d(input: Tensor, output_size: OutputSize) -> tuple[Tensor, Tensor]:
    """1-d adaptive max pooling with indices; see `nn.functional.adaptive_max_pool1d`.

    >>> adaptive_max_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 1)
    (tensor([[3.]]), tensor([[1]]))
    """
    return F.adaptive_max_pool1d(input, output_size, True)


# Activations and dropout ----------------------------------------------------------------------


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Randomized leaky ReLU.

    Args: as for `nn.functional.rrelu`; `generator` draws the slopes.

    >>> rrelu(tensor([-24.0, 2.0]))
    tensor([-5.5000,  2.0000])
    """
    # Nn.functional's draws from the global generator.
    if generator is None or not training:
        return F.rrelu(input, lower, upper, training)
    with no_grad():
        uniform = rand(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    return where(input > 0, input, (lower + (upper - lower) * uniform) * input)


def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """The in-place form of `rrelu`.

    >>> rrelu_(tensor([-24.0, 2.0]))
    tensor([-5.5000,  2.0000])
    """
    return apply_in_place(input, "rrelu_", rrelu, lower, upper, training, generator)


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout: see `nn.functional.dropout`.

    >>> dropout(ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return F.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `dropout`.

    >>> dropout_(ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return F.dropout(input, p, train, True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels of (n, c, …).

    Raises: ShapeError: there is no axis of channels.

    >>> feature_dropout(ones(1, 3), 0.5, False)
    tensor([[1., 1., 1.]])
    """
    return apply_dropout(check_channels(input), channel_shape(input), p, train, False)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `feature_dropout`.

    >>> feature_dropout_(ones(1, 3), 0.5, False)
    tensor([[1., 1., 1.]])
    """
    return apply_dropout(check_channels(input), channel_shape(input), p, train, True)


def check_channels(input: Tensor) -> Tensor:
    if input.ndim < 2:
        raise ShapeError(
            "feature_dropout", "Feature dropout requires at least 2 dimensions in the input",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    return input


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Alpha dropout: see `nn.functional.alpha_dropout`.

    >>> alpha_dropout(ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `alpha_dropout`.

    >>> alpha_dropout_(ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return F.alpha_dropout(input, p, train, True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Alpha dropout of whole channels.

    >>> feature_alpha_dropout(ones(1, 3), 0.5, False)
    tensor([[1., 1., 1.]])
    """
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `feature_alpha_dropout`.

    >>> feature_alpha_dropout_(ones(1, 3), 0.5, False)
    tensor([[1., 1., 1.]])
    """
    return F.feature_alpha_dropout(input, p, train, True)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout, and the mask of the kept elements.

    >>> native_dropout(ones(2), 0.5, False)
    (tensor([1., 1.]), tensor([True, True]))
    """
    check_probability(p)
    with no_grad():
        keep_mask = ones_like(input) != 0
        if train is not False:
            keep_mask = rand(*input.shape, device=input.device) >= p
    if train is False:
        return input.clone(), keep_mask
    return input * keep_mask.to(input.dtype) * (1 / (1 - p) if p < 1 else 0), keep_mask


# Embeddings: the weight comes first, the modes are integers -----------------------------------


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Look up rows by index; see `nn.functional.embedding`, which takes the indices first.

    Args:
        padding_idx: a row without a gradient; -1 for none.

    >>> embedding(tensor([[1.0], [2.0]]), tensor([1, 0]))
    tensor([[2.],
            [1.]])
    """
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq)


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Renormalize, in place, the used rows whose norm is larger than `max_norm`.

    >>> embedding_renorm_(tensor([[3.0, 4.0], [3.0, 4.0]]), tensor([1]), 1.0, 2.0)
    tensor([[3.0000, 4.0000],
            [0.6000, 0.8000]])
    """
    return renormalize_rows(weight, indices, max_norm, norm_type)


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The sum (mode 0), mean (1) or maximum (2) of the rows of each bag of indices.

    Returns the vectors, the bag of each index, the size of each bag, and for the maximum the row
    from which each element comes.

    >>> table = tensor([[1.0], [2.0], [4.0]])
    >>> embedding_bag(table, tensor([0, 1, 2]), tensor([0, 2]))[0]
    tensor([[3.],
            [4.]])
    """
    y = F.embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode], per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset, padding_idx=padding_idx,
    )  # fmt: skip
    positions = arange(indices.numel(), device=indices.device)
    starts = offsets[:-1] if include_last_offset else offsets
    bag = searchsorted(starts.long(), positions, right=True) - 1
    counted_bags = bag if padding_idx is None else bag[indices != padding_idx % weight.shape[0]]
    sizes = bincount(counted_bags, minlength=y.shape[0])
    if mode != 2:
        return y, bag, sizes, zeros(y.shape[0], dtype=indices.dtype, device=indices.device)
    return y, bag, sizes, argmax_rows(y, weight, indices, bag)


def argmax_rows(y: Tensor, weight: Tensor, indices: Tensor, bag: Tensor) -> Tensor:
    """Return the row from which each maximum comes, 0 for an empty bag."""
    rows = weight.detach()[indices]
    result = []
    # PyTorch finds these while it takes the maximum; here they are looked up afterwards.
    for bag_index in range(y.shape[0]):
        largest = y.detach()[bag_index]
        equal = (rows == largest) & (bag == bag_index).unsqueeze(1)
        if not indices.numel():
            return zeros(*y.shape, dtype=indices.dtype, device=indices.device)
        rows_of_maximum = indices[argmax(equal.long(), 0)]
        result.append(rows_of_maximum * equal.any(0).to(indices.dtype))
    return stack(result)


# Losses, whose reduction is an integer: 0 none, 1 mean, 2 sum ---------------------------------


def reduction_name(reduction: int) -> str:
    """Return the name of a reduction.

    Raises: SettingError (a ValueError): there is no such reduction.
    """
    if reduction not in (0, 1, 2):
        raise SettingError("loss", f"{reduction} is not a reduction: 0 none, 1 mean, 2 sum")
    return ("none", "mean", "sum")[reduction]


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """Kullback–Leibler divergence; see `nn.functional.kl_div`.

    >>> kl_div(log(tensor([0.5, 0.5])), tensor([1.0, 0.0]), 2)
    tensor(0.6931)
    """
    return reduce_losses(pointwise_kl_div(input, target, log_target), reduction_name(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """Poisson negative log-likelihood; see `nn.functional.poisson_nll_loss`.

    >>> poisson_nll_loss(tensor([0.0]), tensor([3.0]), True, False, 1e-8, 1)
    tensor(1.)
    """
    return F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=reduction_name(reduction)
    )


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """Hinge embedding loss; see `nn.functional.hinge_embedding_loss`.

    >>> hinge_embedding_loss(tensor([0.5]), tensor([-1]))
    tensor(0.5000)
    """
    return F.hinge_embedding_loss(input, target, margin, reduction=reduction_name(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Cosine embedding loss; see `nn.functional.cosine_embedding_loss`.

    >>> cosine_embedding_loss(tensor([[1.0, 0.0]]), tensor([[0.0, 1.0]]), tensor([1]))
    tensor(1.)
    """
    return F.cosine_embedding_loss(
        input1, input2, target, margin, reduction=reduction_name(reduction)
    )


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Margin ranking loss; see `nn.functional.margin_ranking_loss`.

    >>> margin_ranking_loss(tensor([2.0]), tensor([5.0]), tensor([1.0]))
    tensor(3.)
    """
    return F.margin_ranking_loss(
        input1, input2, target, margin, reduction=reduction_name(reduction)
    )


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 1,
) -> Tensor:  # fmt: skip
    """Triplet loss; see `nn.functional.triplet_margin_loss`.

    >>> a, b = tensor([[0.0]]), tensor([[3.0]])
    >>> triplet_margin_loss(a, b, a)
    tensor(4.0000)
    """
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=reduction_name(reduction)
    )


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    """Binary cross entropy; see `nn.functional.binary_cross_entropy_with_logits`.

    >>> binary_cross_entropy_with_logits(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=reduction_name(reduction), pos_weight=pos_weight
    )


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths,
    blank: int = 0, reduction: int = 1, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """CTC loss; see `nn.functional.ctc_loss`.

    >>> ctc_loss(zeros(2, 1, 3).log_softmax(2), tensor([[1]]), (2,), (1,)).exp()
    tensor(3.)
    """
    return F.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        reduction_name(reduction),
        zero_infinity,
    )
