"""`gradcheck`: comparison of derivatives with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.numpy import Array
from ..core.autograd.backward import as_list, grad
from ..core.autograd.graph import LEAF
from ..core.storage import strided
from ..core.tensor import Tensor
from ..errors import GradientError
from ..modes import enable_grad
from ..ops import stack, tensor
from .forward_ad import dual_level, make_dual, unpack_dual

Function = Callable[..., Any]


def numeric_gradient(
    function: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    position: int,
    weights: Array,
    eps: float,
) -> np.ndarray:
    """Return the gradient of Re Σ weights* · output by central differences, element by element.

    A complex element is varied in its real and imaginary part: the slopes are the real and
    imaginary part of the gradient.
    """
    arguments = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    values = arguments[position].numpy(force=True)
    result = np.zeros_like(values)
    directions = (1, 1j) if values.dtype.kind == "c" else (1,)
    for index in np.ndindex(values.shape):
        for direction in directions:
            sides = []
            for step in (eps, -eps):
                shifted = values.copy()
                shifted[index] += step * direction
                arguments[position] = tensor(shifted, device=inputs[position].device)
                output = function(*arguments).numpy(force=True)
                sides.append((output * weights.conj()).sum().real)
            result[index] += direction * (sides[0] - sides[1]) / (2 * eps)
    return result


def random_weights(shape: Sequence[int], like: Tensor, seed: int) -> np.ndarray:
    """Return reproducible random weights between 0.5 and 1.5, complex if the tensor is."""
    draw = np.random.default_rng(seed).uniform
    weights = draw(0.5, 1.5, tuple(shape))
    return weights + 1j * draw(0.5, 1.5, tuple(shape)) if like.is_complex() else weights


def dense_array(g: Tensor) -> np.ndarray:
    """Return a gradient as an array; that of an embedding may be a sparse tensor."""
    return (g if g.layout is strided else g.to_dense()).numpy(force=True)


class GradientChecker:
    """Checks of the derivatives of one function, with given tolerances."""

    def __init__(self, func: Function, inputs: Any, eps: float, atol: float, rtol: float) -> None:
        self.func, self.inputs = func, as_list(inputs)
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.positions = [
            position
            for position, input_ in enumerate(self.inputs)
            if isinstance(input_, Tensor) and input_._node is not None
        ]
        if not self.positions:
            raise GradientError(
                "gradcheck", "no input requires grad, so there is nothing to check",
                hint="make the inputs with requires_grad=True",
            )  # fmt: skip

    def outputs(self, *values: Any) -> list[Tensor]:
        """Return the differentiable outputs of the function."""
        # Copies: a function that writes into a constant finds the same value at each call.
        results = self.func(*[
            value.clone() if isinstance(value, Tensor) and value._node is None else value
            for value in values
        ])  # fmt: skip
        results = [results] if isinstance(results, Tensor) else list(results)
        # Integers, as of argmax, have no derivative.
        return [result for result in results if result.dtype.category >= 2]

    def leaves(self) -> list[Tensor]:
        return [self.inputs[position] for position in self.positions]

    def compare(
        self, description: str, computed: Any, differences: Any, side: str = "backward"
    ) -> None:
        """Raise GradientError unless two derivatives agree."""
        # Differences of order eps² and rounding of order 1/eps: hence float64 and these tolerances.
        if not np.allclose(computed, differences, self.rtol, self.atol, equal_nan=True):
            worst = np.unravel_index(np.abs(computed - differences).argmax(), np.shape(computed))
            worst = tuple(int(index) for index in worst)
            raise GradientError(
                "gradcheck", f"the {description} is wrong at {worst}",
                {side: computed[worst], "differences": differences[worst]},
            )  # fmt: skip

    def numeric_jvp(self, directions: Sequence[np.ndarray], output_index: int) -> np.ndarray:
        """Return the tangent of one output along directions, by central differences."""
        sides = []
        # Central differences: the error is of order eps², with one side it would be eps.
        for step in (self.eps, -self.eps):
            values = list(self.inputs)
            for position, direction in zip(self.positions, directions, strict=True):
                shifted = values[position].numpy(force=True) + step * direction
                values[position] = tensor(shifted, device=values[position].device)
            sides.append(self.outputs(*values)[output_index].numpy(force=True))
        return (sides[0] - sides[1]) / (2 * self.eps)

    def directions(self) -> list[np.ndarray]:
        # Fixed seeds: a check that fails must fail again.
        return [random_weights(leaf.shape, leaf, 31 + i) for i, leaf in enumerate(self.leaves())]

    # The checks ----------------------------------------------------------------------------

    def check_backward(self, fast: bool, same_types: bool, nondet_tol: float) -> None:
        """Check the gradients of each output; `fast` compares one direction only."""
        for index, output in enumerate(self.outputs(*self.inputs)):
            weights = random_weights(output.shape, output, index)
            start = tensor(weights, dtype=output.dtype, device=output.device)
            gradients = self.gradients(output, start)
            # Twice: a backward that adds up in another order each time is found here.
            second_run = self.gradients(output, start)
            for position, g, second in zip(self.positions, gradients, second_run, strict=True):
                if np.abs(g - second).max(initial=0) > nondet_tol:
                    raise GradientError(
                        "gradcheck", "backward is not reentrant: it gave two results"
                    )
                if same_types and g.dtype != self.inputs[position]._array.dtype:
                    raise GradientError(
                        "gradcheck", f"the gradient of input {position} is {g.dtype}"
                    )
            if fast:
                directions = self.directions()
                pairs = zip(gradients, directions, strict=True)
                slope = sum(np.real(g.conj() * direction).sum() for g, direction in pairs)
                differences = np.real(weights.conj() * self.numeric_jvp(directions, index)).sum()
                description = f"slope of output {index} in a random direction"
                self.compare(description, np.asarray(slope), np.asarray(differences))
                continue
            for position, g in zip(self.positions, gradients, strict=True):
                numeric = numeric_gradient(
                    lambda *values, n=index: self.outputs(*values)[n],
                    self.inputs, position, weights, self.eps,
                )  # fmt: skip
                self.compare(f"gradient of output {index} for input {position}", g, numeric)

    def gradients(self, output: Tensor, start: Tensor) -> list[np.ndarray]:
        """Return the gradients by backward: zeros where an output does not depend on an input."""
        results: Sequence[Any] = [None] * len(self.positions)
        if output._node is not None:
            results = grad(output, self.leaves(), start, retain_graph=True, allow_unused=True)
        pairs = zip(results, self.leaves(), strict=True)
        return [
            np.zeros_like(leaf.numpy(force=True)) if g is None else dense_array(g)
            for g, leaf in pairs
        ]

    def check_forward(self) -> None:
        """Check forward mode along one direction."""
        directions = self.directions()
        with dual_level():
            values = list(self.inputs)
            for position, direction in zip(self.positions, directions, strict=True):
                input_ = values[position]
                tangent_tensor = tensor(direction, dtype=input_.dtype, device=input_.device)
                values[position] = make_dual(input_, tangent_tensor)
            tangents = [unpack_dual(output).tangent for output in self.outputs(*values)]
        for index, tangent in enumerate(tangents):
            differences = self.numeric_jvp(directions, index)
            zeros = np.zeros_like(differences)
            computed = zeros if tangent is None else tangent.numpy(force=True)
            description = f"forward-mode derivative of output {index}"
            self.compare(description, computed, differences, "forward mode")

    def check_batched(self) -> None:
        """Check that a batched backward equals separate ones."""
        for output in self.outputs(*self.inputs):
            starts = [
                tensor(random_weights(output.shape, output, seed), dtype=output.dtype)
                for seed in (1, 2)
            ]
            if output._node is None:
                continue
            separate = [self.gradients(output, start) for start in starts]
            batched: Sequence[Any] = grad(
                output, self.leaves(), stack(starts), retain_graph=True, is_grads_batched=True,
                materialize_grads=True,
            )  # fmt: skip
            for index, g in enumerate(batched):
                assert g is not None
                expected = np.stack([row[index] for row in separate])
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
    """Compare the gradients of `func` with finite differences.

    For each input that requires grad, (f(x + eps) - f(x - eps)) / (2 eps) must agree
    with backward, for a fixed random weight of each element of the output.

    Args:
        func: takes the inputs, returns a tensor (or several). Each call gets copies of the inputs
            that require no grad, so that it may write into them.
        inputs: float64 or complex128 tensors, as float32 is too coarse for the differences;
            constants may have any type.
        nondet_tol: the tolerated difference between two runs of backward.
        check_forward_ad, check_batched_grad: whether to check these too, in one direction.
        fast_mode: whether to compare in one random direction instead of element by element.
        check_undefined_grad, check_batched_forward_grad, masked: no effect here; each output is
            always checked while the others get no gradient.

    Raises: GradientError: they do not agree (or returns False, if asked not to raise).

    >>> gradcheck(lambda x: x * x, tensor([1.0, 2.0], dtype=float64, requires_grad=True))
    True
    """
    checker = GradientChecker(func, inputs, eps, atol, rtol)
    try:
        if check_backward_ad:
            checker.check_backward(fast_mode, check_grad_dtypes, nondet_tol)
        if check_forward_ad:
            checker.check_forward()
        if check_batched_grad:
            checker.check_batched()
    except GradientError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function, inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor] | None = None, *,
    eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True, fast_mode: bool = False, masked: bool = False,
) -> bool:  # fmt: skip
    """Compare second derivatives with finite differences: `gradcheck` of the gradient.

    Args: as for `gradcheck`, and
        grad_outputs: the start of the first backward; fixed random values by default.
        check_fwd_over_rev: whether to check forward mode over backward too.
        gen_non_contig_grad_outputs: whether the start of backward is not contiguous.

    Raises: GradientError: they do not agree.

    >>> gradgradcheck(lambda x: x ** 3, tensor([1.0, 2.0], dtype=float64, requires_grad=True))
    True
    """
    arguments = as_list(inputs)
    needs_grad = [isinstance(x, Tensor) and x._node is not None for x in arguments]

    def starts_for(outputs: Sequence[Tensor]) -> list[Tensor]:
        if grad_outputs is not None:
            return [grad_output.detach() for grad_output in as_list(grad_outputs)]
        starts = [
            tensor(
                random_weights(output.shape, output, 7), dtype=output.dtype, device=output.device
            )
            for output in outputs
        ]
        non_contiguous = gen_non_contig_grad_outputs
        return [stack([start, start], -1)[..., 0] for start in starts] if non_contiguous else starts

    def first_derivatives(*values: Tensor) -> Any:
        with enable_grad():
            leaves = [
                value.requires_grad_() if is_input and value._node in (None, LEAF) else value
                for value, is_input in zip(values, needs_grad, strict=True)
            ]
            outputs = [output for output in as_list(func(*leaves)) if output.dtype.category >= 2]
            differentiable = [
                leaf for leaf, is_input in zip(leaves, needs_grad, strict=True) if is_input
            ]
            starts = starts_for(outputs)
            return grad(outputs, differentiable, starts, create_graph=True, materialize_grads=True)

    return gradcheck(
        first_derivatives, arguments, eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )  # fmt: skip
