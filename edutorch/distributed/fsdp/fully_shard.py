"""`fully_shard`: the parameters of a module are divided among the ranks, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from ...core.tensor import Tensor
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ...utils._pytree import tree_map
from ..device_mesh import DeviceMesh, default_mesh
from ..errors import DistError
from ..tensor.placement_types import Placement
from .param_group import Owner, ParamGroup
from .policies import MixedPrecisionPolicy, OffloadPolicy

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]

RUNNING: list[Module] = []
"""The modules whose forward runs, the innermost last."""


class FSDPState:
    """What `fully_shard` knows of a module.

    Args:
        group: its parameters; None if inner modules have them all.
        reshards: free the whole parameters after forward; None: unless it is the outermost.
        mixed: the dtypes.
    """

    def __init__(
        self, group: ParamGroup | None, reshards: bool | None, mixed: MixedPrecisionPolicy
    ) -> None:
        self.group, self.reshards, self.mixed = group, reshards, mixed
        self.held: Any = None  # the context of `unshard()`
        self.next_in_forward: list[ParamGroup] = []  # gathered while this module computes


class FSDPModule(Module):
    """What `fully_shard` adds to the class of a module."""

    _fsdp: FSDPState

    def forward(self, *args: Any, **named: Any) -> Any:
        if self._fsdp.held is not None:  # gathered before, perhaps before the last step: anew
            self.reshard()
        with running(self):
            args, named = cast_inputs(self._fsdp.mixed, args, named)
            return cast(super().forward(*args, **named), self._fsdp.mixed.output_dtype)

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters now; `reshard` frees them, and so does the next forward."""
        state = self._fsdp
        if state.group is not None and state.held is None:
            state.held = state.group.unsharded(reshards=False)
            state.held.__enter__()
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Free the parameters that `unshard` has gathered."""
        state = self._fsdp
        if state.held is not None:
            held, state.held = state.held, None
            held.__exit__(None, None, None)
        if state.group is not None:
            state.group.free()

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Set whether gradients are averaged in backward, or added up here until they are."""
        for state in self._states(recurse):
            if state.group is not None:
                state.group.is_synced = requires_gradient_sync

    def set_reshard_after_forward(
        self, reshard_after_forward: bool, recurse: bool = True
    ) -> None:  # fmt: skip
        """Set whether the parameters are freed after forward."""
        for state in self._states(recurse):
            state.reshards = reshard_after_forward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Set by what the sum of the gradients is divided; at first the number of ranks."""
        if self._fsdp.group is not None:
            self._fsdp.group.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Begin to gather the parameters of these modules while this one computes in forward."""
        self._fsdp.next_in_forward = groups_of("set_modules_to_forward_prefetch", modules)

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Begin to gather the parameters of these modules while this one computes in backward."""
        later = groups_of("set_modules_to_backward_prefetch", modules)
        if self._fsdp.group is not None:
            self._fsdp.group.next_in_backward = later

    def _states(self, recurse: bool) -> Iterator[FSDPState]:
        for module in self.modules() if recurse else (self,):
            if isinstance(module, FSDPModule):
                yield module._fsdp


def groups_of(name: str, modules: Sequence[FSDPModule]) -> list[ParamGroup]:
    """Return the parameters of modules.

    Raises: TypeError: a module has not been divided.
    """
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise TypeError(f"{name}: {type(module).__name__} is no FSDPModule: call fully_shard")
    return [module._fsdp.group for module in modules if module._fsdp.group is not None]


class UnshardHandle:
    """The handle of `unshard(async_op=True)`."""

    def wait(self) -> None:
        """Wait until the parameters are there; they are."""


@contextmanager
def running(module: FSDPModule) -> Iterator[None]:
    """Give a module its whole parameters as long as it computes."""
    state = module._fsdp
    reshards = bool(RUNNING) if state.reshards is None else state.reshards
    RUNNING.append(module)
    try:
        with ExitStack() as stack:
            if state.group is not None:
                stack.enter_context(state.group.unsharded(reshards))
            for group in state.next_in_forward:
                group.prefetch()
            yield
    finally:
        RUNNING.pop()


def cast(value: Any, dtype: Any) -> Any:
    """Return a tree whose floating tensors have a dtype; None: as they are."""
    if dtype is None:
        return value

    def convert(leaf: Any) -> Any:
        is_float = isinstance(leaf, Tensor) and leaf.is_floating_point()
        return leaf.to(dtype) if is_float else leaf

    return tree_map(convert, value)


def cast_inputs(mixed: MixedPrecisionPolicy, args: Any, named: Any) -> Any:
    """Return the inputs of a module in the dtype in which it computes."""
    dtype = mixed.param_dtype if mixed.cast_forward_inputs else None
    return cast(args, dtype), cast(named, dtype)


def fully_shard(
    module: Any, *, mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Placement | None] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None, offload_policy: OffloadPolicy | None = None,
    ignored_params: Iterable[Parameter] | None = None, dp_mesh_dims: Any = None,
) -> Any:  # fmt: skip
    """Divide the parameters of a module among the ranks, in place. Make the optimizer afterwards.

    Each rank keeps some rows of each parameter. The whole is there only while the module computes.
    Apply it to the blocks of a model first, then to the model: what a block has is gathered
    together.

    Args:
        module: a module, or a list of them, with the same parameters on all ranks.
        mesh: of one axis; or of two: copies along the first, parts along the second.
        reshard_after_forward: free the whole parameters after forward and gather them again in
            backward; None: for all modules but the outermost.
        shard_placement_fn: only None: rows are divided.
        mp_policy: the dtypes of the computation.
        offload_policy: `CPUOffloadPolicy` keeps the parts in the memory of the host.
        ignored_params: parameters that stay as they are.
        dp_mesh_dims: only None.

    Raises: DistError: a parameter without axes, or one that is divided already.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))
    >>> for layer in (*model, model):
    ...     _ = distributed.fsdp.fully_shard(layer)
    >>> model[0].weight.placements
    (Shard(dim=0),)
    >>> model(ones(3, 2)).sum().backward()
    >>> model[1].bias.grad.to_local()
    tensor([3.])
    >>> distributed.destroy_process_group()
    """
    for name, value in (("shard_placement_fn", shard_placement_fn), ("dp_mesh_dims", dp_mesh_dims)):
        if value is not None:
            raise DistError("fully_shard", f"{name} is not supported", {}, "rows are divided")
    mesh = default_mesh() if mesh is None else mesh
    if mesh.ndim not in (1, 2):
        raise DistError("fully_shard", f"a mesh of one or two axes is needed, not {mesh.ndim}")
    mixed, offload = mp_policy or MixedPrecisionPolicy(), offload_policy or OffloadPolicy()
    modules = list(module) if isinstance(module, list | tuple) else [module]
    reshards = None if reshard_after_forward is None else bool(reshard_after_forward)
    left_out = {id(parameter) for parameter in ignored_params or ()}
    for part in modules:
        if isinstance(part, FSDPModule):
            raise DistError("fully_shard", f"{type(part).__name__} is divided already")
        named = own_parameters(part, left_out)
        group = ParamGroup(named, mesh, mixed, offload) if named else None
        part.__class__ = sharded_class(type(part))
        part.__dict__["_fsdp"] = FSDPState(group, reshards, mixed)
    return module


def own_parameters(module: Module, left_out: set[int]) -> list[tuple[Parameter, list[Owner]]]:
    """Return the parameters of a module that no inner one has divided, and where they are."""
    owners: dict[int, tuple[Parameter, list[Owner]]] = {}
    pending = [module]
    while pending:
        part = pending.pop(0)
        if isinstance(part, FSDPModule):
            continue
        for name, parameter in part._parameters.items():
            if parameter is not None and id(parameter) not in left_out:
                owners.setdefault(id(parameter), (parameter, []))[1].append((part, name))
        pending += part.children()
    return list(owners.values())


CLASSES: dict[type, type] = {}
"""The class with `FSDPModule` of each class."""


def sharded_class(cls: type) -> type:
    """Return the subclass of a module's class whose forward gathers the parameters."""
    if cls not in CLASSES:
        CLASSES[cls] = type(
            f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__}
        )
    return CLASSES[cls]


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let another method than `forward` gather the parameters, too.

    Raises: ValueError: there is no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name, None)
    if not callable(method):
        raise ValueError(f"{type(module).__name__} does not have a method {method_name}")

    @wraps(method)
    def gathering(*args: Any, **named: Any) -> Any:
        with running(module):
            return method(*args, **named)

    module.__dict__[method_name] = gathering
