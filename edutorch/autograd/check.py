"""Derivatives checked by numbers: what backward says, against differences of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.autograd import LEAF
from ..core.backward import grad, listed
from ..core.tensor import Tensor
from ..errors import GradientError
from ..modes import enable_grad
from ..ops import tensor


def numeric_gradient(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], which: int, weights: Any, eps: float
) -> np.ndarray:
    """Return the gradient of Re Σ weights* · output by central differences, number by number.

    A complex number is moved in both directions of its plane: the parts of the gradient
    are the slopes there.
    """
    given = [each.detach().clone() for each in inputs]
    values = given[which].numpy(force=True).copy()
    result = np.zeros_like(values)
    directions = (1, 1j) if values.dtype.kind == "c" else (1,)
    for index in np.ndindex(values.shape):
        for direction in directions:
            sides = []
            for step in (eps, -eps):
                moved = values.copy()
                moved[index] += step * direction
                given[which] = tensor(moved, device=inputs[which].device)
                output = function(*given).numpy(force=True)
                sides.append((output * weights.conj()).sum().real)
            result[index] += direction * (sides[0] - sides[1]) / (2 * eps)
    return result


def random_weights(shape: Sequence[int], like: Tensor, seed: int) -> np.ndarray:
    """Return fixed random numbers between 0.5 and 1.5, of the kind of a tensor's."""
    draw = np.random.default_rng(seed).uniform
    weights = draw(0.5, 1.5, tuple(shape))
    return weights + 1j * draw(0.5, 1.5, tuple(shape)) if like.is_complex() else weights


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compare the gradients of `func` with differences of its values.

    For each input that requires grad, (f(x + eps) - f(x - eps)) / (2 eps) must agree
    with backward, each output number weighted by a fixed random weight.

    Args:
        func: takes the inputs, returns a tensor (or several).
        inputs: float64 or complex128 tensors; float32 is too coarse for the differences.

    Raises: GradientError: they do not agree (or returns False, if asked not to raise).

    >>> gradcheck(lambda x: x * x, tensor([1.0, 2.0], dtype=float64, requires_grad=True))
    True
    """
    given = listed(inputs)
    wanted = [each for each in given if isinstance(each, Tensor) and each._node is not None]
    if not wanted:
        raise GradientError(
            "gradcheck", "no input requires grad, so there is nothing to check",
            hint="make the inputs with requires_grad=True",
        )  # fmt: skip

    def flat(*values: Tensor) -> list[Tensor]:
        results = func(*values)
        results = [results] if isinstance(results, Tensor) else list(results)
        return [each for each in results if each.dtype.category >= 2]

    outputs = flat(*given)
    for number, output in enumerate(outputs):
        weights = random_weights(output.shape, output, number)
        start = tensor(weights, dtype=output.dtype, device=output.device)
        found: Sequence[Tensor | None] = [None] * len(wanted)  # not recorded: must be constant
        if output._node is not None:
            found = grad(output, wanted, start, retain_graph=True, allow_unused=True)
        for each, g in zip(wanted, found, strict=True):
            which = next(i for i, value in enumerate(given) if value is each)
            numeric = numeric_gradient(
                lambda *values, n=number: flat(*values)[n], given, which, weights, eps
            )
            analytic = np.zeros_like(numeric) if g is None else g.numpy(force=True)
            if not np.allclose(analytic, numeric, rtol, atol, equal_nan=True):
                if not raise_exception:
                    return False
                worst = np.unravel_index(np.abs(analytic - numeric).argmax(), numeric.shape)
                worst = tuple(int(each) for each in worst)
                raise GradientError(
                    "gradcheck",
                    f"the gradient of output {number} for input {which} is wrong at {worst}",
                    {"backward": analytic[worst], "differences": numeric[worst]},
                )
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compare second derivatives with differences of the first: `gradcheck` of the gradient.

    Raises: GradientError: they do not agree.

    >>> gradgradcheck(lambda x: x ** 3, tensor([1.0, 2.0], dtype=float64, requires_grad=True))
    True
    """
    given = listed(inputs)

    def first_derivatives(*values: Tensor) -> Any:
        with enable_grad():
            leaves = [
                each if each._node not in (None, LEAF) or not was._node else each.requires_grad_()
                for each, was in zip(values, given, strict=True)
            ]
            outputs = [each for each in listed(func(*leaves)) if each.dtype.category >= 2]
            wanted = [each for each in leaves if each._node is not None]
            starts = [
                tensor(random_weights(each.shape, each, 7), device=each.device) for each in outputs
            ]
            return grad(outputs, wanted, starts, create_graph=True, materialize_grads=True)

    return gradcheck(first_derivatives, given, eps, atol, rtol, raise_exception)
