"""Gradients as functions: `grad(f)` is f', itself a function that can be differentiated.

All of it is reverse mode: run `f` on fresh leaves, then run the graph backwards.
Where the inputs themselves belong to a graph, that backward pass is recorded, so
`grad(grad(f))` is the second derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import autograd
from ..core.tensor import Tensor
from ..errors import GradientError
from ..modes import enable_grad
from ..ops import ones_like, reshape, stack, zeros_like

Function = Callable[..., Any]


def fresh(value: Any) -> Any:
    """Return a tensor to differentiate by: a new leaf, or a step in the outer graph."""
    if not isinstance(value, Tensor):
        return value
    return value + 0 if value.requires_grad else value.detach().requires_grad_()


def _call(func: Function, args: tuple[Any, ...], chosen: tuple[int, ...]) -> tuple[Any, list[Any]]:
    given = [fresh(each) if i in chosen else each for i, each in enumerate(args)]
    with enable_grad():
        return func(*given), [given[i] for i in chosen]


def value_and_grad(
    func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Function:
    """Return a function that gives `func`'s gradient and its value: (gradient, value).

    Args:
        func: returns one number, or with `has_aux` (one number, anything else).
        argnums: by which arguments to differentiate.

    Raises: GradientError: `func` does not return a single number.

    >>> value_and_grad(lambda x: x ** 3)(tensor(2.0))
    (tensor(12.), tensor(8.))
    """
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def function(*args: Any) -> Any:
        nested = any(isinstance(each, Tensor) and each.requires_grad for each in args)
        result, leaves = _call(func, args, chosen)
        value = result[0] if has_aux else result
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise GradientError(
                "grad",
                "the function must return a single number",
                {"returned": tuple(value.shape) if isinstance(value, Tensor) else value},
                "sum or average the result, or use vjp or jacrev",
            )
        gradients = autograd.grad(value, leaves, create_graph=nested, materialize_grads=True)
        found = gradients[0] if isinstance(argnums, int) else gradients
        value = value if nested else value.detach()
        return found, (value, result[1]) if has_aux else value

    return function


def grad(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """Return the derivative of a function of tensors that returns one number.

    >>> grad(lambda x: x ** 3)(tensor(2.0)), grad(grad(lambda x: x ** 3))(tensor(2.0))
    (tensor(12.), tensor(12.))
    """
    both = value_and_grad(func, argnums, has_aux)

    def function(*args: Any) -> Any:
        gradients, value = both(*args)
        return (gradients, value[1]) if has_aux else gradients

    return function


def vjp(func: Function, *primals: Tensor) -> tuple[Any, Function]:
    """Return func(*primals) and the function that takes a gradient back: v ↦ vᵀ J.

    >>> y, back = vjp(lambda x: x * x, tensor([1.0, 2.0]))
    >>> back(tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    nested = any(each.requires_grad for each in primals)
    output, leaves = _call(func, primals, tuple(range(len(primals))))

    def back(cotangent: Any) -> tuple[Tensor, ...]:
        return autograd.grad(  # type: ignore[return-value]  (materialized: never None)
            output, leaves, cotangent, retain_graph=True, create_graph=nested,
            materialize_grads=True,
        )  # fmt: skip

    return (output if nested else _detached(output)), back


def _detached(output: Any) -> Any:
    if isinstance(output, Tensor):
        return output.detach()
    return tuple(each.detach() for each in output)


def jvp(func: Function, primals: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> Any:
    """Return func(*primals), and how it moves when the primals move along the tangents: J t.

    Backward is linear in the gradient it starts from. Differentiating it by that
    gradient turns vᵀJ into Jt.

    >>> jvp(lambda x: x * x, (tensor([1.0, 2.0]),), (tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    output, leaves = _call(func, primals, tuple(range(len(primals))))
    start = zeros_like(output).requires_grad_()
    if output.grad_fn is None:
        return output, zeros_like(output)
    backs = autograd.grad(output, leaves, start, create_graph=True, materialize_grads=True)
    pairs = zip(backs, tangents, strict=True)
    used = [(each, t) for each, t in pairs if each is not None and each.requires_grad]
    if not used:
        return output.detach(), zeros_like(output)
    moved = autograd.grad([each for each, _ in used], start, [t for _, t in used])[0]
    return output.detach(), moved


def jacrev(func: Function, argnum: int = 0) -> Function:
    """Return the function of all partial derivatives: J[i, j] = ∂yᵢ/∂xⱼ, a row per backward.

    >>> jacrev(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    def function(*args: Any) -> Tensor:
        nested = any(isinstance(each, Tensor) and each.requires_grad for each in args)
        output, leaves = _call(func, args, (argnum,))
        flat = reshape(output, (-1,))
        rows = [
            autograd.grad(flat[i], leaves, ones_like(flat[i]), True, nested, materialize_grads=True)
            for i in range(flat.numel())
        ]
        shape = (*output.shape, *leaves[0].shape)
        return reshape(stack([row[0] for row in rows]), shape) if rows else flat.reshape(shape)

    return function


def hessian(func: Function, argnum: int = 0) -> Function:
    """Return the function of all second derivatives of a function with one number as result.

    >>> hessian(lambda x: (x ** 3).sum())(tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(grad(func, argnum), argnum)
