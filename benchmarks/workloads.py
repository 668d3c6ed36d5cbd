"""What is timed: each workload is written once, and `torch` is either library's module.

`build(torch, change)` returns a function without arguments: one training step, or one
forward and backward pass. `change` is what a peer does to the model and its images
before they are used (`torch.compile`, channels last).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from . import networks
from .timing import Work

Change = Callable[[Any], Any]
Build = Callable[[ModuleType, Change], Work]


def same(model_or_images: Any) -> Any:
    return model_or_images


@dataclass(frozen=True)
class Workload:
    """One row of a table.

    Attributes:
        goal: the ratio to PyTorch's eager mode that we hold ourselves to.
        images: whether PyTorch is also shown with channels last.
    """

    name: str
    build: Build
    goal: float | None = None
    images: bool = False


def normal_values(torch: ModuleType, *shape: int) -> Any:
    return torch.tensor(np.random.default_rng(0).standard_normal(shape, np.float32))


def labels(torch: ModuleType, below: int, *shape: int) -> Any:
    return torch.tensor(np.random.default_rng(1).integers(0, below, shape))


def training(
    make: Callable[[ModuleType], Any], inputs: Callable[[ModuleType], Any],
    targets: Callable[[ModuleType], Any] | None = None,
) -> Build:  # fmt: skip
    """A step of Adam: forward, loss, zero_grad, backward, step.

    Args:
        targets: the labels for cross entropy; None: the model itself returns the loss.
    """

    def build(torch: ModuleType, change: Change = same) -> Work:
        torch.manual_seed(0)
        model = make(torch)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        called, x = change(model), change(inputs(torch))
        y = None if targets is None else targets(torch)

        def step() -> Any:
            loss = called(x)
            if y is not None:
                loss = torch.nn.functional.cross_entropy(loss, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    return build


def classifier(make: Callable[[ModuleType], Any], *shape: int, classes: int = 10) -> Build:
    """Training on a batch of that shape, with one label for each row."""
    return training(
        make,
        lambda torch: normal_values(torch, *shape),
        lambda torch: labels(torch, classes, shape[0]),
    )


def mlp(batch: int, *sizes: int) -> Build:
    return classifier(lambda torch: networks.mlp(torch, *sizes), batch, sizes[0], classes=sizes[-1])


def gpt(length: int, batch: int = 12, words: int = 65) -> Build:
    return training(
        lambda torch: networks.gpt(torch, length, words=words),
        lambda torch: labels(torch, words, batch, length),
        lambda torch: labels(torch, words, batch * length),
    )


def lstm(variant: str, length: int = 32, batch: int = 32) -> Build:
    return classifier(lambda torch: networks.lstm(torch, variant), batch, length, 64)


def word_model(length: int = 35, batch: int = 20, words: int = 2000) -> Build:
    return training(
        lambda torch: networks.word_model(torch, words),
        lambda torch: labels(torch, words, length, batch),
        lambda torch: labels(torch, words, length * batch),
    )


def vae(batch: int = 128) -> Build:
    return training(networks.vae, lambda torch: normal_values(torch, batch, 784).sigmoid())


def dqn(torch: ModuleType, change: Change = same) -> Work:
    """An update of a Q network towards a target network, and one greedy action."""
    torch.manual_seed(0)
    functional = torch.nn.functional
    net, slow = networks.mlp(torch, 4, 128, 128, 2), networks.mlp(torch, 4, 128, 128, 2)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    called = change(net)
    states, later = normal_values(torch, 128, 4), normal_values(torch, 128, 4) + 0.1
    actions, rewards = labels(torch, 2, 128, 1), normal_values(torch, 128)

    def step() -> Any:
        with torch.no_grad():
            called(states[:1]).argmax(1).item()
            wanted = rewards + 0.99 * slow(later).max(1).values
        chosen = called(states).gather(1, actions).squeeze(1)
        loss = functional.smooth_l1_loss(chosen, wanted)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(net.parameters(), 100)
        optimizer.step()
        with torch.no_grad():
            for own, other in zip(slow.parameters(), net.parameters(), strict=True):
                own.mul_(0.995).add_(other, alpha=0.005)
        return loss

    return step


def scalars(torch: ModuleType, change: Change = same) -> Work:
    return networks.scalars(torch)


def loader(torch: ModuleType, change: Change = same) -> Work:
    """One epoch over 60,000 rows in memory, shuffled, in batches of 64."""
    data = torch.utils.data
    dataset = data.TensorDataset(normal_values(torch, 60_000, 784), labels(torch, 10, 60_000))
    batches = data.DataLoader(dataset, batch_size=64, shuffle=True)

    def epoch() -> int:
        return sum(len(y) for x, y in batches)

    return epoch


def mel(torch: ModuleType, change: Change = same) -> Work:
    """The mel spectrograms of 16 seconds of sound: what MelSpectrogram does, in both libraries."""
    x, window = normal_values(torch, 16, 16_000), torch.hann_window(400)
    filters = normal_values(torch, 201, 128).abs()

    def step() -> Any:
        spectra = torch.stft(x, 400, 200, 400, window, return_complex=True)
        powers = spectra.abs().pow(2.0)
        return torch.matmul(powers.transpose(-1, -2), filters).transpose(-1, -2)

    return step


WORKLOADS = {
    "mlp": Workload("MLP 784-128-10, batch 64", mlp(64, 784, 128, 10), 0.5),
    "wide": Workload("MLP 784-1024-1024-10, batch 256", mlp(256, 784, 1024, 1024, 10), 0.45),
    "cnn": Workload("LeNet, batch 64", classifier(networks.lenet, 64, 1, 28, 28), 0.65, True),
    "gpt64": Workload("GPT 4 layers, 128 wide, T=64, batch 12", gpt(64), 0.6),
    "gpt128": Workload("GPT 4 layers, 128 wide, T=128, batch 12", gpt(128), 0.6),
    "lstm-ops": Workload("LSTM of ops, T=32, batch 32", lstm("ops"), 0.6),
    "lstm-cell": Workload("LSTM of nn.LSTMCell, T=32, batch 32", lstm("cell"), 0.6),
    "lstm": Workload("nn.LSTM, T=32, batch 32", lstm("layer"), 1.2),
    "words": Workload("word LSTM, 2 layers, 2000 words, T=35", word_model()),
    "resnet": Workload(
        "ResNet-18, 32x32, batch 8", classifier(networks.resnet, 8, 3, 32, 32), 1.0, True
    ),
    "resnet64": Workload(
        "ResNet-18, 32x32, batch 64", classifier(networks.resnet, 64, 3, 32, 32), 0.9, True
    ),
    "vae": Workload("VAE 784-400-20, batch 128", vae()),
    "dqn": Workload("DQN 4-128-128-2, batch 128", dqn),
    "scalars": Workload("100 ops on single numbers", scalars, 0.8),
    "mel": Workload("mel spectrograms, 16 x 1 s at 16 kHz", mel, 1.0),
    "loader": Workload("DataLoader, 60k x 784, batch 64", loader, 0.2),
}


# Long chains of numbers ------------------------------------------------------------------


def chain(compute: Callable[[ModuleType, Any, Any], Any], width: int) -> Callable[[int], Build]:
    """Forward and backward over `size` numbers in rows of `width`."""

    def of_size(size: int) -> Build:
        def build(torch: ModuleType, change: Change = same) -> Work:
            x = normal_values(torch, size // width, width).requires_grad_()
            y = labels(torch, width, size // width)
            g = None

            def step() -> Any:
                nonlocal g
                x.grad = None
                result = compute(torch, x, y)
                if g is None:
                    g = torch.ones_like(result)
                result.backward(g)
                return result

            return step

        return build

    return of_size


def mixed(torch: ModuleType, x: Any, y: Any) -> Any:
    return ((x * 1.5 + 0.5).tanh() * x).sigmoid() - x.exp()


CHAINS = {
    "elementwise": (chain(mixed, 1000), None),
    "softmax": (chain(lambda torch, x, y: torch.softmax(x, 1), 1000), 0.7),
    "layer_norm": (
        chain(lambda torch, x, y: torch.nn.functional.layer_norm(x, (1000,)), 1000), 0.7,
    ),
    "gelu": (chain(lambda torch, x, y: torch.nn.functional.gelu(x), 1000), 0.7),
    "cross_entropy": (
        chain(lambda torch, x, y: torch.nn.functional.cross_entropy(x, y), 1000), 0.7,
    ),
}  # fmt: skip
SIZES = {"1M": 1_000_000, "16M": 16_000_000}
CHAIN_WORKLOADS = {
    f"{name} {word}": Workload(f"{name}, {word} numbers", of_size(size), goal)
    for word, size in SIZES.items()
    for name, (of_size, goal) in CHAINS.items()
}


# What nothing is quicker than ------------------------------------------------------------

LARGE = 1024


def large_product(torch: ModuleType, change: Change = same) -> Work:
    """One product of two large matrices."""
    a, b = normal_values(torch, LARGE, LARGE), normal_values(torch, LARGE, LARGE)
    return lambda: a @ b


LARGE_PRODUCT = Workload("one large product", large_product)
