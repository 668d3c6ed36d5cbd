"""Jacobians, Hessians and their products with vectors.

`edutorch.func` has newer forms, which can be nested and take trees of tensors. Those here take a
tensor or a tuple of tensors, for inputs and for outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.autograd.backward import grad
from ..core.tensor import Tensor
from ..errors import GradientError, ShapeError
from ..func import grad as grad_of
from ..func import jacfwd
from ..modes import enable_grad
from ..ops import ones_like, reshape, stack, zeros_like

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]
Function = Callable[..., Any]

# Arguments and results -------------------------------------------------------------------


def as_tuple(values: Any, name: str, description: str) -> tuple[bool, Tensors]:
    """Return whether the value was a tuple, and the value as a tuple.

    Raises: TypeError: neither a tensor nor a tuple of tensors.
    """
    is_tuple = isinstance(values, tuple | list)
    tensors = tuple(values) if is_tuple else (values,)
    for value in tensors:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"The {description} given to {name} must be either a Tensor or a tuple of Tensors "
                f"but got {type(value).__name__}"
            )
    return is_tuple, tensors


def leaves_of(inputs: Tensors, create_graph: bool) -> Tensors:
    """Return tensors to differentiate by: new leaves or, with `create_graph`, recorded copies.

    Copies, so that a later write to an input does not affect the graph.
    """
    if not create_graph:
        return tuple(tensor.detach().requires_grad_() for tensor in inputs)
    copies = (tensor.clone() for tensor in inputs)
    return tuple(copy if copy.requires_grad else copy.requires_grad_() for copy in copies)


def call_function(func: Function, inputs: Tensors, name: str, strict: bool) -> tuple[bool, Tensors]:
    """Return whether the output of `func` was a tuple, and the outputs as a tuple."""
    is_tuple, outputs = as_tuple(func(*inputs), name, "outputs of the user-provided function")
    for index, output in enumerate(outputs):
        if strict and not output.requires_grad:
            raise GradientError(
                name,
                f"Output {index} of the user-provided function does not require gradients.",
                hint="in strict mode outputs must be computed from the inputs, outside no_grad()",
            )
    return is_tuple, outputs


def run_backward(
    outputs: Sequence[Tensor], inputs: Tensors, starts: Sequence[Tensor], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Run backward from the outputs that require grad."""
    pairs = [(y, v) for y, v in zip(outputs, starts, strict=True) if y.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [y for y, _ in pairs], inputs, [v for _, v in pairs],
        retain_graph=True, create_graph=create_graph, allow_unused=True,
    )  # fmt: skip


def fill_missing(
    gradients: Sequence[Tensor | None], like: Tensors, name: str, strict: bool, source: str
) -> Tensors:
    """Replace missing gradients by zeros.

    Raises: GradientError: one is missing in strict mode.
    """
    results = []
    for index, (gradient, input) in enumerate(zip(gradients, like, strict=True)):
        if strict and gradient is None:
            raise GradientError(
                name,
                f"{source} is independent of input {index}. This is not allowed in strict mode.",
            )
        results.append(zeros_like(input) if gradient is None else gradient)
    return tuple(results)


def check_requires_grad(results: Tensors, name: str, strict: bool, create_graph: bool) -> None:
    """In strict mode, raise GradientError for a derivative that does not depend on the inputs."""
    for result in results:
        if strict and create_graph and not result.requires_grad:
            raise GradientError(
                name, "The derivative of the user-provided function is independent of the inputs. "
                "This is not allowed in strict mode when create_graph=True.",
            )  # fmt: skip


def postprocess(results: Sequence[Tensor], is_tuple: bool, create_graph: bool) -> Any:
    """Return results as one tensor or a tuple, detached unless `create_graph`."""
    tensors = tuple(results) if create_graph else tuple(result.detach() for result in results)
    return tensors if is_tuple else tensors[0]


def check_vectors(v: Any, like: Tensors, is_tuple: bool, name: str) -> Tensors:
    """Return the vectors of a product; for a scalar the default is 1.

    Raises: GradientError: v is None, but needed. ShapeError: it does not fit.
    """
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise GradientError(
                name, "The vector v can only be None if the user-provided function returns "
                "(for jvp: takes) a single Tensor with a single element.",
            )  # fmt: skip
        return (ones_like(like[0]),)
    _, vectors = as_tuple(v, name, "vectors")
    if len(vectors) != len(like):
        raise ShapeError(
            name, f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}."
        )
    for index, (vector, other) in enumerate(zip(vectors, like, strict=True)):
        if vector.shape != other.shape:
            raise ShapeError(
                name, f"v has invalid size in entry {index}",
                {"v": tuple(vector.shape), "expected": tuple(other.shape)},
            )  # fmt: skip
    return vectors


# Products --------------------------------------------------------------------------------


@enable_grad
def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and the vector-Jacobian product vᵀ J.

    Args:
        v: a vector in the shape of the outputs; optional for a scalar.
        create_graph: whether to record the result, for further derivatives.
        strict: whether outputs that do not depend on an input are an error.

    Raises: GradientError: `strict` is violated, or v missing. ShapeError: v does not fit.

    >>> autograd.functional.vjp(lambda x: x * x, tensor([1.0, 2.0]), tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    is_tuple, tensors = as_tuple(inputs, "vjp", "inputs")
    leaves = leaves_of(tensors, create_graph)
    has_many_outputs, outputs = call_function(func, leaves, "vjp", strict)
    starts = check_vectors(v, outputs, has_many_outputs, "vjp")
    gradients = run_backward(outputs, leaves, starts, create_graph)
    results = fill_missing(
        gradients, leaves, "vjp", strict, "The output of the user-provided function"
    )
    check_requires_grad(results, "vjp", strict, create_graph)
    return postprocess(outputs, has_many_outputs, create_graph), postprocess(
        results, is_tuple, create_graph
    )


@enable_grad
def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and the Jacobian-vector product J v.

    Args: as for `vjp`; v has the inputs' shapes.

    Raises: GradientError, ShapeError: as for `vjp`.

    >>> autograd.functional.jvp(lambda x: x * x, tensor([1.0, 2.0]), tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    is_tuple, tensors = as_tuple(inputs, "jvp", "inputs")
    leaves = leaves_of(tensors, create_graph)
    directions = check_vectors(v, leaves, is_tuple, "jvp")
    has_many_outputs, outputs = call_function(func, leaves, "jvp", strict)
    starts = tuple(zeros_like(output).requires_grad_() for output in outputs)
    vjp_results = run_backward(outputs, leaves, starts, True)
    fill_missing(vjp_results, leaves, "jvp", strict, "The output of the user-provided function")
    pairs = [(g, t) for g, t in zip(vjp_results, directions, strict=True) if g is not None]
    gradients = run_backward([g for g, _ in pairs], starts, [t for _, t in pairs], create_graph)
    results = fill_missing(gradients, outputs, "jvp", False, "")
    check_requires_grad(results, "jvp", strict, create_graph)
    return postprocess(outputs, has_many_outputs, create_graph), postprocess(
        results, has_many_outputs, create_graph
    )


def require_scalar(func: Function, name: str) -> Function:
    """Wrap `func` with a check that its result has a single element."""

    def wrapped(*inputs: Tensor) -> Tensor:
        is_tuple, outputs = as_tuple(func(*inputs), name, "outputs of the user-provided function")
        if is_tuple:
            raise GradientError(name, f"The function given to {name} should return a single Tensor")
        if outputs[0].numel() != 1:
            raise GradientError(
                name, f"The Tensor returned by the function given to {name} "
                "should contain a single element", {"returned": tuple(outputs[0].shape)},
                "sum or average it",
            )  # fmt: skip
        return outputs[0].reshape(())

    return wrapped


@enable_grad
def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs), a scalar, and the product vᵀ H with its Hessian.

    Raises: GradientError, ShapeError: as for `vjp`; not a scalar.

    >>> autograd.functional.vhp(lambda x: (x ** 3).sum(), tensor([1.0, 2.0]), tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    is_tuple, tensors = as_tuple(inputs, "vhp", "inputs")
    leaves = leaves_of(tensors, create_graph)
    directions = check_vectors(v, leaves, is_tuple, "vhp")
    _, outputs = call_function(require_scalar(func, "vhp"), leaves, "vhp", strict)
    first = run_backward(outputs, leaves, [ones_like(outputs[0])], True)
    gradient = fill_missing(
        first, leaves, "vhp", strict, "The output of the user-provided function"
    )
    check_requires_grad(gradient, "vhp", strict, True)
    gradients = run_backward(gradient, leaves, directions, create_graph)
    results = fill_missing(
        gradients, leaves, "vhp", strict, "The jacobian of the user-provided function"
    )
    return postprocess(outputs, False, create_graph), postprocess(results, is_tuple, create_graph)


@enable_grad
def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs), a scalar, and the product H v (H is symmetric: it equals `vhp`).

    Raises: GradientError, ShapeError: as for `vhp`.

    >>> autograd.functional.hvp(lambda x: (x ** 3).sum(), tensor([1.0, 2.0]), tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return vhp(func, inputs, v, create_graph, strict)


# Whole matrices --------------------------------------------------------------------------


def check_strategy(
    name: str, strategy: str, strict: bool, vectorize: bool, create_graph: bool
) -> None:
    """Raise PyTorch's errors for settings that exclude each other."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f'Expected strategy to be "forward-mode" or "reverse-mode": {strategy}')
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            f'{name}: `create_graph=True` and `strategy="forward-mode"` are not supported '
            "together; hint: func.jacfwd can be differentiated"
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(f'{name}: `strategy="forward-mode"` needs `vectorize=True`')
    if strict and vectorize:
        raise GradientError(name, "`strict=True` and `vectorize=True` are not supported together.")


@enable_grad
def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of each output by each input, shaped (*output, *input).

    Args:
        vectorize: whether to compute all rows in one backward pass.
        strategy: "reverse-mode" or "forward-mode".

    Returns: a tensor, a tuple of them if there are several inputs or several outputs, and
        a tuple of tuples if there are both.

    Raises: GradientError: `strict` is violated.

    >>> autograd.functional.jacobian(lambda x: x * x, tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    check_strategy("jacobian", strategy, strict, vectorize, create_graph)
    is_tuple, tensors = as_tuple(inputs, "jacobian", "inputs")
    if strategy == "forward-mode":
        # A pass per element of the inputs: better than backward where there are more outputs.
        columns = jacfwd(func, tuple(range(len(tensors))))(*(tensor.detach() for tensor in tensors))
        return columns if is_tuple else unwrap_single_input(columns)
    leaves = leaves_of(tensors, create_graph)
    has_many_outputs, outputs = call_function(func, leaves, "jacobian", strict)
    jacobians = []
    for index, output in enumerate(outputs):
        description = f"Output {index} of the user-provided function"
        flat = reshape(output, (-1,))
        if vectorize:
            row = jacobian_rows(flat, output, leaves, create_graph)
            jacobians.append(postprocess(row, is_tuple, create_graph))
            continue
        rows = []
        for i in range(flat.numel()):
            gradients = run_backward([flat[i]], leaves, [ones_like(flat[i])], create_graph)
            row = fill_missing(gradients, leaves, "jacobian", strict, description)
            check_requires_grad(row, "jacobian", strict, create_graph)
            rows.append(row)
        jacobians.append(
            postprocess([stack_rows([row[i] for row in rows], output, leaf)
                      for i, leaf in enumerate(leaves)], is_tuple, create_graph)
        )  # fmt: skip
    return tuple(jacobians) if has_many_outputs else jacobians[0]


def jacobian_rows(
    flat: Tensor, output: Tensor, leaves: Tensors, create_graph: bool
) -> list[Tensor]:
    """Return the Jacobian of one output by each leaf, computed in a single backward pass."""
    count = flat.numel()
    shapes = [(*output.shape, *leaf.shape) for leaf in leaves]
    if not count or not flat.requires_grad:
        return [leaf.new_zeros(shape) for leaf, shape in zip(leaves, shapes, strict=True)]
    gradients = grad(
        flat, leaves, flat.new_zeros((count, count)).fill_diagonal_(1), retain_graph=True,
        create_graph=create_graph, is_grads_batched=True, materialize_grads=True,
    )  # fmt: skip
    return [reshape(gradient, shape) for gradient, shape in zip(gradients, shapes, strict=True)]  # type: ignore[arg-type]


def stack_rows(rows: Sequence[Tensor], output: Tensor, input: Tensor) -> Tensor:
    """Return the rows of a Jacobian as a tensor of shape (*output, *input)."""
    shape = (*output.shape, *input.shape)
    if rows:
        return reshape(stack(rows), shape)
    return input.new_zeros(shape)


def unwrap_single_input(jacobians: Any) -> Any:
    """Return the Jacobian of the only input instead of a tuple, for each output."""
    if isinstance(jacobians[0], Tensor):
        return jacobians[0]
    return tuple(by_input[0] for by_input in jacobians)


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a function that returns a scalar.

    Args: as for `jacobian`.

    Returns: a tensor of shape (*input, *input); for several inputs a tuple of tuples.

    Raises: GradientError: as for `jacobian`; not a scalar.

    >>> autograd.functional.hessian(lambda x: (x ** 3).sum(), tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    is_tuple, _ = as_tuple(inputs, "hessian", "inputs")
    scalar_function = require_scalar(func, "hessian")

    def gradient_function(*values: Tensor) -> Any:
        # Reverse over reverse: the graph of the gradient is walked once for each of its elements.
        gradients = jacobian(scalar_function, values, create_graph=True, strict=strict)
        if strict:
            check_requires_grad(gradients, "hessian", strict, True)
        return gradients if is_tuple else gradients[0]

    if outer_jacobian_strategy == "forward-mode":
        # Forward over reverse: one backward pass, with a tangent for each element.
        count = len(inputs) if is_tuple else 1
        forward_gradient = grad_of(scalar_function, tuple(range(count)) if is_tuple else 0)
        return jacobian(
            forward_gradient, inputs, create_graph, strict, True, outer_jacobian_strategy
        )
    return jacobian(
        gradient_function, inputs, create_graph, strict, vectorize, outer_jacobian_strategy
    )  # fmt: skip
