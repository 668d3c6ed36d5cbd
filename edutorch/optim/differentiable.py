"""Base classes of optimizers that support `differentiable=True` and complex parameters.

`update` of a `DifferentiableOptimizer` gets the parameter, its gradient and its state as plain
arrays, and the step count as a number. Complex values are passed as pairs of real ones, which are
updated independently. With `differentiable=True` the same lines get tensors, and edutorch's ops in
place of NumPy, so that the step is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..backends.numpy import Array, Namespace
from ..core.precision import is_half, widen
from ..core.source_location import CodeLocation
from ..core.tensor import Tensor
from ..modes import enable_grad
from ..ops import tensor, view_as_real, zeros_like
from .optimizer import Optimizer, check

__all__ = ["DifferentiableOptimizer"]


class DifferentiableOptimizer(Optimizer):
    """Base of optimizers with one `update` for arrays and for recorded tensors.

    `init_state` returns tensors under PyTorch's names. `update` gets arrays under these names in
    `state` and changes them in place; "step", if present, is a number that already counts this
    step.
    """

    def step_param(
        self, group: dict[str, Any], param: Tensor, grad: Array, location: CodeLocation
    ) -> None:
        """Unpack a parameter, its gradient and its state, and update it."""
        tensors = self.get_state(group, param)
        if group.get("differentiable"):
            step_differentiable(self.update, group, param, tensors)
            return
        array = param._array
        state = {key: as_real(value._array) for key, value in tensors.items()}
        self.run_update(group, as_real(array), as_real(grad), increment_step(state, tensors))
        param._bump(location)

    def get_state(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """Return the state of a parameter, created at its first step."""
        state = self.state.get(param)
        if not state:
            if group.get("capturable") and param.device.type == "cpu":
                raise AssertionError(
                    "If capturable=True, params and state_steps must be on supported devices: "
                    "['cuda']. A CPU has no graphs to capture: leave capturable out."
                )
            state = self.init_state(group, param)
            self.state[param] = state
        return state


class FastDifferentiableOptimizer(Optimizer):
    """Base of optimizers with a fast `update` for arrays and another one for recorded tensors."""

    def update_differentiable(
        self,
        xp: Namespace,
        group: dict[str, Any],
        param: Tensor,
        grad: Tensor,
        state: dict[str, Any],
    ) -> None:
        """Do what `update` does, with ops that are recorded."""
        raise NotImplementedError(f"{type(self).__name__} has no rule()")

    def step_param(
        self, group: dict[str, Any], param: Tensor, grad: Array, location: CodeLocation
    ) -> None:
        """Update a parameter: with arrays, or with `differentiable` as part of the graph."""
        if not group.get("differentiable"):
            super().step_param(group, param, grad, location)
            return
        if not self.state.get(param) and (state := self.init_state(group, param)):
            self.state[param] = state
        step_differentiable(self.update_differentiable, group, param, self.state.get(param, {}))


def step_differentiable(
    update: Callable[..., None], group: dict[str, Any], param: Tensor, tensors: dict[str, Any]
) -> None:
    """Update a parameter as part of the graph, so that gradients flow through the step."""
    with enable_grad():
        grad = param.grad
        assert grad is not None
        grad = -grad if group.get("maximize") else grad
        # The graph of earlier steps has saved the old state, so new tensors are written.
        is_first_step = None in tensors.values()
        tensors.update({
            key: zeros_like(param.detach()) if value is None else value.clone()
            for key, value in tensors.items()
        })  # fmt: skip
        state = {key: as_real(value) for key, value in tensors.items()}
        state["is_first_step"] = is_first_step
        state = increment_step(state, tensors)
        if not is_half(param.dtype):
            update(ops, group, as_real(param), as_real(grad), state)
            return
        param32, state32 = widen(param), {key: widen(value) for key, value in state.items()}
        group = {**group, "rounded_to": param.dtype.numpy}
        update(ops, group, param32, widen(grad), state32)  # see `Optimizer.run_update`
        for original, copy in [(param, param32), *((state[key], state32[key]) for key in tensors)]:
            if copy is not original:
                original.copy_(copy)


def increment_step(state: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """Increment the step count, if there is one, and put it into `state` as a number."""
    if "step" in tensors:
        tensors["step"]._array += 1
        state["step"] = tensors["step"]._array.item()
    return state


def as_real(values: Any) -> Any:
    """Return complex values as a view of pairs of real ones; others as they are."""
    dtype = values.dtype
    return view_as_real(values) if getattr(dtype, "numpy", dtype).kind == "c" else values


def host_scalar(value: float) -> Tensor:
    """Return a scalar of the state. It is on the CPU, where reading it does not synchronize."""
    return tensor(float(value), device="cpu")


def learning_rate(group: dict[str, Any]) -> Any:
    """Return the learning rate: a number, or a tensor where gradients flow to it."""
    lr = group["lr"]
    if group.get("differentiable") and isinstance(lr, Tensor):
        return lr.reshape(())
    return float(lr)


def apply_weight_decay(group: dict[str, Any], lr: Any, param: Any, grad: Any) -> Any:
    """Apply weight decay: return the changed gradient or, if decoupled, change `param`."""
    decay = group["weight_decay"]
    if not decay:
        return grad
    if group.get("decoupled_weight_decay"):
        param *= 1 - lr * decay
        return grad
    return grad + decay * param


# Checks of settings --------------------------------------------------------------------


def check_lr(lr: Any, text: str = "Invalid learning rate: {}") -> None:
    is_single = not isinstance(lr, Tensor) or lr.numel() == 1
    check(is_single, "Tensor lr must be 1-element")
    check(float(lr) >= 0, text.format(lr))


def check_betas(betas: tuple[float, float]) -> None:
    for index, beta in enumerate(betas):
        check(0 <= beta < 1, f"Invalid beta parameter at index {index}: {beta}")


def check_not_negative(**settings: float) -> None:
    for name, value in settings.items():
        check(value >= 0, f"Invalid {name} value: {value}")
