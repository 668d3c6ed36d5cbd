"""Pyodide's lock: each package that it can load, its file, its hash, and what it needs.

{"info": {"version": "0.27.7", "python": "3.12.7", "abi_version": "2024_0", …},
 "packages": {"numpy": {"file_name": "numpy-2.0.2-….whl", "sha256": "…", "depends": [], …}}}
"""

from __future__ import annotations

import email
import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .versions import OP, SiteError

LOCK = "pyodide-lock.json"
Package = dict[str, Any]


def read_lock(folder: Path) -> dict[str, Any]:
    """Return the lock of a folder with Pyodide.

    Raises: SiteError: there is none, or it is damaged.
    """
    path = folder / LOCK
    try:
        lock = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SiteError(
            OP, f"{str(folder)!r} has no {LOCK}",
            hint="give the folder of a release of Pyodide: pyodide.js, pyodide.asm.wasm, wheels, …",
        ) from None  # fmt: skip
    except (OSError, ValueError) as error:
        raise SiteError(OP, f"{str(path)!r} cannot be read: {error}") from None
    if not isinstance(lock, dict) or not isinstance(lock.get("packages"), dict):
        raise SiteError(OP, f"{str(path)!r} is no lock: it lists no packages")
    return lock


def normalized(name: str) -> str:
    """Return a package's name as a lock writes it: `"pyodide_kernel"` is `"pyodide-kernel"`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def with_dependencies(lock: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return packages and all that they need, as far as the lock has it."""
    packages, names_of_all, queue = lock["packages"], {}, [normalized(name) for name in names]
    while queue:
        name = queue.pop(0)
        if name in packages and name not in names_of_all:
            names_of_all[name] = True
            queue += [normalized(other) for other in packages[name]["depends"]]
    return list(names_of_all)


def check_package(folder: Path, lock: Mapping[str, Any], name: str) -> Path:
    """Return the file of a package, which is there, is the right one, and fits this Pyodide.

    Raises: SiteError: it is not; both versions or hashes are named.
    """
    package = lock["packages"][name]
    path = folder / package["file_name"]
    if not path.is_file():
        raise SiteError(
            OP, f"{path.name} is missing in {str(folder)!r}",
            hint=f"the lock needs it for {name}: put it there from the same release of Pyodide",
        )  # fmt: skip
    digest = hash_of(path)
    if digest != package["sha256"]:
        raise SiteError(
            OP, f"{path.name} is damaged, or another version",
            {"SHA-256": digest, "lock": package["sha256"]},
            hint="copy it again from the same release of Pyodide",
        )  # fmt: skip
    check_tags(path, lock["info"])
    return path


def check_tags(path: Path, info: Mapping[str, Any]) -> None:
    """Raises: SiteError: a wheel is for another Python or another interface of Pyodide."""
    if path.suffix != ".whl" or path.name.endswith("-none-any.whl"):
        return
    python, _, platform = path.stem.split("-")[-3:]
    wanted = "cp" + "".join(str(info["python"]).split(".")[:2])
    if python != wanted:
        raise SiteError(
            OP, f"{path.name} is for another Python", {"wheel": python, "Pyodide": wanted}
        )
    interface = re.search(r"(\d{4}_\d+)_wasm32", platform)
    if interface is None or interface[1] != info.get("abi_version"):
        raise SiteError(
            OP, f"{path.name} is for another interface (ABI) of Pyodide",
            {"wheel": platform, "Pyodide": f"{info.get('abi_version')} wasm32"},
        )  # fmt: skip


def add_wheel(lock: dict[str, Any], path: Path) -> str:
    """Add a wheel to a lock, or put it in the place of another version; return its name.

    It needs what its metadata say, as far as the lock has it: add what it needs first.

    Raises: SiteError: the file is no wheel.
    """
    try:
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
            said = email.message_from_bytes(wheel.read(metadata))
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        raise SiteError(OP, f"{str(path)!r} is no wheel: {error}") from None
    name = normalized(said["Name"])
    lock["packages"][name] = {
        "name": name, "version": said["Version"], "file_name": path.name, "install_dir": "site",
        "sha256": hash_of(path), "package_type": "package", "unvendored_tests": False,
        "imports": import_names(names),
        "depends": needs_of(said.get_all("Requires-Dist") or (), lock),
    }  # fmt: skip
    return name


def update_hashes(folder: Path, lock: Mapping[str, Any]) -> None:
    """Write the hashes of the files in a folder into a lock: their modules were compiled."""
    for package in lock["packages"].values():
        path = folder / package["file_name"]
        if path.is_file():
            package["sha256"] = hash_of(path)


def import_names(files: Iterable[str]) -> list[str]:
    """Return what can be imported from a wheel with these files."""
    return sorted({
        match[1] for file in files
        if (match := re.match(r"(\w+)(?:/__init__)?\.py", file)) or False
    })  # fmt: skip


def needs_of(requirements: Iterable[str], lock: Mapping[str, Any]) -> list[str]:
    """Return those packages of a lock that a wheel always needs."""
    names = [
        normalized(re.split(r"[^\w.-]", requirement)[0])
        for requirement in requirements
        if "extra ==" not in requirement
    ]
    return [name for name in names if name in lock["packages"]]


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
