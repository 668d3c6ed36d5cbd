"""Every layer against PyTorch: outputs, gradients, buffers, text, names of the state."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import compare_modules

IMAGE = (2, 4, 7, 6)
CASES = [
    ("Linear", (3, 5), {}, (4, 3)),
    ("Linear", (3, 5), {"bias": False}, (4, 3)),
    ("Linear", (3, 5), {}, (3,)),
    ("Linear", (3, 5), {}, (2, 2, 3)),
    ("Conv2d", (4, 6, 3), {}, IMAGE),
    ("Conv2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 2), "bias": False}, IMAGE),
    ("Conv2d", (4, 6, 2), {"padding": "same", "dilation": 2, "groups": 2}, IMAGE),
    ("Conv2d", (4, 6, (4, 3)), {"padding": "same"}, IMAGE),
    ("Conv2d", (4, 4, 3), {"padding": "valid", "groups": 4}, IMAGE),
    ("Conv2d", (4, 6, 3), {"stride": 3, "padding": 1}, IMAGE),
    ("Conv2d", (4, 6, 3), {"padding": 1}, IMAGE[1:]),
    ("Conv2d", (4, 6, 3), {"padding": 2, "padding_mode": "reflect"}, IMAGE),
    ("Conv2d", (4, 6, 3), {"padding": 2, "padding_mode": "replicate"}, IMAGE),
    ("Conv2d", (4, 6, 3), {"padding": (1, 2), "padding_mode": "circular"}, IMAGE),
    ("ConvTranspose2d", (4, 6, 3), {}, IMAGE),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}, IMAGE),
    ("ConvTranspose2d", (4, 6, 2), {"stride": (1, 2), "groups": 2, "dilation": 2}, IMAGE),
    ("MaxPool2d", (2,), {}, IMAGE),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1}, IMAGE),
    ("MaxPool2d", (2,), {"stride": 1, "dilation": 2}, IMAGE),
    ("MaxPool2d", (3,), {"stride": 2, "ceil_mode": True}, IMAGE),
    ("MaxPool2d", (2,), {}, IMAGE[1:]),
    ("AvgPool2d", (2,), {}, IMAGE),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1}, IMAGE),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, IMAGE),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, IMAGE),
    ("AvgPool2d", ((2, 3),), {"divisor_override": 5}, IMAGE),
    ("AdaptiveAvgPool2d", (1,), {}, IMAGE),
    ("AdaptiveAvgPool2d", ((3, 4),), {}, IMAGE),
    ("AdaptiveAvgPool2d", ((7, 3),), {}, IMAGE),
    ("BatchNorm1d", (4,), {}, (5, 4)),
    ("BatchNorm1d", (4,), {"affine": False, "eps": 1e-2}, (5, 4, 3)),
    ("BatchNorm2d", (4,), {}, IMAGE),
    ("BatchNorm2d", (4,), {"momentum": None}, IMAGE),
    ("BatchNorm2d", (4,), {"track_running_stats": False}, IMAGE),
    ("LayerNorm", (6,), {}, IMAGE),
    ("LayerNorm", ((7, 6),), {"eps": 1e-2, "bias": False}, IMAGE),
    ("LayerNorm", (6,), {"elementwise_affine": False}, IMAGE),
    ("RMSNorm", (6,), {}, IMAGE),
    ("GroupNorm", (2, 4), {}, IMAGE),
    ("ReLU", (), {}, (3, 4)),
    ("ReLU6", (), {}, (3, 4)),
    ("LeakyReLU", (0.2,), {}, (3, 4)),
    ("ELU", (), {"alpha": 1.5}, (3, 4)),
    ("SELU", (), {}, (3, 4)),
    ("SiLU", (), {}, (3, 4)),
    ("GELU", (), {}, (3, 4)),
    ("GELU", (), {"approximate": "tanh"}, (3, 4)),
    ("Hardtanh", (-0.5, 0.7), {}, (3, 4)),
    ("Sigmoid", (), {}, (3, 4)),
    ("Tanh", (), {}, (3, 4)),
    ("Softsign", (), {}, (3, 4)),
    ("Softplus", (), {"beta": 2.0}, (3, 4)),
    ("LogSigmoid", (), {}, (3, 4)),
    ("Softmax", (1,), {}, (3, 4)),
    ("Softmax", (), {"dim": -1}, (3, 4)),
    ("LogSoftmax", (), {"dim": 0}, (3, 4)),
    ("Flatten", (), {}, IMAGE),
    ("Flatten", (0, 1), {}, IMAGE),
    ("Unflatten", (1, (2, 2)), {}, IMAGE),
    ("Identity", (), {}, (3, 4)),
    ("Dropout", (0.0,), {}, (3, 4)),
]


def name_of(case):
    name, args, settings, shape = case
    given = [str(each) for each in args] + [f"{key}={value}" for key, value in settings.items()]
    return f"{name}({', '.join(given)}) on {'x'.join(map(str, shape))}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_layer_equals_pytorch(case, training, device, torch):
    name, args, settings, shape = case
    torch.manual_seed(1)
    theirs = getattr(torch.nn, name)(*args, **settings).double().train(training)
    for buffer in theirs.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    ours = getattr(nn, name)(*args, **settings).double().train(training)
    compare_modules(ours, theirs, [torch.randn(shape, dtype=torch.float64) * 2], device)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_embedding_equals_pytorch(device, torch):
    theirs = torch.nn.Embedding(7, 3, padding_idx=-2).double()
    ours = nn.Embedding(7, 3, padding_idx=-2).double()
    assert repr(ours) == repr(theirs)
    assert not ours.weight[5].any()
    numbers = torch.tensor([[1, 5, 1], [6, 0, 1]])
    compare_modules(ours, theirs, [numbers], device, differentiable=())


def test_max_pool_finds_the_places_that_pytorch_finds(device, torch):
    image = torch.randn(2, 3, 7, 8)
    settings = {"kernel_size": 3, "stride": 2, "padding": 1, "return_indices": True}
    _, expected = torch.nn.MaxPool2d(**settings)(image)
    _, found = nn.MaxPool2d(**settings)(edutorch.tensor(image.numpy()))
    assert found.tolist() == expected.tolist()


def test_max_pool_does_not_pass_over_nan(device):
    image = edutorch.tensor([[[1.0, float("nan")], [3.0, 4.0]]])
    assert bool(nn.functional.max_pool2d(image, 2).isnan().all())


def test_a_relu_in_place_behind_a_pooling(device, torch):
    """PyTorch allows it, so the pooling's gradient must not need its output."""
    theirs = torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.ReLU(inplace=True))
    ours = nn.Sequential(nn.MaxPool2d(2), nn.ReLU(inplace=True))
    compare_modules(ours, theirs, [torch.randn(2, 3, 6, 6, dtype=torch.float64)], device)


def test_a_small_resnet_equals_pytorch(device, torch):
    """Convolution, norm, shortcut, pooling and head in one, twice in a row through one block."""

    def make(library):
        class Block(library.Module):
            def __init__(self, channels):
                super().__init__()
                self.conv1 = library.Conv2d(channels, channels, 3, padding=1, bias=False)
                self.bn1 = library.BatchNorm2d(channels)
                self.conv2 = library.Conv2d(channels, channels, 3, padding=1, bias=False)
                self.bn2 = library.BatchNorm2d(channels)
                self.relu = library.ReLU(inplace=True)

            def forward(self, x):
                y = self.relu(self.bn1(self.conv1(x)))
                return self.relu(self.bn2(self.conv2(y)) + x)

        return library.Sequential(
            library.Conv2d(3, 4, 3, stride=2, padding=1), library.MaxPool2d(2), Block(4), Block(4),
            library.AdaptiveAvgPool2d(1), library.Flatten(), library.Linear(4, 5),
        ).double()  # fmt: skip

    torch.manual_seed(2)
    theirs, ours = make(torch.nn), make(nn)
    assert repr(ours) == repr(theirs)
    compare_modules(ours, theirs, [torch.randn(3, 3, 12, 12, dtype=torch.float64)], device)


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d"])
def test_dropout_drops_and_scales(name, device):
    shape = (50, 20, 20) if name == "dropout1d" else (50, 20, 4, 5)
    x = edutorch.ones(*shape, requires_grad=True)
    y = getattr(nn.functional, name)(x, 0.25)
    values = sorted(set(y.flatten().tolist()))
    assert values == pytest.approx([0, 1 / 0.75])
    assert y.mean().item() == pytest.approx(1, abs=0.1)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    if name != "dropout":
        channels = y.reshape(50, 20, -1)
        assert bool((channels.amin(-1) == channels.amax(-1)).all())


def test_dropout_of_everything(device):
    assert nn.functional.dropout(edutorch.ones(3), 1.0).tolist() == [0, 0, 0]


def test_dropout_in_evaluation_changes_nothing(device):
    x = edutorch.ones(3)
    assert nn.Dropout().eval()(x) is x
