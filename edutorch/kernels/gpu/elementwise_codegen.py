"""Writes elementwise kernels as CUDA text, from what they do with one element.

    // What is done with one element.
    __device__ inline void element(float input, float &result) { … }

    // 4 elements a thread: 16 bytes are one instruction.
    extern "C" __global__ void gelu(const float *inputs, float *results, int size) { … }

A kernel goes over all positions of one shape, its domain. Each array is, at a position,

    whole     as long as the domain, in the same order: its element has the position's number
    one       one element for all positions
    each      the same along the last axis, as x.mean(1, keepdims=True)
    row       contiguous along the last axis, as the bias of a linear layer
    strided   anywhere: any strides, a transposed array, every second column

Axes that all arrays go through alike are merged first, so that few remain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .c_expressions import memory_type, value_type
from .module import CudaModule, index_type

__all__ = ["Access", "Element", "Layout", "Plan", "Variable", "make_plan", "write_kernel"]

PACK_BYTES = 16
BLOCK = 256
MAX_BLOCKS = 1 << 20
"""Threads go on with a further element where there are more than fit in so many blocks."""


class Variable(NamedTuple):
    """An array of a kernel, or a number: `input` is its element, `inputs` the array."""

    name: str
    dtype: np.dtype[Any]


class Element(NamedTuple):
    """What a kernel does with one element.

    Attributes:
        inputs: the arrays that it reads.
        outputs: those that it writes; the lines assign their names.
        scalars: geometry that are arguments of the kernel, the same for all elements.
        lines: the computation, in C.
        comment: what it is, above the function.
        functions: definitions that the lines call, and headers.
        draws: the names of random words, one for each element (`philox.cuh`). For the kernel they
            are the places of draws, pointers to seed and offset, its last arguments.
    """

    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    scalars: tuple[Variable, ...]
    lines: tuple[str, ...]
    comment: str = ""
    functions: str = ""
    draws: tuple[str, ...] = ()


class Access(NamedTuple):
    """How an array is found: its strides along the domain, in elements; and its first address.

    Attributes:
        steps: 0 along axes where it is repeated.
        address: its alignment counts; 0 is aligned.
        itemsize: the size of an element in bytes.
    """

    steps: tuple[int, ...]
    address: int
    itemsize: int


class Layout(NamedTuple):
    """What a kernel's text depends on besides its formula.

    Attributes:
        spreads: how each array is found: see the module's docstring.
        rank: the number of axes that are left.
        pack: so many elements are done by a thread at a time.
        index: the C type of indices.
    """

    spreads: tuple[str, ...]
    rank: int
    pack: int
    index: str


class Plan(NamedTuple):
    """A layout, with the sizes and strides of one call.

    Attributes:
        size: the number of elements.
        geometry: the arguments after the arrays: the size, those of inner axes, the strides.
    """

    layout: Layout
    size: int
    geometry: tuple[Any, ...]

    @property
    def blocks(self) -> int:
        """The number of blocks of `BLOCK` threads."""
        return max(1, min(MAX_BLOCKS, -(-self.size // (self.layout.pack * BLOCK))))


# The layout --------------------------------------------------------------------------------------


def make_plan(domain: tuple[int, ...], arrays: Sequence[Access]) -> Plan:
    """Choose how a kernel goes over a domain.

    Args:
        arrays: inputs, then outputs.

    >>> make_plan((8, 4), [Access((4, 1), 0, 4), Access((0, 1), 0, 4)]).layout
    Layout(spreads=('whole', 'row'), rank=2, pack=4, index='int')
    """
    sizes, steps = merge_axes(domain, [array.steps for array in arrays])
    size = math.prod(domain)
    pack = choose_pack(sizes, steps, arrays)
    whole = contiguous(sizes)
    spreads, geometry = [], []
    for step in steps:
        spread = spread_of(step, whole, pack)
        spreads.append(spread)
        geometry += strides_of(spread, step)
    reach = [sum(n * abs(s) for n, s in zip(sizes, step, strict=True)) for step in steps]
    index = index_type(size, *reach)
    needs_axes = any(spread in ("each", "row", "strided") for spread in spreads)
    inner = sizes[1:] if needs_axes else ()
    layout = Layout(
        tuple(spreads),
        len(sizes) if needs_axes else 1,
        pack,
        "int" if index is np.int32 else "int64",
    )
    return Plan(layout, size, tuple(index(number) for number in (size, *inner, *geometry)))


def merge_axes(
    domain: tuple[int, ...], steps: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Merge neighbouring axes that every array goes through as if they were one.

    >>> merge_axes((2, 3, 4), [(12, 4, 1), (0, 0, 1)])
    ((6, 4), [(4, 1), (0, 1)])
    """
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in steps]
    for axis, size in enumerate(domain):
        if size == 1:
            continue
        own = [step[axis] for step in steps]
        if sizes and all(
            before[-1] == step * size for before, step in zip(merged, own, strict=True)
        ):
            sizes[-1] *= size
            for before, step in zip(merged, own, strict=True):
                before[-1] = step
        else:
            sizes.append(size)
            for before, step in zip(merged, own, strict=True):
                before.append(step)
    if not sizes:
        return (1,), [(0,) for _ in steps]
    return tuple(sizes), [tuple(step) for step in merged]


def contiguous(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array in row-major order, in elements."""
    return tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def choose_pack(
    sizes: tuple[int, ...], steps: Sequence[tuple[int, ...]], arrays: Sequence[Access]
) -> int:
    """Return how many elements a thread does at a time: as many as fill 16 bytes, or one."""
    pack = PACK_BYTES // max(array.itemsize for array in arrays)
    if len(sizes) > 1 and sizes[-1] % pack:
        return 1
    for step, array in zip(steps, arrays, strict=True):
        if step[-1] not in (0, 1):
            return 1
        if step[-1] and array.address % (pack * array.itemsize):
            return 1
        if step[-1] and any(outer % pack for outer in step[:-1]):
            return 1
    return pack


def spread_of(step: tuple[int, ...], whole: tuple[int, ...], pack: int) -> str:
    """Return how an array with these strides is found."""
    if not any(step):
        return "one"
    if step == whole:
        return "whole"
    if pack == 1:
        return "strided"
    return "row" if step[-1] else "each"


def strides_of(spread: str, step: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides that are arguments of the kernel."""
    if spread in ("one", "whole"):
        return ()
    return step if spread == "strided" else step[:-1]


# The text ----------------------------------------------------------------------------------------


def write_kernel(name: str, element: Element, layout: Layout) -> CudaModule:
    """Write the kernel `name`: arrays, then scalars, then the geometry of a `Plan`."""
    writer = KernelWriter(name, element, layout)
    text = "\n".join(
        line
        for line in (
            '#include "common.cuh"', element.functions, "", *writer.element_function(), "",
            *writer.kernel(),
        )
        if line is not None
    )  # fmt: skip
    return CudaModule.from_text(name, text + "\n")


class KernelWriter:
    """Writes one kernel."""

    def __init__(self, name: str, element: Element, layout: Layout) -> None:
        self.name, self.element, self.layout = name, element, layout
        self.arrays = (*element.inputs, *element.outputs)
        self.spreads = dict(zip((array.name for array in self.arrays), layout.spreads, strict=True))
        self.axes = [f"j{axis}" for axis in range(layout.rank)]

    def element_function(self) -> list[str]:
        """The formula, as a function of one element."""
        element = self.element
        parameters = [
            *(f"{value_type(x.dtype)} {x.name}" for x in (*element.inputs, *element.scalars)),
            *(f"{value_type(x.dtype)} &{x.name}" for x in element.outputs),
            *(f"uint32 {name}" for name in element.draws),
        ]
        comment = [f"// {line}".rstrip() for line in element.comment.splitlines()]
        return [
            *comment,
            f"__device__ inline void element({', '.join(parameters)}) {{",
            *(f"    {line}" for line in element.lines),
            "}",
        ]

    def kernel(self) -> list[str]:
        """The kernel, and its loop over the domain."""
        index, pack = self.layout.index, self.layout.pack
        body = self.packed_body() if pack > 1 else self.plain_body("i")
        count = f"size / {pack}" if pack > 1 else "size"
        first = self.position("i")
        lines = [
            f'extern "C" __global__ void {self.name}({", ".join(self.parameters())}) {{',
            *self.constant_loads(),
            f"    const {index} stride = ({index})global_size();",
            f"    for ({index} i = ({index})global_index(); i < {count}; i += stride) {{",
            *(f"        {line}" for line in (*first, *body)),
            "    }",
        ]
        if pack > 1 and self.layout.rank == 1:
            lines += [
                f"    // The last elements, which do not fill {PACK_BYTES} bytes.",
                f"    const {index} rest = size / {pack} * {pack} + ({index})global_index();",
                "    if (rest < size) {",
                *(f"        {line}" for line in self.plain_body("rest")),
                "    }",
            ]
        return [*lines, "}"]

    def parameters(self) -> list[str]:
        """The parameters of the kernel, in the order of the arguments."""
        index = self.layout.index
        strides = [
            f"{index} {array.name}_{axis}"
            for array in self.arrays
            for axis in range(self.stride_count(array))
        ]
        return [
            *(f"const {memory_type(x.dtype)} *{x.name}s" for x in self.element.inputs),
            *(f"{memory_type(x.dtype)} *{x.name}s" for x in self.element.outputs),
            *(f"{value_type(x.dtype)} {x.name}" for x in self.element.scalars),
            f"{index} size",
            *(f"{index} n{axis}" for axis in range(1, self.layout.rank)),
            *strides,
            *(f"const uint64 *{name}s" for name in self.element.draws),
        ]

    def stride_count(self, array: Variable) -> int:
        """The number of an array's strides that are arguments."""
        spread = self.spreads[array.name]
        if spread in ("one", "whole"):
            return 0
        return self.layout.rank - (spread != "strided")

    def constant_loads(self) -> list[str]:
        """What is loaded once, before the loop."""
        single = [
            f"    const {value_type(x.dtype)} {x.name} = widen({x.name}s[0]);"
            for x in self.element.inputs
            if self.spreads[x.name] == "one"
        ]
        draws = self.element.draws
        return [*single, *(f"    const Generator {x} = {{{x}s[0], {x}s[1], 0}};" for x in draws)]

    def position(self, number: str) -> list[str]:
        """The position along each axis, from its number."""
        if not any(spread in ("each", "row", "strided") for spread in self.spreads.values()):
            return []
        index, pack, rank = self.layout.index, self.layout.pack, self.layout.rank
        if rank == 1:
            return [f"const {index} j0 = {number};"] if pack == 1 else []
        lines = [f"{index} above = {number};  // where it is along each axis"]
        for axis in range(rank - 1, 0, -1):
            size = f"(n{axis} / {pack})" if axis == rank - 1 and pack > 1 else f"n{axis}"
            scale = f" * {pack}" if axis == rank - 1 and pack > 1 else ""
            lines.append(f"const {index} j{axis} = above % {size}{scale};")
            lines.append(f"above /= {size};")
        return [*lines, f"const {index} j0 = above;"]

    def offset(self, array: Variable, number: str) -> str:
        """The index of an array's (first) element at the position with this number."""
        spread = self.spreads[array.name]
        if spread in ("whole", "one"):
            if spread == "one":
                return "0"
            return f"{number} * {self.layout.pack}" if number == "i" else number
        terms = [f"{axis} * {array.name}_{k}" for k, axis in enumerate(self.axes)]
        if spread == "strided":
            return " + ".join(terms)
        if self.layout.rank == 1:  # each: never without an axis before the last
            return f"{number} * {self.layout.pack}"
        return " + ".join([*terms[:-1], *([self.axes[-1]] if spread == "row" else [])])

    def plain_body(self, number: str) -> list[str]:
        """One element: load, compute, store."""
        element = self.element
        arguments = [
            x.name
            if self.spreads[x.name] == "one"
            else f"widen({x.name}s[{self.plain(x, number)}])"
            for x in element.inputs
        ]
        arguments += [x.name for x in (*element.scalars, *element.outputs)]
        block = f"(uint64){number} / 4"
        arguments += [f"word_of(draw_block({x}, {block}), {number})" for x in element.draws]
        return [
            *(f"{value_type(x.dtype)} {x.name};" for x in element.outputs),
            f"element({', '.join(arguments)});",
            *(
                f"{x.name}s[{self.plain(x, number)}] = narrow<{memory_type(x.dtype)}>({x.name});"
                for x in element.outputs
            ),
        ]

    def plain(self, array: Variable, number: str) -> str:
        """The index of an array's element, one at a time."""
        return number if self.spreads[array.name] == "whole" else self.offset(array, number)

    def packed_body(self) -> list[str]:
        """Several elements: load all, compute, store all."""
        element, pack = self.element, self.layout.pack
        lines, arguments = [], []
        for x in element.inputs:
            spread, memory = self.spreads[x.name], memory_type(x.dtype)
            if spread == "one":
                arguments.append(x.name)
            elif spread == "each":
                load = f"widen({x.name}s[{self.offset(x, 'i')}])"
                lines.append(f"const {value_type(x.dtype)} {x.name} = {load};")
                arguments.append(x.name)
            else:
                place = f"(const Pack<{memory}, {pack}> *)({x.name}s + {self.offset(x, 'i')})"
                lines.append(f"const Pack<{memory}, {pack}> {x.name}_pack = *{place};")
                arguments.append(f"widen({x.name}_pack.at[k])")
        arguments += [x.name for x in (*element.scalars, *element.outputs)]
        for x in element.draws:  # a block of four words at a time, as compilers do not see
            first = f"(uint64)i * {pack // 4}" if pack > 2 else "(uint64)i / 2"
            blocks = ", ".join(f"draw_block({x}, {first} + {b})" for b in range(max(1, pack // 4)))
            lines.append(f"const Words {x}_words[] = {{{blocks}}};")
            word = f"{x}_words[k / 4].at[k % 4]"
            arguments.append(word if pack > 2 else f"word_of({x}_words[0], i * {pack} + k)")
        for x in element.outputs:
            lines.append(f"Pack<{memory_type(x.dtype)}, {pack}> {x.name}_pack;")
        lines += [
            "#pragma unroll",
            f"for (int k = 0; k < {pack}; k++) {{",
            *(f"    {value_type(x.dtype)} {x.name};" for x in element.outputs),
            f"    element({', '.join(arguments)});",
            *(
                f"    {x.name}_pack.at[k] = narrow<{memory_type(x.dtype)}>({x.name});"
                for x in element.outputs
            ),
            "}",
        ]
        for x in element.outputs:
            place = f"(Pack<{memory_type(x.dtype)}, {pack}> *)({x.name}s + {self.offset(x, 'i')})"
            lines.append(f"*{place} = {x.name}_pack;")
        return lines
