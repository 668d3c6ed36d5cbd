"""What all optimizers share: groups of parameters, their state, and when to step.

An optimizer itself is two functions: `init_state` says what it remembers about a
parameter, `update` changes the parameter's array. Everything else is here.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Self

from .. import backends
from ..backends.numpy import Array
from ..core.argument_checks import check_settings
from ..core.precision import in_float32, is_half
from ..core.source_location import Place, users_place
from ..core.tensor import Tensor, array_of, wrap
from ..errors import ArgumentError, GradientError, refuse_unknown_keywords, warn
from ..events import Stepped, emit, milestone, work
from ..modes import current, enable_grad, no_grad
from ..utils.deferred_interrupts import hold, once_interruptible, release
from ..utils.malloc_tuning import keep_freed_memory
from .fused import AtOnce
from .hooks import (
    OptimizerHooks,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)  # fmt: skip

__all__ = [
    "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
]  # fmt: skip


class Optimizer(OptimizerHooks):
    """The base of all optimizers.

    Args:
        params: parameters, or dicts of them with settings of their own ("groups").
        defaults: the settings of groups that do not say otherwise.

    Raises: ValueError, TypeError: no parameters, or not tensors that can be trained.
    """

    at_once: AtOnce | None = None

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Make one; a setting that `__init__` does not have is refused with a suggestion.

        An optimizer of ours is not made of settings of a wrong type either.
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
        if {"update", "step_one"} & vars(cls).keys() and "at_once" not in vars(cls):
            cls.at_once = None  # a subclass with a rule of its own: the kernel knows another one
        if "step" in vars(cls):  # a subclass in PyTorch's style, with a `step` of its own
            cls.step = watched(cls.step)  # type: ignore[method-assign]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Train further parameters, with settings of their own.

        Raises: ValueError: a parameter is in a group already, or cannot be trained.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError("optimizer parameters need to be in an order: use a list, not a set")
        params = [given] if isinstance(given, Tensor) else list(given)
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
        known = {id(each) for group in self.param_groups for each in group["params"]}
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
        """Return what is remembered about a parameter, before its first step."""
        return {}

    def update(
        self, xp: Any, group: dict[str, Any], param: Array, grad: Array, state: dict[str, Any]
    ) -> None:
        """Change the array `param` in place, given its gradient. Every optimizer writes its own."""
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
        place = users_place()
        with no_grad():
            for number, group in enumerate(self.param_groups):
                params = [each for each in group["params"] if each._grad is not None]
                at_once = self.at_once
                if at_once is None or not at_once.step(self, number, group, params, place):
                    self.step_each(group, params, place)
                elif self._scratch:
                    self._scratch.clear()  # of the first steps, before there was a kernel
        return loss

    def step_each(self, group: dict[str, Any], params: list[Tensor], place: Place) -> None:
        """Update parameters of a group, one after the other."""
        maximize = group.get("maximize", False)
        for param in params:
            held = param._grad
            assert held is not None
            self.step_one(group, param, -held._array if maximize else held._array, place)

    def step_one(self, group: dict[str, Any], param: Tensor, grad: Array, place: Place) -> None:
        """Update one parameter and note that it was written, at this place of the user's."""
        state = self.state.get(param)
        if not state:
            state = self.init_state(group, param)
            if state:  # nothing to remember leaves no trace in the state_dict
                self.state[param] = state
        self.updated(group, param._array, grad, state)
        param._bump(place)

    def updated(self, group: dict[str, Any], param: Array, grad: Array, state: Any) -> None:
        """Call `update`, for 16-bit floats with copies in float32, which are rounded back.

        In float16 an ε of 1e-8 is 0, and after a gradient of 0 a step would be 0 / 0. (PyTorch
        computes so, and makes NaN of such a parameter.)
        """
        xp, kind = backends.of(param).xp, param.dtype
        if kind.itemsize > 2 or not is_half(kind):
            self.update(xp, group, param, grad, state)
            return
        wide, copies = in_float32(param), {key: wide_copy(value) for key, value in state.items()}
        self.update(xp, {**group, "rounded_to": kind}, wide, in_float32(grad), copies)
        param[...] = wide
        for key, value in copies.items():
            held = state[key]
            if held is None and value is not None:  # the first momentum
                state[key] = wrap(value._array.astype(kind))
            elif value is not held:
                array_of(held)[...] = array_of(value)

    def scratch(self, xp: Any, like: Array, number: int = 0) -> Array:
        """Lend memory for intermediate results in the shape of a parameter.

        It is the same memory for all parameters, so nothing new has to be found in
        each step. What lies in it is garbage.
        """
        size = like.size
        held = self._scratch.get((like.dtype, number))
        if held is None or held.size < size or held.__class__ is not like.__class__:
            held = self._scratch[like.dtype, number] = xp.empty(size, like.dtype)
        return held[:size].reshape(like.shape)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients (or set them to zeros): backward adds to what is there."""
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
        """Return settings and state, the parameters replaced by their numbers."""
        for hook in self.hung("save_pre"):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            numbers[id(param)] if isinstance(param, Tensor) else param: value
            for param, value in self.state.items()
        }
        return self.changed("save_post", {"state": state, "param_groups": groups})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned. Parameters are matched by their order.

        Raises: ValueError: the groups are of other sizes.
        """
        state_dict = self.changed("load_pre", dict(state_dict))
        saved = copy.deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        params: dict[Any, Tensor] = {}
        for own, other in zip(self.param_groups, saved, strict=True):
            if len(own["params"]) != len(other["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match "
                    "the size of optimizer's group"
                )
            params |= dict(zip(other["params"], own["params"], strict=True))
        self.param_groups = [  # an older state_dict may lack a setting
            {**self.defaults, **named(own), **other, "params": own["params"]}
            for own, other in zip(self.param_groups, saved, strict=True)
        ]
        self.state = defaultdict(dict)
        for number, state in state_dict["state"].items():
            if number in params:
                self.state[params[number]] = {
                    key: like_param(key, value, params[number]) for key, value in state.items()
                }
            else:
                self.state[number] = copy.deepcopy(state)
        for hook in self.hung("load_post"):
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: all but memory for intermediate results."""
        return {**self.__dict__, "_scratch": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled; PyTorch pickles settings, state and groups alone."""
        self.__dict__.update({"_inside_step": False, "_scratch": {}, "_hooks": {}, **state})
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {number}"][number == 0 :]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def watched(step: Callable[..., Any]) -> Callable[..., Any]:
    """Put hooks and the `Stepped` event around a `step`, but not around one inside another."""

    @functools.wraps(step)
    def around(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._inside_step:
            return step(self, *args, **kwargs)
        if current().listeners:
            with work("optimizer", self, detail="step"):
                result = one_step(self, args, kwargs)
            emit(Stepped(self))
        else:
            result = one_step(self, args, kwargs)
        milestone(Stepped, self)
        return result

    def one_step(self: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook in self.hung("step_pre"):
            replaced = hook(self, args, kwargs)
            if replaced is not None:
                args, kwargs = replaced
        handler = hold()  # Ctrl-C waits: a step is taken whole or not at all
        try:
            self._inside_step = True
            if args and callable(args[0]):
                result = step(self, once_interruptible(args[0], handler), *args[1:], **kwargs)
            elif callable(kwargs.get("closure")):
                closure = once_interruptible(kwargs["closure"], handler)
                result = step(self, *args, **{**kwargs, "closure": closure})
            else:
                result = step(self, *args, **kwargs)
        finally:
            self._inside_step = False
            release(handler)
        for hook in self.hung("step_post"):
            hook(self, args, kwargs)
        return result

    return around


Optimizer.step = watched(Optimizer.step)  # type: ignore[method-assign]


class NotALeafError(GradientError, ValueError):
    """What was computed from other tensors cannot be trained."""


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


def wide_copy(value: Any) -> Any:
    """Return a piece of state in 16-bit floats, a tensor or an array, as a copy in float32."""
    array = array_of(value)
    if not hasattr(array, "dtype") or not is_half(array.dtype):
        return value
    copy = in_float32(array)
    return wrap(copy) if isinstance(value, Tensor) else copy


def named(group: dict[str, Any]) -> dict[str, Any]:
    return {"param_names": group["param_names"]} if "param_names" in group else {}


def like_param(key: str, value: Any, param: Tensor) -> Any:
    """Copy a piece of state to the device and type of its parameter (a step count stays)."""
    if isinstance(value, list | tuple):
        return type(value)(like_param(key, each, param) for each in value)
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    if key == "step":
        return value.detach().clone()
    floating = param.is_floating_point()
    return value.detach().to(
        device=param.device, dtype=param.dtype if floating else None, copy=True
    )


def check(condition: bool, text: str) -> None:
    """Raise ValueError if a setting makes no sense."""
    if not condition:
        raise ValueError(text)
