"""The state of an optimizer, as `FullyShardedDataParallel` saves and loads it: by names."""

from __future__ import annotations

from typing import Any

from ...errors import InvalidValueError
from ...nn.modules.module import Module
from ...optim.optimizer import Optimizer
from ..checkpoint.state_dict import (
    StateDictOptions,
    by_names,
    by_numbers,
    convert_tensors,
    flatten_optimizer,
    ordered_names,
    parameter_names,
    receive,
    start_state,
    unflatten_optimizer,
)
from ..process_group import get_rank
from .policies import (
    FullOptimStateDictConfig,
    LocalOptimStateDictConfig,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    StateDictSettings,
    StateDictType,
)

__all__ = ["named_state", "numbered_state", "rekey"]

USUAL: dict[StateDictType, OptimStateDictConfig] = {
    StateDictType.FULL_STATE_DICT: FullOptimStateDictConfig(),
    StateDictType.LOCAL_STATE_DICT: LocalOptimStateDictConfig(),
    StateDictType.SHARDED_STATE_DICT: ShardedOptimStateDictConfig(),
}


def named_state(
    model: Module, optim: Optimizer, state: dict[str, Any] | None, settings: StateDictSettings
) -> dict[str, Any]:
    """Return the state of an optimizer by names, in the form that the settings say.

    All ranks call it: they put whole tensors together.

    Args: state: what `optim.state_dict()` has returned; None: it is called.
    """
    form = settings.state_dict_type
    config = settings.optim_state_dict_config or USUAL[form]
    if state is None:
        start_state(optim)
        state = optim.state_dict()
    named = by_names(state, ordered_names(optim, parameter_names(model)))
    options = StateDictOptions(form is StateDictType.FULL_STATE_DICT, config.offload_to_cpu)
    if form is StateDictType.LOCAL_STATE_DICT:
        named["state"] = {
            name: {key: getattr(value, "_local_tensor", value) for key, value in entries.items()}
            for name, entries in named["state"].items()
        }
    converted = convert_tensors(named, options)
    return {} if getattr(config, "rank0_only", False) and get_rank() else converted


def numbered_state(
    model: Module, optim: Optimizer, state: dict[str, Any], from_rank0: bool
) -> dict[str, Any]:
    """Return what `optim.load_state_dict` takes on this rank, from the state by names.

    Args: from_rank0: only rank 0 has it, and sends it to the others.
    """
    if from_rank0:
        state = unflatten_optimizer(receive(flatten_optimizer(state) if state else {}))
    return by_numbers(state, optim, parameter_names(model), strict=True)


def rekey(
    state: dict[str, Any], optim_state_key_type: OptimStateKeyType, model: Module
) -> dict[str, Any]:
    """Return a state with the other keys: names of the model's parameters, or their numbers.

    Raises: ValueError: a key is no parameter of the model.
    """
    names = list(parameter_names(model).values())
    if optim_state_key_type is OptimStateKeyType.PARAM_NAME:
        keys: dict[Any, Any] = dict(enumerate(names))
    else:
        keys = {name: index for index, name in enumerate(names)}
    unknown = [key for key in state["state"] if key not in keys]
    if unknown:
        raise InvalidValueError(
            "rekey_optim_state_dict", f"{unknown[0]!r} is not a parameter of the model",
            {"keys": sorted(map(str, state["state"]))[:4], "names": names[:4]},
        )  # fmt: skip
    groups = [
        {**group, "params": sorted(keys[key] for key in group["params"])}
        for group in state["param_groups"]
    ]
    entries = {keys[key]: entry for key, entry in state["state"].items()}
    return {"state": entries, "param_groups": groups}
