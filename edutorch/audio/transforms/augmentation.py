"""Random and other changes of training data, features of features, another sample rate."""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtypes
from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...nn.modules import Module, ModuleList
from ...ops import randint
from .. import functional as F
from ..functional.augmentation import check_mode
from ..functional.resampling import (
    apply_kernel,
    reduce_frequencies,
    scale_lengths,
    sinc_kernel,
    speed_frequencies,
)

__all__ = [
    "AddNoise", "ComputeDeltas", "Convolve", "FFTConvolve", "FrequencyMasking", "Resample",
    "SlidingWindowCmn", "SpecAugment", "Speed", "SpeedPerturbation", "TimeMasking",
]  # fmt: skip


class Resample(Module):
    """Change the sample rate of a waveform: see `functional.resample`; the filters are kept.

    Args: as there, and
        dtype: of the filters: float64 for waveforms of that dtype.

    Shape: (..., time); result (..., ⌈time · new_freq / orig_freq⌉).

    Raises: TypeError, ValueError: invalid arguments.

    >>> audio.transforms.Resample(44100, 16000)(zeros(2, 44100)).shape
    torch.Size([2, 16000])
    """

    kernel: Tensor

    def __init__(
        self,
        orig_freq: float = 16000,
        new_freq: float = 16000,
        resampling_method: str = "sinc_interp_hann",
        lowpass_filter_width: int = 6,
        rolloff: float = 0.99,
        beta: float | None = None,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__()
        self.orig_freq = orig_freq
        self.new_freq = new_freq
        self.reduced = reduce_frequencies(orig_freq, new_freq)
        if orig_freq != new_freq:
            kernel, self.width = sinc_kernel(
                *self.reduced, lowpass_filter_width, rolloff, resampling_method, beta, dtype
            )
            self.register_buffer("kernel", kernel)

    def forward(self, waveform: Tensor) -> Tensor:
        if self.orig_freq == self.new_freq:
            return waveform
        return apply_kernel(waveform, *self.reduced, self.kernel, self.width)

    def extra_repr(self) -> str:
        return f"orig_freq={self.orig_freq}, new_freq={self.new_freq}"


class Speed(Module):
    """Play waveforms faster, and higher: see `functional.speed`.

    >>> audio.transforms.Speed(8000, 2.0)(zeros(1, 100))[0].shape
    torch.Size([1, 50])
    """

    def __init__(self, orig_freq: int, factor: float) -> None:
        super().__init__()
        self.orig_freq = orig_freq
        self.factor = factor
        self.source_sample_rate, self.target_sample_rate = speed_frequencies(orig_freq, factor)
        self.resampler = Resample(self.source_sample_rate, self.target_sample_rate)

    def forward(
        self, waveform: Tensor, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        lengths = scale_lengths(lengths, self.source_sample_rate, self.target_sample_rate)
        return self.resampler(waveform), lengths


class SpeedPerturbation(Module):
    """Change the speed of waveforms by one of several factors, drawn in each call.

    Args:
        orig_freq: the sample rate.
        factors: the factors.

    Raises: ValueError: there are no factors.

    Paper: T. Ko et al., "Audio augmentation for speech recognition", 2015.

    >>> audio.transforms.SpeedPerturbation(8000, [0.5])(zeros(1, 100))[0].shape
    torch.Size([1, 200])
    """

    def __init__(self, orig_freq: int, factors: Sequence[float]) -> None:
        super().__init__()
        if not factors:
            raise InvalidValueError("SpeedPerturbation", "there are no factors")
        self.speeders = ModuleList([Speed(orig_freq, factor) for factor in factors])

    def forward(
        self, waveform: Tensor, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        return self.speeders[int(randint(len(self.speeders), ()))](waveform, lengths)


class AxisMasking(Module):
    """Base of `FrequencyMasking` and `TimeMasking`.

    Args:
        mask_param: the masks are narrower than this.
        axis: 1 for frequency, 2 for time, of (channel, freq, time).
        iid_masks: whether each spectrogram of a batch gets a mask of its own.
        p: a mask covers at most this part of the axis.

    Raises: ValueError: p is not in [0, 1].
    """

    def __init__(self, mask_param: int, axis: int, iid_masks: bool, p: float = 1.0) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise InvalidValueError(
                type(self).__name__, f"The value of p must be between 0.0 and 1.0 ({p} given)."
            )
        self.mask_param = mask_param
        self.axis = axis
        self.iid_masks = iid_masks
        self.p = p

    def forward(self, specgram: Tensor, mask_value: float | Tensor = 0.0) -> Tensor:
        axis = self.axis + specgram.ndim - 3
        if self.iid_masks:
            return F.mask_along_axis_iid(specgram, self.mask_param, mask_value, axis, self.p)
        return F.mask_along_axis(specgram, self.mask_param, float(mask_value), axis, self.p)


class FrequencyMasking(AxisMasking):
    """Overwrite a random band of frequencies: see `functional.mask_along_axis`.

    Args:
        freq_mask_param: the band is narrower than this.
        iid_masks: whether each spectrogram of a batch gets a band of its own.

    Shape: (..., freq, time).

    >>> masked = audio.transforms.FrequencyMasking(4)(ones(1, 8, 2))
    >>> bool((masked == 0).all(2).sum() < 4)
    True
    """

    def __init__(self, freq_mask_param: int, iid_masks: bool = False) -> None:
        super().__init__(freq_mask_param, 1, iid_masks)


class TimeMasking(AxisMasking):
    """Overwrite a random stretch of time: see `functional.mask_along_axis`.

    Args:
        time_mask_param: the stretch is shorter than this.
        iid_masks: whether each spectrogram of a batch gets a stretch of its own.
        p: the stretch is at most this part of the time.

    Shape: (..., freq, time).

    >>> masked = audio.transforms.TimeMasking(8, p=0.25)(ones(1, 2, 8))
    >>> bool((masked == 0).all(1).sum() <= 2)
    True
    """

    def __init__(self, time_mask_param: int, iid_masks: bool = False, p: float = 1.0) -> None:
        super().__init__(time_mask_param, 2, iid_masks, p)


class SpecAugment(Module):
    """Several masks in time and in frequency, filled with the mean of the spectrogram.

    Args:
        n_time_masks, n_freq_masks: how many.
        time_mask_param, freq_mask_param: they are narrower than this.
        iid_masks: whether each spectrogram of a batch gets masks of its own.
        p: a mask covers at most this part of the time.
        zero_masking: fill with 0 instead.

    Shape: (..., freq, time).

    Paper: D. Park et al., "SpecAugment: a simple data augmentation method for automatic speech
    recognition", 2019.

    >>> audio.transforms.SpecAugment(1, 3, 1, 2, zero_masking=True)(ones(1, 8, 8)).shape
    torch.Size([1, 8, 8])
    """

    def __init__(
        self,
        n_time_masks: int,
        time_mask_param: int,
        n_freq_masks: int,
        freq_mask_param: int,
        iid_masks: bool = True,
        p: float = 1.0,
        zero_masking: bool = False,
    ) -> None:
        super().__init__()
        self.n_time_masks = n_time_masks
        self.time_mask_param = time_mask_param
        self.n_freq_masks = n_freq_masks
        self.freq_mask_param = freq_mask_param
        self.iid_masks = iid_masks
        self.p = p
        self.zero_masking = zero_masking

    def forward(self, specgram: Tensor) -> Tensor:
        filler = 0.0 if self.zero_masking else float(specgram.detach().mean())
        iid = self.iid_masks and specgram.ndim > 2
        mask = F.mask_along_axis_iid if iid else F.mask_along_axis
        for _ in range(self.n_time_masks):
            specgram = mask(specgram, self.time_mask_param, filler, specgram.ndim - 1, self.p)
        for _ in range(self.n_freq_masks):
            specgram = mask(specgram, self.freq_mask_param, filler, specgram.ndim - 2, self.p)
        return specgram


class AddNoise(Module):
    """Add noise at a signal-to-noise ratio: see `functional.add_noise`.

    >>> audio.transforms.AddNoise()(ones(1, 2), tensor([[1.0, -1.0]]), tensor([20.0]))
    tensor([[1.1000, 0.9000]])
    """

    def forward(
        self, waveform: Tensor, noise: Tensor, snr: Tensor, lengths: Tensor | None = None
    ) -> Tensor:
        return F.add_noise(waveform, noise, snr, lengths)


class Convolve(Module):
    """Convolve two signals: see `functional.convolve`.

    >>> audio.transforms.Convolve()(tensor([1.0, 2.0]), tensor([1.0, 3.0]))
    tensor([1., 5., 6.])
    """

    def __init__(self, mode: str = "full") -> None:
        super().__init__()
        check_mode("Convolve", mode)
        self.mode = mode

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.convolve(x, y, self.mode)


class FFTConvolve(Module):
    """Convolve two signals by their spectra: see `functional.fftconvolve`.

    >>> z = audio.transforms.FFTConvolve("same")(tensor([1.0, 2.0, 1.0]), tensor([1.0, 1.0, 1.0]))
    >>> allclose(z, tensor([3.0, 4.0, 3.0]))
    True
    """

    def __init__(self, mode: str = "full") -> None:
        super().__init__()
        check_mode("FFTConvolve", mode)
        self.mode = mode

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.fftconvolve(x, y, self.mode)


class ComputeDeltas(Module):
    """The slope in time of each feature: see `functional.compute_deltas`.

    >>> audio.transforms.ComputeDeltas(3)(tensor([[0.0, 1.0, 2.0]]))
    tensor([[0.5000, 1.0000, 0.5000]])
    """

    def __init__(self, win_length: int = 5, mode: str = "replicate") -> None:
        super().__init__()
        self.win_length = win_length
        self.mode = mode

    def forward(self, specgram: Tensor) -> Tensor:
        return F.compute_deltas(specgram, self.win_length, self.mode)


class SlidingWindowCmn(Module):
    """Subtract the mean of the frames around: see `functional.sliding_window_cmn`.

    >>> audio.transforms.SlidingWindowCmn(3, 1, center=True)(tensor([[1.0], [2.0], [3.0]]))
    tensor([[-1.],
            [ 0.],
            [ 1.]])
    """

    def __init__(
        self,
        cmn_window: int = 600,
        min_cmn_window: int = 100,
        center: bool = False,
        norm_vars: bool = False,
    ) -> None:
        super().__init__()
        self.cmn_window = cmn_window
        self.min_cmn_window = min_cmn_window
        self.center = center
        self.norm_vars = norm_vars

    def forward(self, specgram: Tensor) -> Tensor:
        return F.sliding_window_cmn(
            specgram, self.cmn_window, self.min_cmn_window, self.center, self.norm_vars
        )
