"""`torch.utils.collect_env`: the versions and the machine, for a report of a mistake.

python -m edutorch.utils.collect_env
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

from edutorch import cuda, settings, version

__all__ = ["get_env_info", "get_pretty_env_info", "main"]

LIBRARIES = (
    "numpy", "ml_dtypes", "numba", "cupy-cuda13x", "safetensors", "torchvision", "torchaudio",
    "timm", "transformers", "lightning",
)  # fmt: skip


def library_version(name: str) -> str:
    """Return the version of an installed library, or "not installed"."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def get_env_info() -> dict[str, str]:
    """Return what there is to say, by its title.

    >>> edutorch.utils.collect_env.get_env_info()["Is CUDA available"]
    'False'
    """
    has_cuda = cuda.is_available()
    return {
        "edutorch version": version.OWN,
        "PyTorch version that it follows": str(version.__version__),
        "Python version": f"{sys.version.split()[0]} ({platform.architecture()[0]} runtime)",
        "Python platform": platform.platform(),
        "CPU": f"{platform.machine()}, {os.cpu_count()} cores",
        "Threads in an op": str(settings.get_num_threads()),
        "Is CUDA available": str(has_cuda),
        "GPU": cuda.get_device_name() if has_cuda else "none",
        **{f"[pip] {name}": library_version(name) for name in LIBRARIES},
    }


def get_pretty_env_info() -> str:
    """Return it as text, a line each."""
    return "\n".join(f"{title}: {value}" for title, value in get_env_info().items())


def main() -> None:
    """Print it."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
