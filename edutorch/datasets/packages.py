"""Finds the files of installed packages, without importing the packages; or copies of the files.

Where a package is not installed, as in a browser tab, its files are looked for in a folder beside
the notebook, as `edutorch_data/<package>/<path>`. `write_data` puts them there.
"""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from ..errors import MissingExtraError, missing_extra

DISTRIBUTIONS = {
    "skimage": "scikit-image", "sklearn": "scikit-learn", "babel": "Babel", "PIL": "Pillow",
    "vega_datasets": "vega-datasets",
}  # fmt: skip
"""What is installed, where its name is not that of the package that is imported."""

NO_WHEELS = {"stardist": (3, 14)}
"""From which version of Python on a package has no wheel: see the extra `course`."""


def has_wheel(package: str) -> bool:
    """Whether pip finds a wheel of this package for the Python that runs."""
    return sys.version_info < NO_WHEELS.get(package, (99,))


def missing_reason(package: str) -> str:
    """Return why a package that is absent is absent.

    >>> missing_reason("skimage")
    'scikit-image is not installed'
    """
    name = DISTRIBUTIONS.get(package, package)
    if not has_wheel(package):
        version = ".".join(map(str, sys.version_info[:2]))
        return f"{name} is not installed, and has no wheel for Python {version}"
    return f"{name} is not installed"


def require_package(package: str, purpose: str, extra: str = "course") -> Path:
    """Return the folder of an installed package.

    Args:
        package: the name that would be imported, "skimage".
        purpose: what needs it, "datasets.load_faces".
        extra: the extra of edutorch that brings it.

    Raises: MissingExtraError: the package is not installed.
    """
    folder = installed_folder(package)
    if folder is None:
        raise missing_extra(extra, purpose, missing_reason(package))
    return folder


def installed_folder(package: str) -> Path | None:
    """Return the folder of a package; None if it is not installed."""
    try:
        spec = find_spec(package)
    except ValueError:  # a module that a program has put together itself
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def data_folder(package: str, purpose: str, extra: str = "course") -> Path:
    """Return the folder of an installed package, or that with the copies of its files.

    Args:
        extra: the extra of edutorch that brings the package; "" if Python does.

    Raises: MissingExtraError: there is neither.
    """
    folder = installed_folder(package) or copies_folder() / package
    if not folder.is_dir():
        install = f'pip install "edutorch[{extra}]", or ' if extra else ""
        raise MissingExtraError(
            purpose, missing_reason(package), hint=f"{install}{COPY} (there is no {folder})"
        )
    return folder


def file_of(package: str, path: str, purpose: str, extra: str = "course") -> Path:
    """Return the path of a data file of an installed package, or of its copy.

    Raises:
        MissingExtraError: the package is not installed, and there are no copies.
        FileNotFoundError: this version of the package, or the folder of copies, has no such file.
        ValueError: the copy is not what was copied.
    """
    folder = data_folder(package, purpose, extra)
    file = folder / path
    is_copy = folder == copies_folder() / package
    if not file.is_file():
        name = folder if is_copy else f"the installed {DISTRIBUTIONS.get(package, package)}"
        upgrade = f'pip install --upgrade "edutorch[{extra}]" brings a version that has it'
        raise FileNotFoundError(
            f"{purpose}: {name} has no file {path!r}\n  hint: {COPY if is_copy else upgrade}"
        )
    if is_copy and digest(file) not in checksums():
        raise ValueError(f"{purpose}: {file} is not the file that was copied\n  hint: {COPY}")
    READ[package, path] = file
    return file


# Copies ---------------------------------------------------------------------------------------

READ: dict[tuple[str, str], Path] = {}
"""The files that were found; `write_data` empties it, and copies what comes then."""

COPY = "copy its files where it is installed: see datasets.write_data"

COPIES = "edutorch_data"
"""The folder of copies beside a notebook; or a package of this name, which a site may bring."""

CHECKSUMS = "SHA256SUMS"
"""A file beside the copies: the SHA-256 of each, and its name."""


def copies_folder() -> Path:
    """Return the folder of copies: that of EDUTORCH_DATA, beside the notebook, or installed."""
    folder = Path(os.environ.get("EDUTORCH_DATA") or COPIES)
    return folder if folder.is_dir() else installed_folder(COPIES) or folder


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def checksums() -> set[str]:
    """Return the SHA-256 of all copies; nothing if nobody has written them down."""
    file = copies_folder() / CHECKSUMS
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    return {line.partition(" ")[0] for line in lines}
