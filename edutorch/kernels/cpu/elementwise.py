"""Elementwise functions and their derivatives, in one pass over the memory.

A definition like that of gelu reads and writes memory once for each of its operations, with a
temporary array in between. Here all operations are applied to an element while it is in a
register, and the exponentials are vectorized (`vector_math.py`).

No formula stands here: a kernel is written from the op's definition, or from its derivative rule
(`../formulas.py`), for all elementwise ops whose formulas can be traced. They take arrays of any
shapes and strides that broadcast (`array_blocks.py`). A loop is compiled for each combination of
dtypes, in the background: until it is ready, the definition answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter
from typing import Any

import numpy as np

from ... import dtypes
from ...backends.kernel_registry import Slot, slot_for
from ...backends.numpy import Array
from ...core.fast import lazy_gradients
from ...core.registry import REGISTRY
from ...ops import arithmetic, conversion, products
from ..formulas import NUMBER_LIKE, SCALAR, Code, formula_of, has_avx512, write_formula
from . import array_blocks
from .array_blocks import BLOCK, MAX_DIMS, MAX_INPUTS, MAX_SCALARS, layout_is_known
from .element_loops import Plan, conversion_plan, make_plan
from .jit import ARRAY_1D, are_contiguous_floats, compile_kernel, use_wide_vectors
from .parallel import MIN_PARALLEL, entry_of, parallel_for
from .result_layout import broadcast_shape, empty_result
from .work_queue import claim_range

Run = Callable[..., Any]

MAX_VARIANTS = 12
"""A kernel is compiled for so many combinations of dtypes and settings; others are left alone."""

run_blocks = entry_of(array_blocks.run_blocks)

FLOAT32, NO_SCALARS = np.dtype("float32"), (0.0,) * MAX_SCALARS
MIN_CONVERSION = 65_536
HALVES = {dtypes.array_type(dtype) for dtype in (dtypes.float16, dtypes.bfloat16)}
LOOP_DTYPES = {np.dtype("float32"), np.dtype("float64")}
NUMBER_TYPES = {int, float}


# The loops of a formula ------------------------------------------------------------------------


class Variants:
    """The loops of a formula, one for each combination of dtypes and settings.

    Attributes:
        names: the arrays among the formula's parameters; `node` is not used by a kernel.
        settings, defaults: the names of its other parameters, and their usual values.
        is_sum: whether the loops' results are added up.
        in_place: whether the result takes the place of the first array.
        free: the settings that are arguments of the loop; each value of the others has its own.
        slots: what has been asked for; None where there can be no loop.
        sums: the loops of sums that are ready and their arguments, by dtype and settings.
    """

    def __init__(self, key: str, is_sum: bool = False, in_place: bool = False) -> None:
        self.key, self.formula = key, formula_of(key)
        self.is_sum, self.in_place = is_sum, in_place
        self.names = tuple(name for name in self.formula.arrays if name != "node")
        self.parameters = (*self.formula.arrays, *self.formula.settings)
        self.settings = self.formula.settings
        signature = REGISTRY[key.partition("/")[0]].signature.parameters
        self.defaults = tuple(signature[name].default for name in self.settings)
        numeric = [
            name for name, value in zip(self.settings, self.defaults, strict=True)
            if value.__class__ in NUMBER_TYPES or value is Parameter.empty
        ]  # fmt: skip
        self.free = frozenset(numeric if self.trace(numeric, {}) else ())
        self.slots: dict[Any, Slot | None] = {}
        self.sums: dict[Any, tuple[Plan, tuple[float, ...]]] = {}

    def trace(
        self, scalars: Sequence[str], dtypes: dict[str, Any], fixed: Sequence[tuple[str, Any]] = ()
    ) -> Code | None:
        """Return the code of the formula, or None if it cannot be traced."""
        usual = dict(zip(self.settings, self.defaults, strict=True))
        values = {name: usual.get(name) for name in self.parameters if name not in self.names}
        values |= {name: dtype for name, dtype in dtypes.items() if not is_dtype(dtype)}
        values |= dict(fixed)
        values = {name: value for name, value in values.items() if name not in scalars}
        conditions = [name for name, dtype in dtypes.items() if dtype == np.bool_]
        try:
            code = write_formula(self.formula, tuple(scalars), values, conditions=conditions)
        except Exception:  # noqa: BLE001 (what cannot be traced fails anywhere)
            return None
        return code if code.lines and len(code.lines) <= MAX_LINES else None

    def find(self, case: Case) -> Plan | None:
        """Return the plan of a case if it is ready; else request it."""
        if case not in self.slots:
            slot = Slot(self.key, 0, "elementwise") if len(self.slots) < MAX_VARIANTS else None
            if slot is not None:
                slot.maker = partial(self.make, *case)
            self.slots[case] = slot
        slot = self.slots[case]
        if slot is None:
            return None
        if slot.run is None:
            slot.request()
        plan: Any = slot.run
        return plan or None

    def make(self, dtypes: tuple[Any, ...], settings: tuple[Any, ...] | None) -> Plan | bool:
        """Compile the loop of a case. False: there can be none."""
        by_name = dict(zip(self.names, dtypes, strict=True))
        arrays = {name: dtype for name, dtype in by_name.items() if is_dtype(dtype)}
        computed = {dtype for dtype in arrays.values() if dtype != np.bool_}
        if len(computed) != 1:
            return False
        (dtype,) = computed
        computed_in = FLOAT32 if dtype in HALVES else dtype
        if computed_in not in LOOP_DTYPES:
            return False
        values = dict(zip(self.settings, settings or (), strict=bool(settings)))
        scalars = [name for name in self.settings if values.get(name) is FREE]
        fixed = [(name, value) for name, value in values.items() if value is not FREE]
        code = self.trace(scalars, by_name, fixed)
        if code is None:
            return False
        if dtype in HALVES and len(code.operations) > 1:
            return False  # the definition rounds to 16 bits after each operation
        result = np.dtype(bool) if code.is_condition else dtype
        if len(code.operations) > 1 and SCALAR & {*code.operations} and has_avx512():
            return False
        operands = (*arrays.values(), result)
        plan = make_plan(
            code, tuple(arrays), scalars, computed_in, operands, self.is_sum, self.in_place
        )
        return plan or False

    def case_of(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return these settings as part of a case: those that are free as `FREE`."""
        if tuple(values) == self.defaults:
            return None
        return tuple(
            FREE if name in self.free and value.__class__ in NUMBER_TYPES else value
            for name, value in zip(self.settings, values, strict=True)
        )

    def scalars_of(self, values: Sequence[Any]) -> tuple[float, ...] | None:
        """Return the arguments of the loop; None if they cannot be: a NaN is not compared."""
        if tuple(values) == self.defaults:
            return NO_SCALARS
        scalars = [
            float(value) for name, value in zip(self.settings, values, strict=True)
            if name in self.free and value.__class__ in NUMBER_TYPES
        ]  # fmt: skip
        if len(scalars) > MAX_SCALARS or any(map(math.isnan, scalars)):
            return None
        return (*scalars, *NO_SCALARS[len(scalars) :])


Case = tuple[tuple[Any, ...], tuple[Any, ...] | None]
"""The dtypes of the arrays, in place of some their value (None, or a number that chooses the
formula), and the settings, None for the usual."""


def is_dtype(value: Any) -> bool:
    """Whether an operand of a case is an array."""
    return isinstance(value, np.dtype)


FREE: Any = type("Free", (), {})()
"""Stands for a setting that is an argument of the loop."""

MAX_SUMS = 256
"""So many settings of sums are kept."""

MAX_LINES = 64
"""Longer formulas are left to the definition: their variables exceed the registers."""


# The kernel of an op or a rule -------------------------------------------------------------------

RUN = """
def {run}({parameters}):
    {number_case}
    if {not_arrays}:
        return run_general({operands}, ({settings}))
    if {is_usual}:
        plan, scalars = plans.get(({dtypes},)), usual
    elif {is_free}:
        plan, scalars = free_plans.get(({dtypes},)), ({scalars})
    else:
        plan = None
    if plan is None:
        return run_general({operands}, ({settings}))
    if {has_gaps}:
        return run_plan(plan, ({names},), scalars)
    shape = {first}.shape
    if {differs}:
        shape = broadcast_shape({shapes})
        if shape is None:
            return None
    result_ = empty(shape, plan.dtype)  # not `y`, which a rule may name
    size = result_.size
    if size < MIN_PARALLEL:
        run_blocks(0, size, plan.address, id(result_), ({addresses}), scalars)
    else:
        parallel_for(run_blocks, size, plan.address, id(result_), ({addresses}), scalars)
    return result_
"""

NUMBER_CASE = "if not getattr({name}, 'ndim', 0): return run_number({arguments})"


def run_plan(plan: Plan, arrays: Sequence[Array], scalars: tuple[float, ...]) -> Any:
    """Compute with arrays that may broadcast, in any order of axes."""
    y = empty_result(arrays, plan.dtype)
    if y is None:
        return None
    addresses = (*map(id, arrays), 0, 0, 0)[:MAX_INPUTS]
    parallel_for(run_blocks, y.size, plan.address, id(y), addresses, scalars)
    return y


def formula_kernel(key: str) -> Run:
    """Make the kernel of a definition y = f(x, …), or of a rule f(g, x, …)."""
    variants = Variants(key)
    names = variants.names
    if not names or len(names) > MAX_INPUTS or not layout_is_known():
        return no_kernel
    plans: dict[Any, Plan] = {}
    free_plans: dict[Any, Plan] = {}  # of the settings as arguments of the loop

    def run_general(values: tuple[Any, ...], others: tuple[Any, ...]) -> Any:
        arrays = as_arrays(values)
        scalars = variants.scalars_of(others)
        if arrays is None or scalars is None:
            return None
        dtypes = tuple(map(operand_dtype, names, arrays))
        case = variants.case_of(others)
        plan = variants.find((dtypes, case))
        if plan is None:
            return None
        if None not in dtypes:
            if case is None:
                plans[dtypes] = plan
            elif all(setting is FREE for setting in case):
                free_plans[dtypes] = plan
        operands = [array for array, dtype in zip(arrays, dtypes, strict=True) if is_dtype(dtype)]
        return run_plan(plan, operands, scalars)

    scope = {
        "ndarray": np.ndarray, "plans": plans, "free_plans": free_plans,
        "run_general": run_general, "empty": np.empty, "run_plan": run_plan,
        "broadcast_shape": broadcast_shape,
        "run_blocks": run_blocks, "parallel_for": parallel_for,
        "MIN_PARALLEL": MIN_PARALLEL, "usual": NO_SCALARS, "defaults": variants.defaults,
    }  # fmt: skip
    if NUMBER_LIKE in names:
        exec(run_text(variants, NUMBER_LIKE), scope)
    exec(run_text(variants), scope)
    run: Run = scope["run"]
    if "reduction" in variants.settings:
        return reduction_kernel(variants, run)
    if "/" not in key:
        run.into = into_kernel(key)  # type: ignore[attr-defined]
    return run


def into_kernel(key: str) -> Callable[[Array, Sequence[Any]], bool]:
    """Make the kernel of an op in place: it returns whether it has written the result."""
    variants = Variants(key, in_place=True)
    names, plans = variants.names, dict[Any, Plan]()

    def run_into(target: Array, others: Sequence[Any]) -> bool:
        key, operands = [target.dtype], [target]
        for other in others:
            if other.__class__ is not np.ndarray:
                other = np.asarray(other, target.dtype)
            elif (other.base is not None or target.base is not None) and may_overlap(target, other):
                return False  # (arrays that own their memory have none in common)
            key.append(other.dtype)
            operands.append(other)
        plan = plans.get(tuple(key))
        if plan is None:
            return run_general(target, others)
        addresses = (*map(id, operands), 0, 0, 0)[:MAX_INPUTS]
        parallel_for(run_blocks, target.size, plan.address, id(target), addresses, NO_SCALARS)
        return True

    def run_general(target: Array, others: Sequence[Any]) -> bool:
        operands = as_arrays((target, *others, *[None] * (len(names) - 1 - len(others))))
        if operands is None:
            return False
        dtypes = tuple(map(operand_dtype, names, operands))
        plan = variants.find((dtypes, None))
        if plan is None or plan.dtype != target.dtype:
            return False
        arrays = [array for array, dtype in zip(operands, dtypes, strict=True) if is_dtype(dtype)]
        if len(arrays) == len(names) and NUMBER_LIKE not in names:
            plans[dtypes] = plan
        addresses = (*map(id, arrays), 0, 0, 0)[:MAX_INPUTS]
        parallel_for(run_blocks, target.size, plan.address, id(target), addresses, NO_SCALARS)
        return True

    return run_into


def may_overlap(target: Array, operand: Array) -> bool:
    """Whether elements of an operand may be overwritten before they are read."""
    if not np.may_share_memory(target, operand):
        return False
    is_same = target.shape == operand.shape and target.strides == operand.strides
    return not is_same or target.ctypes.data != operand.ctypes.data


def compile_usual(key: str) -> None:
    """Compile the loop that most calls need, before there is one: float32, the usual settings."""
    variants = Variants(key)
    if NUMBER_LIKE not in variants.names and "reduction" not in variants.settings:
        variants.make((FLOAT32,) * len(variants.names), None)


def reduction_kernel(variants: Variants, run: Run) -> Run:
    """Make the kernel of a loss and its reduction, or of a rule of one.

    Args:
        variants, run: of the loss without a reduction.
    """
    sums = Variants(variants.key, is_sum=True)
    position = variants.parameters.index("reduction")
    is_rule = "/" in variants.key
    count, all_arrays = len(variants.names), len(variants.formula.arrays)

    def run_reduction(*values: Any) -> Any:
        reduction, arrays = values[position], values[:count]
        whole = (*values[:position], "none", *values[position + 1 :])
        if reduction == "none":
            return run(*whole)
        compared = arrays[1:] if is_rule else arrays
        if reduction not in ("mean", "sum") or not are_contiguous_floats(compared):
            return None
        shape, size = compared[0].shape, compared[0].size
        if not size or any([array.shape != shape for array in compared]):  # noqa: C419 (as fast)
            return None
        if not is_rule:
            total = run_sum(sums, arrays, whole[all_arrays:])
            mean = 1 if reduction == "sum" else size
            return None if total is None else arrays[0].dtype.type(total / mean)
        g = arrays[0]  # a rule is linear in it
        if g.__class__ is not np.ndarray or g.ndim:
            return None
        return run(g if reduction == "sum" else np.asarray(g / size, g.dtype), *whole[1:])

    return run_reduction


def run_sum(
    variants: Variants, arrays: Sequence[Array], settings: tuple[Any, ...]
) -> np.float64 | None:
    """Return the sum of a formula of contiguous arrays, by blocks; None: its loop is not ready."""
    first = arrays[0]
    key = (first.dtype, settings)  # all arrays have that dtype
    plan, scalars = variants.sums.get(key, (None, None))
    if plan is None or scalars is None:
        scalars, dtypes = variants.scalars_of(settings), (first.dtype,) * len(arrays)
        if len(arrays) < MAX_INPUTS:
            plan = variants.find((dtypes, variants.case_of(settings)))
        if plan is None or scalars is None:
            return None
        # 0.0 is equal to -0.0, and a tensor may be overwritten.
        is_constant = all(
            v.__class__ is str or (v.__class__ in NUMBER_TYPES and v) for v in settings
        )
        if is_constant and len(variants.sums) < MAX_SUMS:
            variants.sums[key] = plan, scalars
    if first.ndim > MAX_DIMS:
        return None
    # One sum per block, whatever the number of threads: the result does not depend on it.
    count = -(-first.size // BLOCK)
    totals = np.zeros(count)
    addresses = (*map(id, arrays), id(totals), 0, 0)[:MAX_INPUTS]
    if count == 1:
        run_blocks(0, 1, plan.address, id(first), addresses, scalars)
        return totals[0]
    parallel_for(run_blocks, count, plan.address, id(first), addresses, scalars, work=first.size)
    return np.add.reduce(totals)


@products.outer.kernel("cpu", min_size=256)
def outer_kernel() -> Run:
    """Make the kernel of `outer`: a product that broadcasts."""
    multiply = slot_for(arithmetic.mul.op)
    assert multiply is not None

    def run(input: Array, vec2: Array) -> Any:
        is_large = input.size * vec2.size >= multiply.min_size
        if not is_large or not input.__class__ is vec2.__class__ is np.ndarray:
            return None
        if multiply.run is None:
            multiply.request()
        return multiply.run and multiply.run(input[:, None], vec2[None])

    return run


@conversion.convert_dtype.kernel("cpu", min_size=2048)
def convert_kernel() -> Run:
    """Make the kernel that converts an array to another dtype."""
    slots: dict[Any, Slot] = {}

    def run(input: Array, dtype: dtypes.dtype) -> Any:
        target = dtypes.array_type(dtype)
        ends = (input.dtype, target)
        # What NumPy converts as fast as memory is read and written needs several threads.
        if input.size < MIN_CONVERSION and input.itemsize != 2 and target.itemsize != 2:
            return None
        if input.__class__ is not np.ndarray or input.ndim > MAX_DIMS or ends[0] == ends[1]:
            return None
        slot = slots.get(ends)
        if slot is None:
            slot = slots[ends] = Slot("convert_dtype", 0, "elementwise")
            slot.maker = lambda: conversion_plan(*ends) or no_kernel
        if slot.run is None:
            slot.request()
        plan: Any = slot.run
        return run_plan(plan, [input], NO_SCALARS) if plan.__class__ is Plan else None

    return run


def run_text(variants: Variants, number: str = "") -> str:
    """Return the text of a kernel's call: what most calls need is written out.

    Args:
        number: the operand that is one number of Python's; then the text is that of `run_number`.
    """
    settings = variants.settings
    names = [name for name in variants.names if name != number]
    first, *others = names
    differs = [  # one element, with no more axes than the first, is read again and again
        f"{name}.shape != shape and ({name}.size != 1 or {name}.ndim > {first}.ndim)"
        for name in others
    ]
    differs += [f"not {first}.ndim"] if others else []
    gaps = [f"not {name}.flags.c_contiguous" for name in names]
    dtypes = [name if name == number else f"{name}.dtype" for name in variants.names]
    parameters = ", ".join(variants.parameters)
    value = f"{NUMBER_LIKE}.item() if {NUMBER_LIKE}.__class__ is ndarray else {NUMBER_LIKE}"
    number_case = NUMBER_CASE.format(
        name=NUMBER_LIKE, arguments=parameters.replace(NUMBER_LIKE, value)
    )
    return RUN.format(
        run="run_number" if number else "run",
        number_case=number_case if NUMBER_LIKE in names else "",
        operands=f"({', '.join(variants.names)},)",
        parameters=parameters, names=", ".join(names), first=first,
        settings="".join(f"{name}, " for name in settings),
        not_arrays=" or ".join(f"{name}.__class__ is not ndarray" for name in names),
        dtypes=", ".join(dtypes),
        is_usual=f"({', '.join(settings)},) == defaults" if settings else "True",
        # x == x: a NaN cannot be an argument of the loop.
        is_free=" and ".join(f"{name}.__class__ is float and {name} == {name}" for name in settings)
        if settings and len(settings) <= MAX_SCALARS and set(settings) <= variants.free
        else "False",
        scalars=", ".join([*settings, *["0.0"] * MAX_SCALARS][:MAX_SCALARS]),
        differs=" or ".join(differs) or "False",
        has_gaps=" or ".join(gaps),
        shapes=", ".join(f"{name}.shape" for name in names),
        addresses=", ".join([*(f"id({name})" for name in names), "0", "0", "0"][:MAX_INPUTS]),
    )  # fmt: skip


def as_arrays(values: Sequence[Any]) -> list[Any] | None:
    """Return operands as arrays: a number takes the dtype of the first array; None stays."""
    arrays = [value for value in values if value.__class__ is np.ndarray]
    if not arrays:
        return None
    dtype = next((array.dtype for array in arrays if array.dtype != np.bool_), None)
    operands: list[Any] = []
    for value in values:
        if value.__class__ in NUMBER_TYPES and dtype in LOOP_DTYPES:
            value = np.asarray(value, dtype)
        if value is not None and value.__class__ is not np.ndarray:
            return None
        operands.append(value)
    return operands


def operand_dtype(name: str, array: Array | None) -> Any:
    """Return an operand's dtype, or what stands for it in a case."""
    if array is not None and name == NUMBER_LIKE and not array.ndim:
        return array.item()
    return None if array is None else array.dtype


def no_kernel(*values: Any) -> None:
    """Leave all to the definition."""


@lazy_gradients.ADD_ONTO.kernel("cpu", min_size=131_072)
def add_onto() -> Run:
    """Make x += y."""

    def add_in_place(start, stop, x, y):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            x[i] += y[i]

    kernel = compile_kernel(add_in_place, ARRAY_1D, ARRAY_1D)

    def run(x: Array, y: Array) -> np.ndarray | None:
        if x.shape != y.shape or not are_contiguous_floats((x, y)):
            return None
        parallel_for(kernel, x.size, x.reshape(-1), y.reshape(-1))
        # Not None, which would mean that the kernel has not run.
        return x

    return run
