"""Constraints: the valid parameters of a distribution, and its support.

`check(value)` of a constraint returns a bool per value. `event_dim` is the number of trailing
dimensions of one value (0 for a scalar, 1 for a vector, 2 for a matrix).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.tensor import Tensor
from ..dtypes import finfo
from ..linalg import cholesky_ex, eigvalsh
from ..ops import all as all_true
from ..ops import cat as joined
from ..ops import isfinite, ones, stack, tril
from .utils import Shape, TensorLike

__all__ = [
    "Constraint", "Dependent", "DependentProperty", "MixtureSameFamilyConstraint", "boolean", "cat",
    "corr_cholesky", "dependent", "dependent_property", "greater_than", "greater_than_eq",
    "half_open_interval", "independent", "integer_interval", "interval", "is_dependent",
    "less_than", "lower_cholesky", "lower_triangular", "mixture_same_family", "multinomial",
    "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square",
    "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values; `check` tests whether values are members.

    >>> edutorch.distributions.constraints.positive.check(tensor([-1.0, 2.0]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Any:
        """Return one bool per value (its last `event_dim` dimensions are one value)."""
        raise NotImplementedError

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"


class Dependent(Constraint):
    """A set that depends on the parameters of the distribution."""

    def __init__(
        self, *, is_discrete: bool = NotImplemented, event_dim: int = NotImplemented
    ) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(
        self, *, is_discrete: bool = NotImplemented, event_dim: int = NotImplemented
    ) -> Dependent:
        """Return a dependent constraint with these properties."""
        return Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")

    def __repr__(self) -> str:
        return "Dependent()"


class DependentProperty(property, Dependent):
    """A property that returns the constraint; on the class itself a dependent constraint."""

    def __init__(
        self, fn: Callable[..., Any] | None = None, *,
        is_discrete: bool = NotImplemented, event_dim: int = NotImplemented,
    ) -> None:  # fmt: skip
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> DependentProperty:  # type: ignore[override]
        """Decorate: `@dependent_property(event_dim=1)`."""
        return DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Constraint) -> bool:
    """Return True if a constraint depends on parameters, so that it cannot check values."""
    return isinstance(constraint, Dependent)


class IndependentConstraint(Constraint):
    """A constraint whose trailing batch dimensions form one value, valid if all parts are."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Any:
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        is_valid, n = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        return all_true(is_valid.reshape((*is_valid.shape[: is_valid.dim() - n], -1)), -1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values in the support of every component of a mixture."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Any:
        is_valid = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        keep = value.dim() - self.event_dim
        return all_true(is_valid.reshape((*is_valid.shape[:keep], -1)), -1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


# Scalars -----------------------------------------------------------------------------------------


class Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Any:
        return (value == 0) | (value == 1)


class IntegerInterval(Constraint):
    """The integers from lower_bound up to upper_bound, both included."""

    is_discrete = True

    def __init__(self, lower_bound: TensorLike, upper_bound: TensorLike) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Any:
        whole = value % 1 == 0
        return whole & (self.lower_bound <= value) & (value <= self.upper_bound)


class IntegerLessThan(Constraint):
    """The integers up to upper_bound."""

    is_discrete = True

    def __init__(self, upper_bound: TensorLike) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Any:
        return (value % 1 == 0) & (value <= self.upper_bound)


class IntegerGreaterThan(Constraint):
    """The integers from lower_bound on."""

    is_discrete = True

    def __init__(self, lower_bound: TensorLike) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class Real(Constraint):
    """Any value except NaN."""

    def check(self, value: Tensor) -> Any:
        return value == value


class GreaterThan(Constraint):
    """Values above lower_bound."""

    def __init__(self, lower_bound: TensorLike) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Any:
        return self.lower_bound < value


class GreaterThanEq(Constraint):
    """Values from lower_bound on."""

    def __init__(self, lower_bound: TensorLike) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Any:
        return self.lower_bound <= value


class LessThan(Constraint):
    """Values below upper_bound."""

    def __init__(self, upper_bound: TensorLike) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Any:
        return value < self.upper_bound


class Interval(Constraint):
    """Values from lower_bound to upper_bound, both included."""

    def __init__(self, lower_bound: TensorLike, upper_bound: TensorLike) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class HalfOpenInterval(Constraint):
    """Values from lower_bound up to, but excluding, upper_bound."""

    def __init__(self, lower_bound: TensorLike, upper_bound: TensorLike) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


# Vectors and matrices ----------------------------------------------------------------------------


class OneHot(Constraint):
    """One-hot vectors."""

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Any:
        return all_true((value == 0) | (value == 1), -1) & (value.sum(-1) == 1)


class Simplex(Constraint):
    """Probability vectors: non-negative, with the sum 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Any:
        return all_true(value >= 0, -1) & ((value.sum(-1) - 1).abs() < 1e-6)


class Multinomial(Constraint):
    """Vectors of counts: non-negative, with a sum of at most upper_bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: TensorLike) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Any:
        return all_true(value >= 0, -1) & (value.sum(-1) <= self.upper_bound)


def all_of_matrix(mask: Tensor) -> Tensor:
    """Return True where all elements of a matrix are True."""
    return all_true(all_true(mask, -1), -1)


class LowerTriangular(Constraint):
    """Square matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Any:
        return all_of_matrix(tril(value) == value)


class LowerCholesky(LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Tensor) -> Any:
        return super().check(value) & all_true(value.diagonal(dim1=-2, dim2=-1) > 0, -1)


class CorrCholesky(LowerCholesky):
    """Cholesky factors of correlation matrices: `LowerCholesky` with rows of norm 1."""

    def check(self, value: Tensor) -> Any:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        length = value.square().sum(-1).sqrt()
        return all_true((length - 1).abs() <= tolerance, -1) & super().check(value)


class Square(Constraint):
    """Matrices with as many rows as columns."""

    event_dim = 2

    def check(self, value: Tensor) -> Any:
        fits = value.shape[-2] == value.shape[-1]
        return (ones if fits else _none)(value.shape[:-2], device=value.device) != 0


def _none(shape: Shape, device: Any) -> Tensor:
    return ones(shape, device=device) * 0


class Symmetric(Square):
    """Matrices that equal their transpose."""

    def check(self, value: Tensor) -> Any:
        is_square = super().check(value)
        if not bool(is_square.all()):
            return is_square
        difference = (value - value.mT).abs()
        return all_of_matrix((difference <= 1e-6 + 1e-5 * value.mT.abs()) & isfinite(value))


class PositiveSemidefinite(Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Any:
        is_symmetric = super().check(value)
        if not bool(is_symmetric.all()):
            return is_symmetric
        return all_true(eigvalsh(value) >= 0, -1)


class PositiveDefinite(Symmetric):
    """Symmetric matrices with a Cholesky factor."""

    def check(self, value: Tensor) -> Any:
        is_symmetric = super().check(value)
        return cholesky_ex(value).info == 0 if bool(is_symmetric.all()) else is_symmetric


# Composites --------------------------------------------------------------------------------------


class Cat(Constraint):
    """Parts along a dimension, each with its own constraint."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    @property
    def is_discrete(self) -> bool:
        return any(constraint.is_discrete for constraint in self.cseq)

    @property
    def event_dim(self) -> int:
        return max(constraint.event_dim for constraint in self.cseq)

    def check(self, value: Tensor) -> Any:
        parts = value.split(self.lengths, self.dim)
        return joined(
            [constraint.check(part) for constraint, part in zip(self.cseq, parts, strict=True)],
            self.dim,
        )


class Stack(Constraint):
    """Slices along a dimension, each with its own constraint."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:
        return any(constraint.is_discrete for constraint in self.cseq)

    @property
    def event_dim(self) -> int:
        largest = max(constraint.event_dim for constraint in self.cseq)
        return largest + 1 if self.dim + largest < 0 else largest

    def check(self, value: Tensor) -> Any:
        parts = [value.select(self.dim, i) for i in range(value.shape[self.dim])]
        return stack_tensors(
            [constraint.check(part) for constraint, part in zip(self.cseq, parts, strict=True)],
            self.dim,
        )


stack_tensors = stack
dependent, dependent_property = Dependent(), DependentProperty
independent, mixture_same_family = IndependentConstraint, MixtureSameFamilyConstraint
boolean, one_hot = Boolean(), OneHot()
nonnegative_integer, positive_integer = IntegerGreaterThan(0), IntegerGreaterThan(1)
integer_interval = IntegerInterval
real, real_vector = Real(), IndependentConstraint(Real(), 1)
positive, nonnegative = GreaterThan(0.0), GreaterThanEq(0.0)
greater_than, greater_than_eq, less_than = GreaterThan, GreaterThanEq, LessThan
multinomial = Multinomial
unit_interval, interval, half_open_interval = Interval(0.0, 1.0), Interval, HalfOpenInterval
simplex, lower_triangular, lower_cholesky = Simplex(), LowerTriangular(), LowerCholesky()
corr_cholesky, square, symmetric = CorrCholesky(), Square(), Symmetric()
positive_semidefinite, positive_definite = PositiveSemidefinite(), PositiveDefinite()
cat, stack = Cat, Stack  # type: ignore[assignment]


def __getattr__(name: str) -> type:
    """Return a class by PyTorch's private name: `constraints._CorrCholesky`, which Pyro extends."""
    constraint = globals().get(name.removeprefix("_"))
    if name.startswith("_") and isinstance(constraint, type):
        return constraint
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
