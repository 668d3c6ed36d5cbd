"""The real torchaudio on edutorch: its answers are those on PyTorch, its names are ours."""

import inspect

import numpy as np
import pytest

torchaudio = pytest.importorskip("torchaudio")

import edutorch  # noqa: E402
from edutorch import audio  # noqa: E402
from tests.audio.cases import CASES, read_golden, run_case  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:At least one mel filterbank")


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_on_pytorch(name):
    ours, theirs = run_case(name, edutorch, torchaudio), read_golden()[name]
    assert ours.keys() == theirs.keys()
    for part in set(ours) - {"dtype"}:
        tolerance = CASES[name].tolerance * (10 if part == "gradient" else 1)
        scale = max(theirs[part]["largest"], 1e-12)
        errors = np.abs(np.subtract(ours[part]["values"], theirs[part]["values"])) / scale
        assert ours[part]["shape"] == theirs[part]["shape"]
        assert errors.max() <= tolerance, part


@pytest.mark.parametrize("module", ["functional", "transforms"])
def test_names_and_arguments_are_theirs(module):
    ours, theirs = getattr(audio, module), getattr(torchaudio, module)
    assert set(ours.__all__) <= set(theirs.__all__)
    for name in ours.__all__:
        pairs = [
            [
                (parameter.name, "…" if callable(parameter.default) else parameter.default)
                for parameter in inspect.signature(getattr(library, name)).parameters.values()
                if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            ]
            for library in (ours, theirs)
        ]
        assert pairs[0] == pairs[1], name


@pytest.mark.parametrize("iid", [False, True])
@pytest.mark.parametrize("name", ["TimeMasking", "FrequencyMasking"])
def test_random_masks_are_the_same(name, iid):
    x = edutorch.rand(2, 3, 20, 30)
    masked = []
    for library in (audio, torchaudio):
        edutorch.manual_seed(3)
        masked.append(getattr(library.transforms, name)(9, iid_masks=iid)(x))
    assert masked[0].equal(masked[1])


def test_gradients_of_lfilter():
    x, a, b = (np.random.default_rng(i).standard_normal((1, 9))[0] for i in range(3))
    gradients = []
    for library in (audio, torchaudio):
        leaves = [edutorch.tensor(value, requires_grad=True) for value in (x, a[:3] / 9, b[:3])]
        scaled = leaves[1] + edutorch.tensor([1.0, 0.0, 0.0])
        library.functional.lfilter(
            leaves[0], scaled, leaves[2], clamp=False
        ).square().sum().backward()
        gradients.append(np.concatenate([leaf.grad.numpy() for leaf in leaves]))
    assert np.abs(gradients[0] - gradients[1]).max() < 1e-9


def test_overdrive_is_its_recursion():
    x = np.random.default_rng(0).standard_normal((2, 40)) * 0.3
    y = torchaudio.functional.overdrive(edutorch.tensor(x), 20, 20).numpy()
    s = np.clip(x * 10 + 0.1, -1, 1)
    s -= s**3 / 3
    last_in, last_out = np.zeros(2), np.zeros(2)
    for t in range(40):
        last_out, last_in = s[:, t] - last_in + 0.995 * last_out, s[:, t]
        assert np.abs(y[:, t] - np.clip(x[:, t] * 0.5 + last_out * 0.75, -1, 1)).max() < 1e-6


def test_alignments_are_the_same():
    log_probs = edutorch.randn(1, 12, 5).log_softmax(-1)
    targets = edutorch.tensor([[1, 3, 3, 2]])
    ours = audio.functional.forced_align(log_probs, targets)
    theirs = torchaudio.functional.forced_align(log_probs, targets)
    assert ours[0].equal(theirs[0])
    assert edutorch.allclose(ours[1], theirs[1])
