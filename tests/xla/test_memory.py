"""Large tensors and the program of XLA share their memory: what everybody else sees of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.compilation.xla_memory import XlaMemory
from edutorch.nn import functional as F

STEPS = 12

Between = Callable[[nn.Module, int], Any]


def is_of_xla(tensor: torch.Tensor) -> bool:
    """Whether a tensor has memory of XLA's."""
    return tensor._array.base.__class__ is XlaMemory


def trained(backend: str | None, between: Between = lambda model, step: None) -> Any:
    """Return a network after some steps, the losses, and what `between` gave after each step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.Tanh(), nn.Linear(96, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = torch.randn(16, 64), torch.arange(16) % 3

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = step if backend is None else torch.compile(step, backend=backend)
    losses, noted = [], []
    for number in range(STEPS):
        losses.append(run().item())
        noted.append(between(model, number))
    return model, losses, noted


def weight(model: nn.Module) -> torch.Tensor:
    return model[0].weight


def assert_trained_alike(between: Between) -> tuple[nn.Module, list[Any]]:
    """Train with and without XLA; return the network that it has trained, and what was noted."""
    model, losses, _ = trained(None, between)
    again, results, noted = trained("jax", between)
    assert np.allclose(results, losses, rtol=0, atol=1e-5)
    for expected, parameter in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.allclose(parameter, expected, rtol=0, atol=1e-5)
    return again, noted


def test_parameters_get_the_memory_of_xla():
    model, noted = assert_trained_alike(lambda model, step: is_of_xla(weight(model)))
    assert is_of_xla(weight(model)) and noted[-2:] == [True, True]
    assert is_of_xla(weight(model).grad)
    assert not is_of_xla(model[2].bias)  # small ones are copied


VIEWS = {
    "numpy": lambda p: p.numpy(),
    "detach": lambda p: p.detach(),
    "part": lambda p: p[3:].t(),
    "memoryview": lambda p: memoryview(p.numpy()),
    "dlpack": lambda p: np.from_dlpack(p),
    "data": lambda p: p.data,
    "array": lambda p: p._array,
}


@pytest.mark.parametrize("first", [0, 5])
def test_views_from_before_a_step_show_what_the_step_writes(first):
    tensors = {name: torch.zeros(64, 65 + i) for i, name in enumerate(VIEWS)}

    @torch.compile(backend="jax")
    def step() -> None:
        for tensor in tensors.values():
            tensor.add_(1)

    views = {}
    for number in range(8):
        step()
        if number == first:
            assert all(is_of_xla(tensor) == (first > 0) for tensor in tensors.values())
            views = {name: view(tensors[name]) for name, view in VIEWS.items()}
    for name, shown in views.items():
        assert np.array_equal(np.unique(np.asarray(shown)), [8]), name
        tensors[name].fill_(3)
        assert np.array_equal(np.unique(np.asarray(shown)), [3]), name


def shrink(model: nn.Module, number: int) -> None:
    with torch.no_grad():
        weight(model).mul_(0.5)


def replace(model: nn.Module, number: int) -> None:
    weight(model).data = weight(model).detach() * 0.5


def load(model: nn.Module, number: int) -> None:
    model.load_state_dict({name: value * 0.5 for name, value in model.state_dict().items()})


def write_by_numpy(model: nn.Module, number: int) -> None:
    weight(model).detach().numpy()[2:] *= 0.5


def test_what_is_written_between_two_steps_counts():
    changes = [shrink, replace, load, write_by_numpy]
    assert_trained_alike(lambda model, number: changes[number % 4](model, number))


def test_gradients_have_memory_of_their_own():
    def between(model: nn.Module, number: int) -> tuple[Any, Any]:
        gradient = weight(model).grad
        copied = gradient.clone()
        gradient.add_(0)  # may be written
        return gradient, copied

    _, noted = assert_trained_alike(between)
    assert all(torch.equal(gradient, copied) for gradient, copied in noted)


def test_parameters_that_were_copied_stay_what_they_were():
    _, noted = assert_trained_alike(lambda model, number: weight(model).detach().clone())
    assert len({value.sum().item() for value in noted}) == STEPS


def test_several_versions_share_the_memory():
    torch.manual_seed(0)
    layers = [nn.Linear(64, 80) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())

    def step(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        loss = (layer(x) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            layer.weight -= 0.1 * layer.weight.grad
        layer.weight.grad = layer.bias.grad = None
        return loss

    compiled = torch.compile(lambda x: step(layers[0], x), backend="jax")
    for number in range(12):
        x = torch.randn(4 + number % 2, 64)
        assert torch.allclose(compiled(x), step(layers[1], x), atol=1e-5)
    assert torch.allclose(layers[0].weight, layers[1].weight, atol=1e-5)


def test_an_argument_that_shows_what_is_written_is_noticed():
    owned = torch.zeros(128, 64)
    compiled = torch.compile(lambda x: owned.add_(1) + x, backend="jax")
    x = torch.ones(128, 64)
    for number in range(6):
        assert compiled(x)[0, 0].item() == number + 2
    assert is_of_xla(owned)
    assert compiled(owned)[0, 0].item() == 14  # 7 + 7: the argument is written before it is read
    assert compiled(owned[:]).min().item() == 16
    assert compiled(x)[0, 0].item() == 10


def test_a_failing_check_leaves_large_tensors_as_they_were():
    table = nn.Embedding(64, 128)

    def step(index: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            table.weight.mul_(2)
        return table(index).sum()

    compiled = torch.compile(step, backend="jax")
    for _ in range(6):
        compiled(torch.tensor([1, 2]))
    assert is_of_xla(table.weight)
    before = table.weight.detach().clone()
    with pytest.raises(IndexError):
        compiled(torch.tensor([1, 64]))
    # The check fails in the program, then the function runs and raises after its own write.
    assert torch.equal(table.weight, before * 2)
    compiled(torch.tensor([1, 2]))
    assert torch.equal(table.weight, before * 4)
