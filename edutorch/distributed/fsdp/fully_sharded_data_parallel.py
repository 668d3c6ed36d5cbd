"""`FullyShardedDataParallel`: the older face of `fully_shard`, a module around the model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ... import backends
from ...core.tensor import Tensor
from ...modes import no_grad
from ...nn.modules.module import Module
from ...nn.utils.clip_grad import clip_grad_norm_
from ...optim.optimizer import Optimizer
from ..collectives import broadcast
from ..device_mesh import DeviceMesh, default_device_type
from ..environment import placement
from ..errors import DistError
from ..process_group import ProcessGroup, get_rank, get_world_size, group_of
from ..tensor.dtensor import DTensor
from .fully_shard import FSDPModule, fully_shard
from .optim_state import named_state, numbered_state, rekey
from .policies import (
    BackwardPrefetch,
    CPUOffload,
    CPUOffloadPolicy,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    OffloadPolicy,
    OptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)  # fmt: skip
from .wrap import select_modules

__all__ = ["FullyShardedDataParallel"]

FREED = (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
PREFIX = "_fsdp_wrapped_module."


class FullyShardedDataParallel(Module):
    """Trains a model whose parameters, gradients and optimizer state are divided among the ranks.

    Its parameters are DTensors: it computes as `fully_shard` does.

    Args:
        module: the model; the same on all ranks.
        process_group: by default all ranks.
        sharding_strategy: what is divided; by default all of it.
        cpu_offload: keep the parts in the memory of the host.
        auto_wrap_policy: which submodules are gathered by themselves; see `wrap.py`.
        mixed_precision: the dtypes of the computation.
        ignored_modules, ignored_states: what stays as it is.
        sync_module_states: begin with the parameters and buffers of rank 0.
        device_mesh: in place of the group.
        backward_prefetch: gather the block before while one computes in backward; None: not.
        forward_prefetch: gather the next block while one computes in forward.
        limit_all_gathers, use_orig_params, device_id, param_init_fn: accepted.

    Raises: DistError: a parameter cannot be divided.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = distributed.fsdp.FullyShardedDataParallel(nn.Linear(2, 1))
    >>> model(ones(3, 2)).sum().backward()
    >>> model.module.bias.grad.to_local()
    tensor([3.])
    >>> list(model.state_dict())
    ['weight', 'bias']
    >>> distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None, cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Callable[..., bool] | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None, param_init_fn: Any = None,
        device_id: Any = None, sync_module_states: bool = False, forward_prefetch: bool = False,
        limit_all_gathers: bool = True, use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None, device_mesh: DeviceMesh | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        self.sharding_strategy = strategy
        self.mesh = device_mesh or mesh_for(strategy, process_group, device_id)
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig())
        if sync_module_states:
            self._copy_from_first_rank(module)
        inner = [] if auto_wrap_policy is None else select_modules(module, auto_wrap_policy)
        for part in [*inner, module]:
            if not isinstance(part, FSDPModule):
                fully_shard(
                    part, mesh=self.mesh,
                    reshard_after_forward=None if strategy in FREED else False,
                    mp_policy=mixed_policy(mixed_precision),
                    offload_policy=offload_policy(cpu_offload),
                    ignored_params=ignored(ignored_modules, ignored_states),
                )  # fmt: skip
        self._fsdp_wrapped_module = module
        # The policy's order is that of the model's, which is that of forward as a rule.
        for before, after in itertools.pairwise(inner):
            if forward_prefetch:
                before.set_modules_to_forward_prefetch([after])
            if backward_prefetch is not None:
                after.set_modules_to_backward_prefetch([before])

    def _copy_from_first_rank(self, module: Module) -> None:
        for tensor in [*module.parameters(), *module.buffers()]:
            for group in self.mesh.get_all_groups():
                broadcast(tensor.detach(), group=group, group_src=0)

    @property
    def module(self) -> Module:
        """The model."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_fsdp_wrapped_module":
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._fsdp_wrapped_module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Add up gradients on each rank alone; the first backward outside averages the sums."""
        self.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.set_requires_gradient_sync(True)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the norm of all gradients, of which each rank has a part."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    # State dicts --------------------------------------------------------------------------

    def state_dict(self, *args: Any, **named: Any) -> Any:
        """Return the state under the names of the model, as `state_dict_type` says."""
        state = self._fsdp_wrapped_module.state_dict(*args, **named)
        settings = self._settings
        config, form = settings.state_dict_config, settings.state_dict_type
        with no_grad():
            for name, value in list(state.items()):
                if isinstance(value, DTensor) and form is not StateDictType.SHARDED_STATE_DICT:
                    is_full = form is StateDictType.FULL_STATE_DICT
                    value = value.full_tensor() if is_full else value.to_local()
                state[name] = value.to("cpu") if config.offload_to_cpu else value
        if getattr(config, "rank0_only", False) and get_rank():
            state.clear()
        return state

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Load the state that `state_dict` returns: whole tensors, or DTensors."""
        clean = {name.removeprefix(PREFIX): value for name, value in state_dict.items()}
        return self._fsdp_wrapped_module.load_state_dict(clean, strict, assign)

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """Return the wrappers in a module."""
        return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]

    @staticmethod
    def set_state_dict_type(
        module: Module, state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None, optim_state_dict_config: Any = None,
    ) -> StateDictSettings:  # fmt: skip
        """Choose what `state_dict()` returns from now on; return what was chosen before."""
        is_full = state_dict_type is StateDictType.FULL_STATE_DICT
        usual = FullStateDictConfig() if is_full else ShardedStateDictConfig()
        config = state_dict_config or usual
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        if not wrappers:
            raise DistError("set_state_dict_type", "there is no FullyShardedDataParallel inside")
        before = wrappers[0]._settings
        if optim_state_dict_config is not None and not isinstance(
            optim_state_dict_config, OptimStateDictConfig
        ):
            raise TypeError(
                "set_state_dict_type: optim_state_dict_config is an OptimStateDictConfig, not a "
                f"{type(optim_state_dict_config).__name__}"
            )
        for wrapper in wrappers:
            wrapper._settings = StateDictSettings(state_dict_type, config, optim_state_dict_config)
        return before

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None, optim_state_dict_config: Any = None,
    ) -> Iterator[None]:  # fmt: skip
        """Choose what `state_dict()` returns inside of a block."""
        choose = FullyShardedDataParallel.set_state_dict_type
        before = choose(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            choose(
                module, before.state_dict_type, before.state_dict_config,
                before.optim_state_dict_config,
            )  # fmt: skip

    # The state of the optimizer -----------------------------------------------------------

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Optimizer, optim_state_dict: dict[str, Any] | None = None,
        group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the state of an optimizer by names, in the form that `state_dict_type` says.

        Args: optim_state_dict: what `optim.state_dict()` has returned; by default it is called.
        """
        return named_state(model, optim, optim_state_dict, settings_of(model))

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Optimizer, optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False, load_directly: bool = False, group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return what `optim.load_state_dict` takes, from what `optim_state_dict` has returned.

        Args: load_directly: let the optimizer load it, too.
        """
        config = settings_of(model).optim_state_dict_config
        from_rank0 = getattr(config, "rank0_only", False)
        state = numbered_state(model, optim, optim_state_dict, from_rank0)
        if load_directly:
            optim.load_state_dict(state)
        return state

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Optimizer, optim_input: Any = None, rank0_only: bool = True,
        group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the state of an optimizer by names, in whole tensors; by default on rank 0."""
        config = FullOptimStateDictConfig(rank0_only=rank0_only)
        form = StateDictType.FULL_STATE_DICT
        settings = StateDictSettings(form, FullStateDictConfig(), config)
        return named_state(model, optim, None, settings)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: Module, optim_input: Any = None,
        optim: Optimizer | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return what `optim.load_state_dict` takes, from whole tensors that all ranks have."""
        return numbered_state(model, needed(optim), full_optim_state_dict, from_rank0=False)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None, model: Module, optim_input: Any = None,
        optim: Optimizer | None = None, group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return what `optim.load_state_dict` takes, from whole tensors that rank 0 has."""
        return numbered_state(model, needed(optim), full_optim_state_dict or {}, from_rank0=True)

    @staticmethod
    def sharded_optim_state_dict(
        model: Module, optim: Optimizer, group: Any = None
    ) -> dict[str, Any]:  # fmt: skip
        """Return the state of an optimizer by names, in DTensors."""
        form = StateDictType.SHARDED_STATE_DICT
        settings = StateDictSettings(form, ShardedStateDictConfig())
        return named_state(model, optim, None, settings)

    rekey_optim_state_dict = staticmethod(rekey)

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
        offload_to_cpu: bool = False, with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Give the model its whole parameters inside of a block; changes to them are kept.

        Raises: DistError: `with_grads`.
        """
        if with_grads:
            raise DistError("summon_full_params", "with_grads is not supported", {}, "p.grad")
        parts = [m for m in module.modules() if isinstance(m, FSDPModule) and m._fsdp.group]
        with no_grad(), ExitStack() as stack:
            for part in parts if recurse else parts[:1]:
                stack.enter_context(part._fsdp.group.unsharded(reshards=False, keeps=writeback))
            yield


def settings_of(model: Module) -> StateDictSettings:
    """Return what `set_state_dict_type` has set.

    Raises: DistError: there is no wrapper inside.
    """
    wrappers = FullyShardedDataParallel.fsdp_modules(model)
    if not wrappers:
        raise DistError("optim_state_dict", "there is no FullyShardedDataParallel inside")
    return wrappers[0]._settings


def needed(optim: Optimizer | None) -> Optimizer:
    """Return the optimizer.

    Raises: TypeError: it is not given.
    """
    if optim is None:
        raise TypeError("optim: the optimizer is needed; optim_input does not suffice")
    return optim


def mesh_for(strategy: ShardingStrategy, group: Any, device_id: Any) -> DeviceMesh:
    """Return the mesh of a strategy: copies along its first axis, parts along the last."""
    device = default_device_type() if device_id is None else backends.ACCELERATOR
    chosen: ProcessGroup | None = group_of(group, "FullyShardedDataParallel")
    assert chosen is not None
    if strategy is ShardingStrategy.NO_SHARD:
        return DeviceMesh(device, [[rank] for rank in chosen.ranks])
    if strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2):
        place = placement()
        width = place.local_world_size if place else get_world_size()
        ranks = range(get_world_size())
        return DeviceMesh(device, [list(ranks[i : i + width]) for i in ranks[::width]])
    return DeviceMesh.from_group(chosen, device)


def mixed_policy(mixed: MixedPrecision | None) -> MixedPrecisionPolicy:
    """Return the newer form of the dtypes."""
    if mixed is None:
        return MixedPrecisionPolicy()
    casts = mixed.cast_forward_inputs or mixed.cast_root_forward_inputs
    return MixedPrecisionPolicy(
        mixed.param_dtype, mixed.reduce_dtype or mixed.param_dtype, None, casts
    )


def offload_policy(offload: CPUOffload | None) -> OffloadPolicy:
    """Return the newer form of `CPUOffload`."""
    return CPUOffloadPolicy() if offload is not None and offload.offload_params else OffloadPolicy()


def ignored(modules: Iterable[Module] | None, states: Iterable[Any] | None) -> list[Any]:
    """Return the parameters that are left out."""
    listed = [*(modules or ()), *(states or ())]
    result: list[Any] = []
    for value in listed:
        result += list(value.parameters()) if isinstance(value, Module) else [value]
    return result
