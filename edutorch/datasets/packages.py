"""Finds the files of installed packages, without importing the packages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ..errors import missing_extra

DISTRIBUTIONS = {"skimage": "scikit-image", "sklearn": "scikit-learn", "babel": "Babel"}
"""What is installed, where its name is not that of the package that is imported."""


def require_package(package: str, purpose: str, extra: str = "course") -> Path:
    """Return the folder of an installed package.

    Args:
        package: the name that would be imported, "skimage".
        purpose: what needs it, "datasets.load_faces".
        extra: the extra of edutorch that brings it.

    Raises: MissingExtraError: the package is not installed.
    """
    try:
        spec = find_spec(package)
    except ValueError:  # a module that a program has put together itself
        spec = None
    if spec is None or spec.origin is None:
        name = DISTRIBUTIONS.get(package, package)
        raise missing_extra(extra, purpose, f"{name} is not installed")
    return Path(spec.origin).parent


def file_of(package: str, path: str, purpose: str, extra: str = "course") -> Path:
    """Return the path of a data file of an installed package.

    Raises:
        MissingExtraError: the package is not installed.
        FileNotFoundError: this version of the package does not have the file.
    """
    file = require_package(package, purpose, extra) / path
    if not file.is_file():
        name = DISTRIBUTIONS.get(package, package)
        raise FileNotFoundError(
            f"{purpose}: the installed {name} has no file {path!r}\n"
            f'  hint: pip install --upgrade "edutorch[{extra}]" brings a version that has it'
        )
    return file
