"""Registries of transforms from unconstrained values to each constraint.

`biject_to` returns bijective transforms; `transform_to` may return cheaper, non-bijective ones.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


Registrable = type[constraints.Constraint] | constraints.Constraint
"""A class of constraints, or one of them."""

Factory = Callable[[Any], Any]
"""Returns the transform onto a constraint."""


class ConstraintRegistry:
    """A registry of a transform for each class of constraints.

    >>> positive = edutorch.distributions.constraints.positive
    >>> edutorch.distributions.transform_to(positive)(tensor(0.0))
    tensor(1.)
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(
        self, constraint: Registrable, factory: Factory | None = None
    ) -> Callable[..., Any]:
        """Register `factory(constraint)` as the transform of a class; also usable as a decorator.

        Raises: TypeError: not a constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, "
                f"but got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: constraints.Constraint) -> Any:
        """Return the transform onto a constraint.

        Raises: NotImplementedError: none is registered.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def register_both(*constraint_classes: Registrable) -> Callable[[Factory], Factory]:
    """Register one factory in both registries."""

    def decorate(factory: Factory) -> Factory:
        for constraint in constraint_classes:
            biject_to.register(constraint, factory)
            transform_to.register(constraint, factory)
        return factory

    return decorate


register_both(constraints.real)(lambda _: transforms.identity_transform)
register_both(constraints.corr_cholesky)(lambda _: transforms.CorrCholeskyTransform())
register_both(constraints.lower_cholesky)(lambda _: transforms.LowerCholeskyTransform())
register_both(constraints.positive_definite, constraints.positive_semidefinite)(
    lambda _: transforms.PositiveDefiniteTransform()
)
biject_to.register(constraints.simplex, lambda _: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda _: transforms.SoftmaxTransform())


@register_both(constraints.greater_than, constraints.greater_than_eq)
def greater_than_transform(constraint: constraints.GreaterThan) -> Any:
    if isinstance(constraint.lower_bound, Number) and constraint.lower_bound == 0:
        return transforms.ExpTransform()
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@register_both(constraints.less_than)
def less_than_transform(constraint: constraints.LessThan) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@register_both(constraints.interval, constraints.half_open_interval)
def interval_transform(constraint: constraints.Interval) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if all(isinstance(bound, Number) for bound in (low, high)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


def register_composites(registry: ConstraintRegistry) -> None:
    """Register the composite constraints, whose parts are looked up in the same registry."""
    registry.register(
        constraints.independent,
        lambda constraint: transforms.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
    registry.register(
        constraints.cat,
        lambda constraint: transforms.CatTransform(
            [registry(part) for part in constraint.cseq], constraint.dim, constraint.lengths
        ),
    )
    registry.register(
        constraints.stack,
        lambda constraint: transforms.StackTransform(
            [registry(part) for part in constraint.cseq], constraint.dim
        ),
    )


register_composites(biject_to)
register_composites(transform_to)
