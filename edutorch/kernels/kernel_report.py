"""Which kernels there are, in which state, and what their texts are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from ..backends import ACCELERATOR
from ..backends.kernel_registry import FOLDERS, declarations, runs, slot
from ..errors import InvalidValueError

__all__ = ["KernelLine", "kernel_lines", "report_text", "source_text"]


class KernelLine(NamedTuple):
    """A kernel: what it replaces, its file, its state, and how often it ran here.

    Attributes:
        state: "ready", "requested" (being compiled), or "not requested" so far.
        runs: of a GPU's kernel; None on the CPU, where counting would cost time.
    """

    name: str
    file: str
    state: str
    runs: int | None


def check_device(device: str) -> None:
    """Raise InvalidValueError for a device that has no kernels."""
    if device not in FOLDERS:
        raise InvalidValueError(
            "kernels", f"there are none for the device {device!r}", {"device": device},
            f"one of {', '.join(FOLDERS)}",
        )  # fmt: skip


def kernel_lines(device: str = "cpu") -> Iterator[KernelLine]:
    """Yield a line for each kernel of a device, in this process.

    Raises: InvalidValueError: there are none for this device.
    """
    check_device(device)
    places = [slot(key, device) for key in declarations(device)]
    if device == "cpu":
        from . import formula_slots

        places += formula_slots()
    for place in sorted(places, key=lambda place: place.name):
        state = "ready" if place.run else "requested" if place.requested else "not requested"
        file = f"{FOLDERS[device]}/{place.file}.py"
        yield KernelLine(place.name, file, state, None if device == "cpu" else runs[place.name])


def report_text(device: str = "cpu") -> str:
    """Return a table of a device's kernels: what each replaces, its file, its state.

    Raises: InvalidValueError: there are none for this device.
    """
    lines = list(kernel_lines(device))
    width = max(len(line.name) for line in lines)
    file_width = max(len(line.file) for line in lines)
    rows = []
    for line in lines:
        count = f", ran {line.runs} times" if line.runs else ""
        rows.append(f"{line.name:{width}}  {line.file:{file_width}}  {line.state}{count}")
    ready = sum(line.state == "ready" for line in lines)
    return "\n".join([*rows, f"{len(lines)} kernels for {device!r}, {ready} of them ready"])


def source_text(key: str, device: str = "cuda", dtype: str = "float32") -> str:
    """Return the text of a kernel: CUDA for an op's formula on a GPU, else Python.

    Args:
        key: an op's name, such as "gelu", or "gelu/input" for its derivative.
        device: the device.
        dtype: that of the arrays, where the text is written for it.

    Raises: InvalidValueError: there is no such kernel.
    """
    check_device(device)
    declared = declarations(device).get(key)
    if declared is None:
        raise InvalidValueError(
            "kernels.source", f"there is no kernel for {key!r} on {device!r}", {"key": key},
            "`kernels.report(device)` lists all of them",
        )  # fmt: skip
    module = import_module(f".{FOLDERS[device]}.{declared.file}", __package__)
    if device == ACCELERATOR and declared.maker == "formula_kernel":
        return formula_text(key, dtype)
    return inspect.getsource(getattr(module, declared.maker))


def formula_text(key: str, dtype: str) -> str:
    """Return the CUDA text of a definition or rule, for contiguous arrays."""
    import numpy as np

    from ..core.registry import REGISTRY
    from .formulas import formula_of
    from .gpu.elementwise import CHOICES, comment_of, element_of, kernel_name
    from .gpu.elementwise_codegen import Access, make_plan, write_kernel

    try:
        numpy_dtype = np.dtype(dtype)
    except TypeError:  # bfloat16
        import ml_dtypes

        numpy_dtype = np.dtype(getattr(ml_dtypes, dtype))
    parameters = REGISTRY[key.partition("/")[0]].signature.parameters
    formula = formula_of(key)
    defaults = {name: parameters[name].default for name in formula.settings}
    fixed = tuple(
        (name, value) for name, value in defaults.items() if name in CHOICES or value is None
    )
    arrays = [Access((1,), 0, numpy_dtype.itemsize)] * (len(formula.arrays) + 1)
    layout = make_plan((1024,), arrays).layout
    text = write_kernel(kernel_name(key), element_of(key, numpy_dtype, fixed), layout).text
    return text[text.index(f"// {comment_of(key, formula).partition(' as in')[0]}") :]
