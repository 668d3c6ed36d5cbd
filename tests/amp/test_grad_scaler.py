"""`GradScaler`: its steps and errors are PyTorch's."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest

import edutorch
from edutorch.amp import GradScaler
from edutorch.errors import EdutorchError

pytestmark = pytest.mark.oracle


def parts(t: Any, **settings: Any) -> tuple[Any, Any, Any]:
    w = t.nn.Parameter(t.ones(2))
    return w, t.optim.SGD([w], lr=0.5), t.amp.GradScaler("cpu", **settings)


def both(torch: Any) -> tuple[Any, Any]:
    return torch, edutorch


def test_a_schedule_of_overflows(torch):
    """Scale, tracker and weights after each of 30 steps, some of which overflow."""
    records = []
    for t in both(torch):
        w, optimizer, scaler = parts(t, init_scale=2.0**120, growth_interval=2, backoff_factor=0.25)
        record = []
        for step in range(30):
            optimizer.zero_grad()
            scaler.scale((w * (float("nan") if step == 20 else 1.0)).sum()).backward()
            if step % 3 == 0:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            record.append((w.tolist(), scaler.state_dict()))
        records.append(record)
    assert records[1] == records[0]


def test_two_optimizers_one_of_which_overflows(torch):
    records = []
    for t in both(torch):
        a, first, scaler = parts(t)
        b, second, _ = parts(t)
        scaler.scale(a.sum() + b.sum() * float("inf")).backward()
        scaler.step(first)
        scaler.step(second)
        scaler.update()
        records.append((a.tolist(), b.tolist(), scaler.get_scale()))
    assert records[1] == records[0] == ([0.5, 0.5], [1.0, 1.0], 2.0**15)


def test_unscaled_gradients_can_be_clipped():
    w, optimizer, scaler = parts(edutorch, init_scale=1024.0)
    scaler.scale(w.sum()).backward()
    assert w.grad.tolist() == [1024.0, 1024.0]
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [1.0, 1.0]
    assert edutorch.nn.utils.clip_grad_norm_([w], 0.5).item() == pytest.approx(2**0.5)
    assert scaler.step(optimizer) is None
    scaler.update()
    assert w.tolist() == pytest.approx([1 - 0.5 * 0.5 / 2**0.5] * 2)


def test_lists_settings_and_states(torch):
    states = []
    for t in both(torch):
        w, _, scaler = parts(t, init_scale=8.0)
        one, two = scaler.scale([w.sum(), (w * 2,)])
        assert (one.item(), two[0].tolist()) == (16.0, [16.0, 16.0])
        assert len(list(scaler.scale(x for x in (w, w)))) == 2
        scaler.set_growth_factor(3.0)
        scaler.set_backoff_factor(0.1)
        scaler.set_growth_interval(7)
        scaler.update(5.0)
        assert scaler.get_scale() == 5.0
        scaler.update(t.tensor(4.0))
        again = pickle.loads(pickle.dumps(scaler))
        fresh = t.amp.GradScaler("cpu")
        fresh.load_state_dict(scaler.state_dict())
        assert again.state_dict() == fresh.state_dict() == scaler.state_dict()
        assert (fresh.get_growth_factor(), fresh.get_backoff_factor()) == (3.0, 0.1)
        assert fresh.get_growth_interval() == 7
        states.append(scaler.state_dict())
    assert states[1] == states[0]


def test_not_enabled_it_only_steps():
    w, optimizer, scaler = parts(edutorch, enabled=False)
    assert scaler.scale(3) == 3
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    assert (w.tolist(), scaler.get_scale(), scaler.state_dict()) == ([0.5, 0.5], 1.0, {})
    assert not scaler.is_enabled()


@pytest.mark.skipif(edutorch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_is_disabled():
    with pytest.warns(UserWarning, match="CUDA is not available. Disabling"):
        assert not GradScaler().is_enabled()
    with pytest.warns(UserWarning, match="Disabling"):
        assert not GradScaler("cuda:0").is_enabled()
    with warnings.catch_warnings(action="error"):
        assert not GradScaler(enabled=False).is_enabled()  # which was asked for


def test_with_a_gpu_it_is_enabled(monkeypatch):
    monkeypatch.setattr("edutorch.backends.is_unavailable", lambda name: False)  # none
    for device in ("cuda", "cuda:0"):
        scaler = GradScaler(device)
        assert scaler.is_enabled() and scaler.get_scale() == 2.0**16


def test_scale_and_tracker_are_on_the_device_of_the_loss():
    scaler = GradScaler("strict")
    w = edutorch.ones(2, device="strict", requires_grad=True)
    assert scaler.scale(w.sum()).device == w.device
    assert scaler._scale.device == scaler._growth_tracker.device == w.device
    scaler.scale(w.sum()).backward()
    optimizer = edutorch.optim.SGD([w], lr=0.5)
    scaler.step(optimizer)
    (overflows,) = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].items()
    assert overflows == (w.device, 0) and overflows[1].device == w.device
    scaler.update()
    assert w.tolist() == [0.5, 0.5] and scaler._get_growth_tracker() == 1


def test_a_copy_leaves_the_scaler_as_it_is():
    w, optimizer, scaler = parts(edutorch, init_scale=8.0)
    scaler.scale(w.sum()).backward()
    scale = scaler._scale
    copies = copy.copy(scaler), copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))
    assert scaler._scale is scale and scaler._growth_tracker is not None
    scaler.step(optimizer)
    scaler.update(4.0)
    assert [copy.get_scale() for copy in copies] == [8.0] * 3


def scaled(t: Any) -> tuple[Any, Any, Any]:
    w, optimizer, scaler = parts(t)
    scaler.scale(w.sum()).backward()
    return w, optimizer, scaler


def update_first(t):
    parts(t)[2].update()


def step_first(t):
    _, optimizer, scaler = parts(t)
    scaler.step(optimizer)


def unscale_first(t):
    _, optimizer, scaler = parts(t)
    scaler.unscale_(optimizer)


def unscale_twice(t):
    _, optimizer, scaler = scaled(t)
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


def step_twice(t):
    _, optimizer, scaler = scaled(t)
    scaler.step(optimizer)
    scaler.step(optimizer)


def unscale_after_step(t):
    _, optimizer, scaler = scaled(t)
    scaler.step(optimizer)
    scaler.unscale_(optimizer)


def update_twice(t):
    _, optimizer, scaler = scaled(t)
    scaler.step(optimizer)
    scaler.update()
    scaler.update()


def update_without_step(t):
    scaled(t)[2].update()


def no_gradients(t):
    w, optimizer, scaler = parts(t)
    scaler.scale(w.sum())
    scaler.step(optimizer)


def a_closure(t):
    _, optimizer, scaler = scaled(t)
    scaler.step(optimizer, closure=lambda: 1.0)


def half_parameters(t):
    w = t.nn.Parameter(t.ones(2).half())
    optimizer, scaler = t.optim.SGD([w], lr=0.1), t.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(w.float().sum()).backward()
    scaler.step(optimizer)


def no_tensor(t):
    parts(t)[2].scale(3.0)


def an_empty_state(t):
    parts(t)[2].load_state_dict({})


def pickled_in_the_middle(t):
    _, optimizer, scaler = scaled(t)
    scaler.unscale_(optimizer)
    pickle.dumps(scaler)


def a_growth_factor_of_1(t):
    parts(t, growth_factor=1.0)


def a_backoff_factor_of_1(t):
    parts(t, backoff_factor=1.0)


def a_scale_of_two_numbers(t):
    scaled(t)[2].update(t.ones(2))


MISTAKES = {
    update_first: "Attempted update but _scale is None",
    step_first: "Attempted step but _scale is None",
    unscale_first: "Attempted unscale_ but _scale is None",
    unscale_twice: r"unscale_\(\) has already been called on this optimizer",
    step_twice: r"step\(\) has already been called since the last update",
    unscale_after_step: r"unscale_\(\) is being called after step",
    update_twice: "No inf checks were recorded prior to update",
    update_without_step: "hint: the order is: scaler.scale",
    no_gradients: "none of its parameters has a gradient",
    a_closure: "Closure use is not currently supported",
    half_parameters: "Attempting to unscale FP16 gradients",
    no_tensor: "outputs must be a Tensor or an iterable of Tensors",
    an_empty_state: "The source state dict is empty",
    pickled_in_the_middle: "pickled only before",
    a_growth_factor_of_1: "The growth factor must be > 1.0",
    a_backoff_factor_of_1: "The backoff factor must be < 1.0",
    a_scale_of_two_numbers: "new_scale should be a float",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_mistakes(mistake, torch):
    """The error has the class of PyTorch's, with edutorch's text."""
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (its class is what is asked)
        mistake(torch)
    with pytest.raises(theirs.type, match=MISTAKES[mistake]) as ours:
        mistake(edutorch)
    assert isinstance(ours.value, EdutorchError)


@pytest.mark.parametrize("overflows", range(3))
def test_an_overflow_in_any_parameter_skips_the_step(torch, overflows):
    """Also in a parameter followed by others with finite gradients."""
    for t in both(torch):
        parameters = [t.nn.Parameter(t.ones(2)) for _ in range(3)]
        optimizer = t.optim.SGD(parameters, lr=0.5)
        scaler = t.amp.GradScaler("cpu", init_scale=4.0)
        factors = [float("inf") if index == overflows else 1.0 for index in range(3)]
        loss = sum((w * factor).sum() for w, factor in zip(parameters, factors, strict=True))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert [w.tolist() for w in parameters] == [[1, 1]] * 3
        assert scaler.get_scale() == 2.0
