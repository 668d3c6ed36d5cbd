"""Forward-mode automatic differentiation with dual tensors, which carry a tangent.

    with dual_level():
        x = make_dual(primal, tangent)
        y = function(x)
        value, tangent_out = unpack_dual(y)    # J · tangent

The tangent rules of ops are in `core/autograd/forward_mode.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ..core.autograd.tangents import Level, make_alias, set_tangent, tangent_of
from ..core.tensor import Tensor
from ..errors import GradientError, ShapeError
from ..modes import ModeContext, Modes, current, switch
from ..ops import is_tensor

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "set_forward_grad_enabled", "unpack_dual",
]  # fmt: skip


class UnpackedDualTensor(NamedTuple):
    """The parts of a dual tensor. The tangent is None if it has none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Enter the level for dual tensors, and return its number, 0.

    Raises: RuntimeError: one is open already (`func.jvp` can be nested, this cannot).

    >>> level = autograd.forward_ad.enter_dual_level()
    >>> autograd.forward_ad.exit_dual_level(level=level)
    """
    modes = current()
    if any(isinstance(level, DualLevel) for level in modes.levels):
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment; "
            "hint: func.jvp can be nested, and autograd.grad works inside of a level"
        )
    switch(modes, levels=(*modes.levels, DualLevel()))
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Exit the level, and drop its tangents.

    Raises: RuntimeError: none is open.
    """
    modes = current()
    if not any(isinstance(level, DualLevel) for level in modes.levels):
        raise RuntimeError(
            "Trying to exit a dual level but no level is open; hint: call enter_dual_level() first"
        )
    switch(modes, levels=tuple(x for x in modes.levels if not isinstance(x, DualLevel)))


class DualLevel(Level):
    """The level that `enter_dual_level` opens."""


def open_dual_level() -> DualLevel | None:
    """Return the level opened by `enter_dual_level`, or None."""
    return next((level for level in current().levels if isinstance(level, DualLevel)), None)


class dual_level:
    """A forward-mode level for a `with` block.

    >>> import edutorch.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(tensor([1.0, 2.0]), tensor([1.0, 10.0]))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor([ 2., 40.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Decorate `function` so that each call has its own level."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return function(*args, **kwargs)

        return wrapped


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return the tensor with a tangent, the direction of the derivative.

    A tangent of another precision is converted to that of the tensor. (PyTorch keeps it.)

    Raises: RuntimeError: no level is open. ValueError: not a floating dtype.
        ShapeError, TypeError: the tangent does not fit.

    >>> with autograd.forward_ad.dual_level():
    ...     autograd.forward_ad.make_dual(tensor(1.0), tensor(2.0))
    tensor(1.)
    """
    open_level = open_dual_level()
    if open_level is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, "
            "make sure to enter_dual_level() first."
        )
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if not is_tensor(value):
            raise TypeError(f"make_dual(): expected a Tensor as {name}, got {type(value).__name__}")
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {value.dtype}"
            )
    if tensor.shape != tangent.shape:
        raise ShapeError(
            "make_dual", "a tangent has the shape of its tensor",
            {"tensor": tuple(tensor.shape), "tangent": tuple(tangent.shape)},
        )  # fmt: skip
    if tangent.is_complex() and not tensor.is_complex():
        raise GradientError(
            "make_dual", "a real tensor does not move in a complex direction",
            {"tensor": tensor.dtype, "tangent": tangent.dtype},
        )  # fmt: skip
    dual = make_alias(tensor)
    set_tangent(dual, open_level, tangent.to(tensor.dtype))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a tensor without its tangent, and the tangent (or None).

    >>> with autograd.forward_ad.dual_level():
    ...     x = autograd.forward_ad.make_dual(tensor(3.0), tensor(1.0))
    ...     autograd.forward_ad.unpack_dual(x.square())
    UnpackedDualTensor(primal=tensor(9.), tangent=tensor(6.))
    """
    open_level = open_dual_level()
    if open_level is None:
        return UnpackedDualTensor(tensor, None)
    primal = make_alias(tensor)
    set_tangent(primal, open_level, None)
    return UnpackedDualTensor(primal, tangent_of(tensor, open_level))


class set_forward_grad_enabled(ModeContext):
    """Switch forward mode off, immediately, or for a `with` block.

    Ops then do not propagate tangents. True changes nothing: an open level is active.

    >>> fwAD = autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(tensor(3.0), tensor(1.0))
    ...     with fwAD.set_forward_grad_enabled(False):
    ...         y = x * x
    ...     fwAD.unpack_dual(y).tangent is None
    True
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = mode
        self._outer = before = current()
        switch(before, **self.changes(before))

    def changes(self, modes: Modes) -> dict[str, Any]:
        return {} if self.mode else {"levels": ()}

    def clone(self) -> ModeContext:
        """Return a fresh context with the same setting."""
        return set_forward_grad_enabled(self.mode)
