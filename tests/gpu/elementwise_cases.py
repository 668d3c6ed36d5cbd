"""Calls of every elementwise kernel: what the fibers run, and what NVRTC compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from edutorch import backends
from edutorch.backends.kernel_registry import declarations
from edutorch.core.registry import REGISTRY
from edutorch.kernels.formulas import formula_of
from edutorch.kernels.gpu.elementwise import formula_kernel
from edutorch.kernels.gpu.module import CudaModule, use_launcher

KEYS = sorted(key for key, where in declarations("cuda").items() if where.maker == "formula_kernel")
SIZES = (1, 31, 33, 1023, 8193)
SETTINGS = {
    "leaky_relu_forward": (0.01,), "elu_forward": (1.0,), "hardtanh_forward": (-0.5, 0.75),
    "softplus": (1.0, 20.0), "gelu": ("none",),
}  # fmt: skip
RANGES = {
    "rsqrt": (0.1, 4), "sqrt": (0.1, 4), "log2": (0.1, 4), "log10": (0.1, 4), "log1p": (-0.5, 4),
    "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atanh": (-0.9, 0.9), "acosh": (1.1, 4),
    "reciprocal": (0.5, 2), "div": (0.5, 2),
}  # fmt: skip
ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def settings_of(key: str) -> tuple[Any, ...]:
    """Return values for the settings of a definition or rule."""
    op = REGISTRY[key.partition("/")[0]]
    own = SETTINGS.get(op.name)
    names = formula_of(key).settings
    if own is None:
        return tuple(op.signature.parameters[name].default for name in names)
    values = dict(zip(op.settings, own, strict=True))
    return tuple(values[name] for name in names)


def inputs_of(key: str, shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """Return arrays for a definition or rule, in float64."""
    random = np.random.default_rng(seed)
    name, _, rule = key.partition("/")
    low, high = RANGES.get(name, (-3, 3))
    arrays = []
    for parameter in formula_of(key).arrays:
        x = random.uniform(low, high, shape)
        if parameter == "g":
            x = random.standard_normal(shape)
        elif parameter == "y" and rule:  # a result, which has a range of its own
            x = definition(name, [x], settings_of(name))
        arrays.append(x)
    return arrays


def definition(key: str, arrays: list[np.ndarray], settings: tuple[Any, ...]) -> np.ndarray:
    """Compute as the definition or rule says, by NumPy."""
    with backends.reference_only(), np.errstate(all="ignore"):
        return np.asarray(formula_of(key).compute(*arrays, *settings))


def strided(x: np.ndarray) -> np.ndarray:
    """Return the same elements with gaps between them, in another order of axes."""
    wide = np.zeros((x.shape[1], x.shape[0] * 2), x.dtype)
    wide[:, ::2] = x.T
    return wide[:, ::2].T


def run_kernel(key: str, arrays: list[np.ndarray], settings: tuple[Any, ...]) -> Any:
    """Run the kernel on arrays of the device `strict`; returns a NumPy array, or None."""
    from edutorch.backends.strict_array import StrictArray

    y = formula_kernel(key)(*map(StrictArray, arrays), *settings)
    return None if y is None else y.get()


def shapes() -> Iterator[tuple[str, tuple[int, ...], Callable[[np.ndarray], np.ndarray]]]:
    """Yield the layouts: a name, a shape, and how an array is laid out in memory."""
    for size in SIZES:
        yield f"flat {size}", (size,), lambda x: x
    yield "strided", (33, 31), strided


@contextmanager
def collecting(modules: dict[CudaModule, None]) -> Iterator[None]:
    """Note the modules of all launches inside the block, and run none."""

    def launcher(module: CudaModule, *rest: object) -> None:
        modules[module] = None

    with use_launcher(launcher):
        yield


def all_modules(
    dtype: str, keys: list[str] = KEYS, layouts: tuple[str, ...] = ()
) -> dict[CudaModule, None]:
    """Return the texts of all elementwise kernels of a dtype, in these layouts, or in all."""
    import ml_dtypes

    numpy_dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    modules: dict[CudaModule, None] = {}
    with collecting(modules):
        for key in keys:
            for name, shape, lay_out in shapes():
                if layouts and name not in layouts:
                    continue
                arrays = [lay_out(x.astype(numpy_dtype)) for x in inputs_of(key, shape)]
                run_kernel(key, arrays, settings_of(key))
    return modules
