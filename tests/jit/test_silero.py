"""A detector of speech, from the wheel of silero-vad: three files, one network, the same numbers.

`pip install --no-deps silero-vad` brings its TorchScript archive and its ONNX file. Five seconds of
sound go through each in chunks of 512 samples, with the state carried. The safetensors in the wheel
(6.2.3) are weights of another training: only the spectrum's basis is that of the other two. So the
third file is written here, from the archive's weights.
"""

import numpy as np
import pytest

import edutorch as torch
from edutorch import Tensor, nn
from edutorch.nn import functional as F
from tests.oracle import require_torch
from tests.wheels import wheel_folder

RATE, CHUNK, CONTEXT = 16_000, 512, 64
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def folder():
    """Return the folder with the three files."""
    return wheel_folder("silero_vad") / "data"


def voiced(seconds=5):
    """Return sound in which something like vowels comes and goes: harmonics, and noise between."""
    time = np.arange(seconds * RATE) / RATE
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    harmonics = sum(np.sin(n * phase) / n for n in range(1, 20))
    loud = np.clip(np.sin(2 * np.pi * 1.1 * time), 0, 1)
    noise = np.random.default_rng(0).standard_normal(time.size)
    return torch.tensor((0.15 * loud * harmonics + 0.01 * noise).astype(np.float32))


def chunks(signal):
    """Return rows of 512 samples, each with the 64 before it."""
    length = signal.numel() // CHUNK * CHUNK
    padded = torch.cat([torch.zeros(CONTEXT), signal[:length]])
    return padded.unfold(0, CONTEXT + CHUNK, CHUNK)


class Detector(nn.Module):
    """The network that the weights belong to: a spectrum, four convolutions, an LSTM's cell."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        y = self.stft_conv(F.pad(x.unsqueeze(1), (0, 64), "reflect"))
        y = (y[:, :129] ** 2 + y[:, 129:] ** 2).sqrt()
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            y = layer(y).relu()
        h, c = self.lstm_cell(y.squeeze(-1), state)
        return self.final_conv(h.unsqueeze(-1).relu()).sigmoid().flatten(), h, c


def by_archive(jit, path, signal, no_grad):
    """Return what the archive says of each chunk; it keeps context and state itself."""
    module = jit.load(str(path))
    rows = signal[: signal.shape[0] // CHUNK * CHUNK].reshape(-1, CHUNK)
    with no_grad():
        return [float(module(row, RATE)) for row in rows]


def by_onnx(path, signal):
    module = torch.onnx.load(path)
    state, results = torch.zeros(2, 1, 128), []
    with torch.no_grad():
        for row in chunks(signal):
            y, state = module(input=row[None], state=state, sr=torch.tensor(RATE))
            results.append(float(y))
    return results


def by_weights(path, signal):
    module = Detector()
    module.load_state_dict(torch.load(path))
    state, results = (torch.zeros(1, 128), torch.zeros(1, 128)), []
    with torch.no_grad():
        for row in chunks(signal):
            y, *state = module(row[None], state)
            results.append(float(y))
    return results


def save_weights(archive, path):
    """Write the archive's weights for 16 kHz as safetensors, under the names of `Detector`."""
    theirs = torch.jit.load(archive)._model.state_dict()
    ours = Detector().state_dict()
    assert len(ours) == len(theirs) == 15
    pairs = zip(ours, ours.values(), theirs.values(), strict=True)
    state = {name: value.reshape(old.shape).detach() for name, old, value in pairs}
    torch.save(state, path)


def largest_difference(a, b):
    assert len(a) == len(b)
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def test_archive_onnx_and_weights_agree_over_five_seconds(folder, tmp_path):
    pytest.importorskip("onnx_ir", reason="needs the extra `onnx`")
    signal = voiced()
    archive = by_archive(torch.jit, folder / "silero_vad.jit", signal, torch.no_grad)
    graph = by_onnx(folder / "silero_vad.onnx", signal)
    save_weights(folder / "silero_vad.jit", tmp_path / "weights.safetensors")
    weights = by_weights(tmp_path / "weights.safetensors", signal)
    assert len(archive) == 156 and min(archive) < 0.2 and max(archive) > 0.5, "it hears the vowels"
    differences = [
        largest_difference(archive, graph), largest_difference(archive, weights),
        largest_difference(graph, weights),
    ]  # fmt: skip
    assert max(differences) <= TOLERANCE, differences


def test_the_weights_of_the_wheel_are_another_training(folder, tmp_path):
    """They hear the same vowels, and give other numbers; if not, the test above can use them."""
    wheel, signal = folder / "silero_vad_16k.safetensors", voiced()
    save_weights(folder / "silero_vad.jit", tmp_path / "weights.safetensors")
    theirs, ours = torch.load(wheel), torch.load(tmp_path / "weights.safetensors")
    assert theirs.keys() == ours.keys()
    equal = [name for name in ours if torch.equal(ours[name], theirs[name])]
    assert equal == ["stft_conv.weight"]
    heard = by_weights(wheel, signal)
    assert min(heard) < 0.2 and all(0 <= value <= 1 for value in heard)


def test_the_archive_agrees_with_pytorch(folder):
    oracle = require_torch()
    signal, path = voiced(), folder / "silero_vad.jit"
    ours = by_archive(torch.jit, path, signal, torch.no_grad)
    theirs = by_archive(oracle.jit, path, oracle.from_numpy(signal.numpy()), oracle.no_grad)
    assert largest_difference(ours, theirs) <= TOLERANCE


def test_the_archive_refuses_another_length(folder):
    module = torch.jit.load(folder / "silero_vad.jit")
    with pytest.raises(ValueError, match="Supported values: 256 for 8000 sample rate"):
        module(torch.zeros(600), RATE)
