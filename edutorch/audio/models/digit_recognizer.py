"""A small recogniser of spoken digits: convolutions over time, trained with CTC.

    waveform → mel decibels (10 ms a frame) → convolutions (40 ms a frame) → a digit or blank

It is the shape of wav2letter (R. Collobert et al., 2016): nothing in it looks further than a
second, so it hears a sequence of any length, though it was trained on short ones.
"""

from __future__ import annotations

from ...core.tensor import Tensor
from ...nn.functional import log_softmax, relu
from ...nn.modules import BatchNorm1d, Conv1d, Dropout, Module, Sequential
from ..datasets.spoken_digits import WORDS
from ..transforms import AmplitudeToDB, MelSpectrogram
from .decoder import greedy_decode

__all__ = ["DigitRecognizer"]

SAMPLE_RATE = 22050


class ConvBlock(Module):
    """A convolution over time, batch norm, ReLU; added to its input where the sizes allow it.

    Shape: (batch, in_channels, frames); result (batch, out_channels, frames / stride).

    >>> from edutorch.audio.models.digit_recognizer import ConvBlock
    >>> ConvBlock(4, 8, 5, stride=2)(rand(1, 4, 20)).shape
    torch.Size([1, 8, 10])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        dilation: int = 1,
    ) -> None:
        super().__init__()
        padding = kernel_size // 2 * dilation
        self.conv = Conv1d(
            in_channels, out_channels, kernel_size, stride, padding, dilation, bias=False
        )
        self.norm = BatchNorm1d(out_channels)
        self.is_residual = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.norm(self.conv(x)))
        return x + y if self.is_residual else y


class DigitRecognizer(Module):
    """Recognise a sequence of the digits zero to nine, spoken in English.

    Args:
        n_mels: the number of mel bands.
        channels: of the convolutions.

    Shape: (batch, time) at 22050 Hz; result: log probabilities (batch, frames, 11), of blank and
    the ten digits.

    >>> model = audio.models.DigitRecognizer().eval()
    >>> model(zeros(2, 22050)).shape
    torch.Size([2, 26, 11])
    """

    tokens = ("-", *WORDS)

    def __init__(self, n_mels: int = 40, channels: int = 96) -> None:
        super().__init__()
        # 23 ms of sound every 10 ms, up to 8 kHz.
        self.mel = MelSpectrogram(SAMPLE_RATE, 512, hop_length=220, f_max=8000.0, n_mels=n_mels)
        self.decibels = AmplitudeToDB(top_db=60.0)
        self.layers = Sequential(
            ConvBlock(n_mels, 64, 5, stride=2),
            ConvBlock(64, channels, 5, stride=2),
            ConvBlock(channels, channels, 5),
            ConvBlock(channels, channels, 5),
            ConvBlock(channels, channels, 5, dilation=2),
            Dropout(0.1),
            Conv1d(channels, len(self.tokens), 1),
        )

    def features(self, waveforms: Tensor) -> Tensor:
        """Return mel decibels without their mean: so it does not matter how loud someone speaks.

        Shape: (batch, time); result (batch, n_mels, frames).
        """
        decibels = self.decibels(self.mel(waveforms).unsqueeze(1)).squeeze(1)
        return (decibels - decibels.mean((1, 2), keepdim=True)) / 20

    def score(self, features: Tensor) -> Tensor:
        """Return the log probabilities of the tokens in each frame.

        Shape: (batch, n_mels, frames); result (batch, frames / 4, 11).
        """
        return log_softmax(self.layers(features).transpose(1, 2), -1)

    def forward(self, waveforms: Tensor) -> Tensor:
        return self.score(self.features(waveforms))

    def transcribe(self, waveform: Tensor) -> list[str]:
        """Return the digits that are heard in a waveform, (time) or (1, time)."""
        tokens = greedy_decode(self(waveform.reshape(1, -1))[0].detach())
        return [self.tokens[token] for token in tokens]
