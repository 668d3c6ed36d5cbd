"""Another sample rate: interpolation by windowed sinc filters.

A signal without frequencies above half the sample rate is known between its samples, too:

    x(t) = Σ_i x[i] sinc(f · t - i)

Reading it at times j / new_freq is a convolution, with other weights for each j; after new_freq of
them the weights repeat, orig_freq samples later. So one `conv1d` with `new_freq` filters and a
stride of orig_freq (both without their common divisor) computes all outputs.
"""

from __future__ import annotations

import math

from ... import dtypes
from ...core.composed import wrap_functions as _guard
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, InvalidValueError, ShapeValueError, warn
from ...nn.functional import conv1d, pad
from ...ops import arange, ceil, cos, i0, sinc, sqrt, tensor

__all__ = ["resample", "speed"]

OLD_METHODS = {"sinc_interpolation": "sinc_interp_hann", "kaiser_window": "sinc_interp_kaiser"}

KAISER_BETA = 14.769656459379492
"""The Kaiser window whose side lobes are below -150 dB."""


def reduce_frequencies(orig_freq: float, new_freq: float) -> tuple[int, int]:
    """Return the two rates without their common divisor.

    Raises: TypeError, ValueError: they are not positive whole numbers.
    """
    for name, value in (("orig_freq", orig_freq), ("new_freq", new_freq)):
        if isinstance(value, bool) or not hasattr(value, "__float__") or int(value) != value:
            raise ArgumentError(
                "resample", f"Frequencies must be of integer type, but {name} is {value!r}",
                hint="choose whole numbers with the same ratio: 8 and 1 for 44100 and 5512.5",
            )  # fmt: skip
        if value <= 0:
            raise InvalidValueError("resample", f"{name} must be positive, got {value}")
    common = math.gcd(int(orig_freq), int(new_freq))
    return int(orig_freq) // common, int(new_freq) // common


def sinc_kernel(
    orig_freq: int,
    new_freq: int,
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    resampling_method: str = "sinc_interp_hann",
    beta: float | None = None,
    dtype: dtypes.dtype | None = None,
) -> tuple[Tensor, int]:
    """Return the filters of `resample`, and how many samples they reach to each side.

    Args: as for `resample`, with reduced frequencies, and
        dtype: of the computation; by default float64, and float32 for the result.

    Shape: (new_freq, 1, 2 · reach + orig_freq).

    Raises: ValueError: an unknown method, or a width or rolloff that is not positive.

    >>> kernel, reach = sinc_kernel(2, 1, lowpass_filter_width=1, rolloff=1.0)
    >>> kernel, reach
    (tensor([[[0.0000, 0.1592, 0.5000, 0.1592, 0.0000, 0.0000]]]), 2)
    """
    if resampling_method in OLD_METHODS:
        new_name = OLD_METHODS[resampling_method]
        warn(f'resample: the method "{resampling_method}" is now called "{new_name}"')
        resampling_method = new_name
    if resampling_method not in OLD_METHODS.values():
        raise InvalidValueError(
            "resample", f"Invalid resampling method: {resampling_method}",
            hint="the methods are sinc_interp_hann and sinc_interp_kaiser",
        )  # fmt: skip
    if lowpass_filter_width <= 0:
        raise InvalidValueError("resample", "Low pass filter width should be positive.")
    if not rolloff > 0:
        raise InvalidValueError("resample", f"rolloff must be positive, got {rolloff}")
    # Frequencies above half of the lower rate cannot be kept: the filter removes them.
    cutoff = min(orig_freq, new_freq) * rolloff
    reach = math.ceil(lowpass_filter_width * orig_freq / cutoff)
    computed = dtypes.float64 if dtype is None else dtype
    samples = arange(-reach, reach + orig_freq, dtype=computed) / orig_freq
    # torchaudio rounds the times of the outputs to float32, so they are the same here.
    outputs = (arange(0, -new_freq, -1, dtype=dtype) / new_freq).reshape(-1, 1, 1)
    t = ((outputs + samples) * cutoff).clamp(-lowpass_filter_width, lowpass_filter_width)
    if resampling_method == "sinc_interp_hann":
        window = cos(t * math.pi / lowpass_filter_width / 2) ** 2
    else:
        sharpness = tensor(KAISER_BETA if beta is None else float(beta), dtype=computed)
        window = i0(sharpness * sqrt(1 - (t / lowpass_filter_width) ** 2)) / i0(sharpness)
    kernel = sinc(t) * window * (cutoff / orig_freq)
    return (kernel.float() if dtype is None else kernel), reach


def apply_kernel(
    waveform: Tensor, orig_freq: int, new_freq: int, kernel: Tensor, reach: int
) -> Tensor:
    """Resample by the filters of `sinc_kernel`, of reduced frequencies.

    Raises: TypeError: integer samples. ValueError: no axis of time.
    """
    if not waveform.is_floating_point():
        raise ArgumentError(
            "resample", "Expected floating point type for waveform tensor, but received "
            f"{waveform.dtype}.", hint="audio.load scales samples to floats from -1 to 1",
        )  # fmt: skip
    if not waveform.ndim:
        raise ShapeValueError("resample", "Expected waveform (..., time)", {"waveform": ()})
    if waveform.dtype != kernel.dtype:
        raise DTypeError(
            "resample", f"the waveform is {waveform.dtype}, but the kernel {kernel.dtype}",
            hint="Resample(…, dtype=waveform.dtype), or waveform.float()",
        )  # fmt: skip
    shape = waveform.shape
    length = -(-new_freq * shape[-1] // orig_freq)
    rows = math.prod(shape[:-1])
    padded = pad(waveform.reshape(rows, 1, shape[-1]), (reach, reach + orig_freq))
    # Output j of a stride is that of filter j.
    outputs = conv1d(padded, kernel, stride=orig_freq).transpose(1, 2)
    outputs = outputs.reshape(rows, outputs.shape[1] * new_freq)[:, :length]
    return outputs.reshape(*shape[:-1], length)


def resample(
    waveform: Tensor,
    orig_freq: float,
    new_freq: float,
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    resampling_method: str = "sinc_interp_hann",
    beta: float | None = None,
) -> Tensor:
    """Change the sample rate of a waveform.

    Args:
        waveform: (..., time).
        orig_freq, new_freq: the sample rates, whole numbers.
        lowpass_filter_width: the zero crossings of the sinc to each side: more are sharper.
        rolloff: the highest frequency that passes, relative to half of the lower rate.
        resampling_method: the window of the sinc: "sinc_interp_hann" or "sinc_interp_kaiser".
        beta: the shape of the Kaiser window.

    Shape: (..., ⌈time · new_freq / orig_freq⌉).

    Raises: TypeError, ValueError: invalid arguments, or integer samples.

    Paper: J. Smith, "Digital Audio Resampling", 2002.

    >>> x = sin(2 * math.pi * arange(80) / 16)
    >>> y = audio.functional.resample(x, 16000, 8000)
    >>> y.shape, (y[10:30] - x[20:60:2]).abs().max() < 0.01
    (torch.Size([40]), tensor(True))
    """
    source, target = reduce_frequencies(orig_freq, new_freq)
    if source == target:
        return waveform
    kernel, reach = sinc_kernel(
        source, target, lowpass_filter_width, rolloff, resampling_method, beta,
        waveform.dtype if waveform.is_floating_point() else None,
    )  # fmt: skip
    return apply_kernel(waveform, source, target, kernel.to(waveform.device), reach)


def speed_frequencies(orig_freq: int, factor: float) -> tuple[int, int]:
    """Return the reduced rates between which resampling changes the speed by `factor`.

    Raises: ValueError: the factor is not positive.
    """
    if not factor > 0:
        raise InvalidValueError("speed", f"factor must be positive, got {factor}")
    return reduce_frequencies(int(factor * orig_freq), int(orig_freq))


def scale_lengths(lengths: Tensor | None, source: int, target: int) -> Tensor | None:
    """Return the lengths of waveforms after resampling them."""
    return None if lengths is None else ceil(lengths * target / source).to(lengths.dtype)


def speed(
    waveform: Tensor, orig_freq: int, factor: float, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Play a waveform faster (and so higher) by `factor`, as a record that turns too fast.

    Args:
        waveform: (..., time).
        orig_freq: its sample rate.
        factor: 2 halves the number of samples.
        lengths: of a batch with padding, the number of valid samples of each waveform.

    Returns: the waveform, and its new lengths (or None).

    Raises: ValueError: the factor is not positive.

    >>> y, lengths = audio.functional.speed(zeros(2, 100), 8000, 2.0, tensor([100, 50]))
    >>> y.shape, lengths
    (torch.Size([2, 50]), tensor([50, 25]))
    """
    source, target = speed_frequencies(orig_freq, factor)
    return resample(waveform, source, target), scale_lengths(lengths, source, target)


_guard(globals())
