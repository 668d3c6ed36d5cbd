"""Whole training steps of networks, and how parameters are kept between them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import edutorch as torch
from tests.xla.steps import NETWORKS, OPTIMIZERS, example, training_step


def trained(network: str, optimizer: str, backend: str | None):
    """Return the losses and the parameters of a network after seven steps."""
    model, x, y = example(*NETWORKS[network])
    step = training_step(model, OPTIMIZERS[optimizer](model))
    if backend is not None:
        step = torch.compile(step, backend=backend)
    torch.manual_seed(1)
    losses = [step(x, y).item() for _ in range(7)]
    tensors = [*model.parameters(), *model.buffers()]
    return [np.array(losses), *(tensor.detach().numpy().copy() for tensor in tensors)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_whole_step(network, optimizer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = trained(network, optimizer, "jax")
    for result, wanted in zip(results, trained(network, optimizer, None), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)


def compiled_step(optimizer: str = "Adam"):
    model, x, y = example(*NETWORKS["MLP"])
    step = torch.compile(training_step(model, OPTIMIZERS[optimizer](model)), backend="jax")
    for _ in range(4):
        step(x, y)
    return model, step, x, y


def test_parameters_and_state_are_updated_in_the_same_memory():
    model, step, x, y = compiled_step()
    run = step.entries[0].forward

    def addresses():
        whole = [kept.value for kept in run.kept.values() if kept.array.size > 8]
        return {value.unsafe_buffer_pointer() for value in whole}

    arrays, before = [parameter._array for parameter in model.parameters()], addresses()
    assert len(run.donated) == 4 * len(arrays) == 24  # itself, two moments and a count
    for _ in range(3):
        step(x, y)
    assert addresses() == before
    assert all(a is p._array for a, p in zip(arrays, model.parameters(), strict=True))
    assert "24 inputs are updated in XLA's memory" in step.explain()


@pytest.mark.parametrize("way", ["a tensor", "its data", "a NumPy array", "load_state_dict"])
def test_what_is_written_between_two_steps_counts(way):
    outcomes = []
    for backend in (None, "jax"):
        model, x, y = example(*NETWORKS["MLP"])
        step = training_step(model, OPTIMIZERS["SGD"](model))
        step = step if backend is None else torch.compile(step, backend=backend)
        for number in range(6):
            weight = model[0].weight
            if number == 4:
                if way == "a tensor":
                    with torch.no_grad():
                        weight.mul_(0.5)
                elif way == "its data":
                    weight.data[0] = 1.0
                elif way == "a NumPy array":
                    weight.detach().numpy()[0] = 1.0
                else:
                    model.load_state_dict({k: v * 0.5 for k, v in model.state_dict().items()})
            loss = step(x, y)
        outcomes.append((loss.item(), model[0].weight.detach().numpy().copy()))
    np.testing.assert_allclose(outcomes[1][0], outcomes[0][0], atol=1e-5)
    np.testing.assert_allclose(outcomes[1][1], outcomes[0][1], atol=1e-5)


def test_a_module_alone_is_compiled_with_its_gradients():
    model, x, y = example(*NETWORKS["CNN"])
    torch.nn.functional.mse_loss(model(x), y).backward()
    wanted = [parameter.grad.clone() for parameter in model.parameters()]
    compiled = torch.compile(model, backend="jax")
    for _ in range(3):
        model.zero_grad()
        torch.nn.functional.mse_loss(compiled(x), y).backward()
    for parameter, gradient in zip(model.parameters(), wanted, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-5)
