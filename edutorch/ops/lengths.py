"""Second derivatives of norms at 0, where a norm is not differentiable.

The gradient of y = |x| is g · x / y, and at 0 it is taken as 0. A function of y may still be
smooth there: y² = x·x has the second derivative 2. The second derivative of the composition is
the limit of g / y, and by l'Hôpital's rule that is dg/dy where g is 0 with y. Where g is not 0 the
kink remains. So a rule that is itself recorded determines how its g depends on its own y.
"""

from __future__ import annotations

import math
from typing import Any

from .. import backends
from ..backends.numpy import Array, Namespace
from ..core.autograd.backward import grad
from ..core.op import elementwise, op
from ..core.tensor import Tensor, wrap
from ..errors import GradientError
from ..modes import current, override_modes


def add_curvature(gradient: Any, g: Any, y: Any, node: Any, input: Any, corner: float) -> Any:
    """Return the gradient of a norm, with its own derivative where the norm is 0.

    Args:
        gradient: g · x / y, and 0 at y = 0.
        y: a tensor that is 0 where the norm is.
        node: the node that computed the norm.
        input: x (or its conjugate), with respect to which the gradient may be differentiated.
        corner: the second derivative at a kink that remains.
    """
    limit = limit_of_ratio(g, y, node, corner)
    return gradient if limit is None else gradient + zero_with_gradient(input, limit)


def limit_of_ratio(g: Any, y: Any, node: Any, corner: float) -> Any:
    """Return the limit of g / y where y is 0 (elsewhere 0); None where it is not needed."""
    if not isinstance(g, Tensor) or node is None or not current().grad:
        return None
    length = y._array if isinstance(y, Tensor) else y
    at_zero = length == 0
    if not backends.of(length).level and not at_zero.any():
        return None
    slope = derivative_by_result(g, node)
    with override_modes(grad=False):
        at_zero = wrap(at_zero)
        is_corner = at_zero & (g != 0)
    return where(is_corner, corner, 0.0 if slope is None else where(at_zero, slope, 0.0))


def derivative_by_result(g: Tensor, node: Any) -> Tensor | None:
    """Return dg/dy of the result of `node`, differentiable again; None where g does not vary."""
    if g._node is None:
        return None
    result = wrap(g._array)
    result._node = node
    try:
        with override_modes(grad=True, listeners=(), saving=None):
            (slope,) = grad(g, result, ones_like(g), create_graph=True, allow_unused=True)
    except GradientError:  # the graph between them was freed
        slope = full_like(g, math.nan)
    return None if slope is None else slope.reshape(g.shape)


@op(method=False, public="mul")
def zero_with_gradient(xp: Namespace, input: Array, slope: Array) -> Array:
    """Zeros whose derivative with respect to `input` is `slope`.

    >>> zero_with_gradient(tensor([0.0]), tensor([2.0]))
    tensor([0.])
    """
    return xp.zeros_like(input)


zero_with_gradient.vjp(input=lambda g, slope: g * slope, latex=r"g \cdot s")


@elementwise(method=False, public="sqrt", dtypes="bif")
def safe_sqrt(xp: Namespace, input: Array) -> Array:
    """The square root of a sum of squares: the gradient at 0 is 0, not infinite.

    >>> safe_sqrt(tensor([4.0, 0.0]))
    tensor([2., 0.])
    """
    return xp.sqrt(xp.maximum(input, 0))


def _root_rule(g: Any, y: Any, node: Any) -> Any:
    limit = limit_of_ratio(g, y, node, 0.0)
    gradient = g / (2 * where(y != 0, y, math.inf))
    return gradient if limit is None else gradient + limit / 2


safe_sqrt.vjp(input=_root_rule, latex=r"\frac{g}{2y}")

from .comparison import where  # noqa: E402  (rules may use any op)
from .like import full_like, ones_like  # noqa: E402
