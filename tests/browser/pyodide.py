"""Makes a folder with Pyodide and the wheels that the site needs, for tests without a network.

    python -m tests.browser.pyodide DIR --wheels FOLDER

Pyodide's own files come from npm's package `pyodide`; the wheels are those of its distribution, and
lie in FOLDER. Each is compared with the SHA-256 in Pyodide's lock. The lock in DIR names only what
lies beside it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

VERSION = "0.27.7"
CORE = (
    "pyodide.js", "pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip",
    "pyodide-lock.json", "package.json",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.pyodide")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheels", type=Path, required=True)
    options = parser.parse_args(arguments)
    make(options.folder, options.wheels)
    return 0


def make(folder: Path, wheels: Path) -> None:
    """Fill a folder. Raises: SystemExit: a wheel is not the one that the lock names."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            ["npm", "install", "--no-fund", "--no-audit", "--silent", f"pyodide@{VERSION}"],
            cwd=scratch, check=True,
        )  # fmt: skip
        for name in CORE:
            shutil.copyfile(Path(scratch) / "node_modules" / "pyodide" / name, folder / name)
    lock = json.loads((folder / "pyodide-lock.json").read_text("utf-8"))
    present = {}
    for name, package in lock["packages"].items():
        wheel = wheels / package["file_name"]
        if wheel.exists():
            check(wheel, package)
            shutil.copyfile(wheel, folder / wheel.name)
            present[name] = package
    for package in present.values():
        names = [name.replace("_", "-") for name in package["depends"]]
        package["depends"] = [name for name in names if name in present]
    lock["packages"] = present
    (folder / "pyodide-lock.json").write_text(json.dumps(lock), "utf-8")


def check(wheel: Path, package: dict[str, Any]) -> None:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != package["sha256"]:
        raise SystemExit(f"{wheel}: SHA-256 is {digest}, but the lock says {package['sha256']}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
