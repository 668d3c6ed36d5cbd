"""`python -m edutorch add NAME …` and `python -m edutorch remove NAME …`."""

from __future__ import annotations

import argparse
import importlib
import re
from importlib import metadata

from ...errors import EdutorchError
from .installer import install, uninstall
from .torch_entry import VERSION, add_entry, installed_torch, is_entry, remove_entry
from .tried import INSTEAD, TRIED, Package, dependencies, installed_packages, normalized

_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?P<version>==[\w.!+]+)?")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `add`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="as for pip; NAME==VERSION, too")
    parser.add_argument("--list", action="store_true", help="list the packages that were tried")


def add_options_of_remove(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `remove`."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="`torch` is the entry of `add`")


def add(options: argparse.Namespace) -> int:
    """Install packages that are written for PyTorch, without PyTorch.

    Raises: EdutorchError: a name is none, PyTorch is installed here, or pip has failed.
    """
    if options.list or not options.names:
        print_known()
        return 0
    packages = [package_of(name) for name in options.names]
    is_new = add_entry()
    try:
        for package in packages:
            install_package(package)
    except EdutorchError:
        if is_new:
            remove_entry()
        raise
    for package in packages:
        print(f"{package.name} {metadata.version(package.name)}{remark(package)}")
    print(
        "PyTorch was not installed. In these packages `import torch` means edutorch under\n"
        "  python -m edutorch run SCRIPT      in a notebook: %load_ext edutorch.alias\n"
        "  pytest -p edutorch.alias           in a program: import edutorch.alias; "
        "edutorch.alias.install()"
    )
    return 0


def package_of(name: str) -> Package:
    """Return the package that a user names, at the version asked for, or at the one tried.

    Raises: EdutorchError: it is no name of a package, or another takes its place.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise EdutorchError(
            "add", f"{name!r} is not the name of a package",
            hint="python -m edutorch add torchvision, or torchvision==0.28.0",
        )  # fmt: skip
    normal = normalized(match["name"])
    if normal in INSTEAD:
        raise EdutorchError("add", f"{normal} is not installed: {INSTEAD[normal]}")
    known = TRIED.get(normal, Package(normal, ""))
    version = (match["version"] or known.version).removeprefix("==")
    return Package(known.name, version, known.module, known.apart, known.note)


def install_package(package: Package) -> None:
    """Install one package, and its dependencies but PyTorch."""
    requirement = package.requirement if package.version else package.name
    if not package.apart:
        install([requirement])
        return
    install(["--no-deps", requirement])
    importlib.invalidate_caches()
    others = dependencies(package.name)
    if others:
        install(others)


def remark(package: Package) -> str:
    """Return what is to be said of a package after its name and version."""
    known = TRIED.get(package.name)
    if known is None:
        return ": installed; it has not been tried on edutorch"
    tried = "" if known.version == package.version else f": {known.version} is the version tried"
    return tried + (f" ({known.note})" if known.note else "")


def print_known() -> None:
    """Print the table of the packages that were tried, and what is installed."""
    versions = {package.name: version for package, version in installed_packages()}
    width = max(map(len, TRIED))
    for name, package in sorted(TRIED.items()):
        state = f"installed: {versions[name]}" if name in versions else ""
        print(f"{name:<{width}}  {package.version:<9}{state:<20}{package.note}".rstrip())
    torch = installed_torch()
    owner = "the entry of edutorch" if is_entry(torch) else "PyTorch itself"
    print(f"\ntorch: {'not installed' if torch is None else f'{torch}, {owner}'}")


def remove(options: argparse.Namespace) -> int:
    """Remove packages; `torch` is the entry that stands for PyTorch.

    Raises: EdutorchError: a package is not there, or torch is PyTorch itself.
    """
    for name in map(normalized, options.names):
        if name == "torch":
            remove_entry()
            print(f"torch {VERSION}: the entry is removed; pip fetches PyTorch again where needed")
            continue
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise EdutorchError("remove", f"{name} is not installed") from None
        uninstall([name])
        print(f"{name} {version} is removed")
    return 0
