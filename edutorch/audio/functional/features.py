"""Features of feature sequences: their change in time, and their distance from a running mean."""

from __future__ import annotations

from ...core.composed import wrap_functions as _guard
from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeValueError
from ...nn.functional import conv1d, pad
from ...ops import arange, cat, cumsum, rsqrt, tensor, where, zeros

__all__ = ["compute_deltas", "sliding_window_cmn"]


def compute_deltas(specgram: Tensor, win_length: int = 5, mode: str = "replicate") -> Tensor:
    """The slope in time of each feature: d[t] = Σ_n n (c[t+n] - c[t-n]) / (2 Σ_n n²).

    It is that of the line which fits the window best.

    Args:
        specgram: (..., freq, time).
        win_length: n runs from 1 to (win_length - 1) // 2.
        mode: of the padding, as in `nn.functional.pad`.

    Raises: ValueError: a window shorter than 3, or no time.

    >>> audio.functional.compute_deltas(tensor([[0.0, 1.0, 2.0, 3.0, 4.0]]), 3)
    tensor([[0.5000, 1.0000, 1.0000, 1.0000, 0.5000]])
    """
    if win_length < 3:
        raise InvalidValueError(
            "compute_deltas", "Window length should be greater than or equal to 3. "
            f"Found win_length {win_length}",
        )  # fmt: skip
    if not specgram.ndim or not specgram.shape[-1]:
        raise ShapeValueError(
            "compute_deltas", "there are no frames", {"specgram": tuple(specgram.shape)}
        )
    n = (win_length - 1) // 2
    weights = arange(-n, n + 1, device=specgram.device, dtype=specgram.dtype)
    rows = specgram.reshape(-1, 1, specgram.shape[-1])
    slopes = conv1d(pad(rows, (n, n), mode), weights.reshape(1, 1, -1))
    return (slopes / (n * (n + 1) * (2 * n + 1) / 3)).reshape(specgram.shape)


def sliding_window_cmn(
    specgram: Tensor,
    cmn_window: int = 600,
    min_cmn_window: int = 100,
    center: bool = False,
    norm_vars: bool = False,
) -> Tensor:
    """Subtract from each frame the mean of the frames around it: a microphone adds a constant.

    Args:
        specgram: (..., time, freq): here time comes first, as in Kaldi.
        cmn_window: the number of frames of the window.
        min_cmn_window: at the start, at least so many frames (from the future) are used.
        center: whether the window is centred; else it ends at the frame.
        norm_vars: whether to divide by the standard deviation, too.

    Raises: ValueError: fewer than 2 axes.

    >>> audio.functional.sliding_window_cmn(tensor([[1.0], [2.0], [3.0]]), 3, 1, center=True)
    tensor([[-1.],
            [ 0.],
            [ 1.]])
    """
    if specgram.ndim < 2:
        raise ShapeValueError(
            "sliding_window_cmn", "expected (..., time, freq)", {"specgram": tuple(specgram.shape)}
        )
    frames = specgram.shape[-2]
    bounds = [_window(t, frames, cmn_window, min_cmn_window, center) for t in range(frames)]
    start = tensor([first for first, _ in bounds], device=specgram.device)
    end = tensor([last for _, last in bounds], device=specgram.device)
    count = (end - start).to(specgram.dtype).unsqueeze(-1)

    def window_mean(values: Tensor) -> Tensor:
        # A sum over a window is a difference of two sums from the start.
        first = zeros(*values.shape[:-2], 1, values.shape[-1], dtype=values.dtype)
        sums = cat([first.to(values.device), cumsum(values, -2)], -2)
        return (sums.index_select(-2, end) - sums.index_select(-2, start)) / count

    centred = specgram - window_mean(specgram)
    if not norm_vars:
        return centred
    variance = window_mean(specgram.square()) - window_mean(specgram).square()
    return where(count == 1, 0.0, centred * rsqrt(variance))


def _window(
    t: int, frames: int, cmn_window: int, min_cmn_window: int, center: bool
) -> tuple[int, int]:
    """Return the first frame of the window of frame t, and the one after its last."""
    start = t - cmn_window // 2 if center else t - cmn_window
    end = start + cmn_window if center else t + 1
    if start < 0:
        start, end = 0, end - start
    if not center and end > t:
        end = max(t + 1, min_cmn_window)
    if end > frames:
        start, end = max(start - (end - frames), 0), frames
    return start, end


_guard(globals())
