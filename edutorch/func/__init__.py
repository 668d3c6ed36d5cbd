"""Functions that take functions: derivatives without `requires_grad` and `.grad`."""

from __future__ import annotations

from .reverse import grad, hessian, jacrev, jvp, value_and_grad, vjp

__all__ = ["grad", "hessian", "jacrev", "jvp", "value_and_grad", "vjp"]
