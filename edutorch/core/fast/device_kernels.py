"""Kernels of another device than the CPU, asked by ops for its arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import backends
from ...backends import Backend, kernel_registry
from ..registry import REGISTRY

if TYPE_CHECKING:
    from ..op import Op

__all__ = ["forward_on_device", "rule_on_device"]


def forward_on_device(
    op: Op, backend: Backend, arrays: dict[str, Any], settings: dict[str, Any]
) -> Any:
    """Compute with the kernel that the device has for an op; None: it has none for this case."""
    values = {**arrays, **settings}
    arguments = [values[name] for name in op.signature.parameters]
    size = getattr(arrays[op.inputs[0]], "size", 1)
    return kernel_registry.run_on_device(backend.kernels, op.name, size, arguments)


def rule_on_device(op: Op, name: str, values: tuple[Any, ...]) -> Any:
    """Run a rule by the kernel of the device that has its arrays; None: there is none.

    Args:
        name: the input whose rule it is, or "joint_vjp".
    """
    if not kernel_registry.active:
        return None
    rule = op.joint_rule if name == "joint_vjp" else op.rules[name]
    assert rule is not None
    g = values[rule.parameters.index("g")]
    backend = backends.backend_of_type(type(g))
    if backend is None or not backend.kernels:
        return None
    return kernel_registry.run_on_device(backend.kernels, f"{op.name}/{name}", g.size, values)


def rebuild_rules() -> None:
    """Write `backward` again: its rules ask for the kernels of another device as well."""
    for op in REGISTRY.values():
        if "call_paths" in op.__dict__:
            op._defer_build()


kernel_registry.on_activation.append(rebuild_rules)
