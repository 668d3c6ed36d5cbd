"""Windows and the short-time Fourier transform, against PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import edutorch
from edutorch.autograd import gradcheck, gradgradcheck
from edutorch.errors import DTypeError, ShapeError, ValueRangeError
from tests.oracle import require_torch

PLAIN = {
    "hann_window": [{}], "blackman_window": [{}], "bartlett_window": [{}],
    "hamming_window": [{}, {"alpha": 0.6}, {"alpha": 0.6, "beta": 0.3}],
    "kaiser_window": [{}, {"beta": 2.5}],
}  # fmt: skip
SIGNAL = {
    "bartlett": [{}], "blackman": [{}], "cosine": [{}], "hamming": [{}], "hann": [{}],
    "nuttall": [{}], "exponential": [{}, {"tau": 2.5}], "gaussian": [{}, {"std": 2.0}],
    "general_cosine": [{"a": [0.4, 0.3, 0.2, 0.1]}], "general_hamming": [{}, {"alpha": 0.7}],
    "kaiser": [{}, {"beta": 3.0}, {"beta": 0.0}],
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_are_pytorchs(name, periodic, device):
    torch = require_torch()
    for options in PLAIN[name]:
        for length in (0, 1, 2, 5, 8):
            for dtype in ("float32", "float64", "float16"):
                expected = getattr(torch, name)(
                    length, periodic, dtype=getattr(torch, dtype), **options
                )
                result = getattr(edutorch, name)(
                    length, periodic, dtype=getattr(edutorch, dtype), **options
                )
                assert str(result.dtype) == str(expected.dtype)
                tolerance = {"float32": 3e-6, "float64": 1e-12, "float16": 2e-3}[dtype]
                np.testing.assert_allclose(
                    result.numpy(force=True), expected.numpy(force=True), tolerance, tolerance
                )


@pytest.mark.oracle
@pytest.mark.parametrize("name", SIGNAL)
@pytest.mark.parametrize("sym", [True, False])
def test_windows_of_signal_are_pytorchs(name, sym, device):
    torch = require_torch()
    for options in SIGNAL[name] + ([{"center": 1.5}] if name == "exponential" and not sym else []):
        for length in (0, 1, 2, 5, 8):
            for dtype in ("float32", "float64"):
                expected = getattr(torch.signal.windows, name)(
                    length, sym=sym, dtype=getattr(torch, dtype), **options
                )
                result = getattr(edutorch.signal.windows, name)(
                    length, sym=sym, dtype=getattr(edutorch, dtype), **options
                )
                assert str(result.dtype) == str(expected.dtype)
                tolerance = {"float32": 3e-6, "float64": 1e-12}[dtype]
                np.testing.assert_allclose(
                    result.numpy(force=True), expected.numpy(force=True), tolerance, tolerance
                )


@pytest.mark.parametrize("name", PLAIN)
def test_mistakes_with_windows_are_explained(name):
    window = getattr(edutorch, name)
    assert window(3).dtype is edutorch.float32 and window(3, requires_grad=True).requires_grad
    with pytest.raises(ShapeError, match=f"{name}: requires non-negative window_length"):
        window(-1)
    for dtype in (edutorch.int64, edutorch.complex64):
        with pytest.raises(DTypeError, match="floating point"):
            window(3, dtype=dtype)
    with pytest.raises(TypeError, match="must be int, not float"):
        window(4.0)


@pytest.mark.parametrize("name", SIGNAL)
def test_mistakes_with_windows_of_signal_are_explained(name):
    window, options = getattr(edutorch.signal.windows, name), SIGNAL[name][0]
    with pytest.raises(ValueError, match=f"^{name}: requires non-negative window length"):
        window(-1, **options)
    with pytest.raises(ValueError, match="float32 or float64"):
        window(3, dtype=edutorch.float16, **options)
    with pytest.raises(TypeError, match="must be int, not float"):
        window(4.0, **options)


@pytest.mark.parametrize(
    ("name", "options", "error_class", "words"),
    [
        ("exponential", {"tau": -1}, ValueError, "Tau must be positive"),
        ("exponential", {"center": 1.0}, ValueError, "Center must be None"),
        ("gaussian", {"std": 0}, ValueError, "Standard deviation"),
        ("kaiser", {"beta": -1}, ValueError, "beta must be non-negative"),
        ("general_cosine", {"a": []}, ValueError, "cannot be empty"),
        ("general_cosine", {"a": 2}, TypeError, "list/tuple"),
    ],
)
def test_wrong_parameters_of_windows(name, options, error_class, words):
    with pytest.raises(error_class, match=words):
        getattr(edutorch.signal.windows, name)(4, **options)


# stft and istft ----------------------------------------------------------------------------------

no_window = pytest.mark.filterwarnings("ignore:.*window was not provided")

GENERATOR = np.random.default_rng(0)
SIGNALS = GENERATOR.normal(size=(2, 50))
WINDOW, SHORT = np.hanning(16) + 0.1, np.hanning(9) + 0.2
SETTINGS = [
    {}, {"window": WINDOW}, {"window": WINDOW, "hop_length": 5, "normalized": True},
    {"window": SHORT, "win_length": 9, "hop_length": 3}, {"win_length": 10},
    {"window": WINDOW, "center": False}, {"window": WINDOW, "onesided": False},
    {"window": WINDOW, "pad_mode": "constant"}, {"window": WINDOW, "pad_mode": "replicate"},
    {"window": WINDOW, "pad_mode": "circular"},
    {"win_length": 9, "window": SHORT, "center": False, "align_to_window": True},
    {"win_length": 9, "window": SHORT, "center": False, "align_to_window": False},
    {"window": WINDOW * (1 + 0.5j)}, {"n_fft": 15}, {"n_fft": 15, "hop_length": 4},
]  # fmt: skip


def made(module, settings):
    return {
        key: module.tensor(value) if isinstance(value, np.ndarray) else value
        for key, value in {"n_fft": 16, **settings}.items()
    }


@no_window
@pytest.mark.oracle
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda setting: " ".join(setting))
@pytest.mark.parametrize("signal", ["one", "batch", "complex"])
def test_stft_is_pytorchs(settings, signal, device):
    torch = require_torch()
    start = {"one": SIGNALS[0], "batch": SIGNALS, "complex": SIGNALS * (1 - 2j)}[signal]
    theirs = torch.tensor(start, requires_grad=True)
    ours = edutorch.tensor(start, requires_grad=True)
    expected = torch.stft(theirs, **made(torch, settings), return_complex=True)
    result = edutorch.stft(ours, **made(edutorch, settings), return_complex=True)
    assert str(result.dtype) == str(expected.dtype)
    np.testing.assert_allclose(result.numpy(force=True), expected.numpy(force=True), 1e-9, 1e-9)
    (expected.abs() ** 3).sum().backward()
    (result.abs() ** 3).sum().backward()
    np.testing.assert_allclose(
        ours.grad.numpy(force=True), theirs.grad.numpy(force=True), 1e-7, 1e-7
    )
    pairs = ours.detach().stft(**made(edutorch, settings), return_complex=False)
    assert edutorch.equal(pairs, edutorch.view_as_real(result.detach()))


ONE_WAY = ("center", "pad_mode", "align_to_window", "onesided")
BACK = [setting for setting in SETTINGS if not any(key in ONE_WAY for key in setting)][:-3] + [
    {"window": WINDOW, "center": False}, {"window": WINDOW, "length": 40},
    {"window": WINDOW, "onesided": False}, {"window": WINDOW, "return_complex": True},
    {"window": WINDOW * (1 + 0.5j), "return_complex": True}, {"n_fft": 15, "hop_length": 4},
]  # fmt: skip


@no_window
@pytest.mark.oracle
@pytest.mark.parametrize("settings", BACK, ids=lambda setting: " ".join(setting))
@pytest.mark.parametrize("batch", [False, True])
def test_istft_is_pytorchs(settings, batch, device):
    """Of numbers that no signal has as its spectra."""
    torch = require_torch()
    n = settings.get("n_fft", 16)
    full = settings.get("return_complex") or settings.get("onesided") is False
    shape = (2, n if full else n // 2 + 1, 12)
    start = GENERATOR.normal(size=shape) + 1j * GENERATOR.normal(size=shape)
    start = start if batch else start[0]
    theirs = torch.tensor(start, requires_grad=True)
    ours = edutorch.tensor(start, requires_grad=True)
    expected = torch.istft(theirs, **made(torch, settings))
    result = ours.istft(**made(edutorch, settings))
    assert str(result.dtype) == str(expected.dtype)
    np.testing.assert_allclose(result.numpy(force=True), expected.numpy(force=True), 1e-9, 1e-9)
    (expected.abs() ** 3).sum().backward()
    (result.abs() ** 3).sum().backward()
    np.testing.assert_allclose(
        ours.grad.numpy(force=True), theirs.grad.numpy(force=True), 1e-7, 1e-7
    )


def test_both_derivatives_of_both_ways():
    window = edutorch.tensor(np.hanning(4) + 0.3, requires_grad=True)
    x = edutorch.tensor(SIGNALS[0, :8], requires_grad=True)

    def there(x, window):
        return edutorch.stft(x, 4, window=window, return_complex=True)

    def and_back(x, window):
        return edutorch.istft(there(x, window) ** 2, 4, window=window)

    for function in (there, and_back):
        assert gradcheck(function, (x, window))
        assert gradgradcheck(function, (x, window))


def test_single_precision_stays_single():
    x = edutorch.tensor(SIGNALS).float()
    window = edutorch.hann_window(16)
    spectra = edutorch.stft(x, 16, window=window, return_complex=True)
    assert spectra.dtype is edutorch.complex64
    back = edutorch.istft(spectra, 16, window=window, length=50)
    assert back.dtype is edutorch.float32
    assert edutorch.allclose(back, x, atol=1e-5)


def test_a_signal_longer_than_its_pieces_ends_with_zeros():
    window = edutorch.hann_window(16)
    spectra = edutorch.stft(edutorch.ones(50), 16, window=window, return_complex=True)
    with pytest.warns(UserWarning, match="zeros follow"):
        back = edutorch.istft(spectra, 16, window=window, length=70)
    assert back.shape == (70,) and not back[60:].any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        edutorch.istft(spectra, 16, window=window, length=50)


def test_who_gives_no_window_is_told():
    with pytest.warns(UserWarning, match=r"stft: A window was not provided.*hann_window"):
        edutorch.stft(edutorch.ones(50), 16, return_complex=True)


@no_window
def test_what_stft_refuses():
    x, window = edutorch.ones(2, 50), edutorch.ones(16)

    def refused(error_class, words, input=x, **options):
        with pytest.raises(error_class, match=words):
            edutorch.stft(input, **{"n_fft": 16, "return_complex": True, **options})

    refused(ValueRangeError, r"return_complex parameter be given[\s\S]*hint", return_complex=None)
    refused(ShapeError, r"expected a 1D or 2D tensor[\s\S]*flatten", x[None])
    refused(ShapeError, "expected a 1D or 2D tensor", edutorch.tensor(1.0))
    refused(ShapeError, "0 < n_fft", n_fft=0)
    refused(ShapeError, "0 < n_fft <= 50", n_fft=60, center=False)
    refused(ShapeError, "hop_length > 0", hop_length=0)
    refused(ShapeError, "0 < win_length <= n_fft", win_length=0)
    refused(ShapeError, "0 < win_length <= n_fft", win_length=17)
    refused(ShapeError, r"equal to win_length=12[\s\S]*hint", win_length=12, window=window)
    refused(ShapeError, "1D window", window=window[None])
    refused(DTypeError, "floating point or complex", x.long())
    refused(DTypeError, "onesided", x + 0j, onesided=True)
    refused(DTypeError, "onesided", window=window + 0j, onesided=True)
    refused(ValueRangeError, "align_to_window", align_to_window=True)
    refused(RuntimeError, "reflected padding", n_fft=200)


@no_window
def test_what_istft_refuses():
    window = edutorch.hann_window(16)
    half = edutorch.stft(edutorch.ones(2, 50), 16, window=window, return_complex=True)

    def refused(error_class, words, input=half, **options):
        with pytest.raises(error_class, match=words):
            edutorch.istft(input, **{"n_fft": 16, "window": window, **options})

    refused(DTypeError, r"complex-valued input[\s\S]*view_as_complex", half.real)
    refused(ShapeError, "2 or 3 dimensions", half[0, 0])
    refused(ShapeError, "2 or 3 dimensions", half[None])
    refused(ShapeError, "cannot be empty", half[:0])
    refused(ShapeError, "hop_length <= win_length", hop_length=0)
    refused(ShapeError, "hop_length <= win_length", hop_length=17)
    refused(ShapeError, "win_length <= n_fft", win_length=20, hop_length=4, window=None)
    refused(ShapeError, "window tensor of size", win_length=12, hop_length=4)
    refused(ShapeError, "expected 11 frequencies", n_fft=20, window=None)
    refused(ShapeError, "expected 16 frequencies", onesided=False)
    refused(DTypeError, "onesided", return_complex=True)
    refused(DTypeError, "Complex windows", window=window + 0j)
    refused(ValueRangeError, r"window overlap add min[\s\S]*hint", center=False)
    refused(ValueRangeError, "window overlap add min", half[..., :1])
