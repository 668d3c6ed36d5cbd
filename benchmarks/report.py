"""Tables on the terminal, and the same tables kept in README.md."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from types import ModuleType

README = Path(__file__).with_name("README.md")


def peer() -> ModuleType | None:
    """Return PyTorch, or None where it is not installed: then only our own times are shown."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        print("PyTorch is not installed here: its columns are left empty.\n")
        return None


def ready() -> None:
    """Have all kernels made before anything is timed: nobody measures a compiler here."""
    from edutorch import kernels

    # Only what commits of long ago have as well: `against.py` runs this in their checkouts.
    if not importlib.util.find_spec("numba") or os.environ.get("EDUTORCH_KERNELS") == "off":
        print("without numba, or with EDUTORCH_KERNELS=off: definitions run, no kernels.\n")
        return
    for made in kernels.warm_up():
        if made.state == "failed":
            print(f"no kernel {made.name}: {made.detail}")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a Markdown table: first column to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *others = cells
        padded = [first.ljust(widths[0])]
        padded += [other.rjust(width) for other, width in zip(others, widths[1:], strict=True)]
        return f"| {' | '.join(padded)} |"

    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(header), f"| {' | '.join(rule)} |", *map(line, rows)])


def conditions(threads: int) -> str:
    """Say in one line on what and with what was measured."""
    import numpy

    import edutorch

    torch = peer()
    versions = [f"Python {platform.python_version()}", f"edutorch {edutorch.__version__}"]
    versions += [f"NumPy {numpy.__version__}", f"OpenBLAS for {blas_core()}"]
    versions += [f"PyTorch {torch.__version__}"] if torch else []
    return (
        f"{date.today()}; {processor()}, {os.cpu_count()} cores, {threads} threads on both sides; "
        + ", ".join(versions)
    )


def processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"model name\s*:\s*(.+)", text)
    return match.group(1) if match else platform.machine()


def blas_core() -> str:
    """Return for which processor NumPy's OpenBLAS chose its kernels."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "an unknown core (threadpoolctl is not installed)"
    for pool in threadpool_info():
        if pool["internal_api"] == "openblas" and "numpy" in pool["filepath"]:
            return pool["architecture"]
    return "no core: NumPy uses another BLAS"


def keep(name: str, text: str) -> None:
    """Put `text` in place of the last results called `name` in README.md."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = README.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    README.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def leave(head: str, texts: dict[str, str], seconds: float) -> None:
    """Write all tables of a run, with machine and versions, into `results/README.md`."""
    from .charts import FOLDER

    FOLDER.mkdir(exist_ok=True)
    parts = ["# Results of the last run", f"{head}; {seconds / 60:.1f} minutes"]
    for name, text in texts.items():
        parts += [f"## {name}", text]
        if (FOLDER / f"{name}.png").exists():
            parts.append(f"![{name}]({name}.png)")
    (FOLDER / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written: {FOLDER.name}/README.md and its charts")
