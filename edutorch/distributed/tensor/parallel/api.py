"""`parallelize_module`: applies styles to the modules that a plan names."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch

from ....errors import warn
from ....nn.modules.module import Module
from ...device_mesh import DeviceMesh, mesh_or_entered
from ...errors import DistError
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None, *,
    src_data_rank: int | None = 0,
) -> Module:  # fmt: skip
    """Divide the layers of a module among the ranks of a mesh, in place. All of them call it.

    Args:
        module: the same on all ranks.
        device_mesh: of one axis; by default that of all ranks.
        parallelize_plan: a style, or one for each submodule by its name, in which `*` matches.
        src_data_rank: the rank whose parameters count; None: all have the same.

    Raises: DistError: a mesh of several axes. NotImplementedError: a style does not fit.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = distributed.device_mesh.init_device_mesh("cpu", (1,))
    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> plan = {"0": distributed.tensor.parallel.ColwiseParallel(),
    ...         "2": distributed.tensor.parallel.RowwiseParallel()}
    >>> distributed.tensor.parallel.parallelize_module(model, mesh, plan)[2].weight.placements
    (Shard(dim=1),)
    >>> distributed.destroy_process_group()
    """
    mesh = mesh_or_entered(device_mesh)
    if mesh.ndim != 1:
        raise DistError(
            "parallelize_module", f"the mesh has {mesh.ndim} axes", {"mesh": mesh},
            'choose one of them: mesh["tp"]',
        )  # fmt: skip
    if parallelize_plan is None:
        warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, "
            "so this parallelize_module call will do nothing."
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, Mapping):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        first, _, rest = path.partition(".")
        parts = [part for name, part in module.named_children() if fnmatch(name, first)]
        if path and not parts:
            warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching "
                f"token '{first}' in module {type(module).__name__}, skipping this plan entry."
            )
        for part in parts if path else [module]:
            plan = {rest: style} if rest else style
            parallelize_module(part, mesh, plan, src_data_rank=src_data_rank)
    return module
