"""Uniform numbers inside the kernels of a device: dropout needs no mask in memory.

    u = draw(generator, "uniform", shape)     →   p = place_of_draw(generator, size)
    mask = (u >= 0.1) · 1.11                      mask = (uniform(p) >= 0.1) · 1.11

Philox makes each number from a seed and a count of blocks alone. So a draw only has to take its
place in the stream, two integers in the device's memory; the number of an element is then a
function of it, which a kernel computes where it needs the number. What is made of such numbers
alone (the mask of a dropout) is computed by each reader for itself: backward stores no mask.

The numbers are those of the draw, and so are those of all later draws.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..backends.numpy import Array
from ..fx import primitives
from .cuda_codegen import UNIFORM, cuda_obstacle
from .values import Program, Value, operands_of

__all__ = ["can_draw_inside", "draw_inside", "place_of_draw"]


def place_of_draw(generator: Any, count: int) -> Array:
    """Let a draw of `count` words of 32 bits take its place; return seed and offset, uint64."""
    return generator.random.place(count)


def can_draw_inside(generator: Any) -> bool:
    """Whether kernels can compute the numbers of a generator: not those of an old saved state."""
    return hasattr(generator.random, "place")


def draw_inside(program: Program) -> bool:
    """Replace draws of uniform float32 numbers that kernels read; return whether there are any."""
    outputs = {output.base for output in operands_of(program.outputs)}
    drawn = [
        value for value in program.values if is_uniform_draw(value) and value not in outputs
        and value.users and all(cuda_obstacle(reader) is None for reader in value.users)
    ]  # fmt: skip
    if not drawn:
        return False
    values: list[Value] = []
    for value in program.values:
        if value in drawn:
            generator = value.operands[0]
            place = Value(
                "call", place_of_draw, (generator, value.size, {}), (2,), np.dtype(np.uint64),
                node=value.node,
            )  # fmt: skip
            values.append(place)
            value.kind, value.function, value.operands = "element", UNIFORM, (place,)
            value.settings = {"is_drawn": True}
        values.append(value)
    program.values = values
    copy_for_each_reader(program)
    program.remove_unused_values()
    program.assign_names()
    return True


def is_uniform_draw(value: Value) -> bool:
    """Whether a value is a draw of uniform float32 numbers by a device that has them in kernels."""
    if value.kind != "call" or value.function is not primitives.draw or not value.size:
        return False
    generator, how, *_ = value.operands
    return how == "uniform" and value.dtype == np.float32 and can_draw_inside(generator)


def copy_for_each_reader(program: Program) -> None:
    """Give each reader its own copy of what is made of drawn numbers alone."""
    values: list[Value] = []
    for value in program.values:
        operands = list(operands_of(value))
        if value.kind == "element" and operands and all(operand.is_drawn for operand in operands):
            value.settings["is_drawn"] = True
        elif value.kind == "element" and any(operand.is_drawn for operand in operands):
            value.operands = copies_of(value.operands, values, {})
        values.append(value)
    program.values = values


def copies_of(
    operands: tuple[Any, ...], values: list[Value], copies: dict[Value, Value]
) -> tuple[Any, ...]:
    """Return the operands of a reader, with copies of those that are drawn; add these."""
    own: list[Any] = []
    for operand in operands:
        if not isinstance(operand, Value) or not operand.is_drawn:
            own.append(operand)
            continue
        if operand not in copies:
            inner = copies_of(operand.operands, values, copies)
            copies[operand] = replace(operand, operands=inner, settings={"is_drawn": True})
            values.append(copies[operand])
        own.append(copies[operand])
    return tuple(own)
