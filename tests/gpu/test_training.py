"""Optimizers in one launch, and all gradients in one, against their definitions, on fibers."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import edutorch
from edutorch.backends.strict_array import StrictArray, no_synchronisation
from edutorch.kernels.gpu import gradients
from edutorch.kernels.gpu.module import LAUNCHES, use_launcher
from tests.gpu.fibers import FiberLauncher, has_compiler
from tests.gpu.training_cases import OPTIMIZERS, SHAPES, train, training_modules

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")


@functools.cache
def launcher() -> FiberLauncher:
    """Return a launcher with all texts. One order: what a table points to is not copied."""
    return FiberLauncher(training_modules(), orders=(0,))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_that_of_the_rule(name: str) -> None:
    fibers = launcher()
    before = LAUNCHES["fused_step"]
    with use_launcher(fibers):
        params, _ = train(OPTIMIZERS[name], "strict", edutorch.float32)
    steps = LAUNCHES["fused_step"] - before
    assert steps == (4 if name == "SGD" else 3)  # the first one makes the state
    expected, _ = train(OPTIMIZERS[name], "cpu", edutorch.float64)
    plain, _ = train(OPTIMIZERS[name], "cpu", edutorch.float32)
    for param, exact, rule in zip(params, expected, plain, strict=True):
        target = exact.detach().numpy()
        error = np.abs(param.detach().cpu().numpy() - target).max()
        of_rule = np.abs(rule.detach().numpy() - target).max()
        assert error <= 2 * of_rule + 4 * 2.0**-23 * np.abs(target).max()


def test_bfloat16_is_computed_in_float32() -> None:
    with use_launcher(launcher()):
        params, _ = train(OPTIMIZERS["AdamW"], "strict", edutorch.bfloat16)
    expected, _ = train(OPTIMIZERS["AdamW"], "cpu", edutorch.float64)
    for param, exact in zip(params, expected, strict=True):
        error = (param.detach().cpu().double() - exact.detach()).abs().max().item()
        assert error < 0.05


def test_step_counts_go_on_and_a_saved_state_loads() -> None:
    with use_launcher(launcher()):
        _, optimizer = train(OPTIMIZERS["Adam"], "strict", edutorch.float32)
        assert {state["step"].item() for state in optimizer.state.values()} == {4.0}
        state = optimizer.state_dict()
        params, other = train(OPTIMIZERS["Adam"], "strict", edutorch.float32, steps=0)
        other.load_state_dict(state)
        for param in params:
            param.grad = edutorch.ones_like(param)
        before = LAUNCHES["fused_step"]
        other.step()
    assert LAUNCHES["fused_step"] == before + 1


@pytest.mark.parametrize("bad", [None, np.inf, np.nan])
def test_unscaled_gradients_their_norm_and_found_inf(bad: float | None) -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in SHAPES]
    if bad is not None:
        arrays[2][16_999] = bad
    grads = [StrictArray(array.copy()) for array in arrays]
    factor = StrictArray(np.array([0.25], np.float32))
    found_inf = StrictArray(np.zeros(1, np.float32))
    with use_launcher(launcher()), no_synchronisation():
        squares = gradients.unscale(grads, factor, found_inf)
    assert squares is not None
    assert found_inf.get()[0] == (bad is not None)
    for grad, array in zip(grads, arrays, strict=True):
        np.testing.assert_array_equal(grad.get(), array * np.float32(0.25))
    exact = sum((array.astype(np.float64) ** 2).sum() for array in arrays) / 16
    np.testing.assert_allclose(squares.get(), exact, rtol=1e-12)


def test_gradients_of_two_dtypes_are_left_to_the_caller() -> None:
    grads = [StrictArray(np.ones(3, np.float32)), StrictArray(np.ones(3, np.float64))]
    number = StrictArray(np.ones(1, np.float32))
    with use_launcher(launcher()):
        assert gradients.unscale(grads, number, number) is None


def unscale_and_clip(device: str) -> tuple[list[np.ndarray], float, float]:
    """Unscale and clip given gradients; return them, their norm, and the next scale."""
    params = [edutorch.zeros(*shape, device=device).requires_grad_() for shape in SHAPES]
    scaler = edutorch.amp.GradScaler(device, init_scale=8.0)
    optimizer = edutorch.optim.SGD(params, lr=1.0)
    random = np.random.default_rng(0)
    scaler.scale(params[0].sum())
    for param in params:
        gradient = random.standard_normal(param.shape)
        param.grad = edutorch.tensor(gradient, dtype=edutorch.float32, device=device)
    with no_synchronisation():
        scaler.unscale_(optimizer)
        norm = edutorch.nn.utils.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()
    grads = [param.grad.cpu().numpy() for param in params]
    return grads, norm.item(), scaler.get_scale()


def test_grad_scaler_and_clip_grad_norm_go_over_all_gradients_in_one_launch() -> None:
    before = LAUNCHES["unscale"]
    with use_launcher(launcher()):
        grads, norm, scale = unscale_and_clip("strict")
    assert LAUNCHES["unscale"] == before + 3  # unscaled, their norm, clipped
    expected, right, scale_right = unscale_and_clip("cpu")
    assert scale == scale_right
    assert norm == pytest.approx(right, rel=1e-6)
    for grad, target in zip(grads, expected, strict=True):
        np.testing.assert_allclose(grad, target, rtol=1e-6)


def test_float64_gradients_are_clipped_by_float64() -> None:
    with use_launcher(launcher()):
        param = edutorch.ones(3, dtype=edutorch.float64, device="strict").requires_grad_()
        param.grad = edutorch.full((3,), 0.3, dtype=edutorch.float64, device="strict")
        norm = edutorch.nn.utils.clip_grad_norm_(param, 0.1)
    assert norm.dtype == edutorch.float64
    assert norm.item() == pytest.approx(0.3 * 3**0.5, rel=1e-15)
    factor = 0.1 / (0.3 * 3**0.5 + 1e-6)
    assert param.grad.cpu().tolist() == pytest.approx([0.3 * factor] * 3, rel=1e-14)
