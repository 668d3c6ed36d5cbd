"""`torch.xpu`, `torch.mps` and `torch.accelerator` answer as PyTorch's do on the same machine."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import cuda
from tests.oracle import require_torch

QUESTIONS = {
    "xpu": (
        "is_available", "device_count", "current_device", "is_initialized", "synchronize",
        "empty_cache", "memory_allocated", "max_memory_allocated", "memory_reserved",
        "max_memory_reserved", "get_device_name", "get_device_properties", "get_device_capability",
        "get_rng_state", "get_rng_state_all", "is_bf16_supported", "is_tf32_supported",
        "current_stream", "init", "memory_stats", "get_arch_list", "initial_seed",
    ),
    "mps": (
        "is_available", "device_count", "synchronize", "empty_cache", "current_allocated_memory",
        "driver_allocated_memory", "recommended_max_memory", "seed", "get_rng_state",
    ),
    "accelerator": (
        "is_available", "device_count", "current_accelerator", "current_device_index",
        "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
        "memory_stats", "empty_cache", "synchronize", "current_stream", "get_memory_info",
        "reset_peak_memory_stats", "reset_accumulated_memory_stats", "get_device_capability",
    ),
}  # fmt: skip


def answer(function):
    """Return what a function says: its result, or its error's class and message."""
    try:
        return function()
    except (RuntimeError, AssertionError) as error:
        return RuntimeError, str(error)


@pytest.mark.oracle
@pytest.mark.parametrize("name", QUESTIONS)
def test_without_a_device(name):
    torch = require_torch()
    if torch.accelerator.is_available() or cuda.is_available():
        pytest.skip("there is an accelerator here")
    ours, theirs = getattr(edutorch, name), getattr(torch, name)
    for question in QUESTIONS[name]:
        result, wanted = answer(getattr(ours, question)), answer(getattr(theirs, question))
        if isinstance(wanted, tuple):
            assert wanted[1].splitlines()[0].strip(".") in result[1], question
        else:
            assert result == wanted, question


def test_errors_are_what_pytorch_code_catches():
    with pytest.raises(AssertionError, match="not compiled with XPU"):
        edutorch.xpu.synchronize()
    with pytest.raises(RuntimeError, match="without MPS backend"):
        edutorch.mps.empty_cache()


def test_with_a_gpu_the_accelerator_is_that(monkeypatch):
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "current_device", lambda: 1)
    chosen = []
    monkeypatch.setattr(cuda, "set_device", chosen.append)
    accelerator = edutorch.accelerator
    assert accelerator.current_device_index() == accelerator.current_device_idx() == 1
    accelerator.set_device_index(0)
    assert chosen == [0]
