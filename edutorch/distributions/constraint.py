"""The base of constraints, and constraints that depend on parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Constraint", "Dependent", "DependentProperty", "is_dependent"]


class Constraint:
    """A set of values; `check` tests whether values are members.

    >>> edutorch.distributions.constraints.positive.check(tensor([-1.0, 2.0]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Return one bool per value (its last `event_dim` dimensions are one value)."""
        raise NotImplementedError

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"


class Dependent(Constraint):
    """A set that depends on the parameters of the distribution."""

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
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
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> Dependent:
        """Return a dependent constraint with these properties."""
        return Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")

    def __repr__(self) -> str:
        return "Dependent()"


class DependentProperty(property, Dependent):
    """A property that returns the constraint; on the class itself a dependent constraint."""

    def __init__(
        self, fn: Callable[..., Any] | None = None, *,
        is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented,
    ) -> None:  # fmt: skip
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> DependentProperty:  # type: ignore[override]
        """Decorate: `@dependent_property(event_dim=1)`."""
        return DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Return True if a constraint depends on parameters, so that it cannot check values."""
    return isinstance(constraint, Dependent)
