"""Function transforms: `grad`, `vjp`, `jvp`, Jacobians, `vmap` (see README.md)."""

from __future__ import annotations

from .forward import hessian, jacfwd, jvp, linearize
from .modules import debug_unwrap, functional_call, functionalize, stack_module_state
from .reverse import grad, grad_and_value, jacrev, value_and_grad, vjp
from .vmap import vmap

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian",
    "jacfwd", "jacrev", "jvp", "linearize", "stack_module_state", "value_and_grad", "vjp", "vmap",
]  # fmt: skip
