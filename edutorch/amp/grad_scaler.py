"""`GradScaler`: loss scaling, which keeps small gradients within the range of float16."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np

from .. import backends
from ..backends.device import Device
from ..backends.numpy import Array
from ..core.tensor import Tensor, wrap
from ..errors import DTypeError, EdutorchError, warn
from ..nn.utils.clip_grad import multiply_all
from ..ops import full, isfinite, stack, tensor, where

__all__ = ["GradScaler", "OptState"]


class ScalerOrderError(EdutorchError, AssertionError):
    """The methods of a GradScaler were called in a wrong order."""


class ScalerTwiceError(EdutorchError, RuntimeError):
    """A method of a GradScaler was called a second time before `update`."""


class ScalerValueError(EdutorchError, ValueError):
    """A GradScaler got something other than tensors."""


class HalfGradientsError(DTypeError, ValueError):
    """Gradients of float16 parameters cannot be unscaled."""


class OptState(Enum):
    """The stage of an optimizer in the current step."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def can_be_masked(optimizer: Any, found_inf: dict[Device, Tensor]) -> bool:
    """Return True if an optimizer can skip a step by a flag that stays on the device."""
    if not getattr(optimizer, "_step_supports_amp_scaling", False) or len(found_inf) > 1:
        return False
    if not all(backends.of(flag._array).checks_later for flag in found_inf.values()):
        return False  # reading it costs nothing
    return all(
        not group.get("differentiable")
        and all(param._grad.__class__ in (Tensor, type(None)) for param in group["params"])
        for group in optimizer.param_groups
    )


ORDER = "the order is: scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"


class GradScaler:
    """Dynamic loss scaling: float16 gradients neither underflow nor overflow.

    float16 has no values between 0 and 6·10⁻⁸, where many gradients are. So the loss is
    multiplied by a scale s before `backward`, which multiplies all gradients by s, and `step`
    divides them by s again. If a gradient overflowed to infinity or NaN, the step is skipped and
    s ← s · backoff_factor; after growth_interval successful steps in a row
    s ← s · growth_factor.

    Args:
        device: the device of the tensors, "cuda" or "cpu".
        init_scale: the initial scale s.
        growth_factor: a factor above 1.
        backoff_factor: a factor below 1.
        growth_interval: the number of successful steps after which the scale grows.
        enabled: False disables scaling: the methods act as in a step without it.

    Raises: AssertionError: a factor is on the wrong side of 1, or methods are called out of
        order. RuntimeError: `unscale_` or `step` twice before `update`.

    Paper: Micikevicius et al., Mixed precision training (2018), arxiv.org/abs/1710.03740

    >>> w = tensor([1.0], requires_grad=True); optimizer = optim.SGD([w], lr=0.5)
    >>> scaler = amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale((w * 1e38).sum() * 4).backward()
    >>> scaler.step(optimizer); scaler.update(); w.item(), scaler.get_scale()
    (1.0, 4.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        name = str(device).partition(":")[0]
        self._device = name if name in backends.DEVICES else Device(device).type
        self._enabled = enabled
        if enabled and backends.is_unavailable(self._device):
            warn("GradScaler is enabled, but CUDA is not available. Disabling.")
            self._enabled = False
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale: Tensor | None = None  # created on the device by the first `scale`
        self._growth_tracker: Tensor | None = None  # successful steps since the scale changed
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(
            _refresh_per_optimizer_state
        )
        if self._enabled:
            self._check_settings()

    def _check_settings(self) -> None:
        for is_valid, message, value in (
            (self._growth_factor > 1.0, "The growth factor must be > 1.0.", self._growth_factor),
            (self._backoff_factor < 1.0, "The backoff factor must be < 1.0.", self._backoff_factor),
        ):  # fmt: skip
            if not is_valid:
                raise ScalerOrderError("GradScaler", message, {"given": value})

    # Forward --------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """Multiply a loss, or each tensor of a list or tuple of them, by the scale.

        Raises: ValueError: something among them is no tensor.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._lazy_init(outputs.device)
            assert self._scale is not None
            return outputs * self._scale.to(device=outputs.device)
        if isinstance(outputs, Iterable) and not isinstance(outputs, str):
            scaled = [self.scale(output) for output in outputs]
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled
        raise ScalerValueError(
            "GradScaler.scale", "outputs must be a Tensor or an iterable of Tensors",
            {"outputs": type(outputs).__name__}, "scale the loss itself, not loss.item()",
        )  # fmt: skip

    def _lazy_init(self, device: Device) -> None:
        self._scale = full((), float(self._init_scale), device=device)
        self._growth_tracker = tensor(int(self._init_growth_tracker), device=device)

    # Before the step --------------------------------------------------------------------------

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, in place.

        `step` calls it if needed. Call it before clipping gradients.

        Raises: RuntimeError: it was called before since the last `update`, or after `step`.
            ValueError: the parameters themselves are float16.
        """
        if not self._enabled:
            return
        scale = self._require_scale("unscale_")
        optimizer_state = self._per_optimizer_states[id(optimizer)]
        if optimizer_state["stage"] is OptState.UNSCALED:
            raise ScalerTwiceError(
                "GradScaler.unscale_",
                "unscale_() has already been called on this optimizer since the last update().",
                hint="the gradients are unscaled already; call update() once at the end of a step",
            )
        if optimizer_state["stage"] is OptState.STEPPED:
            raise ScalerTwiceError(
                "GradScaler.unscale_", "unscale_() is being called after step().",
                hint="unscale and clip before scaler.step(optimizer)",
            )  # fmt: skip
        optimizer_state["found_inf_per_device"] = self._unscale_grads(optimizer, scale)
        optimizer_state["stage"] = OptState.UNSCALED

    def _unscale_grads(self, optimizer: Any, scale: Tensor) -> dict[Device, Tensor]:
        """Divide gradients by the scale; return for each device whether one was not finite.

        No number is read here: on a GPU the host would wait for each of them.
        """
        grads: defaultdict[Device, list[Tensor]] = defaultdict(list)
        for group in optimizer.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if grad._array.dtype == np.float16:
                    raise HalfGradientsError(
                        "GradScaler.unscale_", "Attempting to unscale FP16 gradients.",
                        {"param": f"{tuple(param.shape)} {param.dtype}"},
                        "keep the parameters in float32 (no model.half()); "
                        "autocast converts them where it matters",
                    )  # fmt: skip
                grads[grad.device].append(grad)
        inverse = scale.double().reciprocal().float()
        return {device: unscale_all(own, inverse.to(device)) for device, own in grads.items()}

    # The step -----------------------------------------------------------------------------------

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients unless that is done, and step if all of them are finite.

        Returns what `optimizer.step(*args, **kwargs)` returns, None for a skipped step.

        Raises: RuntimeError: a second time before `update`, or with a closure.
            AssertionError: nothing was scaled, or no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise ScalerTwiceError(
                "GradScaler.step",
                "Closure use is not currently supported if GradScaler is enabled.",
                hint="compute loss and gradients before the step",
            )
        self._require_scale("step")
        optimizer_state = self._per_optimizer_states[id(optimizer)]
        if optimizer_state["stage"] is OptState.STEPPED:
            raise ScalerTwiceError(
                "GradScaler.step", "step() has already been called since the last update().",
                hint=ORDER,
            )  # fmt: skip
        if optimizer_state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        found_inf = optimizer_state["found_inf_per_device"]
        if not found_inf:
            raise ScalerOrderError(
                "GradScaler.step", "No inf checks were recorded for this optimizer.",
                {"optimizer": type(optimizer).__name__},
                "none of its parameters has a gradient: call scaler.scale(loss).backward() first",
            )  # fmt: skip
        result = None
        if can_be_masked(optimizer, found_inf):
            optimizer.found_inf = next(iter(found_inf.values()))
            try:
                result = optimizer.step(*args, **kwargs)
            finally:
                optimizer.found_inf = None
        elif not any(flag.item() for flag in found_inf.values()):
            result = optimizer.step(*args, **kwargs)
        optimizer_state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Update the scale; call it once, after the steps of all optimizers.

        Args:
            new_scale: the new scale, instead of the adapted one.

        Raises: AssertionError: nothing was unscaled since the last `update`.
        """
        if not self._enabled:
            return
        scale = self._require_scale("update")
        assert self._growth_tracker is not None
        if new_scale is not None:
            scale.fill_(check_new_scale(new_scale))
        else:
            found_inf = [
                flag.to(scale.device)
                for optimizer_state in self._per_optimizer_states.values()
                for flag in optimizer_state["found_inf_per_device"].values()
            ]
            if not found_inf:
                raise ScalerOrderError(
                    "GradScaler.update", "No inf checks were recorded prior to update.", hint=ORDER
                )
            self._adapt(scale, self._growth_tracker, stack(found_inf).max() > 0)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _adapt(self, scale: Tensor, tracker: Tensor, overflow: Tensor) -> None:
        """Change scale and tracker where they are: nothing is read, so nothing waits."""
        steps = where(overflow, 0, tracker + 1)
        is_due = steps == self._growth_interval
        with np.errstate(over="ignore"):
            larger = scale * self._growth_factor
        grown = where(is_due & isfinite(larger), larger, scale)
        scale.copy_(where(overflow, scale * self._backoff_factor, grown))
        tracker.copy_(where(is_due, 0, steps))

    def _require_scale(self, method: str) -> Tensor:
        if self._scale is None:
            raise ScalerOrderError(
                f"GradScaler.{method}",
                f"Attempted {method} but _scale is None: nothing was scaled yet.", hint=ORDER,
            )  # fmt: skip
        return self._scale

    # Settings and state ---------------------------------------------------------------------------

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def get_scale(self) -> float:
        """Return the scale; 1.0 if it is not enabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """Return the growth factor of the scale."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor of the scale."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor of the scale after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor of the scale after an overflow."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of successful steps in a row after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of successful steps in a row after which the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if self._growth_tracker is None:
            return self._init_growth_tracker if self._enabled else 0
        return int(self._growth_tracker.item())

    def state_dict(self) -> dict[str, Any]:
        """Return scale, factors, interval and growth tracker; {} if it is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Raises: RuntimeError: it is empty.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise ScalerTwiceError(
                "GradScaler.load_state_dict", "The source state dict is empty",
                hint="it was saved by a GradScaler that was not enabled",
            )  # fmt: skip
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise ScalerOrderError(
                    "GradScaler", "it can be pickled only before the first `unscale_` or `step` of "
                    "a training step, or after `update()`",
                )  # fmt: skip
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state


def unscale_all(grads: list[Tensor], inverse: Tensor) -> Tensor:
    """Multiply the gradients of a device in place; return 1 if one is not finite, else 0."""
    factor = inverse._array
    backend = backends.of(factor)
    if backend.kernels:
        found_inf = backend.xp.zeros((1,), np.float32)
        if multiply_all(grads, factor.reshape(1), found_inf) is not None:
            for grad in grads:
                grad._bump()
            return wrap(found_inf.reshape(()))
    is_finite: Array | bool = True
    for grad in grads:
        array = grad._array
        is_finite = backend.xp.isfinite(array).all() & is_finite
        array *= factor.astype(array.dtype)
        grad._bump()
    return wrap(backend.asarray(~is_finite).astype(np.float32))


def check_new_scale(new_scale: Any) -> float:
    """Return a scale chosen by the user as a float.

    Raises: AssertionError: it is neither a float nor a tensor with one element.
    """
    is_scalar = isinstance(new_scale, Tensor) and new_scale.numel() == 1
    if isinstance(new_scale, bool) or not (is_scalar or isinstance(new_scale, int | float)):
        description = tuple(new_scale.shape) if isinstance(new_scale, Tensor) else repr(new_scale)
        raise ScalerOrderError(
            "GradScaler.update", "new_scale should be a float or a tensor of one number",
            {"new_scale": description},
        )  # fmt: skip
    return float(new_scale)
