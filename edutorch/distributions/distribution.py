"""The base class of distributions: shapes, validation, expansion.

A distribution has a `batch_shape` (of independent distributions) and an `event_shape` (of one
value). A sample has the shape sample_shape + batch_shape + event_shape.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..autograd import grad
from ..core.precision import is_half, widen
from ..core.shapes import Size
from ..core.tensor import Tensor
from ..errors import warn
from ..modes import current, enable_grad, no_grad
from ..ops import where, zeros_like
from . import constraints
from .constraint_registry import transform_to
from .utils import (
    Shape,
    all_over_event,
    clamp_probs,
    lazy_property,
    not_implemented,
)

__all__ = ["Distribution", "ExponentialFamily"]

# 16-bit floats ---------------------------------------------------------------------------------
#
# A formula has many steps, and bfloat16 would round in each. So a method of a distribution whose
# parameters all have one 16-bit dtype is called on a copy with float32 parameters, which are
# computed from the 16-bit ones: gradients reach those. The result is rounded once.

METHODS = ("log_prob", "cdf", "icdf", "entropy", "mean", "mode", "variance", "stddev")


def wrap_methods(cls: type) -> None:
    """Wrap the methods that a class of distributions defines itself."""
    for name in METHODS:
        method = vars(cls).get(name)
        if isinstance(method, property):
            assert method.fget is not None
            setattr(cls, name, property(compute_in_float32(method.fget), doc=method.__doc__))
        elif callable(method):
            setattr(cls, name, compute_in_float32(method))


def compute_in_float32(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of a distribution: with 16-bit floats it computes in float32."""

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any) -> Any:
        dtype = first_dtype(self)
        if dtype is None or not is_half(dtype) or current().autocast is not None:
            return method(self, *args)
        copy = WideCopy()
        wide_self, args_in_32 = copy.convert(self), tuple(copy.convert(value) for value in args)
        if copy.dtypes != {dtype} or copy.has_cache:
            return method(self, *args)
        y = method(wide_self, *args_in_32)
        return y.to(dtype) if isinstance(y, Tensor) and y.is_floating_point() else y

    return wrapper


def first_dtype(distribution: object) -> Any:
    """Return the dtype of the first tensor of a distribution or of its inner distributions."""
    for value in vars(distribution).values():
        if isinstance(value, Tensor):
            return value.dtype
        if is_distribution_object(value):
            return first_dtype(value)
    return None


def is_distribution_object(value: object) -> bool:
    """Whether a value is a distribution, a transform or a constraint of this package."""
    return type(value).__module__.startswith("edutorch.distributions.")


class WideCopy:
    """Copies distributions, converting 16-bit tensors to float32.

    Attributes:
        dtypes: the dtypes of all floating tensors.
        has_cache: whether there is a transform with a cache, which compares tensors by identity.
    """

    def __init__(self) -> None:
        self.dtypes: set[Any] = set()
        self.has_cache = False
        self.copies: dict[int, Any] = {}  # by identity: a shared tensor is converted once

    def convert(self, value: Any) -> Any:
        """Return a value with all its tensors in float32."""
        if isinstance(value, list):
            return [self.convert(item) for item in value]
        if not isinstance(value, Tensor) and not is_distribution_object(value):
            return value
        if id(value) not in self.copies:
            self.copies[id(value)] = self.convert_object(value)
        return self.copies[id(value)]

    def convert_object(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                self.dtypes.add(value.dtype)
            return widen(value)
        attributes = vars(value)
        if "probs" in attributes and "logits" not in attributes and hasattr(value, "logits"):
            materialize_logits(value)
        self.has_cache |= bool(attributes.get("_cache_size"))
        copy = object.__new__(type(value))
        vars(copy).update({name: self.convert(item) for name, item in attributes.items()})
        return copy


def materialize_logits(distribution: Any) -> None:
    """Compute logits in the 16-bit dtype if its eps clamps the probabilities, as in PyTorch."""

    probs = vars(distribution)["probs"]
    if bool((clamp_probs(probs) != probs).any()):
        _ = distribution.logits  # a lazy property, stored at the first access


def mask_out_of_support(log_prob: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a `log_prob`: without validation, values outside the support get -∞.

    The formula is evaluated at a value inside the support instead, so that gradients are finite.
    """

    @functools.wraps(log_prob)
    def wrapped(self: Distribution, value: Tensor) -> Any:
        if self._validate_args or not isinstance(value, Tensor):
            return log_prob(self, value)
        try:
            support = self.support
            event_dim = support.event_dim
        except NotImplementedError:
            return log_prob(self, value)
        is_possible = support.check(value) & all_over_event(~value.isinf(), event_dim)
        is_possible = is_possible | ~all_over_event(~value.isnan(), event_dim)
        mask = is_possible.reshape((*is_possible.shape, *(1,) * event_dim))
        with no_grad():
            inner = value_in_support(support, value)
        result = log_prob(self, where(mask, value, inner))
        return where(is_possible, result, -math.inf)

    return wrapped


def value_in_support(support: constraints.Constraint, value: Tensor) -> Any:
    """Return values inside a support, of the shape and dtype of `value`."""
    try:
        transform = transform_to(support)
    except NotImplementedError:
        return zeros_like(value)  # a discrete support; its formulas are finite there
    shape = transform.inverse_shape(value.shape)
    inner = transform(value.new_zeros(shape)).to(value.dtype)
    lowest = getattr(support, "lower_bound", None)
    return inner if lowest is None else where(inner.isfinite(), inner, lowest)


class Distribution:
    """The base of all distributions.

    Args:
        batch_shape: the shape of the batch of distributions.
        event_shape: the shape of one value.
        validate_args: whether parameters and values are validated.

    Raises: ValueError: a parameter is outside its constraint.
    """

    def __init_subclass__(cls, **named: Any) -> None:
        """Wrap the methods of the library's own distributions.

        Values outside the support get the probability 0, and 16-bit floats compute in float32.
        """
        super().__init_subclass__(**named)
        if not cls.__module__.startswith("edutorch."):
            return
        if "log_prob" in vars(cls):
            cls.log_prob = mask_out_of_support(cls.log_prob)  # type: ignore[method-assign]
        wrap_methods(cls)

    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: ClassVar[Any] = property(
        not_implemented, doc="The constraint of each parameter."
    )
    support: Any = property(not_implemented, doc="The set of values that can be drawn.")
    _validate_args = __debug__

    def __init__(
        self, batch_shape: Shape = (), event_shape: Shape = (),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether new distributions validate their arguments by default."""
        if value not in (True, False):
            raise ValueError("set_default_validate_args takes True or False")
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    @compute_in_float32  # a variance may leave the range of 16 bits where its root does not
    def stddev(self) -> Any:
        """The standard deviation, √variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw values of the shape sample_shape + batch_shape + event_shape, without gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw reparameterized values, which have a gradient by the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """Draw n values: the deprecated form of `sample((n,))`."""
        warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.")
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Any:
        """Return the logarithm of the probability mass or density at a value.

        With `validate_args` a value outside the support raises ValueError; without, the result is
        -∞, as needed in a mixture or a rejection step. (PyTorch evaluates its formula there.)
        """
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Any:
        """Return the cumulative distribution function P(X ≤ value)."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Any:
        """Return the quantile of the probability `value`: the inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all values, one after the other along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """Return the entropy E[-log p(x)]."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """Return the perplexity exp(entropy)."""
        return self.entropy().exp()

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        """Return the distribution expanded to a larger batch shape, without new memory.

        The leading batch dimensions of each parameter are expanded, and those of inner
        distributions likewise.
        """
        new = self._get_checked_instance(type(self), _instance)
        batch_shape, old = Size(batch_shape), len(self._batch_shape)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                value = value.expand((*batch_shape, *value.shape[old:]))
            elif isinstance(value, Distribution):
                value = value.expand((*batch_shape, *value.batch_shape[old:]))
            setattr(new, name, value)
        new._batch_shape = batch_shape
        return new

    def _get_checked_instance(self, cls: type, _instance: Distribution | None = None) -> Any:
        """Return the empty distribution that `expand` fills; PyTorch's subclasses call it."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    # Validation --------------------------------------------------------------------------

    def _validate_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warn(
                f"{self.__class__} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with "
                "`validate_args=False` to turn off validation."
            )
            return
        for name, constraint in arg_constraints.items():
            is_lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (is_lazy and name not in vars(self)):
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} "
                    f"({type(value).__name__} of shape {tuple(value.shape)}) "
                    f"of distribution {self!r} to satisfy the constraint {constraint!r}, "
                    f"but found invalid values:\n{value}"
                )

    def _validate_sample(self, value: Tensor) -> None:
        """Raise ValueError if a value has the wrong shape or lies outside the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, event = value.shape, self._event_shape
        if shape[len(shape) - len(event) :] != event:
            raise ValueError(
                f"The right-most size of value must match event_shape: {shape} vs {event}."
            )
        expected = self._extended_shape()
        for i, j in zip(reversed(shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{shape} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation."
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, "
                f"but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        parameters = {name: vars(self)[name] for name in self.arg_constraints if name in vars(self)}
        texts = (
            f"{name}: {value if value.numel() == 1 else value.size()}"
            for name, value in parameters.items()
        )
        return f"{type(self).__name__}({', '.join(texts)})"


class ExponentialFamily(Distribution):
    """Distributions of the form p(x) = exp(Σ t(x) · θ - F(θ) + k(x)).

    The log normalizer F and its derivative give the entropy, F(θ) - Σ θ · F'(θ) - E[k(x)],
    and the KL divergence from a distribution of the same family.

    Paper: Nielsen and Nock, Entropies and cross-entropies of exponential families, 2010.
    """

    _mean_carrier_measure: Any = 0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        """The natural parameters θ."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        """The log normalizer F(θ)."""
        raise NotImplementedError

    def entropy(self) -> Any:
        with enable_grad():
            theta = [
                natural_param.detach().requires_grad_() for natural_param in self._natural_params
            ]
            normalizer = self._log_normalizer(*theta)
        means = grad(normalizer.sum(), theta, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for parameter, mean in zip(theta, means, strict=True):
            result = result - (parameter * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return result
