"""Finds the files of installed packages, without importing the packages."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from ..errors import missing_extra

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
    try:
        spec = find_spec(package)
    except ValueError:  # a module that a program has put together itself
        spec = None
    if spec is None or spec.origin is None:
        raise missing_extra(extra, purpose, missing_reason(package))
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
