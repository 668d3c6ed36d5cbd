"""How the update rule of an optimizer is applied to a parameter.

A rule is the method `update` of an optimizer: its formula, written once. Whatever a parameter is,
the rule sees real floating-point values:

- those of complex parameters as pairs of real ones, which are updated independently,
- 16-bit floats as float32 copies, which are rounded back,
- with `differentiable=True` tensors, and edutorch's ops in place of NumPy: the step is recorded.

`fused.py` derives a kernel from the same lines. The rest of this file are the terms and the checks
that several optimizers have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import backends, ops
from ..backends.numpy import Array
from ..core.precision import is_half, to_float32, widen
from ..core.tensor import Tensor, array_of, wrap
from ..modes import enable_grad
from ..ops import tensor, view_as_complex, view_as_real
from .device_number import DeviceNumber, factor_for, is_on_device, number_of

__all__ = [
    "Group", "State", "Values", "place_state", "prepare_state", "update_arrays",
    "update_recorded", "update_unless",
]  # fmt: skip

Group = dict[str, Any]
"""A group of parameters and its settings, by their names."""

State = dict[str, Any]
"""The state of one parameter under PyTorch's names."""

Values = Any
"""The values of a parameter, or of one entry of its state: an array, a tensor where the step is
recorded, or the element of a kernel that is being generated."""

Rule = Callable[..., None]


def update_unless(
    found_inf: Array, rule: Rule, group: Group, param: Array, grad: Array, state: State
) -> None:
    """Apply a rule unless a flag on the device is set; the host does not wait to know it."""
    xp, skips = backends.of(param).xp, found_inf != 0
    before = {name: array_of(value) for name, value in state.items() if value is not None}
    before = {name: array.copy() for name, array in before.items()}
    kept = param.copy()
    update_arrays(rule, group, param, grad, state)
    param[...] = xp.where(skips, kept, param)
    for name, value in state.items():
        array = array_of(value)
        # What this step has created begins with zeros.
        array[...] = xp.where(skips, before.get(name, xp.zeros_like(array)), array)


def update_arrays(rule: Rule, group: Group, param: Array, grad: Array, state: State) -> None:
    """Apply a rule to a parameter's array and to the tensors of its state, in place."""
    if backends.switched_cards:
        backends.of(param).on_card(update_on_card, rule, group, param, grad, state)
    else:
        update_on_card(rule, group, param, grad, state)


def update_on_card(rule: Rule, group: Group, param: Array, grad: Array, state: State) -> None:
    """Apply a rule; the current card is that of the parameter."""
    count_step(state)
    values = {name: array_of(value) for name, value in state.items()}
    is_complex = param.dtype.kind == "c"
    if is_complex:
        param, grad = as_real(param), as_real(grad)
        values = {name: as_real(value) for name, value in values.items()}
    if "step" in values:
        values["step"] = number_of(values["step"])
    before, xp = dict(values), backends.of(param).xp
    # Only 16-bit floats have at most two bytes, and `is_half` is the slower question.
    if param.dtype.itemsize > 2 or not is_half(param.dtype):
        rule(xp, group, param, grad, values)
    else:
        update_as_float32(rule, group, param, grad, values)
    for name, value in values.items():
        if value is before.get(name):
            continue
        if isinstance(tensor := state.get(name), Tensor):  # not changed in place, but replaced
            as_real(tensor._array)[...] = value
        else:  # created by this step
            state[name] = wrap(view_as_complex(value) if is_complex else value)


def prepare_state(optimizer: Any, group: Group, param: Tensor) -> State:
    """Return the state of a parameter, made where there is none.

    Its step count is where the rule needs it: on the device, if only that knows of skipped steps.

    Raises: AssertionError: a step on the CPU is to be captured.
    """
    state = optimizer.state.get(param)
    if not state:
        if group.get("capturable") and param.device.type == "cpu":
            raise AssertionError(
                "If capturable=True, params and state_steps must be on supported devices: "
                "['cuda']. A CPU has no graphs to capture: leave capturable out."
            )
        state = optimizer.init_state(group, param)
    is_counted_there = optimizer.found_inf is not None or group.get("capturable")
    can_count_there = is_counted_there and optimizer._step_supports_amp_scaling
    if can_count_there and "step" in state and is_on_device(param._array):
        state["step"] = state["step"].to(param.device)
    return state


def place_state(param: Any, state: State) -> State:
    """Return a state whose tensors are distributed as the parameter is, if it is a DTensor.

    What a rule computes from a gradient, as the momentum of SGD, is a part like the gradient.
    """
    if not hasattr(param, "same_layout"):
        return state
    return {
        name: param.same_layout(value)
        if type(value) is Tensor and value.shape == param._array.shape and param.ndim
        else value
        for name, value in state.items()
    }


def update_rows(rule: Rule, group: Group, param: Tensor, grad: Any, state: State) -> None:
    """Apply a rule to the elements at the positions of a sparse gradient, and to no others."""
    rows = grad.coalesce()
    at = tuple(rows.pattern.indices)
    inner = {
        name: value if name == "step" else wrap(value._array[at]) for name, value in state.items()
    }
    param_rows = param._array[at]
    update_arrays(rule, group, param_rows, rows.entries._array, inner)
    param._array[at] = param_rows
    for name, value in inner.items():
        if name == "step":
            state[name] = value
        else:
            state[name]._array[at] = value._array


def update_as_float32(rule: Rule, group: Group, param: Array, grad: Array, values: State) -> None:
    """Apply a rule to float32 copies of 16-bit floats, and round them back.

    In float16 an ε of 1e-8 is 0, and for a gradient of 0 the step would be 0 / 0. (In PyTorch
    it is, and such a parameter becomes NaN.)
    """
    param32 = to_float32(param)
    values32 = {name: to_float32(value) for name, value in values.items()}
    group = {**group, "rounded_to": param.dtype}
    rule(backends.of(param).xp, group, param32, to_float32(grad), values32)
    param[...] = param32
    for name, value in values32.items():
        original = values.get(name)
        if original is None and value is not None:
            values[name] = value.astype(param.dtype)
        elif original is not None and value is not original:
            original[...] = value


def update_recorded(rule: Rule, group: Group, param: Tensor, state: State) -> None:
    """Apply a rule as part of the graph, so that gradients flow through the step."""
    with enable_grad():
        grad = param.grad
        assert grad is not None
        grad = -grad if group.get("maximize") else grad
        # The graph of earlier steps has saved the old state, so new tensors are written.
        state.update({name: value.clone() for name, value in state.items() if value is not None})
        count_step(state)
        values = {name: as_real(value) for name, value in state.items()}
        if "step" in values:
            values["step"] = values["step"].item()
        before, half, original = dict(values), is_half(param.dtype), param
        if half:  # see `update_as_float32`
            group = {**group, "rounded_to": param.dtype.numpy}
            param, grad = widen(param), widen(grad)
            values = {name: widen(value) for name, value in values.items()}
        rule(ops, group, as_real(param), as_real(grad), values)
        if half:
            original.copy_(param)
        for name, value in values.items():
            if value is before.get(name):
                continue
            if half and before[name] is not None:
                state[name].copy_(value)
                continue
            value = value.to(original.dtype) if half else value
            state[name] = view_as_complex(value) if param.is_complex() else value


def count_step(state: State) -> None:
    """Increment the step count, if there is one."""
    if "step" in state:
        state["step"]._array += 1


def as_real(values: Values) -> Values:
    """Return complex values as a view of pairs of real ones; anything else as it is."""
    dtype = getattr(values, "dtype", None)
    is_complex = dtype is not None and getattr(dtype, "numpy", dtype).kind == "c"
    return view_as_real(values) if is_complex else values


# Terms of rules ------------------------------------------------------------------------


def host_scalar(value: float) -> Tensor:
    """Return a scalar of the state. It is on the CPU, where reading it does not synchronize."""
    return tensor(float(value), device="cpu")


def learning_rate(group: Group) -> Any:
    """Return the learning rate: a number; a tensor where gradients flow to it."""
    lr = group["lr"]
    if not isinstance(lr, Tensor):
        return float(lr)
    if group.get("differentiable"):
        return lr.reshape(())
    array = lr._array
    return DeviceNumber(array.reshape(()).astype("float64")) if is_on_device(array) else float(lr)


def apply_weight_decay(group: Group, lr: Any, param: Values, grad: Values) -> Values:
    """Apply weight decay: return the changed gradient or, if decoupled, change `param`."""
    decay = group["weight_decay"]
    if not decay:
        return grad
    if group.get("decoupled_weight_decay"):
        param *= factor_for(param, 1 - lr * decay)
        return grad
    return grad + decay * param


# Checks of settings --------------------------------------------------------------------


def check(condition: bool, text: str) -> None:
    """Raise ValueError unless a condition holds."""
    if not condition:
        raise ValueError(text)


def check_lr(lr: float | Tensor, text: str = "Invalid learning rate: {}") -> None:
    is_single = not isinstance(lr, Tensor) or lr.numel() == 1
    check(is_single, "Tensor lr must be 1-element")
    check(float(lr) >= 0, text.format(lr))


def check_betas(betas: tuple[float, float]) -> None:
    for index, beta in enumerate(betas):
        check(0 <= beta < 1, f"Invalid beta parameter at index {index}: {beta}")


def check_not_negative(**settings: float) -> None:
    for name, value in settings.items():
        check(value >= 0, f"Invalid {name} value: {value}")
