"""Derivatives checked by numbers: what backward says, against differences of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.autograd.backward import grad, as_list
from ..core.autograd.graph import LEAF
from ..core.tensor import Tensor
from ..errors import GradientError
from ..modes import enable_grad
from ..ops import stack, tensor
from .forward_ad import dual_level, make_dual, unpack_dual

Function = Callable[..., Any]


def numeric_gradient(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], which: int, weights: Any, eps: float
) -> np.ndarray:
    """Return the gradient of Re Σ weights* · output by central differences, number by number.

    A complex number is moved in both directions of its plane: the parts of the gradient
    are the slopes there.
    """
    given = [input_.detach().clone() for input_ in inputs]
    values = given[which].numpy(force=True)
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


class GradientChecker:
    """A function of tensors whose derivatives are checked, and how exactly they must agree."""

    def __init__(self, func: Function, inputs: Any, eps: float, atol: float, rtol: float) -> None:
        self.func, self.inputs = func, as_list(inputs)
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.positions = [
            number
            for number, input_ in enumerate(self.inputs)
            if isinstance(input_, Tensor) and input_._node is not None
        ]
        if not self.positions:
            raise GradientError(
                "gradcheck", "no input requires grad, so there is nothing to check",
                hint="make the inputs with requires_grad=True",
            )  # fmt: skip

    def outputs(self, *values: Any) -> list[Tensor]:
        """Return the results that can have a derivative."""
        results = self.func(*values)
        results = [results] if isinstance(results, Tensor) else list(results)
        return [result for result in results if result.dtype.category >= 2]

    def leaves(self) -> list[Tensor]:
        return [self.inputs[number] for number in self.positions]

    def compare(self, what: str, found: Any, differences: Any, side: str = "backward") -> None:
        """Raise GradientError unless two derivatives agree."""
        if not np.allclose(found, differences, self.rtol, self.atol, equal_nan=True):
            worst = np.unravel_index(np.abs(found - differences).argmax(), np.shape(found))
            worst = tuple(int(each) for each in worst)
            raise GradientError(
                "gradcheck", f"the {what} is wrong at {worst}",
                {side: found[worst], "differences": differences[worst]},
            )  # fmt: skip

    def numeric_jvp(self, directions: Sequence[np.ndarray], number: int) -> np.ndarray:
        """Return how output `number` moves along directions, by central differences."""
        sides = []
        for step in (self.eps, -self.eps):
            values = list(self.inputs)
            for place, direction in zip(self.positions, directions, strict=True):
                numbers = values[place].numpy(force=True) + step * direction
                values[place] = tensor(numbers, device=values[place].device)
            sides.append(self.outputs(*values)[number].numpy(force=True))
        return (sides[0] - sides[1]) / (2 * self.eps)

    def directions(self) -> list[np.ndarray]:
        return [random_weights(leaf.shape, leaf, 31 + i) for i, leaf in enumerate(self.leaves())]

    # The checks ----------------------------------------------------------------------------

    def check_backward(self, fast: bool, same_types: bool, nondet_tol: float) -> None:
        """Check the gradients of each output; `fast` compares one direction only."""
        for number, output in enumerate(self.outputs(*self.inputs)):
            weights = random_weights(output.shape, output, number)
            start = tensor(weights, dtype=output.dtype, device=output.device)
            found = self.gradients(output, start)
            again = self.gradients(output, start)
            for place, g, second in zip(self.positions, found, again, strict=True):
                if np.abs(g - second).max(initial=0) > nondet_tol:
                    raise GradientError(
                        "gradcheck", "backward is not reentrant: it gave two results"
                    )
                if same_types and g.dtype != self.inputs[place]._array.dtype:
                    raise GradientError("gradcheck", f"the gradient of input {place} is {g.dtype}")
            if fast:
                directions = self.directions()
                pairs = zip(found, directions, strict=True)
                slope = sum(np.real(g.conj() * direction).sum() for g, direction in pairs)
                differences = np.real(weights.conj() * self.numeric_jvp(directions, number)).sum()
                what = f"slope of output {number} in a random direction"
                self.compare(what, np.asarray(slope), np.asarray(differences))
                continue
            for place, g in zip(self.positions, found, strict=True):
                numeric = numeric_gradient(
                    lambda *values, n=number: self.outputs(*values)[n],
                    self.inputs, place, weights, self.eps,
                )  # fmt: skip
                self.compare(f"gradient of output {number} for input {place}", g, numeric)

    def gradients(self, output: Tensor, start: Tensor) -> list[np.ndarray]:
        """Return what backward says: zeros where an output does not depend on an input."""
        found: Sequence[Any] = [None] * len(self.positions)
        if output._node is not None:
            found = grad(output, self.leaves(), start, retain_graph=True, allow_unused=True)
        pairs = zip(found, self.leaves(), strict=True)
        return [
            np.zeros_like(leaf.numpy(force=True)) if g is None else g.numpy(force=True)
            for g, leaf in pairs
        ]

    def check_forward(self) -> None:
        """Check forward mode along one direction."""
        directions = self.directions()
        with dual_level():
            values = list(self.inputs)
            for place, direction in zip(self.positions, directions, strict=True):
                given = values[place]
                made = tensor(direction, dtype=given.dtype, device=given.device)
                values[place] = make_dual(given, made)
            moved = [unpack_dual(output).tangent for output in self.outputs(*values)]
        for number, tangent in enumerate(moved):
            differences = self.numeric_jvp(directions, number)
            zeros = np.zeros_like(differences)
            found = zeros if tangent is None else tangent.numpy(force=True)
            what = f"forward-mode derivative of output {number}"
            self.compare(what, found, differences, "forward mode")

    def check_batched(self) -> None:
        """Check that several gradients pushed back at once equal them one by one."""
        for output in self.outputs(*self.inputs):
            starts = [
                tensor(random_weights(output.shape, output, seed), dtype=output.dtype)
                for seed in (1, 2)
            ]
            if output._node is None:
                continue
            each = [self.gradients(output, start) for start in starts]
            together: Sequence[Any] = grad(
                output, self.leaves(), stack(starts), retain_graph=True, is_grads_batched=True,
                materialize_grads=True,
            )  # fmt: skip
            for number, g in enumerate(together):
                assert g is not None
                expected = np.stack([row[number] for row in each])
                self.compare("batched gradient", g.numpy(force=True), expected)


def gradcheck(
    func: Function,
    inputs: Tensor | Sequence[Tensor],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func` with differences of its values.

    For each input that requires grad, (f(x + eps) - f(x - eps)) / (2 eps) must agree
    with backward, each output number weighted by a fixed random weight.

    Args:
        func: takes the inputs, returns a tensor (or several).
        inputs: float64 or complex128 tensors; float32 is too coarse for the differences.
        nondet_tol: by how much two runs of backward may differ.
        check_forward_ad, check_batched_grad: check these too, in one direction.
        fast_mode: compare in one random direction instead of number by number.
        check_undefined_grad, check_batched_forward_grad, masked: have no meaning here; each
            output is always checked while the others get no gradient.

    Raises: GradientError: they do not agree (or returns False, if asked not to raise).

    >>> gradcheck(lambda x: x * x, tensor([1.0, 2.0], dtype=float64, requires_grad=True))
    True
    """
    checked = GradientChecker(func, inputs, eps, atol, rtol)
    try:
        if check_backward_ad:
            checked.check_backward(fast_mode, check_grad_dtypes, nondet_tol)
        if check_forward_ad:
            checked.check_forward()
        if check_batched_grad:
            checked.check_batched()
    except GradientError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function,
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare second derivatives with differences of the first: `gradcheck` of the gradient.

    Args: as for `gradcheck`, and
        grad_outputs: what the first backward starts with; fixed random numbers without it.
        check_fwd_over_rev: check forward mode over backward too.
        gen_non_contig_grad_outputs: let what backward starts with have gaps in memory.

    Raises: GradientError: they do not agree.

    >>> gradgradcheck(lambda x: x ** 3, tensor([1.0, 2.0], dtype=float64, requires_grad=True))
    True
    """
    given = as_list(inputs)

    def starts_for(outputs: Sequence[Tensor]) -> list[Tensor]:
        if grad_outputs is not None:
            return [each.detach() for each in as_list(grad_outputs)]
        starts = [
            tensor(
                random_weights(output.shape, output, 7), dtype=output.dtype, device=output.device
            )
            for output in outputs
        ]
        spaced = gen_non_contig_grad_outputs
        return [stack([start, start], -1)[..., 0] for start in starts] if spaced else starts

    def first_derivatives(*values: Tensor) -> Any:
        with enable_grad():
            leaves = [
                value
                if value._node not in (None, LEAF) or not was._node
                else value.requires_grad_()
                for value, was in zip(values, given, strict=True)
            ]
            outputs = [each for each in as_list(func(*leaves)) if each.dtype.category >= 2]
            wanted = [leaf for leaf in leaves if leaf._node is not None]
            starts = starts_for(outputs)
            return grad(outputs, wanted, starts, create_graph=True, materialize_grads=True)

    return gradcheck(
        first_derivatives, given, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
    )  # fmt: skip
