"""Usual calls take the fast path, with the results of the general one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch.core.registry import REGISTRY

x = torch.tensor([[1.0, 3.0, 2.0], [6.0, 4.0, 5.0]], requires_grad=True)
w = torch.tensor([[3.0, 1.0, 2.0], [0.0, 7.0, 5.0]])
mask = torch.tensor([[True, False, True], [False, False, True]])
whole = torch.tensor([3, -1, 4])

CALLS = {
    "where": lambda: torch.where(mask, x, w),
    "where of a number": lambda: torch.where(mask, x, 0.0),
    "where of integers": lambda: torch.where(mask[0], whole, 0),
    "add": lambda: whole + 1,
    "mul": lambda: whole * -2,
    "remainder": lambda: whole % 3,
    "floor_divide": lambda: whole // 2,
    "eq": lambda: whole == 4,
    "minmax_dim": lambda: x.max(1).values,
    "sort_forward": lambda: x.sort(1).values,
}
"""Calls by the name of the op, optionally followed by the special case."""


def general(call: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the result of a call under unusual modes, which runs `apply`."""
    op = REGISTRY[name.split()[0]]
    call()  # writes the call path
    with monkeypatch.context() as patch:
        for function in (op.function, op.operator):
            patch.setitem(function.__globals__, "modes", object)
        return call()


def gradient(y: Any) -> Any:
    if not y.requires_grad:
        return None
    x.grad = None
    y.backward(torch.arange(1.0, y.numel() + 1).reshape(y.shape))
    return x.grad.numpy()


@pytest.mark.parametrize("name", CALLS)
def test_no_detour(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, call = REGISTRY[name.split()[0]], CALLS[name]
    slow = general(call, name, monkeypatch)
    exact = slow.detach().numpy(), gradient(slow)

    def detour(*arguments: Any) -> Any:
        raise AssertionError(f"{name} took the general path")

    for function in (op.function, op.operator):
        monkeypatch.setitem(function.__globals__, "apply", detour)
    y = call()
    monkeypatch.undo()
    assert y.dtype == slow.dtype
    np.testing.assert_array_equal(y.detach().numpy(), exact[0])
    np.testing.assert_array_equal(gradient(y), exact[1])


def test_whole_numbers_too_large_are_left_to_the_general_path() -> None:
    assert (whole + (2**63 - 1)).dtype == torch.int64
    with pytest.raises(OverflowError):
        whole + 2**70


def test_other_types_are_left_to_the_general_path() -> None:
    assert (whole + 0.5).dtype == torch.float32
    assert (torch.tensor([250], dtype=torch.uint8) + 300).item() == 38  # as in PyTorch
    assert torch.where(mask, x, w.double()).dtype == torch.float64
    assert torch.where(torch.tensor(True), 1, 2.5).item() == 1.0
