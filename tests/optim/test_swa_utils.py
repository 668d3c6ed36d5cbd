"""Averaged models, against PyTorch's and against averages computed here."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.optim import swa_utils

START = [[0.5, -0.3, 0.8], [0.1, 0.9, -0.6]]


def network(library):
    """Return the same small network of either library."""
    model = library.nn.Sequential(library.nn.Linear(3, 2), library.nn.BatchNorm1d(2))
    with library.no_grad():
        model[0].weight.copy_(library.tensor(START))
        model[0].bias.copy_(library.tensor([0.1, -0.2]))
    return model


def averages(library, swa):
    """Return (name, settings of AveragedModel)."""
    return [
        ("plain", {}), ("buffers too", {"use_buffers": True}),
        ("swa", {"avg_fn": swa.get_swa_avg_fn()}), ("ema", {"avg_fn": swa.get_ema_avg_fn(0.7)}),
        ("swa, lists", {"multi_avg_fn": swa.get_swa_multi_avg_fn()}),
        ("ema, lists", {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.7)}),
        ("ema, lists, buffers", {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.7),
                                 "use_buffers": True}),
    ]  # fmt: skip


def follow(library, swa, number):
    """Train for some steps, and return the state_dict of the average and of a state."""
    model = network(library)
    averaged = swa.AveragedModel(model, **averages(library, swa)[number][1])
    optimizer = library.optim.SGD(model.parameters(), lr=0.1)
    scheduler = swa.SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    x = library.tensor(np.sin(np.arange(24.0) ** 2).reshape(8, 3).astype("float32"))
    for step in range(6):
        optimizer.zero_grad()
        ((model(x + 0.1 * step) - x[:, :2]) ** 2).mean().backward()
        optimizer.step()
        scheduler.step()
        averaged.update_parameters(model)
    swa.update_bn([x, [x * 2, None]], averaged)
    return averaged


@pytest.mark.parametrize("number", range(7), ids=[name for name, _ in averages(None, swa_utils)])
def test_averages_equal_pytorchs(number, torch):
    ours = follow(edutorch, swa_utils, number).state_dict()
    theirs = follow(torch, torch.optim.swa_utils, number).state_dict()
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        np.testing.assert_allclose(
            ours[key].tolist(), value.tolist(), rtol=2e-5, atol=1e-6, err_msg=key
        )
        assert str(ours[key].dtype) == str(value.dtype)


def test_on_every_device(device):
    averaged = follow(edutorch, swa_utils, 0)
    assert averaged.n_averaged.item() == 6


def test_the_model_is_not_touched():
    model = nn.Linear(2, 1)
    averaged = swa_utils.AveragedModel(model)
    before = model.weight.tolist()
    for _ in range(3):
        averaged.update_parameters(model)
    assert averaged.module.weight is not model.weight
    assert averaged.module.weight.tolist() == before == model.weight.tolist()
    assert averaged.module.weight.requires_grad


def test_batch_norm_is_measured_anew():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.InstanceNorm1d(2, track_running_stats=True))
    model[0].running_mean.fill_(7.0)
    model.eval()
    x = edutorch.randn(8, 2, 5)
    swa_utils.update_bn([(x[:4], 0), (x[4:], 1)], model, device="cpu")
    expected = (x[:4].mean((0, 2)) + x[4:].mean((0, 2))) / 2
    assert edutorch.allclose(model[0].running_mean, expected, atol=1e-6)
    assert model[0].momentum == 0.1
    assert not model.training
    swa_utils.update_bn(iter("never asked"), nn.Linear(1, 1))


def test_what_makes_no_sense():
    for make in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        for decay in (-0.1, 1.1):
            with pytest.raises(ValueError, match=f"Invalid decay value {decay} provided"):
                make(decay)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(
            nn.Linear(1, 1), avg_fn=swa_utils.get_swa_avg_fn(),
            multi_avg_fn=swa_utils.get_swa_multi_avg_fn(),
        )  # fmt: skip


def test_averaging_finds_the_minimum_of_a_noisy_loss():
    """With other data in each step, the average is closer to the solution than the last step."""
    model = nn.Linear(1, 1, bias=False)
    averaged = swa_utils.AveragedModel(model)
    optimizer = optim.SGD(model.parameters(), lr=0.3)
    for step in range(300):
        x = edutorch.randn(4, 1)
        optimizer.zero_grad()
        ((model(x) - 2 * x - edutorch.randn(4, 1)) ** 2).mean().backward()
        optimizer.step()
        if step >= 50:
            averaged.update_parameters(model)
    assert abs(averaged.module.weight.item() - 2) < 0.1
