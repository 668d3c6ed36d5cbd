"""The short-time Fourier transform and its inverse.

S[k, t] = Σ_j window[j] · x[t · hop_length + j] · e^(-2πi jk/n_fft)
"""

from __future__ import annotations

from .. import fft
from ..core.composed import as_method, with_argument_checks
from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError, ValueRangeError, warn
from ..nn.functional import pad
from ..ops import arange, ones, view_as_real, zeros

__all__ = ["istft", "stft"]


def _padded_window(
    name: str, input: Tensor, n_fft: int, win_length: int, window: Tensor | None
) -> Tensor:
    """Return the window zero-padded on both sides to n_fft samples.

    Warns where there is no window, which is rarely intended.

    Raises: ShapeError: the window does not have `win_length` samples, or more than n_fft.
    """
    if not 0 < win_length <= n_fft:
        raise ShapeError(
            name, f"expected 0 < win_length <= n_fft, but got win_length={win_length}",
            {"n_fft": n_fft},
        )  # fmt: skip
    if window is None:
        warn(
            f"{name}: A window was not provided. Ones are taken: pieces that begin and end "
            "abruptly, which blurs their spectra; window=hann_window(win_length) fades them"
        )
        dtype = input.real.dtype if input.is_complex() else input.dtype
        window = ones(win_length, dtype=dtype, device=input.device)
    if tuple(window.shape) != (win_length,):
        raise ShapeError(
            name, f"expected a 1D window tensor of size equal to win_length={win_length}",
            {"window": tuple(window.shape)},
            "give win_length too, where the window is shorter than n_fft",
        )  # fmt: skip
    before = (n_fft - win_length) // 2
    after = n_fft - win_length - before
    return pad(window, (before, after)) if before or after else window


def _check_onesided(name: str, onesided: bool, *tensors: Tensor | None) -> None:
    """Raise DTypeError for a one-sided spectrum of a complex signal."""
    if onesided and any(tensor is not None and tensor.is_complex() for tensor in tensors):
        raise DTypeError(
            name, "Cannot have onesided output if window or input is complex",
            hint="use onesided=False: only the spectrum of real numbers repeats itself",
        )  # fmt: skip


def _check_signal(input: Tensor, n_fft: int, hop_length: int) -> None:
    """Raise ShapeError or DTypeError unless `input` can be split into frames of n_fft samples."""
    rows = {"input": tuple(input.shape), "n_fft": n_fft}
    if input.ndim not in (1, 2):
        raise ShapeError(
            "stft", "expected a 1D or 2D tensor: a signal, or a batch of them", rows,
            "x.flatten(0, -2) makes one batch of several axes",
        )  # fmt: skip
    if input.dtype.category < 2:
        raise DTypeError("stft", "expected a tensor of floating point or complex values", rows)
    if not 0 < n_fft <= input.shape[-1]:
        raise ShapeError("stft", f"expected 0 < n_fft <= {input.shape[-1]}", rows)
    if hop_length <= 0:
        raise ShapeError("stft", f"expected hop_length > 0, but got hop_length={hop_length}")


def _pad_ends(input: Tensor, width: int, mode: str) -> Tensor:
    """Return the signal padded by `width` samples at each end."""
    if input.ndim not in (1, 2):
        return input  # `_check_signal` raises the error
    padded = pad(input.reshape((*(1,) * (3 - input.ndim), *input.shape)), (width, width), mode)
    return padded.reshape(padded.shape[-input.ndim :])


@with_argument_checks
@as_method
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The short-time Fourier transform: the spectrum of each frame of a signal.

    Args:
        input: a signal, or a batch of signals.
        n_fft: the number of samples of a frame.
        hop_length: the distance between frames; by default n_fft // 4.
        win_length: the number of samples of the window; by default n_fft.
        window: the weights of the samples of a frame; by default ones.
        center: whether frame t is centred at t · hop_length, with the signal padded at both
            ends by `pad_mode`; else it starts there.
        normalized: whether to divide by √n_fft.
        onesided: whether to return only the nonnegative frequencies; default for real input.
        return_complex: whether to return a complex tensor instead of pairs of real elements.
        align_to_window: without `center`, whether the window (not the frame) starts there.

    Shape: (batch, frequencies, frames), without batch for one signal.

    Raises: ShapeError, DTypeError, ValueRangeError: invalid arguments.

    >>> stft(ones(8), 4, window=hann_window(4), return_complex=True).abs()[:, :2]
    tensor([[2., 2.],
            [1., 1.],
            [0., 0.]])
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not is_complex:
        raise ValueRangeError(
            "stft", "requires the return_complex parameter be given for real inputs",
            hint="use return_complex=True",
        )  # fmt: skip
    if center and align_to_window is not None:
        raise ValueRangeError("stft", "align_to_window should only be set when center = false")
    if center:
        input = _pad_ends(input, n_fft // 2, pad_mode)
    elif align_to_window and n_fft > win_length:
        around = (n_fft - win_length) // 2
        input = pad(input, (around, n_fft - win_length - around))
    _check_signal(input, n_fft, hop_length)
    weights = _padded_window("stft", input, n_fft, win_length, window)
    onesided = not is_complex if onesided is None else onesided
    _check_onesided("stft", onesided, input, window)
    frames = input.unfold(-1, n_fft, hop_length) * weights
    transform = fft.rfft if onesided else fft.fft
    spectra = transform(frames, norm="ortho" if normalized else "backward").transpose(-1, -2)
    return view_as_real(spectra) if return_complex is False else spectra


def _check_spectra(
    input: Tensor, n_fft: int, hop_length: int, win_length: int, onesided: bool | None
) -> bool:
    """Return True for one-sided spectra.

    Raises: ShapeError, DTypeError: the input is not a result of `stft`.
    """
    rows = {"input (frequencies, pieces)": tuple(input.shape), "n_fft": n_fft}
    if not input.is_complex():
        raise DTypeError(
            "istft", "requires a complex-valued input tensor matching the output from stft",
            rows, "view_as_complex(x) reads pairs of real numbers",
        )  # fmt: skip
    if input.ndim not in (2, 3):
        raise ShapeError("istft", "expected a tensor with 2 or 3 dimensions", rows)
    if not input.numel():
        raise ShapeError("istft", "input tensor cannot be empty", rows)
    if not 0 < hop_length <= win_length:
        raise ShapeError("istft", "expected 0 < hop_length <= win_length", rows)
    half = input.shape[-2] != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if half else n_fft
    if input.shape[-2] != expected:
        raise ShapeError("istft", f"expected {expected} frequencies with onesided={half}", rows)
    return half


def _overlap_add(frames: Tensor, hop_length: int) -> Tensor:
    """Overlap-add: sum frames (batch, frames, n) at a distance of `hop_length`."""
    batch, count, n = frames.shape
    starts = arange(count, device=frames.device).unsqueeze(-1) * hop_length
    positions = (starts + arange(n, device=frames.device)).flatten()
    total = n + hop_length * (count - 1)
    y = zeros(batch, total, dtype=frames.dtype, device=frames.device)
    return y.index_add(1, positions, frames.flatten(1))


@with_argument_checks
@as_method
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The inverse of `stft`: the signal whose frames have these spectra.

    The frames, weighted by the window again, are overlap-added, and divided by the sum of the
    squared windows at each sample. (For spectra that no signal has, this is the least-squares
    estimate.)

    Args: as for `stft`, and
        length: the number of samples of the signal; by default as many as the frames cover.
        return_complex: whether the signal is complex.

    Raises: ShapeError, DTypeError: invalid arguments. ValueRangeError: at some sample all
        windows are 0, so the signal cannot be recovered there.

    Paper: D. Griffin, J. Lim, "Signal estimation from modified short-time Fourier
    transform", 1984.

    >>> x, window = arange(8.0), hann_window(4)
    >>> spectra = stft(x, 4, window=window, return_complex=True)
    >>> allclose(istft(spectra, 4, window=window), x, atol=1e-5)
    True
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    onesided = _check_spectra(input, n_fft, hop_length, win_length, onesided)
    weights = _padded_window("istft", input, n_fft, win_length, window)
    if return_complex:
        _check_onesided("istft", onesided, input)
    elif weights.is_complex():
        raise DTypeError("istft", "Complex windows are incompatible with return_complex=False")
    norm = "ortho" if normalized else "backward"
    spectra = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(-1, -2)
    if not return_complex:
        frames = fft.irfft(spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    else:
        frames = fft.ifft(spectra, norm=norm)
    signal = _trim_and_normalize(
        _overlap_add(frames * weights, hop_length),
        _overlap_add((weights * weights).expand((1, frames.shape[1], n_fft)), hop_length),
        n_fft // 2 if center else 0,
        length,
        center,
    )
    return signal if input.ndim == 3 else signal[0]


def _trim_and_normalize(
    signal: Tensor, squares: Tensor, start: int, length: int | None, center: bool
) -> Tensor:
    """Trim the overlap-added frames to the requested part and divide by the squared windows."""
    total = signal.shape[-1]
    end = start + length if length is not None else total - start
    signal, squares = signal[:, start:end], squares[:, start:end]
    if not squares.numel() or float(squares.detach().abs().min()) < 1e-11:
        raise ValueRangeError(
            "istft", "window overlap add min: somewhere all windows are 0, or there is nothing",
            {"numbers": total, "wanted": f"{start} to {end}", "center": center},
            "let the windows overlap more (a smaller hop_length), or use center=True",
        )  # fmt: skip
    signal = signal / squares
    if end > total:
        warn("istft: the length is longer than what the pieces reach: zeros follow")
        signal = pad(signal, (0, end - total))
    return signal
