"""`autocast`, its state in the current thread, and the decorators of custom autograd functions.

Each thread (and each asyncio task) has its own state and starts with autocast off. `autocast`
is the usual way to change it; PyTorch's functions read and set it too.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from .. import backends, dtypes
from ..core.tensor import Tensor
from ..errors import ArgumentError, DeviceError, warn
from ..modes import ModeContext, current, switch
from .casting import ArgumentCaster, is_eligible

__all__ = [
    "autocast", "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
    "custom_bwd", "custom_fwd", "get_autocast_cpu_dtype", "get_autocast_dtype",
    "get_autocast_gpu_dtype", "is_autocast_available", "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype",
    "set_autocast_enabled", "set_autocast_gpu_dtype",
]  # fmt: skip


DEFAULT_DTYPES = {
    **{name: dtypes.float16 if device.has_gpu_rules else dtypes.bfloat16
       for name, device in backends.DEVICES.items()},
    "xpu": dtypes.float16, "mps": dtypes.float16, "xla": dtypes.bfloat16,
    "ipu": dtypes.float16, "hpu": dtypes.bfloat16, "mtia": dtypes.bfloat16,
    "maia": dtypes.bfloat16,
}  # fmt: skip
"""The default 16-bit dtype of each device for which PyTorch has autocast."""


AVAILABLE = tuple(backends.DEVICES)
"""The devices of edutorch."""


@dataclass(frozen=True, slots=True)
class State:
    """The autocast state of a thread.

    Attributes:
        enabled: the devices for which autocast is on.
        lower_dtypes: the 16-bit dtypes that differ from the default ones, by device.
        cache: the converted weights (see `casting.py`).
    """

    enabled: frozenset[str] = frozenset()
    lower_dtypes: dict[str, dtypes.dtype] = field(default_factory=dict)
    cache_enabled: bool = True
    nesting: int = 0
    cache: dict[Any, Any] = field(default_factory=dict)


_STATE: ContextVar[State | None] = ContextVar("edutorch_autocast", default=None)


def state() -> State:
    """Return the state of this thread."""
    value = _STATE.get()
    if value is None:
        value = State()
        _STATE.set(value)
    return value


def update_state(**changes: Any) -> None:
    """Change the state of this thread, and the mode that the ops read."""
    new = replace(state(), **changes)
    _STATE.set(new)
    casting = None
    if new.enabled:
        lower_dtypes = {
            name: new.lower_dtypes.get(name, DEFAULT_DTYPES[name]) for name in new.enabled
        }
        casting = ArgumentCaster(lower_dtypes, new.cache if new.cache_enabled else None)
    switch(current(), autocast=casting)


def device_name(function: str, device_type: Any) -> str:
    """Return the device type of a string: "cuda" for "cuda:0".

    Raises: ArgumentError: not a string. DeviceError: a device without autocast.
    """
    if not isinstance(device_type, str):
        raise WrongDeviceType(
            function, f"expected `device_type` of type `str`, got {type(device_type).__name__}",
            {"device_type": repr(device_type)}, 'pass its name: "cpu", or tensor.device.type',
        )  # fmt: skip
    name = device_type.partition(":")[0]
    if name not in DEFAULT_DTYPES:
        raise DeviceError(
            function, f"there is no autocast for the device {device_type!r}",
            hint='the devices are "cpu" and "cuda"',
        )  # fmt: skip
    return name


class WrongDeviceType(ArgumentError, ValueError):
    """A device type is not a string. (PyTorch raises a ValueError.)"""


def check_dtype(function: str, dtype: Any) -> dtypes.dtype:
    if not isinstance(dtype, dtypes.dtype):
        raise ArgumentError(
            function, f"dtype has to be a dtype, not {type(dtype).__name__}",
            {"dtype": repr(dtype)}, "pass torch.bfloat16 or torch.float16",
        )  # fmt: skip
    return dtype


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on in this thread for this device type.

    >>> is_autocast_enabled("cpu")
    False
    """
    return device_name("is_autocast_enabled", device_type) in state().enabled


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off in this thread, until it is switched again.

    Args:
        device_type: the device of the tensors; "cuda" if left out.

    >>> set_autocast_enabled("cpu", True)
    >>> is_autocast_enabled("cpu")
    True
    >>> set_autocast_enabled("cpu", False)
    """
    device, is_on = (
        (backends.ACCELERATOR, device_type) if enabled is None else (device_type, enabled)
    )
    if not isinstance(is_on, bool):
        raise ArgumentError(
            "set_autocast_enabled", f"enabled has to be a bool, not {type(is_on).__name__}",
            {"enabled": repr(is_on)},
        )  # fmt: skip
    name = device_name("set_autocast_enabled", device)
    update_state(enabled=state().enabled | {name} if is_on else state().enabled - {name})


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """Return the 16-bit dtype of autocast for this device type.

    >>> get_autocast_dtype("cpu"), get_autocast_dtype("cuda")
    (torch.bfloat16, torch.float16)
    """
    name = device_name("get_autocast_dtype", device_type)
    return state().lower_dtypes.get(name, DEFAULT_DTYPES[name])


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Set the 16-bit dtype of autocast for this device type.

    >>> set_autocast_dtype("cpu", float16)
    >>> with autocast("cpu"):
    ...     (ones(2, 2) @ ones(2, 2)).dtype
    torch.float16
    >>> set_autocast_dtype("cpu", bfloat16)
    """
    name = device_name("set_autocast_dtype", device_type)
    update_state(
        lower_dtypes={**state().lower_dtypes, name: check_dtype("set_autocast_dtype", dtype)}
    )


def is_autocast_cache_enabled() -> bool:
    """Whether autocast converts each weight only once per region.

    >>> is_autocast_cache_enabled()
    True
    """
    return state().cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether autocast caches converted weights until the outermost region ends.

    >>> set_autocast_cache_enabled(True)
    """
    update_state(cache_enabled=bool(enabled))


def clear_autocast_cache() -> None:
    """Clear the cache of converted weights.

    >>> clear_autocast_cache()
    """
    state().cache.clear()


def autocast_increment_nesting() -> int:
    """Increment the nesting level, and return it.

    >>> autocast_increment_nesting(), autocast_decrement_nesting()
    (1, 0)
    """
    update_state(nesting=state().nesting + 1)
    return state().nesting


def autocast_decrement_nesting() -> int:
    """Decrement the nesting level, and return it.

    >>> autocast_increment_nesting(), autocast_decrement_nesting()
    (1, 0)
    """
    update_state(nesting=state().nesting - 1)
    return state().nesting


def warn_deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated. Please use {new} instead.", DeprecationWarning, 3)


def is_autocast_cpu_enabled() -> bool:
    """Deprecated form of `is_autocast_enabled("cpu")`."""
    warn_deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Deprecated form of `set_autocast_enabled("cpu", enabled)`."""
    warn_deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """Deprecated form of `get_autocast_dtype("cpu")`."""
    warn_deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtypes.dtype) -> None:
    """Deprecated form of `set_autocast_dtype("cpu", dtype)`."""
    warn_deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """Deprecated form of `get_autocast_dtype("cuda")`."""
    warn_deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtypes.dtype) -> None:
    """Deprecated form of `set_autocast_dtype("cuda", dtype)`."""
    warn_deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)


HALF_DTYPES = (dtypes.bfloat16, dtypes.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast is available for this device type.

    >>> amp.is_autocast_available("cpu")
    True
    """
    return device_name("is_autocast_available", device_type) in AVAILABLE


class autocast(ModeContext):
    """Run each op in a suitable dtype: matrix products in 16 bits, losses in 32.

    Inside the `with` block (or the decorated function) products such as `linear`, `matmul`
    and `conv2d` convert their operands to `dtype`; losses, norms and powers convert theirs to
    float32; ops with operands of both dtypes use the wider one; all others compute in the dtypes
    they get. Parameters stay float32, and so do their gradients. Only float32 and 16-bit tensors
    are converted, never float64.

    On a CPU this is for learning, not for speed: NumPy has no 16-bit matrix products, so the
    operands are rounded to bfloat16 or float16, multiplied and summed in float32, and the results
    rounded again. They are those of 16-bit hardware, but take longer than in float32.

    Run the forward pass and the loss inside, `backward()` and the optimizer outside. With
    float16, whose smallest values are much larger, use a `GradScaler`, too.

    Args:
        device_type: the device of the tensors to convert: "cpu" or "cuda".
        dtype: the 16-bit dtype; bfloat16 on the CPU and float16 on a GPU by default.
        enabled: False switches autocast off inside, for a part of a region in full precision.
        cache_enabled: whether to convert each weight once in the outermost region; it is converted
            again after a write.

    Raises: ValueError: device_type is not a string. DeviceError: there is no such device.
        TypeError: dtype is not a dtype.

    Another dtype, or a GPU that is not available, gives a warning, and autocast stays off.

    Paper: Micikevicius et al., Mixed precision training (2018), arxiv.org/abs/1710.03740

    >>> layer, x = nn.Linear(2, 2), ones(1, 2)
    >>> with autocast("cpu"):
    ...     y = layer(x)
    >>> y.dtype, layer.weight.dtype
    (torch.bfloat16, torch.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtypes.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        super().__init__()
        self.device = device_name("autocast", device_type)
        if dtype is not None:
            check_dtype("autocast", dtype)
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        cache = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._cache_enabled = bool(cache)
        self._enabled = bool(enabled) and self._is_available()
        self._outer: list[tuple[bool, dtypes.dtype, bool]] = []

    def _is_available(self) -> bool:
        """Whether autocast can be enabled with these settings; warn if not."""
        if self.device not in AVAILABLE or backends.is_unavailable(self.device):
            warn(f"autocast: {self.device} is not available. Disabling autocast.")
            return False
        if self.fast_dtype not in HALF_DTYPES:
            warn(
                f"In {self.device.upper()} autocast, but the target dtype {self.fast_dtype} is "
                "not supported. Disabling autocast. It supports torch.bfloat16 and torch.float16."
            )
            return False
        return True

    def __enter__(self) -> autocast:
        current_state = state()
        dtype = get_autocast_dtype(self.device)
        self._outer.append(
            (self.device in current_state.enabled, dtype, current_state.cache_enabled)
        )
        self._set_state(
            self._enabled, self.fast_dtype, self._cache_enabled, current_state.nesting + 1
        )
        return self

    def __exit__(self, *exception: object) -> None:
        nesting = state().nesting - 1
        if nesting == 0:
            clear_autocast_cache()
        self._set_state(*self._outer.pop(), nesting)

    def _set_state(
        self, enabled: bool, dtype: dtypes.dtype, cache_enabled: bool, nesting: int
    ) -> None:
        current_state = state()
        devices = (
            current_state.enabled | {self.device}
            if enabled
            else current_state.enabled - {self.device}
        )
        lower_dtypes = {**current_state.lower_dtypes, self.device: dtype}
        update_state(
            enabled=devices, lower_dtypes=lower_dtypes, cache_enabled=cache_enabled, nesting=nesting
        )

    def clone(self) -> autocast:
        """Return a new context with the same settings."""
        context = object.__new__(type(self))
        context.__dict__.update(self.__dict__, _outer=[])
        return context


# Custom autograd functions ---------------------------------------------------------------------


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: dtypes.dtype | None = None,
) -> Callable[..., Any]:
    """Decorate the `forward` of an `autograd.Function` that may be called under autocast.

    Args:
        device_type: "cpu" or "cuda".
        cast_inputs: where autocast is on, convert the tensor arguments to this dtype and run
            `forward` with autocast off. By default `forward` runs under autocast.

    >>> class Square(autograd.Function):
    ...     @staticmethod
    ...     @amp.custom_fwd(device_type="cpu", cast_inputs=float32)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return 2 * g * ctx.saved_tensors[0]
    >>> with autocast("cpu"):
    ...     Square.apply(ones(2, dtype=bfloat16)).dtype
    torch.float32
    """
    name = device_name("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        is_on = is_autocast_enabled(name)
        args[0]._autocast = is_on and cast_inputs is None, get_autocast_dtype(name)
        if not is_on or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(name, enabled=False):
            return fwd(*cast(args, name, cast_inputs), **cast(kwargs, name, cast_inputs))

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate the `backward` of an `autograd.Function`, to run under the autocast of `forward`.

    Args:
        device_type: "cpu" or "cuda", as for the `custom_fwd` of its forward.
    """
    name = device_name("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        is_on, dtype = args[0]._autocast
        with autocast(name, dtype=dtype, enabled=is_on):
            return bwd(*args, **kwargs)

    return decorated


def cast(value: Any, device: str, dtype: dtypes.dtype) -> Any:
    """Convert the eligible tensors in nested arguments."""
    if isinstance(value, Tensor):
        return value.to(dtype) if is_eligible(value, device) else value
    if isinstance(value, dict):
        return {key: cast(item, device, dtype) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(cast(item, device, dtype) for item in value)
    return value
