"""State dicts by the names of parameters: the same for one process, DDP and models in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.tensor import Tensor, wrap
from ...modes import no_grad
from ...nn.modules.module import Module, _IncompatibleKeys
from ...nn.parameter import Parameter
from ...ops import zeros_like
from ...optim import Optimizer
from ...serialization import CheckpointError
from ..collectives import broadcast
from ..device_mesh import default_device_type
from ..object_collectives import broadcast_object_list
from ..process_group import get_rank, is_initialized
from .chunks import is_sharded, local_chunk, local_tensor
from .errors import mismatch_error
from .nested import is_tensor

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip

WRAPPERS = ("DistributedDataParallel", "DataParallel")
WRAPPED_NAMES = {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"}
Optimizers = Optimizer | Iterable[Optimizer]


@dataclass
class StateDictOptions:
    """What a state dict holds.

    Attributes:
        full_state_dict: whole tensors, instead of the parts of this rank.
        cpu_offload: on the CPU; with `full_state_dict` only on rank 0, and nothing on others.
        ignore_frozen_params: without parameters that need no gradient.
        keep_submodule_prefixes: with `submodules=`, whether keys are those of the whole model.
        strict: whether keys must match when it is loaded.
        broadcast_from_rank0: rank 0 has whole tensors, which all others receive.
        flatten_optimizer_state_dict: "state.NAME.KEY" instead of nested dicts.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def get_state_dict(
    model: Module, optimizers: Optimizers, *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Return the state dicts of a model and of its optimizers, by the names of parameters.

    An optimizer that has made no step gets its state, so that it can be loaded into.

    >>> from edutorch.distributed.checkpoint.state_dict import get_state_dict
    >>> model = nn.Linear(2, 1)
    >>> _, optimizer = get_state_dict(model, optim.SGD(model.parameters(), momentum=0.9))
    >>> optimizer["state"]["weight"]
    {'momentum_buffer': tensor([[0., 0.]])}
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the state dict of a model, without the names of wrappers such as DDP.

    Args:
        model: the model.
        submodules: only their part.
        options: see `StateDictOptions`.

    >>> from edutorch.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(nn.Linear(2, 1)))
    ['weight', 'bias']
    """
    options = options or StateDictOptions()
    frozen = {
        name
        for name, parameter in model.named_parameters()
        if options.ignore_frozen_params and not parameter.requires_grad
    }
    wrappers = wrapper_paths(model)
    state = {
        clean_name(name, wrappers): value
        for name, value in model.state_dict().items()
        if name not in frozen
    }
    if submodules is not None:
        state = only_submodules(model, state, submodules, options.keep_submodule_prefixes)
    return convert(state, options)


def only_submodules(
    model: Module, state: Mapping[str, Any], submodules: set[Module], keep: bool
) -> dict[str, Any]:
    """Return the entries of some modules of a model."""
    wrappers = wrapper_paths(model)
    prefixes = [
        f"{clean_name(path, wrappers)}."
        for path, module in model.named_modules()
        if module in submodules
    ]
    return {
        name if keep else name.removeprefix(prefix): value
        for prefix in prefixes
        for name, value in state.items()
        if name.startswith(prefix)
    }


def wrapper_paths(model: Module) -> set[str]:
    """Return the paths of wrappers: of those whose module is named `module`."""
    return {
        path for path, module in model.named_modules() if type(module).__name__ in WRAPPERS
    }  # by name: a wrapper of the program that has another meaning has another name


def clean_name(name: str, wrappers: set[str]) -> str:
    """Return the name of a parameter without those of wrappers."""
    kept: list[str] = []
    steps = name.split(".")
    for position, step in enumerate(steps):
        is_inside = step == "module" and ".".join(steps[:position]) in wrappers
        if not is_inside and step not in WRAPPED_NAMES:
            kept.append(step)
    return ".".join(kept)


def convert(value: Any, options: StateDictOptions) -> Any:
    """Return a state dict with whole tensors, or on the CPU, as the options say.

    Whole tensors are put together by all ranks.
    """
    if not (options.full_state_dict or options.cpu_offload):
        return value
    converted = convert_tensors(value, options)
    is_first = not is_initialized() or get_rank() == 0
    return converted if is_first or not (options.full_state_dict and options.cpu_offload) else {}


def convert_tensors(value: Any, options: StateDictOptions) -> Any:
    """Return nested dicts with their tensors converted."""
    if isinstance(value, Mapping):
        return {key: convert_tensors(member, options) for key, member in value.items()}
    if options.full_state_dict and is_sharded(value):
        value = value.full_tensor()
    return value.cpu() if options.cpu_offload and is_tensor(value) else value


# Loading models ----------------------------------------------------------------------------------


def set_state_dict(
    model: Module, optimizers: Optimizers, *, model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any], options: StateDictOptions | None = None,
) -> _IncompatibleKeys:  # fmt: skip
    """Load what `get_state_dict` has returned into a model and its optimizers."""
    keys = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return keys


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> _IncompatibleKeys:
    """Load a state dict by the names of parameters: whole tensors, or parts.

    Args:
        model: wrapped or not, whole or in parts.
        model_state_dict: as `get_model_state_dict` returns it.
        options: see `StateDictOptions`.

    Returns: the keys that are missing, and those that are unexpected.

    Raises: CheckpointException: it is that of another model.

    >>> from edutorch.distributed.checkpoint.state_dict import set_model_state_dict
    >>> model = nn.Linear(2, 1)
    >>> _ = set_model_state_dict(model, {"weight": ones(1, 2), "bias": ones(1)})
    >>> model(ones(2))
    tensor([3.], grad_fn=<LinearBackward0>)
    """
    options = options or StateDictOptions()
    source_dict = receive(model_state_dict) if options.broadcast_from_rank0 else model_state_dict
    wrappers = wrapper_paths(model)
    targets = {clean_name(name, wrappers): value for name, value in model.state_dict().items()}
    missing = [name for name in targets if name not in source_dict]
    unexpected = [name for name in source_dict if name not in targets]
    shapes = [
        f"{name} is {tuple(source_dict[name].shape)} in the state dict, {tuple(value.shape)} here"
        for name, value in targets.items()
        if name in source_dict
        and is_tensor(value)
        and tuple(value.shape) != tuple(source_dict[name].shape)
    ]
    if shapes or (options.strict and (missing or unexpected)):
        raise mismatch_error("the state dict", missing, unexpected, shapes)
    extra, new = {}, {}
    tied: dict[int, str] = {}
    tie_of = {
        clean_name(name, wrappers): id(parameter)
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }
    for name, value in targets.items():
        if name in source_dict and is_tensor(value) and value.is_meta:
            same = tied.setdefault(
                tie_of.get(name, id(value)), name
            )  # a parameter of several names stays one
            new[name] = new[same] if same in new else placed_as(value, source_dict[name])
        elif name in source_dict and is_tensor(value):
            copy_into(value, source_dict[name], name)
        elif name in source_dict:
            extra[name] = source_dict[name]
    names = {clean_name(name, wrappers): name for name in model.state_dict()}
    if new:  # nothing can be copied into a meta tensor
        model.load_state_dict({names[name]: new[name] for name in new}, strict=False, assign=True)
    if extra:  # what modules save by get_extra_state
        model.load_state_dict({names[name]: extra[name] for name in extra}, strict=False)
    return _IncompatibleKeys(missing, unexpected)


def placed_as(target: Any, value: Any) -> Any:
    """Return a value as a parameter that takes the place of a meta tensor, whole or in parts."""
    if is_sharded(target) and not is_sharded(value):
        from ..tensor import distribute_tensor

        value = distribute_tensor(value.detach(), target.device_mesh, target.placements)
    return Parameter(value, target.requires_grad) if isinstance(target, Parameter) else value


def copy_into(target: Any, value: Any, name: str) -> None:
    """Copy a tensor, whole or in parts, into one that may be in parts."""
    with no_grad():
        if is_sharded(target):
            local_tensor(target).copy_(part_for(target, value, name))
        else:
            target.detach().copy_(value.full_tensor() if is_sharded(value) else value)


def part_for(target: Any, value: Any, name: str) -> Tensor:
    """Return the part of a value that this rank holds of `target`."""
    if is_sharded(value):
        if tuple(value.placements) == tuple(target.placements):
            return local_tensor(value)
        value = value.full_tensor()
    chunk = local_chunk(target, name)
    if chunk is None:
        return local_tensor(target)
    return value[chunk.slices()] if chunk.sizes else value


def receive(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return the state dict of rank 0 on all ranks."""
    if not is_initialized():
        return state_dict
    told: list[Any] = [None]
    is_first = get_rank() == 0
    if is_first:
        told[0] = {
            key: (tuple(value.shape), value.dtype.name) if is_tensor(value) else [value]
            for key, value in state_dict.items()
        }
    broadcast_object_list(told, src=0)
    received: dict[str, Any] = {}
    device = default_device_type()
    for key, facts in told[0].items():
        if isinstance(facts, list):
            received[key] = facts[0]
            continue
        from ... import dtypes
        from ...ops import empty

        shape, dtype = facts
        tensor = (
            wrap(state_dict[key].detach().to(device).contiguous()._array)
            if is_first
            else empty(shape, dtype=getattr(dtypes, dtype), device=device)
        )
        broadcast(tensor, src=0)
        received[key] = tensor
    return received


# Optimizers --------------------------------------------------------------------------------------


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizers, *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the state dict of one or several optimizers, by the names of parameters.

    Args:
        model: whose parameters they change.
        optimizers: one, or several.
        submodules: accepted.
        options: see `StateDictOptions`.

    Raises: CheckpointError: an optimizer has a parameter that is not the model's.
    """
    options = options or StateDictOptions()
    names = parameter_names(model)
    result: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in listed(optimizers):
        start_state(optimizer)
        named = by_names(optimizer.state_dict(), ordered_names(optimizer, names))
        result["state"] |= named["state"]
        result["param_groups"] += named["param_groups"]
    result = convert(result, options)
    return flatten_optimizer(result) if options.flatten_optimizer_state_dict and result else result


def by_names(state_dict: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """Return the state dict of an optimizer by the names of its parameters, not their numbers."""
    groups = state_dict["param_groups"]
    return {
        "state": {order[index]: state for index, state in state_dict["state"].items()},
        "param_groups": [
            {**group, "params": [order[index] for index in group["params"]]} for group in groups
        ],
    }


def listed(optimizers: Optimizers) -> list[Optimizer]:
    """Return one or several optimizers as a list."""
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def parameter_names(model: Module) -> dict[int, str]:
    """Return the names of parameters by their id."""
    wrappers = wrapper_paths(model)
    return {id(value): clean_name(name, wrappers) for name, value in model.named_parameters()}


def ordered_names(optimizer: Optimizer, names: Mapping[int, str]) -> list[str]:
    """Return the names of an optimizer's parameters in the order of its state dict.

    Raises: CheckpointError: one is not the model's.
    """
    order: dict[int, str] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise CheckpointError(
                    "get_optimizer_state_dict",
                    f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not "
                    "in the model",
                    hint="make the optimizer from model.parameters(), after wrapping the model",
                )  # fmt: skip
            order.setdefault(id(parameter), names[id(parameter)])
    return list(order.values())


def start_state(optimizer: Optimizer) -> None:
    """Make the state of an optimizer that has made no step: by one with gradients of zero."""
    if optimizer.state:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if any(parameter.grad is not None for parameter in parameters):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    decays = [group.get("weight_decay", 0) for group in optimizer.param_groups]
    with no_grad():
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.grad = zeros_like(parameter)
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * 0
            if "weight_decay" in group:
                group["weight_decay"] = 0
        optimizer.step()
    for group, rate, decay in zip(optimizer.param_groups, rates, decays, strict=True):
        group["lr"] = rate
        if "weight_decay" in group:
            group["weight_decay"] = decay
    optimizer.zero_grad(set_to_none=True)


_init_optim_state = start_state
"""The name by which programs import it from PyTorch."""


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizers, optim_state_dict: dict[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Load what `get_optimizer_state_dict` has returned.

    Args:
        model: whose parameters they change.
        optimizers: one, or several.
        optim_state_dict: by the names of parameters.
        options: see `StateDictOptions`.

    Raises: CheckpointException: a parameter has no entry in it.
    """
    options = options or StateDictOptions()
    source_dict = optim_state_dict
    if options.broadcast_from_rank0 and is_initialized():
        flat = receive(flatten_optimizer(source_dict) if source_dict else {})
        source_dict = flat
    if "param_groups" not in source_dict:
        source_dict = unflatten_optimizer(source_dict)
    names = parameter_names(model)
    for optimizer in listed(optimizers):
        optimizer.load_state_dict(by_numbers(source_dict, optimizer, names, options.strict))


def by_numbers(
    state_dict: Mapping[str, Any], optimizer: Optimizer, names: Mapping[int, str], strict: bool
) -> dict[str, Any]:
    """Return what an optimizer loads, from a state dict by names: see `by_names`.

    Raises: CheckpointException: if `strict`, a parameter has no entry in it.
    """
    groups = {name: group for group in state_dict["param_groups"] for name in group["params"]}
    order = ordered_names(optimizer, names)
    missing = [name for name in order if name not in groups]
    if missing and strict:
        raise mismatch_error("the state dict of the optimizer", missing, (), ())
    saved = optimizer.state_dict()
    for group in saved["param_groups"]:
        settings = groups.get(order[group["params"][0]], {}) if group["params"] else {}
        group.update({key: value for key, value in settings.items() if key != "params"})
    parameters = {names[id(p)]: p for g in optimizer.param_groups for p in g["params"]}
    saved["state"] = {
        index: {
            key: as_part(value, parameters[name])
            for key, value in state_dict["state"][name].items()
        }
        for index, name in enumerate(order)
        if name in state_dict["state"]
    }
    return saved


def as_part(value: Any, parameter: Any) -> Any:
    """Return a whole tensor of the state in parts, if its parameter is so."""
    is_whole = isinstance(value, Tensor) and not is_sharded(value)
    if not (is_whole and is_sharded(parameter)) or value.shape != parameter.shape:
        return value
    return type(parameter).from_local(
        part_for(parameter, value, "the state").clone(), parameter.device_mesh,
        parameter.placements, run_check=False, shape=parameter.shape, stride=parameter.stride(),
    )  # fmt: skip


def flatten_optimizer(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state dict of optimizers as one flat dict: "state.NAME.KEY"."""
    flat = {
        f"state.{name}.{key}": value
        for name, state in state_dict["state"].items()
        for key, value in state.items()
    }
    for group in state_dict["param_groups"]:
        for name in group["params"]:
            flat |= {f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"}
    return flat


def unflatten_optimizer(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flat state dict of optimizers as nested dicts, with a group for each parameter."""
    state: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for path, value in flat.items():
        part, _, rest = path.partition(".")
        name, _, key = rest.rpartition(".")
        (state if part == "state" else groups).setdefault(name, {})[key] = value
    return {
        "state": state,
        "param_groups": [{**group, "params": [name]} for name, group in groups.items()],
    }
