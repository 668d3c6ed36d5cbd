"""Fourier transforms, and the windows for them."""

from __future__ import annotations

import math
from typing import Any

from ...dtypes import from_onnx
from ..table import onnx_op
from ..values import Value, number, refuse, torch


@onnx_op("DFT", since=20)
def dft(
    input: Value, dft_length: Value = None, axis: Value = None, *, inverse: int = 0,
    onesided: int = 0,
) -> Value:  # fmt: skip
    """The discrete Fourier transform along an axis; the last axis holds real and imaginary part."""
    dim = -2 if axis is None else int(number(axis))
    return transformed(input, dft_length, dim, (inverse, onesided))


@onnx_op("DFT")
def dft_17(
    input: Value, dft_length: Value = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    """DFT with its axis as an attribute."""
    return transformed(input, dft_length, axis, (inverse, onesided))


def transformed(input: Value, length: Value, dim: int, options: tuple[int, int]) -> Value:
    """Return a Fourier transform as real and imaginary parts.

    Args:
        options: inverse, onesided.
    """
    inverse, onesided = options
    dim = dim + input.dim() if dim < 0 else dim
    points = None if length is None else int(number(length))
    if inverse and onesided:  # half a spectrum gives a real signal
        half = torch.view_as_complex(input.contiguous())
        return torch.fft.irfft(half, points, dim).unsqueeze(-1)
    if input.shape[-1] == 1:
        spectrum = input.squeeze(-1)
    else:
        spectrum = torch.view_as_complex(input.contiguous())
    result = (torch.fft.ifft if inverse else torch.fft.fft)(spectrum, points, dim)
    if onesided:
        result = result.narrow(dim, 0, result.shape[dim] // 2 + 1)
    return torch.view_as_real(result)


@onnx_op("STFT")
def stft(
    signal: Value, frame_step: Value, window: Value = None, frame_length: Value = None, *,
    onesided: int = 1,
) -> Value:  # fmt: skip
    """The Fourier transforms of overlapping frames."""
    step = int(number(frame_step))
    length = window.shape[0] if frame_length is None else int(number(frame_length))
    data = signal.squeeze(-1) if signal.shape[-1] == 1 else torch.view_as_complex(signal)
    frames = data.unfold(1, length, step)
    if window is not None:
        frames = frames * window
    spectrum = torch.fft.fft(frames, dim=-1)
    if onesided:
        spectrum = spectrum.narrow(-1, 0, length // 2 + 1)
    return torch.view_as_real(spectrum)


def window(size: Value, periodic: int, dtype: int, weights: tuple[float, ...]) -> Value:
    """Return a sum of cosines over a window."""
    own = from_onnx(dtype)
    if own is None:
        refuse("a dtype that does not exist here")
    count = int(number(size))
    divisor = count if periodic else max(count - 1, 1)
    angle = torch.arange(count, dtype=torch.float64) * (2 * math.pi / divisor)
    result: Any = sum((-1) ** i * weight * torch.cos(angle * i) for i, weight in enumerate(weights))
    return result.to(own)


@onnx_op("HannWindow")
def hann_window(size: Value, *, output_datatype: int = 1, periodic: int = 1) -> Value:
    """The window of Hann."""
    return window(size, periodic, output_datatype, (0.5, 0.5))


@onnx_op("HammingWindow")
def hamming_window(size: Value, *, output_datatype: int = 1, periodic: int = 1) -> Value:
    """The window of Hamming."""
    return window(size, periodic, output_datatype, (25 / 46, 21 / 46))


@onnx_op("BlackmanWindow")
def blackman_window(size: Value, *, output_datatype: int = 1, periodic: int = 1) -> Value:
    """The window of Blackman."""
    return window(size, periodic, output_datatype, (0.42, 0.5, 0.08))


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(
    num_mel_bins: Value, dft_length: Value, sample_rate: Value, lower_edge_hertz: Value,
    upper_edge_hertz: Value, *, output_datatype: int = 1,
) -> Value:  # fmt: skip
    """The triangles that turn a spectrum into one on the mel scale."""
    bins, length, rate = (int(number(v)) for v in (num_mel_bins, dft_length, sample_rate))
    edges = [float(number(v)) for v in (lower_edge_hertz, upper_edge_hertz)]
    low, high = (2595 * math.log10(1 + edge / 700) for edge in edges)
    step = (high - low) / (bins + 2)
    hertz = [700 * (10 ** ((low + step * i) / 2595) - 1) for i in range(bins + 2)]
    points = [int(((length + 1) * value) // rate) for value in hertz]
    columns = []
    for i in range(bins):
        left, centre, right = points[i : i + 3]
        column = [0.0] * (length // 2 + 1)
        for j in range(left, centre + 1):
            column[j] = (j - left) / (centre - left) if centre > left else 1.0
        for j in range(centre, right):
            column[j] = (right - j) / (right - centre)
        columns.append(column)
    own = from_onnx(output_datatype)
    return torch.tensor(columns, dtype=torch.float64).t().to(own)
