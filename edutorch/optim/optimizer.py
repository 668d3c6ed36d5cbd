"""`Optimizer`, the base class: parameter groups, state, hooks, saving and loading.

A subclass defines two methods: `init_state` returns the initial state of a parameter, `update`
changes the parameter's array.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Self

from .. import backends
from ..backends.numpy import Array, Namespace
from ..core.argument_checks import check_settings
from ..core.precision import is_half, to_float32
from ..core.source_location import CodeLocation, user_location
from ..core.tensor import Tensor, array_of, wrap
from ..errors import ArgumentError, GradientError, refuse_unknown_keywords, warn
from ..events import Stepped, emit, step_event, work
from ..modes import current, enable_grad, no_grad
from ..utils.process import (
    hold_interrupts,
    interruptible_once,
    keep_freed_memory,
    release_interrupts,
)
from .fused import FusedKernel
from .hooks import (
    OptimizerHooks,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)  # fmt: skip

__all__ = [
    "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
]  # fmt: skip


class Optimizer(OptimizerHooks):
    """Base class of all optimizers.

    Args:
        params: parameters, or dicts of parameters and their settings ("groups").
        defaults: the default settings of the groups.

    Raises: ValueError, TypeError: no parameters, or not tensors that can be trained.
    """

    fused_kernel: FusedKernel | None = None

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
        self._scratch: dict[Any, Array] = {}
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

    def init_state(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """Return the initial state of a parameter."""
        return {}

    def update(
        self, xp: Namespace, group: dict[str, Any], param: Array, grad: Array, state: dict[str, Any]
    ) -> None:
        """Change the array `param` in place, given its gradient. Every optimizer overrides it."""
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
                kernel = self.fused_kernel
                if kernel is None or not kernel.step(self, index, group, params, location):
                    self.step_params(group, params, location)
                elif self._scratch:
                    self._scratch.clear()  # used by the first steps, until the kernel was compiled
        return loss

    def step_params(
        self, group: dict[str, Any], params: list[Tensor], location: CodeLocation
    ) -> None:
        """Update the parameters of a group one by one."""
        maximize = group.get("maximize", False)
        for param in params:
            grad = param._grad
            assert grad is not None
            self.step_param(group, param, -grad._array if maximize else grad._array, location)

    def step_param(
        self, group: dict[str, Any], param: Tensor, grad: Array, location: CodeLocation
    ) -> None:
        """Update one parameter, and record the write with the user's code location."""
        state = self.state.get(param)
        if not state:
            state = self.init_state(group, param)
            if state:  # an empty state is left out of the state_dict
                self.state[param] = state
        self.run_update(group, param._array, grad, state)
        param._bump(location)

    def run_update(self, group: dict[str, Any], param: Array, grad: Array, state: Any) -> None:
        """Call `update`; 16-bit floats are updated as float32 copies, and rounded back.

        In float16 an ε of 1e-8 is 0, and for a gradient of 0 the step would be 0 / 0. (In PyTorch
        it is, and such a parameter becomes NaN.)
        """
        xp, dtype = backends.of(param).xp, param.dtype
        if dtype.itemsize > 2 or not is_half(dtype):
            self.update(xp, group, param, grad, state)
            return
        param32 = to_float32(param)
        state32 = {key: float32_copy(value) for key, value in state.items()}
        self.update(xp, {**group, "rounded_to": dtype}, param32, to_float32(grad), state32)
        param[...] = param32
        for key, value in state32.items():
            original = state[key]
            if original is None and value is not None:  # a buffer created in this step
                state[key] = wrap(value._array.astype(dtype))
            elif value is not original:
                array_of(original)[...] = array_of(value)

    def scratch(self, xp: Namespace, like: Array, number: int = 0) -> Array:
        """Return an uninitialized buffer in the shape of a parameter, for intermediate results.

        All parameters share its memory, which saves allocations in each step.
        """
        size = like.size
        buffer = self._scratch.get((like.dtype, number))
        if buffer is None or buffer.size < size or buffer.__class__ is not like.__class__:
            buffer = self._scratch[like.dtype, number] = xp.empty(size, like.dtype)
        return buffer[:size].reshape(like.shape)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset all gradients to None, or to zeros: backward accumulates into them."""
        listened = current().listeners
        with work("optimizer", self, detail="zero_grad") if listened else nullcontext():
            for group in self.param_groups:
                for param in group["params"]:
                    if set_to_none:
                        param._grad = None
                    elif param._grad is not None:
                        param._grad = param._grad.detach() * 0

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

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle or copy: everything but the scratch buffers."""
        return {**self.__dict__, "_scratch": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled optimizer; PyTorch pickles settings, state and groups alone."""
        self.__dict__.update({"_inside_step": False, "_scratch": {}, "_hooks": {}, **state})
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


def float32_copy(value: Any) -> Any:
    """Return a float32 copy of a tensor or array of 16-bit floats; other values unchanged."""
    array = array_of(value)
    if not hasattr(array, "dtype") or not is_half(array.dtype):
        return value
    copy = to_float32(array)
    return wrap(copy) if isinstance(value, Tensor) else copy


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


def check(condition: bool, text: str) -> None:
    """Raise ValueError unless a condition holds."""
    if not condition:
        raise ValueError(text)
