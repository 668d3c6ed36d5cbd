"""Compare a function with PyTorch's: the same call, results and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.nn import functional as F
from tests.nn.compare import assert_close, ours_of
from tests.slopes import second_derivatives_agree


def as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def compare_calls(
    torch: Any, device: str, call: Callable[..., Any], *inputs: Any, twice: bool = True
) -> None:
    """Call with the same tensors in both libraries; floating ones get gradients.

    Args:
        call: gets the library's nn.functional and the tensors.
        inputs: shapes of random tensors, or tensors of PyTorch.
        twice: check our second derivatives against differences (on the CPU).
    """
    torch.manual_seed(4)
    theirs = [
        input_.clone()
        if isinstance(input_, torch.Tensor)
        else torch.randn(input_, dtype=torch.float64)
        for input_ in inputs
    ]
    floating = [i for i, their in enumerate(theirs) if their.is_floating_point()]
    for i in floating:
        theirs[i].requires_grad_()
    ours = [ours_of(their, device, i in floating) for i, their in enumerate(theirs)]
    expected, actual = as_tuple(call(torch.nn.functional, *theirs)), as_tuple(call(F, *ours))
    assert_close(actual, expected)
    if not expected[0].requires_grad:
        return
    weights = np.cos(np.arange(expected[0].numel()).reshape(tuple(expected[0].shape)))
    (expected[0] * expected[0].new_tensor(weights)).sum().backward()
    (actual[0] * edutorch.tensor(weights, device=device).to(actual[0].dtype)).sum().backward()
    for i in floating:
        if theirs[i].grad is not None:
            assert_close(ours[i].grad, theirs[i].grad, f"gradient of input {i}")
    if twice and device == "cpu":
        tensors = [ours[i].detach().requires_grad_() for i in floating]

        def alone(*tensors: Any) -> Any:
            filled = [ours[i].detach() for i in range(len(ours))]
            for i, tensor in zip(floating, tensors, strict=True):
                filled[i] = tensor
            return as_tuple(call(F, *filled))[0]

        assert second_derivatives_agree(alone, tensors)


def assert_refused(call: Callable[[], Any], text: str) -> None:
    """Assert that a call is refused with an error that holds `text`."""
    with pytest.raises((RuntimeError, ValueError, TypeError, NotImplementedError), match=text):
        call()
