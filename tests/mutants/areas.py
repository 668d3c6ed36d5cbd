"""The areas into which the score is divided, and the files of each."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]

AREAS: dict[str, tuple[str, ...]] = {
    "core": ("edutorch/core", "edutorch/autograd", "edutorch/func"),
    "ops": ("edutorch/ops", "edutorch/linalg.py", "edutorch/fft.py", "edutorch/special.py"),
    "nn": ("edutorch/nn",),
    "optim": ("edutorch/optim",),
    "data": ("edutorch/utils/data",),
    "serialization": ("edutorch/serialization",),
    "amp": ("edutorch/amp",),
    "kernels": ("edutorch/kernels",),
    "compile": ("edutorch/compilation", "edutorch/compat/compiler.py", "edutorch/fx"),
    "viz": ("edutorch/viz",),
    "train": ("edutorch/train.py", "edutorch/train", "edutorch/profiler"),
    "widgets": ("widgets",),
}


def files_of(area: str) -> list[Path]:
    """Return the source files of an area, in a fixed order."""
    paths: list[Path] = []
    for name in AREAS[area]:
        root = ROOT / name
        if root.is_file():
            paths.append(root)
        elif area == "widgets":
            paths += root.glob("*.js")
        else:
            paths += root.rglob("*.py")
    return sorted(path for path in paths if path.name != "vitest.config.js")
