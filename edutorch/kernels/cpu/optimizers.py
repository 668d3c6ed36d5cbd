"""A whole step of an optimizer in one pass over the elements of all parameters.

The definitions in `optim/` go through the memory once for each operation, and through Python once
for each parameter. Here all operations are applied to an element while it is in a register, in the
same order and with the same rounding: nothing is contracted or reordered, so the result is the
same bit for bit. A vector square root or division of 16 elements costs as much as a scalar one.
Stored values are kept in local variables, and not read back: a vector load right after a store
that crosses a cache line defeats store forwarding, and makes a step take twice as long.

Every kernel gets a range of the elements of all parameters, the index at which each tensor ends in
this numbering, the addresses of (parameter, gradient, state …) for each tensor, and the settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from ... import optim
from ...optim import fused
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "elements_of", "nadam", "radam", "rmsprop", "sgd",
    "step_count", "step_counter", "tensor_of",
]  # fmt: skip


def compile_step(kernel: Callable[..., None]) -> Callable[..., None]:
    """Compile a kernel for float32 and float64, and divide its work among the threads."""
    index_type = types.uint64
    compile_kernel = njit(
        [
            types.void(index_type, index_type, index_type[::1], types.int64[:, ::1], dtype[::1])
            for dtype in (types.float32, types.float64)
        ],
        cache=True, nogil=True, error_model="numpy",
    )(kernel)  # fmt: skip

    def run(count: int, ends: Any, table: Any, settings: Any) -> None:
        parallel_for(compile_kernel, count, ends, table, settings)

    return run


@njit
def tensor_slices(tensor, start, stop, ends, table, settings):
    """Return the number of a tensor's elements in the range, and these elements of its arrays."""
    begin = ends[tensor - 1] if tensor > 0 else np.uint64(0)
    first = start - begin
    count = min(stop, ends[tensor]) - start
    return (
        count, elements_of(table[tensor, 0], first, count, settings),
        elements_of(table[tensor, 1], first, count, settings),
        elements_of(table[tensor, 2], first, count, settings),
        elements_of(table[tensor, 3], first, count, settings),
        elements_of(table[tensor, 4], first, count, settings),
    )  # fmt: skip


@fused.STEP_COUNT.kernel("cpu")
def step_count() -> Any:
    """Make the kernel that increments the step counts of all parameters."""
    return step_counter()


@optim.Adam.fused_kernel.kernel("cpu")
def adam() -> Callable[..., None]:
    """Make the step of `optim.Adam` and `optim.AdamW`."""

    def step(start, stop, ends, table, settings):
        start, stop = claim_range(start, stop)
        decay, weight_decay, one_minus_beta1, beta2, one_minus_beta2, eps, lr, amsgrad = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, m, v, largest = tensor_slices(
                tensor, start, stop, ends, table, settings
            )
            for i in range(count):
                p = param[i] * decay
                g = grad[i] + weight_decay * p if weight_decay != 0 else grad[i]
                m[i] = momentum = m[i] + (g - m[i]) * one_minus_beta1
                v[i] = denominator = v[i] * beta2 + g * g * one_minus_beta2
                if amsgrad != 0:
                    previous = largest[i]
                    denominator = (
                        previous if previous >= denominator or previous != previous else denominator
                    )
                    largest[i] = denominator
                param[i] = p - momentum / (np.sqrt(denominator) + eps) * lr
            start += count
            tensor += 1

    return compile_step(step)


@optim.SGD.fused_kernel.kernel("cpu")
def sgd() -> Callable[..., None]:
    """Make the step of `optim.SGD`; with a momentum from its second step on."""

    def step(start, stop, ends, table, settings):
        start, stop = claim_range(start, stop)
        weight_decay, momentum, one_minus_dampening, nesterov, lr = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, buffer, _, _ = tensor_slices(
                tensor, start, stop, ends, table, settings
            )
            for i in range(count):
                g = grad[i] + weight_decay * param[i] if weight_decay != 0 else grad[i]
                if momentum != 0:
                    buffer[i] = velocity = buffer[i] * momentum + g * one_minus_dampening
                    g = g + momentum * velocity if nesterov != 0 else velocity
                param[i] = param[i] - g * lr
            start += count
            tensor += 1

    return compile_step(step)


@optim.RMSprop.fused_kernel.kernel("cpu")
def rmsprop() -> Callable[..., None]:
    """Make the step of `optim.RMSprop`."""

    def step(start, stop, ends, table, settings):
        start, stop = claim_range(start, stop)
        weight_decay, alpha, one_minus_alpha, eps, momentum, centered, lr = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, v, buffer, average = tensor_slices(
                tensor, start, stop, ends, table, settings
            )
            if momentum == 0 and centered == 0:  # separate, so that it is vectorized
                for i in range(count):
                    g = grad[i] + weight_decay * param[i] if weight_decay != 0 else grad[i]
                    v[i] = denominator = v[i] * alpha + one_minus_alpha * g * g
                    param[i] -= lr * (g / (np.sqrt(denominator) + eps))
            else:
                for i in range(count):
                    g = grad[i] + weight_decay * param[i] if weight_decay != 0 else grad[i]
                    v[i] = variance = v[i] * alpha + one_minus_alpha * g * g
                    if centered != 0:
                        average[i] = mean = average[i] + one_minus_alpha * (g - average[i])
                        variance = variance - mean * mean
                    update = g / (np.sqrt(variance) + eps)
                    if momentum != 0:
                        buffer[i] = update = buffer[i] * momentum + update
                    param[i] -= lr * update
            start += count
            tensor += 1

    return compile_step(step)


@optim.Adagrad.fused_kernel.kernel("cpu")
def adagrad() -> Callable[..., None]:
    """Make the step of `optim.Adagrad`."""

    def step(start, stop, ends, table, settings):
        start, stop = claim_range(start, stop)
        weight_decay, eps, lr = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, total, _, _ = tensor_slices(
                tensor, start, stop, ends, table, settings
            )
            for i in range(count):
                g = grad[i] + weight_decay * param[i] if weight_decay != 0 else grad[i]
                total[i] = accumulated = total[i] + g * g
                param[i] -= lr * g / (np.sqrt(accumulated) + eps)
            start += count
            tensor += 1

    return compile_step(step)


@optim.NAdam.fused_kernel.kernel("cpu")
def nadam() -> Callable[..., None]:
    """Make the step of `optim.NAdam`."""

    def step(start, stop, ends, table, settings):
        start, stop = claim_range(start, stop)
        (
            decay, weight_decay, one_minus_beta1, beta2, one_minus_beta2, gradient_factor,
            momentum_factor, correction, eps,
        ) = settings  # fmt: skip
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, m, v, _ = tensor_slices(tensor, start, stop, ends, table, settings)
            for i in range(count):
                p = param[i] * decay
                g = grad[i] + weight_decay * p if weight_decay != 0 else grad[i]
                m[i] = momentum = m[i] + one_minus_beta1 * (g - m[i])
                v[i] = denominator = v[i] * beta2 + one_minus_beta2 * g * g
                denominator_root = np.sqrt(denominator / correction) + eps
                p -= gradient_factor * (g / denominator_root)
                param[i] = p - momentum_factor * (momentum / denominator_root)
            start += count
            tensor += 1

    return compile_step(step)


@optim.RAdam.fused_kernel.kernel("cpu")
def radam() -> Callable[..., None]:
    """Make the step of `optim.RAdam`."""

    def step(start, stop, ends, table, settings):
        start, stop = claim_range(start, stop)
        (
            decay, weight_decay, one_minus_beta1, beta2, one_minus_beta2, correction, rectification,
            eps, lr,
        ) = settings  # fmt: skip
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, m, v, _ = tensor_slices(tensor, start, stop, ends, table, settings)
            for i in range(count):
                p = param[i] * decay
                g = grad[i] + weight_decay * p if weight_decay != 0 else grad[i]
                m[i] = momentum = m[i] + one_minus_beta1 * (g - m[i])
                v[i] = denominator = v[i] * beta2 + one_minus_beta2 * g * g
                update = lr * momentum / correction
                if rectification != 0:
                    update = update * (rectification / (np.sqrt(denominator) + eps))
                param[i] = p - update
            start += count
            tensor += 1

    return compile_step(step)


@optim.Adadelta.fused_kernel.kernel("cpu")
def adadelta() -> Callable[..., None]:
    """Make the step of `optim.Adadelta`."""

    def step(start, stop, ends, table, settings):
        start, stop = claim_range(start, stop)
        weight_decay, rho, one_minus_rho, eps, lr = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, v, u, _ = tensor_slices(tensor, start, stop, ends, table, settings)
            for i in range(count):
                g = grad[i] + weight_decay * param[i] if weight_decay != 0 else grad[i]
                v[i] = denominator = v[i] * rho + one_minus_rho * g * g
                update = np.sqrt(u[i] + eps) / np.sqrt(denominator + eps) * g
                u[i] = u[i] * rho + one_minus_rho * update * update
                param[i] -= lr * update
            start += count
            tensor += 1

    return compile_step(step)


@optim.Adamax.fused_kernel.kernel("cpu")
def adamax() -> Callable[..., None]:
    """Make the step of `optim.Adamax`."""

    def step(start, stop, ends, table, settings):
        start, stop = claim_range(start, stop)
        weight_decay, one_minus_beta1, beta2, eps, lr = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, m, largest, _ = tensor_slices(
                tensor, start, stop, ends, table, settings
            )
            for i in range(count):
                g = grad[i] + weight_decay * param[i] if weight_decay != 0 else grad[i]
                m[i] = momentum = m[i] + one_minus_beta1 * (g - m[i])
                decayed, current = beta2 * largest[i], abs(g) + eps
                largest[i] = denominator = (
                    decayed if decayed >= current or decayed != decayed else current
                )
                param[i] -= lr * momentum / denominator
            start += count
            tensor += 1

    return compile_step(step)


def pointer_type(typing, address, like):
    """Type `pointer`: an address cast to a pointer to elements of an array's dtype."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(
            arguments[0], context.get_value_type(signature.return_type.dtype).as_pointer()
        )

    return types.CPointer(like.dtype)(types.int64, like), lower


pointer: Any = intrinsic(pointer_type)


@njit
def tensor_of(element, ends):
    """Return the index of the tensor that holds an element, numbered through all tensors."""
    tensor = 0
    while element >= ends[tensor]:
        tensor += 1
    return tensor


@njit
def elements_of(address, first, count, like):
    """Return some elements of a tensor as an array; an address of 0 stands for no tensor."""
    if address != 0:
        address += first * like.itemsize
    return carray(pointer(address, like), (count,))


def add_to_counts(addresses, step, like):
    """Add a step to each of these counts; return the count if it is the same for all, or -1."""
    is_uniform = True
    total = carray(pointer(addresses[0], like), (1,))[0] + step
    for address in addresses:
        value = carray(pointer(address, like), (1,))
        value[0] += step
        is_uniform = is_uniform and value[0] == total
    return float(total) if is_uniform else -1.0


def step_counter() -> Any:
    """Compile `add_to_counts` for float32 and float64."""
    signatures = [
        types.float64(types.int64[::1], types.float64, dtype[::1])
        for dtype in (types.float32, types.float64)
    ]
    return njit(signatures, cache=True, error_model="numpy")(add_to_counts)
