"""Parameter initialization.

Activations and gradients that pass through many layers must neither vanish nor explode. They
do not when each layer keeps their variance, which determines the variance of its weights:
about 1 / fan_in, times the squared gain of the activation function.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..core.error_messages import is_any_true
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..modes import no_grad
from ..ops import diagonal, eye, qr, randperm, sign, where, zeros
from ..ops.random import Generator

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip


def without_grad(fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wrap an initializer in `no_grad`, so that it may overwrite parameters."""

    @functools.wraps(fill)
    def wrapper(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        with no_grad():
            return fill(tensor, *args, **kwargs)

    return wrapper


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain of an activation function, for instance √2 for ReLU.

    Raises: ValueError: the activation is unknown.

    >>> calculate_gain("relu") == math.sqrt(2)
    True
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2 / (1 + slope**2))
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
    gains |= {f"conv{n}d": 1.0 for n in "123"} | {f"conv_transpose{n}d": 1.0 for n in "123"}
    if nonlinearity not in gains:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}; known: {', '.join(gains)}")
    return gains[nonlinearity]


def compute_fans(tensor: Tensor) -> tuple[int, int]:
    """Return fan_in and fan_out of a weight.

    Raises: ShapeError: the tensor has fewer than two axes.
    """
    if tensor.ndim < 2:
        raise ShapeError(
            "init",
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions",
            {"tensor": tuple(tensor.shape)}, "a bias is initialised with zeros_ or uniform_",
        )  # fmt: skip
    # Each output reads all input channels at each tap of the filter.
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


@without_grad
def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with values of the uniform distribution U(a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@without_grad
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with values of the normal distribution N(mean, std²)."""
    return tensor.normal_(mean, std, generator=generator)


@without_grad
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Fill with values of a normal distribution truncated to [a, b], by rejection.

    >>> bool((nn.init.trunc_normal_(zeros(100), b=0.5) <= 0.5).all())
    True
    """
    tensor.normal_(mean, std, generator=generator)
    outside = (tensor < a).logical_or(tensor > b)
    tries = 0
    while is_any_true(outside):
        tries += 1
        if tries > 1000:
            raise ValueError(f"trunc_normal_: almost no normal number lies from {a} to {b}")
        # All are drawn again and most thrown away: the few outside are not worth an index.
        redrawn = zeros(*tensor.shape, dtype=tensor.dtype, device=tensor.device)
        tensor.copy_(where(outside, redrawn.normal_(mean, std, generator=generator), tensor))
        outside = (tensor < a).logical_or(tensor > b)
    return tensor


@without_grad
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with a constant."""
    return tensor.fill_(val)


@without_grad
def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return tensor.fill_(1)


@without_grad
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return tensor.fill_(0)


@without_grad
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity."""
    if tensor.ndim != 2:
        raise ShapeError("eye_", "Only matrices are supported", {"tensor": tuple(tensor.shape)})
    return tensor.copy_(eye(*tensor.shape, device=tensor.device))


@without_grad
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill filters with the Dirac delta, so that a convolution is the identity."""
    if tensor.ndim not in (3, 4, 5):
        raise ShapeError("dirac_", "Only filters are supported", {"tensor": tuple(tensor.shape)})
    tensor.fill_(0)
    centre = tuple(size // 2 for size in tensor.shape[2:])
    per_group = tensor.shape[0] // groups
    for group in range(groups):
        for channel in range(min(per_group, tensor.shape[1])):
            tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


@without_grad
def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Xavier (Glorot) uniform initialization: U(-a, a) with a = gain · √(6 / (in + out)).

    It keeps the variance of activations and gradients.

    Paper: Glorot and Bengio, Understanding the difficulty of training deep networks, 2010.
    """
    bound = gain * math.sqrt(6 / sum(compute_fans(tensor)))
    return tensor.uniform_(-bound, bound, generator=generator)


@without_grad
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Xavier (Glorot) normal initialization: std = gain · √(2 / (in + out))."""
    return tensor.normal_(0, gain * math.sqrt(2 / sum(compute_fans(tensor))), generator=generator)


@without_grad
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a random orthogonal matrix: orthonormal rows (or columns, if they are fewer).

    The axes after the first are flattened. The matrix is Q of the QR decomposition of normal
    values, with the signs that make it uniformly distributed.

    Raises: ShapeError: the tensor has fewer than two axes.

    Paper: Saxe, McClelland and Ganguli, Exact solutions to the nonlinear dynamics of learning in
    deep linear neural networks, 2014.

    >>> w = nn.init.orthogonal_(zeros(2, 5))
    >>> bool((w @ w.T - eye(2)).abs().max() < 1e-5)
    True
    """
    if tensor.ndim < 2:
        raise ShapeError(
            "orthogonal_", "Only tensors with 2 or more dimensions are supported",
            {"tensor": tuple(tensor.shape)},
        )  # fmt: skip
    if not tensor.numel():
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    # Of a wide matrix Q would have orthonormal columns, which do not fit: its transpose is drawn.
    shape = (max(rows, columns), min(rows, columns))
    matrix = zeros(*shape, dtype=tensor.dtype, device=tensor.device)
    q, r = qr(matrix.normal_(0, 1, generator=generator))
    # QR fixes the signs by its algorithm; with those of R's diagonal Q is uniform (Mezzadri, 2007).
    q = q * sign(diagonal(r))
    return tensor.copy_((q if rows >= columns else q.T).reshape(tensor.shape)).mul_(gain)


@without_grad
def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Fill a matrix with normal values, and zero a random part of each column.

    Args:
        sparsity: the fraction of zeros, rounded up to whole rows.

    Raises: ShapeError: not a matrix.

    Paper: Martens, Deep learning via Hessian-free optimization, 2010.

    >>> (nn.init.sparse_(zeros(10, 3), sparsity=0.25) == 0).sum(0)
    tensor([3, 3, 3])
    """
    if tensor.ndim != 2:
        raise ShapeError(
            "sparse_", "Only tensors with 2 dimensions are supported",
            {"tensor": tuple(tensor.shape)},
        )  # fmt: skip
    rows, columns = tensor.shape
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        order = randperm(rows, generator=generator, device=tensor.device)
        tensor[order[: math.ceil(sparsity * rows)], column] = 0
    return tensor


def kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    # False and True are the indices 0 and 1.
    fan = compute_fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@without_grad
def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Kaiming (He) uniform initialization: U(-b, b) with b = gain · √(3 / fan).

    Paper: He et al., Delving deep into rectifiers, 2015.

    >>> w = nn.init.kaiming_uniform_(zeros(50, 100))
    >>> bool((w.abs() <= math.sqrt(6 / 100)).all())
    True
    """
    bound = math.sqrt(3) * kaiming_std(tensor, a, mode, nonlinearity)
    return tensor.uniform_(-bound, bound, generator=generator)


@without_grad
def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Kaiming (He) normal initialization: std = gain / √fan."""
    std = kaiming_std(tensor, a, mode, nonlinearity)
    return tensor.normal_(0, std, generator=generator)


# PyTorch's private names, which existing code imports.
_calculate_fan_in_and_fan_out = compute_fans


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    return compute_fans(tensor)[("fan_in", "fan_out").index(mode.lower())]
