"""The jail's copy of the package: without exercises, solutions, and what judges answers.

<folder>/site/edutorch/     the copy
<folder>/site/numpy         a link to the installed package; so for each library
<folder>/root/              where the jail's root filesystem is mounted
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...backends.platform import IS_LINUX
from ...errors import missing_extra
from .settings import Settings

PREFIX = "edutorch-jail-"

LIBRARIES = ("numpy", "ml_dtypes", "safetensors")
WALL_LIBRARIES = ("landlockpy", "seccompy")

CLASSROOM = {"attempt.py", "comparison.py", "jail"}
"""What of this folder the jail needs. All else stays outside: what is right, and how it is told."""

LEFT_OUT = {"_widgets", "_notebooks", "cli"}


def make_folder() -> Path:
    """Return a new folder for the copy; those of graders that were killed are removed."""
    if IS_LINUX:
        remove_stale_folders()
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def remove_stale_folders() -> None:
    """Remove the folders of graders that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if (
            pid.isdecimal()
            and folder.lstat().st_uid == os.geteuid()
            and not os.path.exists(f"/proc/{pid}")
        ):
            shutil.rmtree(folder, ignore_errors=True)


def copy_package(folder: Path, libraries: Iterable[Path]) -> Path:
    """Make the copy with links to libraries, and return the folder to import from."""
    package = Path(__file__).parents[2]
    site = folder / "site"
    shutil.copytree(package, site / "edutorch", ignore=left_out(package), symlinks=False)
    (site / "edutorch" / "classroom" / "__init__.py").write_text('"""The jail\'s part."""\n')
    for path in libraries:
        (site / path.name).symlink_to(path)
    for directory, _, files in os.walk(folder):  # another user reads them
        os.chmod(directory, 0o755)
        for file in files:
            os.chmod(os.path.join(directory, file), 0o644)
    return site


def left_out(package: Path) -> object:
    classroom = str(package / "classroom")

    def names(directory: str, entries: list[str]) -> set[str]:
        if directory == classroom:
            return set(entries) - CLASSROOM
        return LEFT_OUT.intersection(entries)

    return names


def library_paths(settings: Settings) -> Iterator[Path]:
    """Yield the installed libraries that the jail may read.

    Raises: MissingExtraError: one of those that build walls is not installed.
    """
    for name in (*LIBRARIES, *settings.packages):
        yield from module_paths(name)
    for name, wall in zip(WALL_LIBRARIES, ("landlock", "seccomp"), strict=True):
        if not settings.has(wall):
            continue
        if importlib.util.find_spec(name) is None:
            if settings.fewer_walls:
                continue
            raise missing_extra("classroom", "grade", f"the jail needs {name}")
        yield from module_paths(name)


def module_paths(name: str) -> Iterator[Path]:
    """Yield where a module lies, and the folder with its shared libraries."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the jail needs {name}, which is not installed")
    path = Path(spec.origin)
    path = path.parent if path.name == "__init__.py" else path
    yield path.resolve()
    if (libraries := path.parent / f"{name}.libs").exists():
        yield libraries.resolve()


# What the jail may read ---------------------------------------------------------------


def standard_library() -> list[str]:
    """Return the folders of Python's own modules, and of the shared libraries."""
    own = [os.path.dirname(os.__file__)]
    system = [path for path in ("/usr/lib", "/usr/lib64", "/lib", "/lib64") if os.path.exists(path)]
    base = Path(sys.base_prefix) / "lib"  # where libpython and what it links to may lie
    links = [str(path) for path in base.glob("*.so*") if base != Path("/usr/lib")]
    return [*own, *system, *links]


def masked_folders(paths: Iterable[str]) -> list[str]:
    """Return the folders in them where other packages are installed: the jail sees none of them."""
    masked = []
    for path in paths:
        for pattern in ("site-packages", "dist-packages", "python3*/site-packages",
                        "python3*/dist-packages"):  # fmt: skip
            masked += [str(match) for match in Path(path).glob(pattern) if match.is_dir()]
    return sorted(set(masked))


def readable_paths(folder: str) -> list[str]:
    """Return all paths that the jail may read."""
    site = os.path.join(folder, "site")
    links = [os.path.realpath(entry.path) for entry in os.scandir(site) if entry.is_symlink()]
    return [*standard_library(), site, *links]
