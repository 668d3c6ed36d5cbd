"""Every CUDA text that the package has, or writes for the suite's cases: what NVRTC compiles."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import edutorch
from edutorch.backends.strict_array import StrictArray
from edutorch.compilation.cuda_codegen import write_fused
from edutorch.kernels.gpu import one_hot, random
from edutorch.kernels.gpu.module import CudaModule
from tests.gpu import elementwise_cases
from tests.gpu.elementwise_cases import KEYS, collecting
from tests.gpu.row_checks import row_modules
from tests.gpu.test_captured_step import use_device_random
from tests.gpu.test_fused_draws import LAYOUTS, block
from tests.gpu.test_fused_groups import CASES, NAMES, floats, only_group
from tests.gpu.training_cases import training_modules

__all__ = ["all_modules", "elementwise_modules", "fused_modules"]

DTYPES = ("float32", "float16", "bfloat16", "float64")
FEW = ["gelu", "gelu/input", "div/other", "softplus"]


def elementwise_modules(dtype: str) -> list[CudaModule]:
    """Return the texts for 16 bytes at a time, of all kernels; and those for strides, of a few."""
    keys = KEYS if dtype == "float32" else FEW
    packed = elementwise_cases.all_modules(dtype, keys, ("flat 33",))
    return [*packed, *elementwise_cases.all_modules(dtype, FEW, ("strided", "flat 1"))]


def fused_modules() -> list[CudaModule]:
    """Return the texts of groups that `compile` fuses."""
    modules: dict[CudaModule, None] = {}
    for function, shapes in CASES.values():
        by_name = dict(zip(NAMES, [floats(*shape) for shape in shapes], strict=False))
        group, results = only_group(function, *by_name.values())
        kernel = write_fused(group, results)
        assert kernel is not None
        operands = [by_name[str(value.base.name)] for value in group.external_operands()]
        with collecting(modules):
            kernel(*(StrictArray(np.asarray(operand)) for operand in operands))
    x, y = (edutorch.ones(4, 32, device="strict") for _ in range(2))
    with collecting(modules), use_device_random():
        for function in (block, *LAYOUTS.values()):
            compiled = edutorch.compile(function)
            for _ in range(2):  # the first call is the one that is captured
                compiled(x, *[y] * (function.__code__.co_argcount - 1))
    return list(modules)


def all_modules(dtypes: Iterable[str] = DTYPES) -> list[CudaModule]:
    """Return all texts, each once."""
    dtypes = tuple(dtypes)
    modules = [
        random.text(),
        one_hot.text(),
        *training_modules(),
        *fused_modules(),
        *row_modules(dtypes),
    ]
    for dtype in dtypes:
        modules += elementwise_modules(dtype)
    return list(dict.fromkeys(modules))
