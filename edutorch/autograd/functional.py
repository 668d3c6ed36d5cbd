"""Derivatives of functions of tensors, all at once: Jacobians, Hessians and their products.

`func` has newer forms of the same, which can be nested and take trees of tensors. These
here take a tensor or a tuple of them, for inputs and for outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.autograd.backward import grad
from ..core.tensor import Tensor
from ..errors import GradientError, ShapeError
from ..modes import enable_grad
from ..ops import ones_like, reshape, stack, zeros_like

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]
Function = Callable[..., Any]

# In and out ------------------------------------------------------------------------------


def as_tuple(values: Any, name: str, what: str) -> tuple[bool, Tensors]:
    """Say whether it was a tuple, and return it as one.

    Raises: TypeError: neither a tensor nor a tuple of tensors.
    """
    several = isinstance(values, tuple | list)
    found = tuple(values) if several else (values,)
    for each in found:
        if not isinstance(each, Tensor):
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors "
                f"but got {type(each).__name__}"
            )
    return several, found


def leaves_of(inputs: Tensors, create_graph: bool) -> Tensors:
    """Return tensors to differentiate by: steps in the graph of the inputs, or new leaves.

    With `create_graph` they are copies, so that a later write to an input does not reach the graph.
    """
    if not create_graph:
        return tuple(tensor.detach().requires_grad_() for tensor in inputs)
    copies = (tensor.clone() for tensor in inputs)
    return tuple(copy if copy.requires_grad else copy.requires_grad_() for copy in copies)


def call_function(func: Function, inputs: Tensors, name: str, strict: bool) -> tuple[bool, Tensors]:
    """Return the outputs of `func` as a tuple, and whether they were one."""
    several, outputs = as_tuple(func(*inputs), name, "outputs of the user-provided function")
    for number, output in enumerate(outputs):
        if strict and not output.requires_grad:
            raise GradientError(
                name,
                f"Output {number} of the user-provided function does not require gradients.",
                hint="in strict mode outputs must be computed from the inputs, outside no_grad()",
            )
    return several, outputs


def run_backward(
    outputs: Sequence[Tensor], inputs: Tensors, starts: Sequence[Tensor], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Run backward from those outputs that were recorded."""
    pairs = [(y, v) for y, v in zip(outputs, starts, strict=True) if y.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [y for y, _ in pairs], inputs, [v for _, v in pairs],
        retain_graph=True, create_graph=create_graph, allow_unused=True,
    )  # fmt: skip


def fill_missing(
    found: Sequence[Tensor | None], like: Tensors, name: str, strict: bool, what: str
) -> Tensors:
    """Put zeros where there is no gradient.

    Raises: GradientError: in strict mode, instead.
    """
    results = []
    for number, (each, input) in enumerate(zip(found, like, strict=True)):
        if strict and each is None:
            raise GradientError(
                name,
                f"{what} is independent of input {number}. This is not allowed in strict mode.",
            )
        results.append(zeros_like(input) if each is None else each)
    return tuple(results)


def check_requires_grad(results: Tensors, name: str, strict: bool, create_graph: bool) -> None:
    """In strict mode, raise GradientError for a derivative that does not depend on the inputs."""
    for result in results:
        if strict and create_graph and not result.requires_grad:
            raise GradientError(
                name, "The derivative of the user-provided function is independent of the inputs. "
                "This is not allowed in strict mode when create_graph=True.",
            )  # fmt: skip


def postprocess(results: Sequence[Tensor], several: bool, create_graph: bool) -> Any:
    """Return results as they were given: one, or a tuple; without a past, unless it is wanted."""
    kept = tuple(results) if create_graph else tuple(result.detach() for result in results)
    return kept if several else kept[0]


def check_vectors(v: Any, like: Tensors, several: bool, name: str) -> Tensors:
    """Return the vectors of a product; for a single number it is 1 without saying.

    Raises: GradientError: none is given, but one is needed. ShapeError: it does not fit.
    """
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise GradientError(
                name, "The vector v can only be None if the user-provided function returns "
                "(for jvp: takes) a single Tensor with a single element.",
            )  # fmt: skip
        return (ones_like(like[0]),)
    _, found = as_tuple(v, name, "vectors")
    if len(found) != len(like):
        raise ShapeError(
            name, f"v is a tuple of invalid length: should be {len(like)} but got {len(found)}."
        )
    for number, (each, other) in enumerate(zip(found, like, strict=True)):
        if each.shape != other.shape:
            raise ShapeError(
                name, f"v has invalid size in entry {number}",
                {"v": tuple(each.shape), "expected": tuple(other.shape)},
            )  # fmt: skip
    return found


# Products --------------------------------------------------------------------------------


@enable_grad
def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and vᵀ J: how a gradient v of the outputs reaches the inputs.

    Args:
        v: of the outputs' shapes; may be left out if there is a single number.
        create_graph: record it, for further derivatives.
        strict: refuse outputs that do not depend on an input.

    Raises: GradientError: `strict` is violated, or v missing. ShapeError: v does not fit.

    >>> autograd.functional.vjp(lambda x: x * x, tensor([1.0, 2.0]), tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    several, given = as_tuple(inputs, "vjp", "inputs")
    leaves = leaves_of(given, create_graph)
    many, outputs = call_function(func, leaves, "vjp", strict)
    starts = check_vectors(v, outputs, many, "vjp")
    found = run_backward(outputs, leaves, starts, create_graph)
    results = fill_missing(found, leaves, "vjp", strict, "The output of the user-provided function")
    check_requires_grad(results, "vjp", strict, create_graph)
    return postprocess(outputs, many, create_graph), postprocess(results, several, create_graph)


@enable_grad
def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and J v: how the outputs move when the inputs move along v.

    Args: as for `vjp`; v has the inputs' shapes.

    Raises: GradientError, ShapeError: as for `vjp`.

    >>> autograd.functional.jvp(lambda x: x * x, tensor([1.0, 2.0]), tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    several, given = as_tuple(inputs, "jvp", "inputs")
    leaves = leaves_of(given, create_graph)
    directions = check_vectors(v, leaves, several, "jvp")
    many, outputs = call_function(func, leaves, "jvp", strict)
    starts = tuple(zeros_like(output).requires_grad_() for output in outputs)
    backs = run_backward(outputs, leaves, starts, True)
    fill_missing(backs, leaves, "jvp", strict, "The output of the user-provided function")
    pairs = [(g, t) for g, t in zip(backs, directions, strict=True) if g is not None]
    found = run_backward([g for g, _ in pairs], starts, [t for _, t in pairs], create_graph)
    results = fill_missing(found, outputs, "jvp", False, "")
    check_requires_grad(results, "jvp", strict, create_graph)
    return postprocess(outputs, many, create_graph), postprocess(results, many, create_graph)


def require_scalar(func: Function, name: str) -> Function:
    """Return `func`, whose result is checked to be one number."""

    def checked(*inputs: Tensor) -> Tensor:
        several, outputs = as_tuple(func(*inputs), name, "outputs of the user-provided function")
        if several:
            raise GradientError(name, f"The function given to {name} should return a single Tensor")
        if outputs[0].numel() != 1:
            raise GradientError(
                name, f"The Tensor returned by the function given to {name} "
                "should contain a single element", {"returned": tuple(outputs[0].shape)},
                "sum or average it",
            )  # fmt: skip
        return outputs[0].reshape(())

    return checked


@enable_grad
def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs), a single number, and vᵀ H, with H its second derivatives.

    Raises: GradientError, ShapeError: as for `vjp`; not a single number.

    >>> autograd.functional.vhp(lambda x: (x ** 3).sum(), tensor([1.0, 2.0]), tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    several, given = as_tuple(inputs, "vhp", "inputs")
    leaves = leaves_of(given, create_graph)
    directions = check_vectors(v, leaves, several, "vhp")
    _, outputs = call_function(require_scalar(func, "vhp"), leaves, "vhp", strict)
    first = run_backward(outputs, leaves, [ones_like(outputs[0])], True)
    slopes = fill_missing(first, leaves, "vhp", strict, "The output of the user-provided function")
    check_requires_grad(slopes, "vhp", strict, True)
    found = run_backward(slopes, leaves, directions, create_graph)
    results = fill_missing(found, leaves, "vhp", strict, "The jacobian of the user-provided function")
    return postprocess(outputs, False, create_graph), postprocess(results, several, create_graph)


@enable_grad
def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs), a single number, and H v (as H is symmetric, what `vhp` returns).

    Raises: GradientError, ShapeError: as for `vhp`.

    >>> autograd.functional.hvp(lambda x: (x ** 3).sum(), tensor([1.0, 2.0]), tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return vhp(func, inputs, v, create_graph, strict)


# Whole matrices --------------------------------------------------------------------------


def check_strategy(name: str, strategy: str, strict: bool, vectorize: bool, create_graph: bool) -> None:
    """Raise what PyTorch raises for settings that do not go together."""
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
    """Return all partial derivatives: of each output by each input, shaped (*output, *input).

    Args:
        vectorize: compute all rows in one backward pass.
        strategy: "reverse-mode" or "forward-mode".

    Returns: a tensor, a tuple of them if there are several inputs or several outputs, and
        a tuple of tuples if there are both.

    Raises: GradientError: `strict` is violated.

    >>> autograd.functional.jacobian(lambda x: x * x, tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    check_strategy("jacobian", strategy, strict, vectorize, create_graph)
    several, given = as_tuple(inputs, "jacobian", "inputs")
    if strategy == "forward-mode":
        from ..func import jacfwd

        found = jacfwd(func, tuple(range(len(given))))(*(each.detach() for each in given))
        return found if several else unwrap_single_input(found)
    leaves = leaves_of(given, create_graph)
    many, outputs = call_function(func, leaves, "jacobian", strict)
    table = []
    for number, output in enumerate(outputs):
        what = f"Output {number} of the user-provided function"
        flat = reshape(output, (-1,))
        if vectorize:
            row = jacobian_rows(flat, output, leaves, create_graph)
            table.append(postprocess(row, several, create_graph))
            continue
        rows = []
        for i in range(flat.numel()):
            found = run_backward([flat[i]], leaves, [ones_like(flat[i])], create_graph)
            row = fill_missing(found, leaves, "jacobian", strict, what)
            check_requires_grad(row, "jacobian", strict, create_graph)
            rows.append(row)
        table.append(
            postprocess([stack_rows([row[i] for row in rows], output, leaf)
                      for i, leaf in enumerate(leaves)], several, create_graph)
        )  # fmt: skip
    return tuple(table) if many else table[0]


def jacobian_rows(flat: Tensor, output: Tensor, leaves: Tensors, create_graph: bool) -> list[Tensor]:
    """Return the Jacobian of one output by each leaf, computed in a single backward pass."""
    count = flat.numel()
    shapes = [(*output.shape, *leaf.shape) for leaf in leaves]
    if not count or not flat.requires_grad:
        return [leaf.new_zeros(shape) for leaf, shape in zip(leaves, shapes, strict=True)]
    found = grad(
        flat, leaves, flat.new_zeros((count, count)).fill_diagonal_(1), retain_graph=True,
        create_graph=create_graph, is_grads_batched=True, materialize_grads=True,
    )  # fmt: skip
    return [reshape(each, shape) for each, shape in zip(found, shapes, strict=True)]  # type: ignore[arg-type]


def stack_rows(rows: Sequence[Tensor], output: Tensor, input: Tensor) -> Tensor:
    """Return the rows of a Jacobian as a tensor of shape (*output, *input)."""
    shape = (*output.shape, *input.shape)
    if rows:
        return reshape(stack(rows), shape)
    return input.new_zeros(shape)


def unwrap_single_input(found: Any) -> Any:
    """Take the only input's Jacobian out of its tuple, for each output."""
    if isinstance(found[0], Tensor):
        return found[0]
    return tuple(each[0] for each in found)


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return all second derivatives of a function with a single number as result.

    Args: as for `jacobian`.

    Returns: a tensor of shape (*input, *input); for several inputs a tuple of tuples.

    Raises: GradientError: as for `jacobian`; not a single number.

    >>> autograd.functional.hessian(lambda x: (x ** 3).sum(), tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    several, _ = as_tuple(inputs, "hessian", "inputs")
    number = require_scalar(func, "hessian")

    def slopes(*given: Tensor) -> Any:
        found = jacobian(number, given, create_graph=True, strict=strict)
        if strict:
            check_requires_grad(found, "hessian", strict, True)
        return found if several else found[0]

    if outer_jacobian_strategy == "forward-mode":
        from ..func import grad as gradient

        count = len(inputs) if several else 1
        by_all = gradient(number, tuple(range(count)) if several else 0)
        return jacobian(by_all, inputs, create_graph, strict, True, outer_jacobian_strategy)
    return jacobian(
        slopes, inputs, create_graph, strict, vectorize, outer_jacobian_strategy
    )  # fmt: skip
