"""Compare a module with PyTorch's: same parameters, outputs and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import edutorch

TOLERANCE = {"rtol": 1e-7, "atol": 1e-9}


def ours_of(theirs: Any, device: str, requires_grad: bool = False) -> edutorch.Tensor:
    """Convert a tensor of PyTorch to edutorch."""
    made = edutorch.tensor(theirs.detach().cpu().numpy().copy(), device=device)
    return made.requires_grad_() if requires_grad else made


def assert_close(ours: Any, theirs: Any, what: str = "", **tolerance: float) -> None:
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs), what
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_close(a, b, f"{what}[{i}]", **tolerance)
        return
    if theirs is None:
        assert ours is None, what
        return
    expected = theirs.detach().cpu().numpy()
    result = ours.detach().cpu().numpy()
    assert result.shape == expected.shape, what
    assert result.dtype == expected.dtype, what
    np.testing.assert_allclose(result, expected, err_msg=what, **(TOLERANCE | tolerance))


def carry(state: Any, device: str) -> dict[str, Any]:
    """Convert a state_dict of PyTorch to edutorch."""
    return {key: ours_of(value, device) for key, value in state.items()}


def compare_modules(
    ours: Any,
    theirs: Any,
    inputs: Sequence[Any],
    device: str,
    *,
    differentiable: Sequence[int] = (0,),
) -> None:
    """Copy PyTorch's parameters, and compare outputs and gradients.

    `inputs` are PyTorch's tensors; those numbered in `differentiable` get gradients.
    """
    ours.load_state_dict(carry(theirs.state_dict(), device))
    theirs_in = [
        input_.clone().requires_grad_() if i in differentiable else input_
        for i, input_ in enumerate(inputs)
    ]
    ours_in = [ours_of(input_, device, i in differentiable) for i, input_ in enumerate(inputs)]
    y, expected = ours(*ours_in), theirs(*theirs_in)
    assert_close(y, expected, "output")
    weights = np.cos(np.arange(expected.numel()).reshape(tuple(expected.shape)))  # no symmetry
    (expected * expected.new_tensor(weights)).sum().backward()
    (y * edutorch.tensor(weights, device=device).to(y.dtype)).sum().backward()
    for i in differentiable:
        assert_close(ours_in[i].grad, theirs_in[i].grad, f"gradient of input {i}")
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    for name, parameter in theirs.named_parameters():
        assert_close(gradients[name], parameter.grad, f"gradient of {name}")
    for name, buffer in theirs.named_buffers():
        assert_close(ours.get_buffer(name), buffer, f"buffer {name}")
