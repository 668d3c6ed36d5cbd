"""A whole step of an optimizer in one pass over the numbers of all parameters.

The definitions in `optim/` go through the memory once for each operation, and through Python once
for each parameter. Here all operations are done to a number while it is at hand, in the same order
and with the same roundings: nothing is contracted or reordered, so the result is the same to the
last bit. A square root and a division for 16 numbers at a time cost what they cost for one. What
is written has a name too, and is not read back: where 16 numbers do not begin at a line of the
cache, to read them again at once makes a step take twice as long.

Every kernel gets the part of all numbers that it is to change, where the tensors end in this count,
the addresses of (parameter, gradient, what is remembered …) for each tensor, and the settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from .parallel import in_parts
from .pointer_table import common_count, numbers_of, tensor_of
from .work_queue import share_out

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "nadam", "radam", "rmsprop", "sgd", "step_count",
]  # fmt: skip


def stepper(kernel: Callable[..., None]) -> Callable[..., None]:
    """Compile a kernel for both kinds of numbers, and share its work among the threads."""
    place = types.uint64
    compiled = njit(
        [
            types.void(place, place, place[::1], types.int64[:, ::1], number[::1])
            for number in (types.float32, types.float64)
        ],
        cache=True, nogil=True, error_model="numpy",
    )(kernel)  # fmt: skip

    def run(count: int, ends: Any, table: Any, settings: Any) -> None:
        in_parts(compiled, count, ends, table, settings)

    return run


@njit
def rows(tensor, start, stop, ends, table, settings):
    """Return how many numbers come next in a tensor, and where: of up to six arrays."""
    begin = ends[tensor - 1] if tensor > 0 else np.uint64(0)
    first = start - begin
    count = min(stop, ends[tensor]) - start
    return (
        count,
        numbers_of(table[tensor, 0], first, count, settings),
        numbers_of(table[tensor, 1], first, count, settings),
        numbers_of(table[tensor, 2], first, count, settings),
        numbers_of(table[tensor, 3], first, count, settings),
        numbers_of(table[tensor, 4], first, count, settings),
    )


def step_count() -> Any:
    """Make what counts the steps of all parameters."""
    return common_count()


def adam() -> Callable[..., None]:
    """Make the step of `optim.Adam` and `optim.AdamW`."""

    def step(start, stop, ends, table, settings):
        start, stop = share_out(start, stop)
        decay, pull, one, beta2, other, eps, rate, amsgrad = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, m, v, largest = rows(tensor, start, stop, ends, table, settings)
            for i in range(count):
                p = param[i] * decay
                g = grad[i] + pull * p if pull != 0 else grad[i]
                m[i] = average = m[i] + (g - m[i]) * one
                v[i] = usual = v[i] * beta2 + g * g * other
                if amsgrad != 0:
                    old = largest[i]
                    usual = old if old >= usual or old != old else usual
                    largest[i] = usual
                param[i] = p - average / (np.sqrt(usual) + eps) * rate
            start += count
            tensor += 1

    return stepper(step)


def sgd() -> Callable[..., None]:
    """Make the step of `optim.SGD`; with a momentum from its second step on."""

    def step(start, stop, ends, table, settings):
        start, stop = share_out(start, stop)
        pull, momentum, fresh, nesterov, rate = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, held, _, _ = rows(tensor, start, stop, ends, table, settings)
            for i in range(count):
                g = grad[i] + pull * param[i] if pull != 0 else grad[i]
                if momentum != 0:
                    held[i] = moving = held[i] * momentum + g * fresh
                    g = g + momentum * moving if nesterov != 0 else moving
                param[i] = param[i] - g * rate
            start += count
            tensor += 1

    return stepper(step)


def rmsprop() -> Callable[..., None]:
    """Make the step of `optim.RMSprop`."""

    def step(start, stop, ends, table, settings):
        start, stop = share_out(start, stop)
        pull, alpha, other, eps, momentum, centered, rate = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, v, held, average = rows(tensor, start, stop, ends, table, settings)
            if momentum == 0 and centered == 0:  # by itself, or it is not 16 numbers at a time
                for i in range(count):
                    g = grad[i] + pull * param[i] if pull != 0 else grad[i]
                    v[i] = usual = v[i] * alpha + other * g * g
                    param[i] -= rate * (g / (np.sqrt(usual) + eps))
            else:
                for i in range(count):
                    g = grad[i] + pull * param[i] if pull != 0 else grad[i]
                    v[i] = spread = v[i] * alpha + other * g * g
                    if centered != 0:
                        average[i] = middle = average[i] + other * (g - average[i])
                        spread = spread - middle * middle
                    change = g / (np.sqrt(spread) + eps)
                    if momentum != 0:
                        held[i] = change = held[i] * momentum + change
                    param[i] -= rate * change
            start += count
            tensor += 1

    return stepper(step)


def adagrad() -> Callable[..., None]:
    """Make the step of `optim.Adagrad`."""

    def step(start, stop, ends, table, settings):
        start, stop = share_out(start, stop)
        pull, eps, rate = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, total, _, _ = rows(tensor, start, stop, ends, table, settings)
            for i in range(count):
                g = grad[i] + pull * param[i] if pull != 0 else grad[i]
                total[i] = sum = total[i] + g * g
                param[i] -= rate * g / (np.sqrt(sum) + eps)
            start += count
            tensor += 1

    return stepper(step)


def nadam() -> Callable[..., None]:
    """Make the step of `optim.NAdam`."""

    def step(start, stop, ends, table, settings):
        start, stop = share_out(start, stop)
        decay, pull, one, beta2, other, now, ahead, correction, eps = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, m, v, _ = rows(tensor, start, stop, ends, table, settings)
            for i in range(count):
                p = param[i] * decay
                g = grad[i] + pull * p if pull != 0 else grad[i]
                m[i] = average = m[i] + one * (g - m[i])
                v[i] = usual = v[i] * beta2 + other * g * g
                size = np.sqrt(usual / correction) + eps
                p -= now * (g / size)
                param[i] = p - ahead * (average / size)
            start += count
            tensor += 1

    return stepper(step)


def radam() -> Callable[..., None]:
    """Make the step of `optim.RAdam`."""

    def step(start, stop, ends, table, settings):
        start, stop = share_out(start, stop)
        decay, pull, one, beta2, other, correction, sure, eps, rate = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, m, v, _ = rows(tensor, start, stop, ends, table, settings)
            for i in range(count):
                p = param[i] * decay
                g = grad[i] + pull * p if pull != 0 else grad[i]
                m[i] = average = m[i] + one * (g - m[i])
                v[i] = usual = v[i] * beta2 + other * g * g
                change = rate * average / correction
                if sure != 0:
                    change = change * (sure / (np.sqrt(usual) + eps))
                param[i] = p - change
            start += count
            tensor += 1

    return stepper(step)


def adadelta() -> Callable[..., None]:
    """Make the step of `optim.Adadelta`."""

    def step(start, stop, ends, table, settings):
        start, stop = share_out(start, stop)
        pull, rho, other, eps, rate = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, v, u, _ = rows(tensor, start, stop, ends, table, settings)
            for i in range(count):
                g = grad[i] + pull * param[i] if pull != 0 else grad[i]
                v[i] = usual = v[i] * rho + other * g * g
                change = np.sqrt(u[i] + eps) / np.sqrt(usual + eps) * g
                u[i] = u[i] * rho + other * change * change
                param[i] -= rate * change
            start += count
            tensor += 1

    return stepper(step)


def adamax() -> Callable[..., None]:
    """Make the step of `optim.Adamax`."""

    def step(start, stop, ends, table, settings):
        start, stop = share_out(start, stop)
        pull, one, beta2, eps, rate = settings
        tensor = tensor_of(start, ends)
        while start < stop:
            count, param, grad, m, largest, _ = rows(tensor, start, stop, ends, table, settings)
            for i in range(count):
                g = grad[i] + pull * param[i] if pull != 0 else grad[i]
                m[i] = average = m[i] + one * (g - m[i])
                old, new = beta2 * largest[i], abs(g) + eps
                largest[i] = usual = old if old >= new or old != old else new
                param[i] -= rate * average / usual
            start += count
            tensor += 1

    return stepper(step)
