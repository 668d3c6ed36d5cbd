"""The real torchvision, torchaudio, timm and transformers on PyTorch: the oracle of these tests.

They are installed in the second environment, which has no PyTorch (`make build/ecosystem/.stamp`).
The process that imports this module has PyTorch, and takes the packages from there:

    .venv/bin/python -m tests.ecosystem.oracle SCRIPT [ARGUMENTS]       (or -m MODULE)
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / "build" / "ecosystem" / ".venv"


def site_packages() -> Path:
    """Return the folder of packages of the second environment."""
    folders = sorted(ENVIRONMENT.glob("lib/python3.*/site-packages"))
    if not folders:
        raise FileNotFoundError(f"{ENVIRONMENT} is not there: make build/ecosystem/.stamp")
    return folders[0]


def install() -> None:
    """Let this process import the real packages, on PyTorch.

    Their compiled libraries are made for another build of PyTorch, so they are left out: what
    torchvision registers for the ops in them is skipped, and torchaudio believes there are none.
    """
    sys.path.append(str(site_packages()))
    import torch
    from torch import library

    register = library.register_fake

    def register_fake(op: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        if isinstance(op, str) and op.startswith("torchvision::"):
            return lambda function: function
        return register(op, *args, **kwargs)

    library.register_fake = register_fake
    torch.ops.load_library = refuse
    extension = ModuleType("torchaudio._extension")
    vars(extension).update(
        _IS_TORCHAUDIO_EXT_AVAILABLE=False, fail_if_no_align=lambda function: function
    )
    sys.modules[extension.__name__] = extension


def refuse(path: str) -> None:
    """Say that a compiled library cannot be loaded, as torchvision expects to hear it."""
    raise OSError(f"{path}: compiled for another build of PyTorch")


if __name__ == "__main__":
    install()
    if sys.argv[1] == "-m":
        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = sys.argv[1:]
        runpy.run_path(sys.argv[0], run_name="__main__")
