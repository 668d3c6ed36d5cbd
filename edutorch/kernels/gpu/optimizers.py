"""A whole step of an optimizer in one launch, over the elements of all parameters.

What is done with an element comes from the optimizer's own rule, as on the CPU
(`optim/fused.py`). A table in the GPU's memory says where the elements are: a row for each chunk
of a parameter, with the addresses of the chunk in the parameter, its gradient and its state, and
its length. A block does one row. The numbers of a step, such as lr and the bias correction, are in
the GPU's memory too: a captured step reads those of the moment.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ... import backends
from ...backends import Backend
from ...backends.numpy import Array
from ...core.tensor import Tensor
from ...optim import fused
from .c_expressions import EXPRESSIONS, memory_type, value_type
from .module import CudaModule, launch

__all__ = ["chunk_table", "step_module"]

CHUNK = 16_384
"""So many elements are one block's: enough to hide its start, few enough to fill a GPU."""
BLOCK = 256
PACK_BYTES = 16

FLOATS = ("float16", "bfloat16", "float32", "float64")

TEXT = """\
#include "common.cuh"

// {title}: one element of a parameter, its gradient and its state.
__device__ inline void update(const {real} *scalars, {references}) {{
    {lines}
}}

// A block does a chunk: one row of the table.
extern "C" __global__ void fused_step(const int64 *table, const {real} *scalars) {{
    const int64 *row = table + (int64)blockIdx.x * {columns};
    {pointers}
    const int count = (int)row[{last}];
    const bool is_aligned = (({addresses}) & {mask}) == 0;
    const int packs = is_aligned ? count / {pack} : 0;
    for (int i = threadIdx.x; i < packs; i += blockDim.x) {{
        {load_packs}
        #pragma unroll
        for (int k = 0; k < {pack}; k++) {{
            {pack_elements}
            update(scalars, {names});
            {pack_results}
        }}
        {store_packs}
    }}
    for (int i = packs * {pack} + threadIdx.x; i < count; i += blockDim.x) {{
        {elements}
        update(scalars, {names});
        {results}
    }}
}}
"""


# The text ----------------------------------------------------------------------------------------


@functools.cache
def step_module(
    title: str, names: tuple[str, ...], lines: tuple[str, ...], stored: tuple[str, ...],
    scalars: int, dtype: np.dtype[Any],
) -> CudaModule:  # fmt: skip
    """Return the text of the step of a rule.

    Args:
        title: the optimizer.
        names: param, grad, and the arrays of the state.
        lines: the computation, in C; it assigns the names that change.
        stored: these names.
        scalars: the number of scalars, which the lines call s0, s1, …
        dtype: of all arrays.
    """
    real, memory, pack = value_type(dtype), memory_type(dtype), PACK_BYTES // dtype.itemsize
    packed = f"Pack<{memory}, {pack}>"
    text = TEXT.format(
        title=title, real=real, pack=pack, columns=len(names) + 1, last=len(names),
        mask=PACK_BYTES - 1, names=", ".join(names),
        references=", ".join(f"{real} &{name}" for name in names),
        lines="\n    ".join(
            [*(f"const {real} s{index} = scalars[{index}];" for index in range(scalars)), *lines]
        ),
        pointers="\n    ".join(
            f"{memory} *{name}s = ({memory} *)row[{index}];" for index, name in enumerate(names)
        ),
        addresses=" | ".join(f"row[{index}]" for index in range(len(names))),
        load_packs="\n        ".join(
            f"{packed} {name}_pack = *({packed} *)({name}s + i * {pack});" for name in names
        ),
        pack_elements="\n            ".join(
            f"{real} {name} = widen({name}_pack.at[k]);" for name in names
        ),
        pack_results="\n            ".join(
            f"{name}_pack.at[k] = narrow<{memory}>({name});" for name in stored
        ),
        store_packs="\n        ".join(
            f"*({packed} *)({name}s + i * {pack}) = {name}_pack;" for name in stored
        ),
        elements="\n        ".join(f"{real} {name} = widen({name}s[i]);" for name in names),
        results="\n        ".join(f"{name}s[i] = narrow<{memory}>({name});" for name in stored),
    )  # fmt: skip
    return CudaModule.from_text(f"{title.lower()}_step", text)


def module_of_trace(
    title: str, trace: fused.UpdateTrace, maximize: bool, dtype: np.dtype[Any]
) -> CudaModule:
    """Return the text of a rule that has been traced."""
    scalars = [f"s{index}" for index in range(len(trace.scalars))]
    code, results = trace.write(trace.results, scalars, None, EXPRESSIONS)
    names = ("param", "grad", *trace.names[2:])
    targets = (names[0], *names[2:])
    changed = [(a, b) for a, b in zip(targets, results, strict=True) if a != b]
    lines = (
        *(["grad = -grad;"] if maximize else []),
        *(f"const auto {line};" for line in code),
        *(f"{target} = {result};" for target, result in changed),
    )
    stored = tuple(target for target, _ in changed)
    return step_module(title, names, lines, stored, len(scalars), dtype)


# The table ---------------------------------------------------------------------------------------


def chunk_table(
    columns: Sequence[Sequence[int]], sizes: Sequence[int], itemsize: int
) -> np.ndarray:
    """Return the table of chunks: rows of addresses, and a length.

    Args:
        columns: the addresses of all parameters, of all gradients, …
        sizes: the number of elements of each.

    >>> chunk_table([[1000], [9000]], [20_000], 4)
    array([[ 1000,  9000, 16384],
           [66536, 74536,  3616]])
    """
    lengths = np.asarray(sizes, np.int64)
    counts = -(-lengths // CHUNK)
    tensor = np.repeat(np.arange(len(lengths)), counts)
    first = (np.arange(len(tensor)) - np.repeat(np.cumsum(counts) - counts, counts)) * CHUNK
    table = np.empty((len(tensor), len(columns) + 1), np.int64)
    for index, addresses in enumerate(columns):
        table[:, index] = np.asarray(addresses, np.int64)[tensor] + first * itemsize
    table[:, -1] = np.minimum(CHUNK, lengths[tensor] - first)
    return table


_tables: WeakKeyDictionary[Any, dict[object, tuple[Any, Array]]] = WeakKeyDictionary()


def table_on_device(
    optimizer: Any, key: object, columns: list[list[int]], sizes: list[int], dtype: np.dtype[Any],
    backend: Backend,
) -> Array:  # fmt: skip
    """Return the table in the GPU's memory: that of the last step, if no address has changed."""
    own = _tables.setdefault(optimizer, {})
    known = own.get(key)
    if known is None or known[0] != columns:
        table = chunk_table(columns, sizes, dtype.itemsize)
        known = own[key] = (columns, backend.upload(table))
    return known[1]


# The step ----------------------------------------------------------------------------------------


@fused.FUSED_STEP.kernel("cuda")
def fused_step() -> Callable[..., bool | None]:
    """Make the function that updates all parameters of a group."""

    def run(
        kernel: fused.FusedKernel, optimizer: Any, key: object, group: dict[str, Any],
        params: list[Tensor],
    ) -> bool | None:  # fmt: skip
        states = [optimizer.state.get(param) or {} for param in params]
        names, host_state = kernel.first_state(optimizer, group, params[0])
        steps = {float(state["step"]) for state in states if "step" in state}
        if len(steps) > 1 or not all(name in state for state in states for name in names):
            return None  # in the first step, the rule itself makes the state
        host_state["step"] = steps.pop() + 1 if steps else 1.0
        arrays = gather_arrays(params, states, names)
        if arrays is None:
            return None
        first = arrays[0][0]
        trace = fused.UpdateTrace(names)
        try:
            trace.run(optimizer, group, host_state)
        except KeyError:  # a changed setting needs more state than there is
            return None
        title = type(optimizer).__name__
        module = module_of_trace(title, trace, bool(group.get("maximize")), first.dtype)
        backend = backends.of(first)
        columns = [[backend.address(array) for array in column] for column in arrays]
        sizes = [array.size for array in arrays[0]]
        table = table_on_device(optimizer, key, columns, sizes, first.dtype, backend)
        real = np.float64 if first.dtype == np.float64 else np.float32
        scalars = backend.upload(np.array(trace.scalars or [0.0], real))
        for state in states:
            if "step" in state:
                state["step"]._array += 1
        launch(module, "fused_step", table.shape[0], BLOCK, (table, scalars))
        return True

    return run


def gather_arrays(
    params: list[Tensor], states: list[dict[str, Any]], names: tuple[str, ...]
) -> list[list[Array]] | None:
    """Return the parameters, the gradients and the columns of the state.

    None: they are not contiguous floats of one dtype on one device.
    """
    columns = [
        [param._array for param in params],
        [param._grad._array for param in params],  # type: ignore[union-attr]
        *[[state[name]._array for state in states] for name in names],
    ]
    first = columns[0][0]
    if first.dtype.name not in FLOATS:
        return None
    for column in columns:
        for array, param in zip(column, columns[0], strict=True):
            if array.__class__ is not first.__class__ or array.dtype != first.dtype:
                return None
            if array.shape != param.shape or not array.flags.c_contiguous or not array.size:
                return None
    return columns
