"""`distribute_tensor`, `distribute_module` and the functions that make distributed tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...core.tensor import LEAF, Tensor
from ...errors import GradientError
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ..collectives import broadcast
from ..device_mesh import DeviceMesh, mesh_or_entered
from ..errors import DistError
from .dtensor import DTensor, placements_of, wrap_local
from .placement_types import Placement
from .redistribution import Spec, redistribute_local

__all__ = [
    "distribute_module", "distribute_tensor", "empty", "full", "ones", "rand", "randn", "zeros",
]  # fmt: skip


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None, *, src_data_rank: int | None = 0,
) -> DTensor:  # fmt: skip
    """Divide a tensor among the ranks of a mesh. All of them call it.

    Args:
        tensor: the whole, a leaf, of the same shape on all ranks.
        device_mesh: by default that of all ranks.
        placements: one for each axis of the mesh; by default replicated.
        src_data_rank: the rank along each axis whose elements count; None: all have the same.

    Raises: RuntimeError: not a leaf; ValueError, DistError: placements that do not fit.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = distributed.device_mesh.init_device_mesh("cpu", (1,))
    >>> x = distributed.tensor.distribute_tensor(ones(2), mesh, [distributed.tensor.Shard(0)])
    >>> x.placements, x.to_local()
    ((Shard(dim=0),), tensor([1., 1.]))
    >>> distributed.destroy_process_group()
    """
    mesh = mesh_or_entered(device_mesh)
    target = placements_of("distribute_tensor", placements, mesh, tensor.ndim)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh or tensor.placements != target:
            raise DistError(
                "distribute_tensor", "the tensor is a DTensor already, placed in another way",
                {"placements": tensor.placements, "asked for": target}, "call x.redistribute",
            )  # fmt: skip
        return tensor
    if not tensor.is_leaf:
        raise GradientError(
            "distribute_tensor", "`distribute_tensor` should be used to distribute leaf tensors! "
            "but found non-leaf tensor", hint="DTensor.from_local takes a tensor that is computed",
        )  # fmt: skip
    if any(placement.is_partial() for placement in target):
        raise DistError("distribute_tensor", "a tensor cannot be divided into terms (Partial)")
    whole = tensor.detach()
    if whole.device.type not in (mesh.device_type, "meta"):
        whole = whole.to(mesh.device_type)
    if src_data_rank is not None:
        whole = whole.clone()
        for axis in range(mesh.ndim):
            broadcast(whole, group=mesh.get_group(axis), group_src=src_data_rank)
    spec = Spec(mesh, placements_of("", None, mesh, 0), tuple(tensor.shape))
    local = redistribute_local(whole, spec, target)
    local = local.clone() if local is tensor or src_data_rank is None else local.detach()
    result = wrap_local(local, spec._replace(placements=target))
    return result.requires_grad_(tensor._node is LEAF)


def distribute_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
) -> Module:  # fmt: skip
    """Make the parameters of a module distributed tensors, in place. All ranks call it.

    Args:
        module: on all ranks the same.
        device_mesh: by default that of all ranks.
        partition_fn: `f(name, module, mesh)`, called for each submodule, distributes its
            parameters; those that it leaves out are replicated.
        input_fn: `f(module, inputs, mesh)` returns the inputs of each call of the module.
        output_fn: `f(module, output, mesh)` returns the output.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = distributed.tensor.distribute_module(nn.Linear(2, 1))
    >>> model.weight.placements
    (Replicate(),)
    >>> distributed.destroy_process_group()
    """
    mesh = mesh_or_entered(device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        replicate_rest(part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda mod, inputs: input_fn(mod, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda mod, inputs, output: output_fn(mod, output, mesh))
    return module


def replicate_rest(module: Module, mesh: DeviceMesh) -> None:
    """Replicate the parameters and buffers of one module that are plain tensors."""
    for name, parameter in list(module._parameters.items()):
        if parameter is not None and not isinstance(parameter, DTensor):
            value = distribute_tensor(parameter.detach(), mesh)
            module.register_parameter(name, Parameter(value, parameter.requires_grad))
    for name, buffer in list(module._buffers.items()):
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh)


def factory(name: str) -> Callable[..., DTensor]:
    """Make a function that makes a tensor, as `torch.<name>`, and distributes it."""
    make = getattr(ops, name)

    def function(
        *size: Any, device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None, requires_grad: bool = False, **options: Any,
    ) -> DTensor:  # fmt: skip
        mesh = mesh_or_entered(device_mesh)
        source = 0 if name.startswith("rand") else None
        made = distribute_tensor(make(*size, **options), mesh, placements, src_data_rank=source)
        return made.requires_grad_(requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The function `torch.{name}`, with a mesh and placements."
    return function


empty, full, ones = factory("empty"), factory("full"), factory("ones")
rand, randn, zeros = factory("rand"), factory("randn"), factory("zeros")
