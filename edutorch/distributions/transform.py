"""The base class of transforms of random variables, and their composition.

A transform y = f(x) also computes log |dy/dx|, which the density of the transformed variable needs:
p(y) = p(x) / |dy/dx|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.shapes import Size
from ..core.tensor import Tensor
from ..ops import ones_like, zeros
from . import constraints
from .utils import Shape, TensorLike, not_implemented, sum_rightmost

__all__ = ["ComposeTransform", "IndependentTransform", "ReshapeTransform", "Transform"]


class Transform:
    """The base of transforms: `_call` is f, `_inverse` its inverse.

    Args:
        cache_size: 1 stores the last pair (x, y), so that inverting y is exact.
    """

    bijective: Any = False
    domain: Any
    codomain: Any
    sign: Any = property(not_implemented, doc="1 if f is increasing, -1 if decreasing.")

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)

    def __call__(self, x: Tensor) -> Any:
        """Return y = f(x)."""
        if self._cache_size and self._cached[0] is x:
            return self._cached[1]
        y = self._call(x)
        if self._cache_size:
            self._cached = (x, y)
        return y

    def invert(self, y: Tensor) -> Any:
        """Return x with f(x) = y."""
        if self._cache_size and self._cached[1] is y:
            return self._cached[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached = (x, y)
        return x

    def _call(self, x: Tensor) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Any:
        raise NotImplementedError

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        return InverseTransform(self)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Return log |det dy/dx| for a pair y = f(x)."""
        raise NotImplementedError

    def forward_shape(self, shape: Shape) -> Any:
        """Return the shape of f(x) for x of the given shape."""
        return shape

    def inverse_shape(self, shape: Shape) -> Any:
        """Return the shape of x for f(x) of the given shape."""
        return shape

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with another cache size."""
        if cache_size == self._cache_size:
            return self
        new = object.__new__(type(self))
        vars(new).update(vars(self), _cache_size=cache_size, _cached=(None, None))
        return new

    def __eq__(self, other: object) -> bool:
        """Return True if two transforms have the same class and parameters."""
        if type(self) is not type(other):
            return False
        ignored = ("_cached", "_cache_size")
        settings = {name: value for name, value in vars(self).items() if name not in ignored}
        return all(are_equal(value, vars(other).get(name)) for name, value in settings.items())

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def are_equal(a: Any, b: Any) -> bool:
    """Return True if two parameters, scalars or tensors, are equal."""
    equal = a == b
    return bool(equal.all()) if hasattr(equal, "all") else bool(equal)


class InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def __call__(self, x: Tensor) -> Any:
        return self._inv.invert(x)

    def invert(self, y: Tensor) -> Any:
        return self._inv(y)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return InverseTransform(self._inv.with_cache(cache_size))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


class ComposeTransform(Transform):
    """The composition of several transforms, applied in order.

    >>> transforms = edutorch.distributions.transforms
    >>> twice = transforms.AffineTransform(0.0, 2.0)
    >>> transforms.ComposeTransform([twice, transforms.ExpTransform()])(tensor(0.0))
    tensor(1.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dim = max(dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return reinterpret(self.parts[0].domain, dim)

    @property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        dim = self.parts[0].domain.event_dim
        for part in self.parts:
            dim += part.codomain.event_dim - part.domain.event_dim
            dim = max(dim, part.codomain.event_dim)
        return reinterpret(self.parts[-1].codomain, dim)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _call(self, x: Tensor) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Any:
        for part in reversed(self.parts):
            y = part.invert(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        if not self.parts:
            return zeros(x.shape, dtype=x.dtype, device=x.device)
        total: Any = 0
        dim = self.domain.event_dim
        for index, part in enumerate(self.parts):
            y_part = y if index == len(self.parts) - 1 else part(x)
            log_det = part.log_abs_det_jacobian(x, y_part)
            total = total + sum_rightmost(log_det, dim - part.domain.event_dim)
            dim += part.codomain.event_dim - part.domain.event_dim
            x = y_part
        return total

    def forward_shape(self, shape: Shape) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def with_cache(self, cache_size: int = 1) -> Transform:
        return ComposeTransform(self.parts, cache_size)

    def __repr__(self) -> str:
        inner = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {inner}\n)"


def reinterpret(constraint: constraints.Constraint, dim: int) -> Any:
    """Return a constraint over values of `dim` dimensions."""
    missing = dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing > 0 else constraint


class IndependentTransform(Transform):
    """A transform whose last dimensions form one value: their log-determinants are summed.

    >>> transforms = edutorch.distributions.transforms
    >>> each = transforms.IndependentTransform(transforms.ExpTransform(), 1)
    >>> each.log_abs_det_jacobian(tensor([1.0, 2.0]), None)
    tensor(3.)
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.invert(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        log_det = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(log_det, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Reshape the last dimensions.

    Raises: ValueError: the shapes have different numbers of elements.

    >>> edutorch.distributions.transforms.ReshapeTransform((4,), (2, 2))(zeros(4)).shape
    torch.Size([2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Any:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Any:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        return zeros(x.shape[: x.dim() - len(self.in_shape)], dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Shape) -> Any:
        return self._replace_shape(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Any:
        return self._replace_shape(shape, self.out_shape, self.in_shape)

    def _replace_shape(self, shape: Shape, old: Size, new: Size) -> Size:
        cut = len(shape) - len(old)
        if cut < 0:
            raise ValueError("Too few dimensions on input")
        if Size(shape[cut:]) != old:
            raise ValueError(f"Shape mismatch: expected {Size(shape[cut:])} but got {old}")
        return Size((*shape[:cut], *new))


def log_abs_scale(scale: TensorLike, x: Tensor) -> Any:
    """Return log |scale| in the shape of x."""
    return ones_like(x) * (scale.abs().log() if isinstance(scale, Tensor) else math.log(abs(scale)))
