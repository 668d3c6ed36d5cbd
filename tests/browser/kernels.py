"""Installs each ipykernel of the test matrix beside the one of the environment.

python -m tests.browser.kernels     (or: make kernels)

They handle the page's messages in different ways, and a click has to be heard by each.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "kernels"
VERSIONS = ("6.31.0", "7.3.0", "7.4.0")


def folder_of(version: str) -> Path | None:
    """Return the folder that must come first on the path; None if it is not installed."""
    return FOLDER / version if (FOLDER / version / "ipykernel").is_dir() else None


def is_there(version: str) -> bool:
    """Say whether a version can be tested: installed here, or that of the environment."""
    return folder_of(version) is not None or importlib.metadata.version("ipykernel") == version


def install(version: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    packages = [f"ipykernel=={version}", "nest_asyncio"]
    subprocess.run([*command, "--target", str(FOLDER / version), *packages], check=True)


if __name__ == "__main__":
    for wanted in VERSIONS:
        if not is_there(wanted):
            install(wanted)
        print(f"ipykernel {wanted} is there")
