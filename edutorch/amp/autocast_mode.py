"""`autocast`, and the decorators of custom autograd functions for use under it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import backends, dtypes
from ..core.tensor import Tensor
from ..errors import warn
from ..modes import ModeContext
from . import state
from .casting import is_eligible

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

HALF_DTYPES = (dtypes.bfloat16, dtypes.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast is available for this device type.

    >>> amp.is_autocast_available("cpu")
    True
    """
    return state.device_name("is_autocast_available", device_type) in state.AVAILABLE


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
        self.device = state.device_name("autocast", device_type)
        if dtype is not None:
            state.check_dtype("autocast", dtype)
        self.fast_dtype = state.get_autocast_dtype(self.device) if dtype is None else dtype
        cache = state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._cache_enabled = bool(cache)
        self._enabled = bool(enabled) and self._is_available()
        self._outer: list[tuple[bool, dtypes.dtype, bool]] = []

    def _is_available(self) -> bool:
        """Whether autocast can be enabled with these settings; warn if not."""
        if self.device not in state.AVAILABLE or backends.is_unavailable(self.device):
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
        current_state = state.state()
        dtype = state.get_autocast_dtype(self.device)
        self._outer.append(
            (self.device in current_state.enabled, dtype, current_state.cache_enabled)
        )
        self._set_state(
            self._enabled, self.fast_dtype, self._cache_enabled, current_state.nesting + 1
        )
        return self

    def __exit__(self, *exception: object) -> None:
        nesting = state.state().nesting - 1
        if nesting == 0:
            state.clear_autocast_cache()
        self._set_state(*self._outer.pop(), nesting)

    def _set_state(
        self, enabled: bool, dtype: dtypes.dtype, cache_enabled: bool, nesting: int
    ) -> None:
        current_state = state.state()
        devices = (
            current_state.enabled | {self.device}
            if enabled
            else current_state.enabled - {self.device}
        )
        lower_dtypes = {**current_state.lower_dtypes, self.device: dtype}
        state.update_state(
            enabled=devices, lower_dtypes=lower_dtypes, cache_enabled=cache_enabled, nesting=nesting
        )

    def clone(self) -> autocast:
        """Return a new context with the same settings."""
        context = object.__new__(type(self))
        context.__dict__.update(self.__dict__, _before=[], _outer=[])
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
    name = state.device_name("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        is_on = state.is_autocast_enabled(name)
        args[0]._autocast = is_on and cast_inputs is None, state.get_autocast_dtype(name)
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
    name = state.device_name("custom_bwd", device_type)
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
