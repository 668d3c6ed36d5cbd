"""Compiles an extension: finds the compiler, and keeps what was built."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from ...backends.platform import IS_MACOS, IS_WINDOWS
from ...errors import EdutorchError, missing_extra
from ...kernels.disk_cache import user_cache_folder

__all__ = ["ExtensionError", "build_extension", "find_compiler"]

FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing")

Flags = tuple[Sequence[str], Sequence[str]]
"""The arguments of the compiler, and those of the linker."""


class ExtensionError(EdutorchError, RuntimeError):
    """An extension that cannot be built; the compiler's messages are in it."""


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler: $CXX, or c++, g++ or clang++.

    Raises: ExtensionError: there is none; what to install is said.
    """
    wanted = shlex.split(os.environ.get("CXX", ""))
    for command in [wanted] if wanted else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    raise ExtensionError(
        "load_inline",
        f"there is no C++ compiler: {shlex.join(wanted) if wanted else 'c++, g++, clang++'} "
        "is not on the PATH",
        hint=install_hint(),
    )


def install_hint() -> str:
    """Return how a compiler is installed on this operating system."""
    if IS_MACOS:
        return "xcode-select --install"
    if IS_WINDOWS:
        return "in WSL: sudo apt install g++ python3-dev"
    return (
        "Debian, Ubuntu: sudo apt install g++ python3-dev; "
        "Fedora: sudo dnf install gcc-c++ python3-devel"
    )


def nanobind_folder() -> Path:
    """Return the folder of nanobind.

    Raises: MissingExtraError: it is not installed.
    """
    try:
        import nanobind
    except ImportError:
        raise missing_extra("cpp", "load_inline", "nanobind is not installed") from None
    return Path(nanobind.include_dir()).parent


def include_flags(nanobind: Path) -> list[str]:
    """Return the compiler's arguments for the headers of Python and nanobind.

    Raises: ExtensionError: Python's headers are not installed.
    """
    python = Path(sysconfig.get_paths()["include"])
    if not (python / "Python.h").exists():
        raise ExtensionError(
            "load_inline", f"Python's headers are missing: there is no {python / 'Python.h'}",
            hint=install_hint(),
        )  # fmt: skip
    folders = python, nanobind / "include", nanobind / "ext" / "robin_map" / "include"
    flags = [f"-isystem{folder}" for folder in folders]
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        flags.append("-DNB_FREE_THREADED")
    return flags


def build_extension(
    name: str, source: str, flags: Flags, directory: str | os.PathLike[str] | None, verbose: bool
) -> Path:
    """Compile a module, unless it was compiled before, and return its path.

    Raises: ExtensionError: no compiler, or the source has mistakes.
    """
    nanobind = nanobind_folder()
    compiler = find_compiler()
    includes = include_flags(nanobind)
    shared = ["-undefined", "dynamic_lookup"] if IS_MACOS else []
    command = [*compiler, *FLAGS, *includes]
    built = digest(" ".join([*command, sys.version]), str(version_of(nanobind)))
    runtime = nanobind_object(command, nanobind, built, verbose)
    folder = Path(directory) if directory else user_cache_folder("extensions")
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{digest(source, built, repr(flags))}"
    path = folder / f"{stem}{sysconfig.get_config_var('EXT_SUFFIX') or '.so'}"
    if path.exists():
        return path
    text = folder / f"{stem}.cpp"
    text.write_text(source, encoding="utf-8")
    parts = [*flags[0], str(text), str(runtime), "-shared", *shared, *flags[1]]
    compile_to(path, [*command, *parts], name, verbose)
    return path


def nanobind_object(command: Sequence[str], nanobind: Path, built: str, verbose: bool) -> Path:
    """Return nanobind itself, compiled once for this Python and this compiler."""
    path = user_cache_folder("extensions") / f"nanobind-{built}.o"
    if not path.exists():
        source = str(nanobind / "src" / "nb_combined.cpp")
        parts = ["-DNDEBUG", "-DNB_COMPACT_ASSERTIONS", "-c", source]
        compile_to(path, [*command, *parts], "nanobind", verbose)
    return path


def compile_to(path: Path, command: Sequence[str], name: str, verbose: bool) -> None:
    """Run the compiler; the file appears when it is complete.

    Raises: ExtensionError: the compiler says no.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    line = [*command, "-o", str(part)]
    if verbose:
        print(shlex.join(line))
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        part.unlink(missing_ok=True)
        raise ExtensionError(
            "load_inline", f"Error building extension '{name}'\n{done.stderr.strip()}"
        )
    os.replace(part, path)


def version_of(nanobind: Path) -> float:
    """Return when nanobind's main file was written: another version is compiled anew."""
    return (nanobind / "src" / "nb_combined.cpp").stat().st_mtime


def digest(*texts: str) -> str:
    """Return a short hash of some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
