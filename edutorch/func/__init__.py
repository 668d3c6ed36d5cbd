"""Function transforms: `grad`, `vjp`, `jvp`, Jacobians, `vmap` (see README.md)."""

from __future__ import annotations

from .forward import hessian, jacfwd, jvp, linearize
from .reverse import (
    debug_unwrap, functionalize, grad, grad_and_value, jacrev, value_and_grad, vjp,
)  # fmt: skip
from .vmap import functional_call, stack_module_state, vmap

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian",
    "jacfwd", "jacrev", "jvp", "linearize", "stack_module_state", "value_and_grad", "vjp", "vmap",
]  # fmt: skip
