"""Counts which of PyTorch's public names edutorch has, and writes `docs/coverage.md`.

    python docs/coverage.py            (or --print)

PyTorch has to be installed: its own modules are the list. A name that is there is
tested by `tests/test_every_op.py` or `tests/test_functions.py`; this table only counts.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("coverage.md")

NAMESPACES = ("torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.fft",
              "torch.special", "torch.nn", "torch.optim", "torch.utils.data", "torch.autograd",
              "torch.func")  # fmt: skip

# What dense tensors on one device do not need, with the reason.
ELSEWHERE = {
    "sparse": "sparse tensors", "quantize": "quantized tensors", "quantized": "quantized tensors",
    "fbgemm": "quantized tensors", "mkldnn": "a backend of PyTorch's", "cudnn": "a backend of "
    "PyTorch's", "miopen": "a backend of PyTorch's", "jit": "compilers", "Storage": "storages",
    "sym_": "compilers", "vmap": "transforms, later", "_": "not public",
}  # fmt: skip


def find(library: str, namespace: str) -> Any:
    """Return a namespace of PyTorch in `library`, None if it is not there."""
    path = namespace.replace("torch", library, 1)
    if path.endswith(".Tensor"):
        return importlib.import_module(library).Tensor
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return None


def public_names(namespace: str) -> list[str]:
    """Return PyTorch's public functions, classes, methods and properties of a namespace."""
    theirs = find("torch", namespace)
    names = getattr(theirs, "__all__", None) or dir(theirs)
    return sorted(
        name
        for name in names
        if not any(part in name if part != "_" else name.startswith("_") for part in ELSEWHERE)
        and not (namespace == "torch" and name[0].isupper())  # classes and their machinery
        and not inspect.ismodule(getattr(theirs, name, None))
        and (namespace == "torch.Tensor" or callable(getattr(theirs, name, None)))
        and hasattr(theirs, name)
    )


def table() -> str:
    """Return the page as Markdown."""
    rows, lists = [], []
    for namespace in NAMESPACES:
        ours, names = find("edutorch", namespace), public_names(namespace)
        there = [name for name in names if hasattr(ours, name)]
        absent = [name for name in names if name not in there]
        share = len(there) / len(names)
        rows.append(f"| `{namespace}` | {len(names)} | {len(there)} | {share:.0%} |")
        lists.append(f"## `{namespace}`: absent\n\n{', '.join(f'`{name}`' for name in absent)}\n")
    head = (
        "# PyTorch's names in edutorch\n\n"
        "Written by `python docs/coverage.py`; not counted are names of sparse and quantized\n"
        "tensors, of compilers and of PyTorch's own backends.\n\n"
        "| namespace | public names | there | share |\n|:--|--:|--:|--:|\n"
    )
    return head + "\n".join(rows) + "\n\n" + "\n".join(lists)


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(table())
    else:
        PAGE.write_text(table(), encoding="utf-8")
