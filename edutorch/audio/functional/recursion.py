"""Filters with feedback: lfilter, filtfilt, pre- and de-emphasis.

    a₀ y[n] = Σ_i b_i x[n-i] - Σ_{i>0} a_i y[n-i]

The first sum is a convolution. The second one, by which an output depends on those before it, is
`Recursion`, the only op here with a gradient of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd import Function
from ...backends.numpy import Array, Namespace
from ...core.composed import wrap_functions as _guard
from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeValueError
from ...nn.functional import conv1d, pad
from ...ops import cat, stack, tensor

__all__ = ["deemphasis", "filtfilt", "lfilter", "preemphasis"]


def recursion_values(xp: Namespace, x: Array, a: Array) -> Array:
    """Return y with y[n] = x[n] - Σ_{i>0} a[i] y[n-i].

    Shape: x (batch, channels, time), a (channels, order + 1).
    """
    if xp is np:
        try:
            from scipy.signal import lfilter as scipy_lfilter
        except ImportError:
            pass  # the loop below: the same, slower
        else:
            one = np.ones(1)
            channels = [
                scipy_lfilter(one, np.concatenate((one, a[c, 1:])), x[:, c].astype(np.float64))
                for c in range(x.shape[1])
            ]
            return np.stack(channels, 1).astype(x.dtype)
    order, time = a.shape[1] - 1, x.shape[2]
    y = xp.zeros((*x.shape[:2], order + time), x.dtype)  # before the first sample all are 0
    newest_last = a[:, :0:-1]
    for n in range(time):
        y[..., order + n] = x[..., n] - (y[..., n : n + order] * newest_last).sum(-1)
    return y[..., order:]


class Recursion(Function):
    """y[n] = x[n] - Σ_{i>0} a[i] y[n-i].

    Read backwards in time, the gradient obeys the same recursion: what y[n] adds to the loss, it
    adds by itself (g[n]) and by all later outputs that it feeds.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor) -> Tensor:
        """Run the recursion over the arrays."""
        values = recursion_values(np, x.detach().cpu().numpy(), a.detach().cpu().numpy())
        y = tensor(values, device=x.device)
        ctx.save_for_backward(a, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Run the recursion backwards in time for dx; da[i] = -Σ_n dx[n] y[n-i]."""
        a, y = ctx.saved_tensors
        dx = Recursion.apply(g.flip(-1), a).flip(-1)
        da = None
        if ctx.needs_input_grad[1]:
            time, taps = y.shape[-1], a.shape[-1]
            sums = [
                -(dx[..., i:] * y[..., : time - i]).sum((0, 2)) for i in range(1, min(taps, time))
            ]
            zero = (y[..., :1] * 0.0).sum((0, 2))  # a[0] is 1, and not used
            da = stack([zero, *sums, *[zero] * (taps - 1 - len(sums))], -1)
        return dx, da


def _check_coefficients(waveform: Tensor, a: Tensor, b: Tensor, batching: bool) -> None:
    """Raise ValueError unless the coefficients fit each other and the waveform."""
    rows = {
        "waveform": tuple(waveform.shape), "a_coeffs": tuple(a.shape), "b_coeffs": tuple(b.shape)
    }  # fmt: skip
    if a.shape != b.shape:
        raise ShapeValueError(
            "lfilter", "Expected coeffs to be the same size.", rows, "fill the shorter one with 0"
        )
    if a.ndim not in (1, 2) or not a.shape[-1]:
        raise ShapeValueError(
            "lfilter", "Expected coeffs (order + 1) or (filters, order + 1)", rows
        )
    if not waveform.ndim:
        raise ShapeValueError("lfilter", "Expected waveform (..., time)", rows)
    if a.ndim == 2 and batching and (waveform.ndim < 2 or waveform.shape[-2] != a.shape[0]):
        raise ShapeValueError(
            "lfilter", "Expected number of batches in waveform and coeffs to be the same.", rows,
            "batching=False applies every filter to the whole waveform",
        )  # fmt: skip
    if bool((a[..., 0] == 0).any()):
        raise InvalidValueError("lfilter", "a_coeffs[0] is 0: the output is divided by it", rows)


def lfilter(
    waveform: Tensor,
    a_coeffs: Tensor,
    b_coeffs: Tensor,
    clamp: bool = True,
    batching: bool = True,
) -> Tensor:
    """Filter a waveform: a₀ y[n] = Σ_i b_i x[n-i] - Σ_{i>0} a_i y[n-i].

    Args:
        waveform: (..., time), from -1 to 1.
        a_coeffs, b_coeffs: (order + 1), or (filters, order + 1), the lowest delay first.
        clamp: whether to clip the result to [-1, 1].
        batching: of several filters, whether filter i is for channel i of (..., filters, time);
            else each is applied to the whole waveform, in a new axis before time.

    Shape: (..., time), or (..., filters, time).

    Raises: ValueError: shapes that do not fit, or a₀ = 0.

    >>> x = tensor([1.0, 0.0, 0.0, 0.0])
    >>> audio.functional.lfilter(x, tensor([1.0, -0.5]), tensor([1.0, 0.0]))
    tensor([1.0000, 0.5000, 0.2500, 0.1250])
    """
    _check_coefficients(waveform, a_coeffs, b_coeffs, batching)
    if a_coeffs.ndim == 1:
        a_coeffs, b_coeffs = a_coeffs.unsqueeze(0), b_coeffs.unsqueeze(0)
    elif not batching:
        waveform = stack([waveform] * a_coeffs.shape[0], -2)
    filters, taps = a_coeffs.shape
    rows = math.prod(waveform.shape[:-1]) // filters
    x = waveform.reshape(rows, filters, waveform.shape[-1])
    scale = a_coeffs[:, :1]
    # conv1d correlates: with the taps in reverse it is a convolution.
    taps_first_last = (b_coeffs / scale).flip(1).unsqueeze(1)
    if x.numel():
        x = conv1d(pad(x, (taps - 1, 0)), taps_first_last, groups=filters)
        x = Recursion.apply(x, a_coeffs / scale)
    if clamp:
        x = x.clamp(-1.0, 1.0)
    return x.reshape(waveform.shape)


def filtfilt(waveform: Tensor, a_coeffs: Tensor, b_coeffs: Tensor, clamp: bool = True) -> Tensor:
    """Filter forwards and then backwards in time: the delays of the two cancel.

    Args: as for `lfilter`.

    >>> x = tensor([0.0, 0.0, 1.0, 0.0, 0.0])
    >>> audio.functional.filtfilt(x, tensor([1.0, 0.0]), tensor([0.5, 0.5]))
    tensor([0.0000, 0.2500, 0.5000, 0.2500, 0.0000])
    """
    forwards = lfilter(waveform, a_coeffs, b_coeffs, clamp=False)
    return lfilter(forwards.flip(-1), a_coeffs, b_coeffs, clamp=clamp).flip(-1)


def preemphasis(waveform: Tensor, coeff: float = 0.97) -> Tensor:
    """Strengthen high frequencies: y[n] = x[n] - coeff · x[n-1], and y[0] = x[0].

    >>> audio.functional.preemphasis(tensor([1.0, 1.0, 1.0]), 0.5)
    tensor([1.0000, 0.5000, 0.5000])
    """
    return cat([waveform[..., :1], waveform[..., 1:] - coeff * waveform[..., :-1]], -1)


def deemphasis(waveform: Tensor, coeff: float = 0.97) -> Tensor:
    """Undo `preemphasis`: y[n] = x[n] + coeff · y[n-1], clipped to [-1, 1].

    >>> audio.functional.deemphasis(tensor([1.0, 0.5, 0.5]), 0.5)
    tensor([1., 1., 1.])
    """
    a = tensor([1.0, -coeff], dtype=waveform.dtype, device=waveform.device)
    b = tensor([1.0, 0.0], dtype=waveform.dtype, device=waveform.device)
    return lfilter(waveform, a, b)


_guard(globals())
