"""`Optimizer`, the base class: parameter groups, state, hooks, saving and loading.

A subclass defines two methods: `init_state` returns the initial state of a parameter, `update` is
its formula (see `update_rule.py`).
"""

from __future__ import annotations

import copy
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, Self

from ..backends.numpy import Array, Namespace
from ..core.argument_checks import check_settings
from ..core.autograd.graph import RemovableHandle
from ..core.storage import strided
from ..core.tensor import Tensor
from ..errors import (
    ArgumentError,
    CodeLocation,
    GradientError,
    refuse_unknown_keywords,
    user_location,
    warn,
)
from ..events import Stepped, emit, step_event, work
from ..modes import current, enable_grad, no_grad
from ..utils.process import (
    hold_interrupts,
    interruptible_once,
    keep_freed_memory,
    release_interrupts,
)
from . import fused
from .device_number import check_capture
from .fused import FusedKernel
from .update_rule import (
    Group,
    State,
    Values,
    place_state,
    prepare_state,
    update_arrays,
    update_recorded,
    update_unless,
)

__all__ = [
    "Optimizer", "OptimizerHooks", "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook", "swap_in_optimizer_params_and_state",
]  # fmt: skip


Hook = Callable[..., Any]

GLOBAL_HOOKS: dict[str, dict[int, Hook]] = {"step_pre": {}, "step_post": {}}


class OptimizerHooks:
    """The part of `Optimizer` that holds hooks, by the time at which they are called."""

    # For subclasses that never call `__init__`, as Accelerate's: replaced at the first hook.
    _hooks: Mapping[str, OrderedDict[int, Hook]] = MappingProxyType({})
    _inside_step = False

    def __init__(self) -> None:
        self._hooks = {}

    def add_hook(self, when: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Add a hook after the others, or before them."""
        if when not in self._hooks:
            self._hooks = {**self._hooks, when: OrderedDict()}
        hooks = self._hooks[when]
        handle = RemovableHandle(hooks, hook)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def hooks_for(self, when: str) -> Iterator[Hook]:
        """Yield the hooks to call. The global ones are the outermost."""
        own, global_ = self._hooks.get(when, ()), GLOBAL_HOOKS.get(when, ())
        layers = (own, global_) if when == "step_post" else (global_, own)
        for hooks in layers:
            yield from tuple(hooks.values()) if hooks else ()

    def run_state_dict_hooks(self, when: str, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Return a state_dict as the hooks have left it; each may replace it."""
        for hook in self.hooks_for(when):
            replacement = hook(self, state_dict)
            state_dict = state_dict if replacement is None else replacement
        return state_dict

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new ones."""
        return self.add_hook("step_pre", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self.add_hook("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` (before the other hooks: prepend)."""
        return self.add_hook("save_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` with what `state_dict` made; it may return another."""
        return self.add_hook("save_post", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; it may return another."""
        return self.add_hook("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict` (before the other hooks: prepend)."""
        return self.add_hook("load_post", hook, prepend)


class Optimizer(OptimizerHooks):
    """Base class of all optimizers.

    Args:
        params: parameters, or dicts of parameters and their settings ("groups").
        defaults: the default settings of the groups.

    Raises: ValueError, TypeError: no parameters, or not tensors that can be trained.
    """

    fused_kernel: FusedKernel | None = None
    _step_supports_amp_scaling = False
    """Whether the rule runs with numbers on the device, and so without knowing `found_inf`."""

    found_inf: Tensor | None = None
    """Set by `GradScaler` during a step: 1 on the device if nothing may be changed."""

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Create an optimizer; a keyword that `__init__` lacks raises an error with a suggestion.

        For edutorch's own optimizers the types of the settings are checked as well.
        """
        if named:
            refuse_unknown_keywords(cls.__init__, cls.__name__, named)
        if cls.__module__.startswith("edutorch."):
            check_settings(cls.__name__, cls.__init__, args, named)
        return super().__new__(cls)

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        super().__init__()
        keep_freed_memory()
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._inside_step = False
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts; "
                "put the tensor into a list: [x]"
            )
        if not isinstance(params, Iterable):
            raise ArgumentError(
                type(self).__name__,
                f"argument `params` must be an iterable of Tensors, not {type(params).__name__}",
                hint="call it: model.parameters()" if callable(params) else None,
            )
        groups = list(params)
        if not groups:
            raise ValueError(
                "optimizer got an empty parameter list; "
                "are the layers attributes of the module, or in an nn.ModuleList? "
                "(A generator such as model.parameters() is empty after its first use.)"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if {"update", "step_param"} & vars(cls).keys() and "fused_kernel" not in vars(cls):
            cls.fused_kernel = None  # the kernel computes the base class's update
        if {"step", "step_param", "step_params"} & vars(cls).keys():  # which do not ask `found_inf`
            cls._step_supports_amp_scaling = bool(vars(cls).get("_step_supports_amp_scaling"))
        if "step" in vars(cls):  # a subclass in PyTorch's style, with a `step` of its own
            cls.step = wrap_step(cls.step)  # type: ignore[method-assign]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters with its own settings.

        Raises: ValueError: a parameter is in a group already, or cannot be trained.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group_params = param_group["params"]
        if isinstance(group_params, set):
            raise TypeError("optimizer parameters need to be in an order: use a list, not a set")
        params = [group_params] if isinstance(group_params, Tensor) else list(group_params)
        names = [param[0] for param in params if isinstance(param, tuple)]
        if names:
            if len(names) < len(params):
                raise ValueError(
                    "all optimizer params should be with/without names. "
                    "Some param names are missing"
                )
            param_group = {**param_group, "param_names": names}
            params = [param[1] for param in params]
        if self.param_groups and ("param_names" in self.param_groups[0]) != bool(names):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if names else 'without'} names to the optimizer"
            )
        for param in params:
            check_param(param, self.defaults.get("differentiable", False))
        known = {id(known_param) for group in self.param_groups for known_param in group["params"]}
        if len({id(param) for param in params}) < len(params):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error: each of them is stepped more than once"
            )
        if known & {id(param) for param in params}:
            raise ValueError("some parameters appear in more than one parameter group")
        group = {**self.defaults, **param_group, "params": params}
        self.param_groups.append(group)

    # Stepping -------------------------------------------------------------------------

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return the initial state of a parameter: tensors, under PyTorch's names."""
        return {}

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        """Change `param` in place, given its gradient: the formula of the optimizer.

        Args:
            xp: NumPy, its like for another device, or the ops where the step is recorded.
            group: the settings.
            grad: the gradient; it stays as it is.
            state: what `init_state` has returned, as arrays, to be changed in place or replaced;
                "step", if present, is a number that already counts this step.
        """
        raise NotImplementedError(f"{type(self).__name__} has no update()")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes the loss again and its gradients; its result is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        location = user_location()
        with no_grad():
            for index, group in enumerate(self.param_groups):
                params = [param for param in group["params"] if param._grad is not None]
                check_capture(self, group, params)
                if any(param._grad.__class__ is not Tensor for param in params):
                    params = self.step_sparse_params(group, params, location)
                kernel = self.fused_kernel
                if kernel is None or not kernel.step(self, index, group, params, location):
                    self.step_params(group, params, location)
        return loss

    def step_sparse_params(
        self, group: Group, params: list[Tensor], location: CodeLocation
    ) -> list[Tensor]:
        """Update the parameters whose gradient is sparse, and return the others."""
        rest = []
        for param in params:
            grad: Any = param._grad
            if grad.layout is strided:
                rest.append(param)
                continue
            self.update_sparse(group, param, -grad if group.get("maximize") else grad)
            param._bump(location)
        return rest

    def update_sparse(self, group: Group, param: Tensor, grad: Any) -> None:
        """Update a parameter, in place, by a sparse gradient (`ops/sparse`).

        Raises: RuntimeError: the optimizer has no formula for it.
        """
        name = type(self).__name__
        raise RuntimeError(
            f"{name} does not support sparse gradients, please consider SparseAdam instead"
        )

    def step_params(self, group: Group, params: list[Tensor], location: CodeLocation) -> None:
        """Update the parameters of a group one by one."""
        maximize = group.get("maximize", False)
        for param in params:
            grad = param._grad
            assert grad is not None
            self.step_param(group, param, -grad._array if maximize else grad._array, location)

    def step_param(self, group: Group, param: Tensor, grad: Array, location: CodeLocation) -> None:
        """Update one parameter, and record the write with the user's code location."""
        is_first = not self.state.get(param)
        state = prepare_state(self, group, param)
        if group.get("differentiable"):
            update_recorded(self.update, group, param, state)
        elif self.found_inf is not None:
            found_inf = self.found_inf._array
            update_unless(found_inf, self.update, group, param._array, grad, state)
            param._bump(location)
        else:
            update_arrays(self.update, group, param._array, grad, state)
            param._bump(location)
        if state:  # an empty state is left out of the state_dict
            self.state[param] = place_state(param, state) if is_first else state

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset all gradients to None, or to zeros: backward accumulates into them."""
        listened = current().listeners
        with work("optimizer", self, detail="zero_grad") if listened else nullcontext():
            for group in self.param_groups:
                for param in group["params"]:
                    if set_to_none:
                        param._grad = None
                    elif param._grad is not None:
                        param._grad.detach_().zero_()  # in place: a CUDA graph knows its address

    # State ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return settings and state, with the parameters replaced by their indices."""
        for hook in self.hooks_for("save_pre"):
            hook(self)
        indices: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                indices.setdefault(id(param), len(indices))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [indices[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            indices[id(param)] if isinstance(param, Tensor) else param: value
            for param, value in self.state.items()
        }
        return self.run_state_dict_hooks("save_post", {"state": state, "param_groups": groups})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned. Parameters are matched by their order.

        Raises: ValueError: the groups are of other sizes.
        """
        state_dict = self.run_state_dict_hooks("load_pre", dict(state_dict))
        saved_groups = copy.deepcopy(state_dict["param_groups"])
        if len(saved_groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        params: dict[Any, Tensor] = {}
        for group, saved_group in zip(self.param_groups, saved_groups, strict=True):
            if len(group["params"]) != len(saved_group["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match "
                    "the size of optimizer's group"
                )
            params |= dict(zip(saved_group["params"], group["params"], strict=True))
        self.param_groups = [  # an older state_dict may lack a setting
            {**self.defaults, **param_names_of(group), **saved_group, "params": group["params"]}
            for group, saved_group in zip(self.param_groups, saved_groups, strict=True)
        ]
        self.state = defaultdict(dict)
        for index, state in state_dict["state"].items():
            if index in params:
                self.state[params[index]] = {
                    key: convert_state(key, value, params[index]) for key, value in state.items()
                }
            else:
                self.state[index] = copy.deepcopy(state)
        for hook in self.hooks_for("load_post"):
            hook(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled optimizer; PyTorch pickles settings, state and groups alone."""
        self.__dict__.update({"_inside_step": False, "_hooks": {}, **state})
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for index, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {index}"][index == 0 :]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def wrap_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a `step` method with hooks and the `Stepped` event; nested calls are not wrapped."""

    @functools.wraps(step)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._inside_step:
            return step(self, *args, **kwargs)
        if current().listeners:
            with work("optimizer", self, detail="step"):
                result = run_step(self, args, kwargs)
            emit(Stepped(self))
        else:
            result = run_step(self, args, kwargs)
        step_event(Stepped, self)
        return result

    def run_step(self: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook in self.hooks_for("step_pre"):
            replacement = hook(self, args, kwargs)
            if replacement is not None:
                args, kwargs = replacement
        handler = hold_interrupts()  # defers Ctrl-C: a step is made completely or not at all
        try:
            self._inside_step = True
            if args and callable(args[0]):
                result = step(self, interruptible_once(args[0], handler), *args[1:], **kwargs)
            elif callable(kwargs.get("closure")):
                closure = interruptible_once(kwargs["closure"], handler)
                result = step(self, *args, **{**kwargs, "closure": closure})
            else:
                result = step(self, *args, **kwargs)
        finally:
            self._inside_step = False
            release_interrupts(handler)
        for hook in self.hooks_for("step_post"):
            hook(self, args, kwargs)
        return result

    return wrapped


Optimizer.step = wrap_step(Optimizer.step)  # type: ignore[method-assign]


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)])
    >>> calls = []
    >>> with optim.optimizer.register_optimizer_step_pre_hook(lambda *args: calls.append("step")):
    ...     optimizer.step()
    >>> calls
    ['step']
    """
    return RemovableHandle(GLOBAL_HOOKS["step_pre"], hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)])
    >>> calls = []
    >>> with optim.optimizer.register_optimizer_step_post_hook(lambda *args: calls.append("step")):
    ...     optimizer.step()
    >>> calls
    ['step']
    """
    return RemovableHandle(GLOBAL_HOOKS["step_post"], hook)


class NotALeafError(GradientError, ValueError):
    """A non-leaf tensor cannot be optimized."""


def check_param(param: Any, differentiable: bool = False) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {type(param)}"
        )
    if not (param.is_leaf or param.retains_grad or differentiable):
        raise NotALeafError(
            "optimizer", "can't optimize a non-leaf Tensor", {"param": tuple(param.shape)},
            "give it the tensor that was made with requires_grad=True, not one computed from it",
        )  # fmt: skip


def param_names_of(group: dict[str, Any]) -> dict[str, Any]:
    """Return the names of a group's parameters as a dict, empty without names."""
    return {"param_names": group["param_names"]} if "param_names" in group else {}


def convert_state(key: str, value: Any, param: Tensor) -> Any:
    """Copy a value of the state to the device and dtype of its parameter (not a step count)."""
    if isinstance(value, list | tuple):
        return type(value)(convert_state(key, item, param) for item in value)
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    if key == "step":
        return value.detach().clone()
    floating = param.is_floating_point()
    return value.detach().to(
        device=param.device, dtype=param.dtype if floating else None, copy=True
    )


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Swap parameters, state and settings of an optimizer inside a `with` block.

    Args:
        optimizer: an optimizer that has made a step.
        swapin_parameters: other parameters by name, in the order of the optimizer's own.
        swapin_optim_state: a state_dict for them. Its tensors are changed in place by a step.

    Raises: RuntimeError: they do not fit the optimizer.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optimizer = optim.Adam([x], lr=0.1)
    >>> optimizer.step()
    >>> other = tensor(5.0, requires_grad=True)
    >>> other.square().backward()
    >>> state = optimizer.state_dict()
    >>> with optim.swap_in_optimizer_params_and_state(optimizer, {"other": other}, state):
    ...     optimizer.step()
    >>> x, other
    (tensor(0.9000, requires_grad=True), tensor(4.9139, requires_grad=True))
    """
    groups = check_fits(optimizer, swapin_parameters, swapin_optim_state)
    original_groups = [dict(group) for group in optimizer.param_groups]
    original_state = optimizer.state
    params = iter(swapin_parameters.values())
    state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
    try:
        for live, group in zip(optimizer.param_groups, groups, strict=True):
            group_params = [next(params) for _ in group["params"]]
            live.update({**group, "params": group_params})
            for param, number in zip(group_params, group["params"], strict=True):
                state[param] = dict(swapin_optim_state["state"].get(number, {}))
        optimizer.state = state
        yield
    finally:
        for live, original in zip(optimizer.param_groups, original_groups, strict=True):
            live.clear()
            live.update(original)
        optimizer.state = original_state


def check_fits(optimizer: Optimizer, params: dict[str, Tensor], state: Any) -> list[dict[str, Any]]:
    """Return the groups of a state_dict, after checking that it fits the optimizer."""

    def require(condition: bool, text: str) -> None:
        if not condition:
            raise RuntimeError(f"swap_in_optimizer_params_and_state requires {text}")

    require(bool(optimizer.state), "initialized optimizer state: make a step first")
    require(
        isinstance(state, dict) and {"state", "param_groups"} <= set(state),
        "an optimizer state_dict: a dict with 'state' and 'param_groups'",
    )
    groups, live = state["param_groups"], optimizer.param_groups
    require(len(groups) == len(live), f"{len(live)} parameter groups, got {len(groups)}")
    for number, (group, own) in enumerate(zip(groups, live, strict=True)):
        require(set(group) == set(own), f"the live optimizer's settings in group {number}")
        require(
            len(group["params"]) == len(own["params"]),
            f"{len(own['params'])} params in group {number}, got {len(group['params'])}",
        )
    indices = {number for group in groups for number in group["params"]}
    require(len(params) >= len(indices), f"{len(indices)} parameters, got {len(params)}")
    extra = sorted(set(state["state"]) - indices, key=str)
    require(not extra, f"a state keyed only by the numbers of parameters, got {extra}")
    return groups


# Its annotations name it: `typing.get_type_hints` looks it up in their globals.
fused.Optimizer = Optimizer  # type: ignore[attr-defined]
