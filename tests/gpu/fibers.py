"""Run the text of CUDA kernels on the CPU: g++ and `cuda_on_cpu.h` in place of NVRTC and a GPU.

`with use_launcher(FiberLauncher()):` and every kernel that is launched takes NumPy arrays. Each
launch runs three times, with the threads in three orders, on three copies of the memory: results
that differ by a bit are a race, and raise. Around each array lies a zone of poison: what is written
there raises, what is read from there makes the result wrong.

As a program (`python -m tests.gpu.fibers FILE`), a pickled list of launches is repeated under
AddressSanitizer, which stops at the first address out of bounds, read or written.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edutorch.kernels.gpu.module import CudaModule

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
GUARD = 1024
"""The bytes of a guard zone: a multiple of 256, so that an array begins where cudaMalloc would."""

POISON = (0xFF, 0xFE, 0xFF)
"""The bytes of the zones in each order: NaN or -1, a large negative number, NaN again. A NaN that
is read from a zone and written into one would not be seen."""

ORDERS = ("forward", "backward", "shuffled")
KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")
CHECK_FLAGS = (
    "-fsanitize=address", "-fsanitize=alignment,bounds", "-fsanitize-undefined-trap-on-error",
    "-DCUDA_ON_CPU_CHECK_ADDRESSES", "-g",
)  # fmt: skip


class KernelError(AssertionError):
    """A kernel did what CUDA leaves undefined: a race, a write out of bounds, a lost barrier."""


def has_compiler() -> bool:
    """Whether g++ is installed."""
    return shutil.which("g++") is not None


# Compilation --------------------------------------------------------------------------------------


def translation_unit(modules: Sequence[CudaModule]) -> str:
    """Return the text for g++ of several modules, each in a namespace of its own."""
    lines = ['#include "cuda_on_cpu.h"']
    for module in modules:
        space = namespace(module)
        text = re.sub(r"^\s*#\s*(include|pragma once).*$", "", module.text, flags=re.MULTILINE)
        text = re.sub(r'extern\s+"C"\s+', "static ", text)
        text = re.sub(
            r"extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?([\w ]+?)\s*(\w+)\s*\[\s*\]\s*;",
            r"\1* const \2 = (\1*)cuda_dynamic_shared;",
            text,
        )
        lines += [f"namespace {space} {{", "namespace {", f'#line 1 "{module.name}"', text, "}"]
        # Macros are known to no namespace; a guard of a header is asked for again by the next one.
        lines += [f"#undef {name}" for name in sorted(set(re.findall(r"#define\s+(\w+)", text)))]
        for kernel in KERNEL.findall(text):
            lines += [
                f'extern "C" const char* {space}_{kernel}(void** arguments, const unsigned* grid,',
                "    const unsigned* block, unsigned shared_bytes, int order, unsigned seed) {",
                f"  return cuda_on_cpu::launch({kernel}, arguments, grid, block, shared_bytes,",
                "                             order, seed);",
                "}",
                f'extern "C" const char* {space}_{kernel}_signature() {{',
                f"  return cuda_on_cpu::signature({kernel});",
                "}",
            ]
        lines.append("}")
    return "\n".join(lines) + "\n"


def namespace(module: CudaModule) -> str:
    """Return the name of a module's namespace: two texts never share one."""
    digest = hashlib.sha256(module.text.encode()).hexdigest()[:12]
    return f"module_{re.sub(r'[^A-Za-z0-9]', '_', module.name)}_{digest}"


def cache_folder() -> Path:
    """Return the folder of compiled kernels, which outlives the process."""
    folder = Path(tempfile.gettempdir()) / f"edutorch-fibers-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def compile_modules(modules: Sequence[CudaModule], flags: Sequence[str] = ()) -> Path:
    """Compile modules into one library, unless that has been done.

    Raises: KernelError: g++ refuses the text; its first errors are shown.
    """
    text = translation_unit(modules)
    key = hashlib.sha256("\0".join([text, HEADER.read_text(), *flags]).encode()).hexdigest()[:24]
    library = cache_folder() / f"{key}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        source, built = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
        source.write_text(text)
        command = ["g++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-ffp-contract=off"]
        command += ["-fno-strict-aliasing", "-U_FORTIFY_SOURCE", f"-I{HEADER.parent}", *flags]
        done = subprocess.run(
            [*command, str(source), "-o", str(built)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line][:5]
            names = ", ".join(module.name for module in modules)
            raise KernelError(
                f"g++ refuses {names}:\n" + "\n".join(errors or [done.stderr[-2000:]])
            )
        os.replace(built, library)
    return library


@functools.lru_cache(maxsize=64)
def load(library: Path) -> ctypes.CDLL:
    """Load a compiled library."""
    return ctypes.CDLL(str(library))


# Memory -------------------------------------------------------------------------------------------


def owner(array: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class GuardedCopy:
    """A copy of a whole array's memory between two guard zones."""

    def __init__(self, array: np.ndarray, poison: int = POISON[0]) -> None:
        self.poison = poison
        low, high = np.lib.array_utils.byte_bounds(array)
        self.start, self.size = low, high - low
        room = np.empty(self.size + 2 * GUARD + 256, np.uint8)
        shift = -room.ctypes.data % 256
        self.memory = room[shift : shift + self.size + 2 * GUARD]
        self.memory[:] = poison
        ctypes.memmove(self.memory[GUARD:].ctypes.data, low, self.size)

    @property
    def content(self) -> np.ndarray:
        """The bytes between the zones."""
        return self.memory[GUARD : GUARD + self.size]

    def address(self, array: np.ndarray) -> int:
        """Return where the first element of a view of the array is in the copy."""
        return int(self.content.ctypes.data) + int(array.ctypes.data) - self.start

    def check(self, what: str) -> None:
        """Raise if something was written into the zones."""
        behind = GUARD + self.size
        outside = np.flatnonzero(np.r_[self.memory[:GUARD], self.memory[behind:]] != self.poison)
        if outside.size:
            first = int(outside[0])
            place = first - GUARD if first < GUARD else first - GUARD + self.size
            raise KernelError(f"{what}: byte {place} of an array of {self.size} bytes was written")

    def copy_back(self) -> None:
        """Write the result into the array."""
        ctypes.memmove(self.start, self.content.ctypes.data, self.size)


# The launcher -------------------------------------------------------------------------------------


class Launch(NamedTuple):
    """One launch as it was asked for, to be repeated under AddressSanitizer."""

    module: CudaModule
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Any, ...]
    shared_bytes: int


class FiberLauncher:
    """Launches kernels on NumPy arrays.

    Args:
        modules: what is compiled together, at the first launch: g++ needs 0.4 s for its headers.
        orders: the orders of threads, by their place in `ORDERS`.
        flags: further flags for g++.
        seed: that of the shuffled order.
    """

    def __init__(
        self,
        modules: Iterable[CudaModule] = (),
        orders: Sequence[int] = (0, 1, 2),
        flags: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self.modules, self.orders, self.flags = tuple(modules), tuple(orders), tuple(flags)
        self.seed = seed
        self.record: list[Launch] | None = None
        self.launched: set[tuple[str, str]] = set()

    def function(self, module: CudaModule, kernel: str) -> tuple[Any, str]:
        """Return a kernel, compiled, and the types of its parameters."""
        together = self.modules if module in self.modules else (module,)
        library = load(compile_modules(together, self.flags))
        name = f"{namespace(module)}_{kernel}"
        function, signature = getattr(library, name), getattr(library, f"{name}_signature")
        function.restype = signature.restype = ctypes.c_char_p
        return function, signature().decode()

    def launch(
        self,
        module: CudaModule,
        kernel: str,
        grid: Any,
        block: Any,
        arguments: Sequence[Any],
        shared_bytes: int = 0,
    ) -> None:
        """Run a kernel in all orders, and write its results into the arrays.

        Raises: KernelError: the orders do not agree, or CUDA would not define what happens.
        """
        function, signature = self.function(module, kernel)
        what = f"{module.name}, {kernel}"
        check_arguments(what, signature.split(), arguments)
        grid, block = three(grid), three(block)
        if self.record is not None:
            kept = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
            self.record.append(Launch(module, kernel, grid, block, kept, shared_bytes))
        self.launched.add((module.name, kernel))
        results: list[dict[int, GuardedCopy]] = []
        for order in self.orders:
            copies = guarded(arguments, POISON[order])
            problem = call(function, arguments, copies, grid, block, shared_bytes, order, self.seed)
            if problem:
                raise KernelError(f"{what}, threads {ORDERS[order]}: {problem}")
            for copy in copies.values():
                copy.check(f"{what}, threads {ORDERS[order]}")
            results.append(copies)
        for order, copies in zip(self.orders[1:], results[1:], strict=True):
            for key, copy in copies.items():
                if not np.array_equal(copy.content, results[0][key].content):
                    raise KernelError(f"{what}: another result with the threads {ORDERS[order]}")
        for copy in results[-1].values():
            copy.copy_back()

    __call__ = launch


def three(size: Any) -> tuple[int, int, int]:
    """Return a grid or block as three sizes."""
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    return (*map(int, sizes), *[1] * (3 - len(sizes)))  # type: ignore[return-value]


def guarded(arguments: Sequence[Any], poison: int) -> dict[int, GuardedCopy]:
    """Return copies of the arrays that own the memory of the arguments, by their identity."""
    owners = [owner(argument) for argument in arguments if isinstance(argument, np.ndarray)]
    return {id(array): GuardedCopy(array, poison) for array in owners if array.size}


def call(
    function: Any,
    arguments: Sequence[Any],
    copies: dict[int, GuardedCopy],
    grid: tuple[int, ...],
    block: tuple[int, ...],
    shared_bytes: int,
    order: int,
    seed: int,
) -> str | None:
    """Run a kernel once; return what was wrong."""
    values: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            copy = copies.get(id(owner(argument)))
            values.append(np.array([copy.address(argument) if copy else 0], np.uint64))
        else:
            values.append(np.asarray(argument).reshape(1))
    addresses = (ctypes.c_void_p * max(1, len(values)))(*[value.ctypes.data for value in values])
    sizes = [(ctypes.c_uint * 3)(*size) for size in (grid, block)]
    problem = function(addresses, *sizes, ctypes.c_uint(shared_bytes), order, ctypes.c_uint(seed))
    return problem.decode() if problem else None


LETTERS = {"float16": "f2", "bfloat16": "b2", "bool": "?1"}


def check_arguments(what: str, parameters: list[str], arguments: Sequence[Any]) -> None:
    """Raise if arguments do not have the types of the parameters: a GPU takes any."""
    if len(parameters) != len(arguments):
        raise KernelError(f"{what}: {len(parameters)} parameters, {len(arguments)} arguments")
    for number, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True)):
        is_array = isinstance(argument, np.ndarray)
        if not is_array and not isinstance(argument, np.generic):
            raise KernelError(f"{what}: argument {number} is {argument!r}, not an array or scalar")
        name = LETTERS.get(argument.dtype.name) or argument.dtype.kind + str(argument.itemsize)
        passed = "*" * is_array + name
        is_short = is_array and parameter == "*u2" and name in ("f2", "b2")  # their bits
        is_unknown = parameter == "*??" and is_array
        is_byte = {parameter.lstrip("*"), name} <= {"?1", "u1"} and (
            parameter[0] == "*"
        ) == is_array
        if not (passed == parameter or is_short or is_unknown or is_byte):
            raise KernelError(f"{what}: parameter {number} is {parameter}, the argument {passed}")


# AddressSanitizer ---------------------------------------------------------------------------------


def check_addresses(launches: Sequence[Launch]) -> None:
    """Repeat launches under AddressSanitizer, in another process.

    Raises: KernelError: an address was out of bounds; the report's first lines are shown.
    """
    modules = tuple({launch.module: None for launch in launches})
    compile_modules(modules, CHECK_FLAGS)  # here: an error of the compiler is shown as one
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        file.write(pickle.dumps(list(launches)))
        file.flush()
        asan = subprocess.run(
            ["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        options = "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0"
        done = subprocess.run(
            [sys.executable, "-m", "tests.gpu.fibers", file.name],
            env={**os.environ, "LD_PRELOAD": asan, "ASAN_OPTIONS": options},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        report = [line for line in lines if "ERROR" in line or " #" in line][:6] or lines[-6:]
        where = (done.stdout.strip().splitlines() or ["?"])[-1]
        raise KernelError(f"{where}: out of bounds (exit {done.returncode})\n" + "\n".join(report))


def repeat(launches: Sequence[Launch]) -> None:
    """Run launches once each, with every array in memory of its own size."""
    launcher = FiberLauncher(tuple({launch.module: None for launch in launches}), flags=CHECK_FLAGS)
    for launch in launches:
        print(f"{launch.module.name}, {launch.kernel}", flush=True)
        function, _ = launcher.function(launch.module, launch.kernel)
        # `malloc` of AddressSanitizer: its zones begin at the first byte behind the array.
        values, libc = [], ctypes.CDLL(None)
        libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        blocks = []
        for argument in launch.arguments:
            if isinstance(argument, np.ndarray):
                flat = np.ascontiguousarray(argument)
                block = libc.malloc(ctypes.c_size_t(max(1, flat.nbytes)))
                ctypes.memmove(block, flat.ctypes.data, flat.nbytes)
                blocks.append(block)
                values.append(np.array([block], np.uint64))
            else:
                values.append(np.asarray(argument).reshape(1))
        addresses = (ctypes.c_void_p * max(1, len(values)))(
            *[value.ctypes.data for value in values]
        )
        sizes = [(ctypes.c_uint * 3)(*size) for size in (launch.grid, launch.block)]
        problem = function(
            addresses, *sizes, ctypes.c_uint(launch.shared_bytes), 0, ctypes.c_uint(0)
        )
        for block in blocks:
            libc.free(block)
        if problem:
            sys.exit(problem.decode())


if __name__ == "__main__":
    repeat(pickle.loads(Path(sys.argv[1]).read_bytes()))
