"""Compiles CUDA texts by NVRTC, which needs no GPU, and keeps the result on disk.

NVRTC is the one that CuPy uses, through CuPy's own binding: it is there wherever CuPy is.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import threading
from typing import Any

from ...errors import CudaCompileError, missing_extra
from ..disk_cache import user_cache_folder
from .module import CudaModule

__all__ = ["compile_cubin", "compiled_file", "current_arch", "function_on_device", "version"]

OPTIONS = ("-std=c++17", "-default-device", "-lineinfo")
"""Division, square root and small numbers are exact: what `-use_fast_math` gives up."""

LOG_LINE = re.compile(r"\((\d+)\): (?:catastrophic )?error: ?(.*)")
SHOWN_LINES = 2
"""So many lines before and after the first wrong one are shown in an error."""


def binding() -> Any:
    """Return CuPy's binding of NVRTC.

    Raises: MissingExtraError: CuPy is not installed.
    """
    try:
        from cupy_backends.cuda.libs import nvrtc
    except ImportError as error:
        raise missing_extra("cuda", "CUDA kernels", f"CuPy is not usable ({error})") from error
    return nvrtc


@functools.cache
def version() -> tuple[int, int]:
    """Return the version of NVRTC."""
    return binding().getVersion()


def architectures() -> list[str]:
    """Return the architectures that NVRTC compiles for."""
    return [f"sm_{number}" for number in binding().getSupportedArchs()]


def current_arch() -> str:
    """Return the architecture of the current GPU, or the newest older one that NVRTC knows."""
    import cupy

    own = int(cupy.cuda.Device().compute_capability)
    known = [int(name[3:]) for name in architectures()]
    if own in known or own < min(known):
        return f"sm_{own}"
    return f"sm_{max(number for number in known if number < own)}"


def compile_cubin(module: CudaModule, arch: str) -> bytes:
    """Compile a text for one architecture, such as "sm_90".

    Raises: CudaCompileError: with the line, the text around it and the compiler's log.
    """
    nvrtc = binding()
    if arch not in architectures():
        known = ", ".join(architectures())
        raise CudaCompileError(
            module.name, f"NVRTC {'.'.join(map(str, version()))} does not compile for {arch}",
            {"known": known}, "an older GPU needs an older CuPy: pip install cupy-cuda12x",
        )  # fmt: skip
    program = nvrtc.createProgram(module.text, f"{module.name}.cu", (), ())
    try:
        nvrtc.compileProgram(program, (*OPTIONS, f"-arch={arch}"))
        return nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        raise explain(module, nvrtc.getProgramLog(program) or str(error), arch) from error
    finally:
        nvrtc.destroyProgram(program)


def explain(module: CudaModule, log: str, arch: str) -> CudaCompileError:
    """Make the error for a text that does not compile."""
    match = LOG_LINE.search(log)
    lines = module.text.splitlines()
    number = min(int(match[1]), len(lines)) if match else 1
    first = max(0, number - 1 - SHOWN_LINES)
    shown = "\n".join(
        f"{'>' if index + 1 == number else ' '} {index + 1:4} {lines[index]}"
        for index in range(first, min(len(lines), number + SHOWN_LINES))
    )
    message = match[2] if match else "the compiler refuses it"
    return CudaCompileError(
        module.name,
        f"the kernel does not compile for {arch}: {message}\n{shown}\n{log.strip()}",
        None,
        "with EDUTORCH_KERNELS=off the definitions run, without kernels",
    )


def compiled_file(module: CudaModule, arch: str) -> str:
    """Return the file with a text's machine code for `arch`, which is compiled if it is missing."""
    stamp = repr((module.text, arch, version(), OPTIONS))
    key = hashlib.sha256(stamp.encode()).hexdigest()[:24]
    path = user_cache_folder("cuda") / f"{module.name}-{arch}-{key}.cubin"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
        part.write_bytes(compile_cubin(module, arch))
        # Renamed when it is complete: no other process loads half a file.
        part.replace(path)
    return str(path)


@functools.cache
def module_on_device(module: CudaModule, device: int) -> Any:
    """Return a text's kernels, loaded on the current GPU, whose number is `device`."""
    import cupy

    return cupy.RawModule(path=compiled_file(module, current_arch()))


_functions: dict[tuple[str, str, int], Any] = {}


def function_on_device(module: CudaModule, kernel: str) -> Any:
    """Return a kernel of a text as a function of CuPy on the current GPU."""
    from cupy.cuda.runtime import getDevice

    device = getDevice()
    key = (module.text, kernel, device)  # a text's hash is computed once
    function = _functions.get(key)
    if function is None:
        function = module_on_device(module, device).get_function(kernel)
        _functions[key] = function
    return function
