"""Copies data files of packages, for places where the packages cannot be installed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from .images import load_digits, load_faces, load_nuclei, load_photo
from .packages import CHECKSUMS, DISTRIBUTIONS, READ, digest
from .series import load_co2, load_sunspots, load_weather
from .tables import load_cars, load_penguins, load_wine
from .texts import load_manual

LOADERS: dict[str, Callable[[], object]] = {
    "cars": load_cars, "co2": load_co2, "digits": load_digits, "faces": load_faces,
    "manual": load_manual, "nuclei": load_nuclei, "penguins": load_penguins,
    "sunspots": load_sunspots, "weather": load_weather, "wine": load_wine,
}  # fmt: skip
"""The data sets that are read from files, and need nothing else of their packages."""


def write_data(folder: str | Path, names: Iterable[str]) -> list[Path]:
    """Copy the files behind some data sets into a folder, where they are read without the packages.

    Lessons look into the folder `edutorch_data` beside them, or into that which the environment
    variable EDUTORCH_DATA names. The texts of the packages' licences are copied, too.

    Args:
        folder: is made if it is not there; nothing in it is removed.
        names: "digits" for `load_digits()`, "photo coffee" for `load_photo("coffee")`.

    Returns: the copies.

    Raises:
        ValueError: there is no such data set, or no such photo.
        MissingExtraError: its package is not installed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     sorted(path.name for path in write_data(folder, ["wine", "digits"]))
    ['COPYING', 'digits.csv.gz', 'wine_data.csv']
    """
    sources: dict[str, Path] = {}
    for name in names:
        sources |= files_of(name)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for place, source in sources.items():
        copy = folder / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != CHECKSUMS)
    lines = [f"{digest(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    (folder / CHECKSUMS).write_text("".join(lines), "utf-8")
    return [folder / place for place in sources]


def files_of(name: str) -> dict[str, Path]:
    """Return the files that a data set is read from; each with its place among the copies."""
    load = LOADERS.get(name)
    if name.startswith("photo "):
        load = partial(load_photo, name.removeprefix("photo "))
    if load is None:
        known = ", ".join([*LOADERS, "photo coffee"])
        raise ValueError(
            f"datasets.write_data: there are no files of {name!r}\n  hint: there are {known}"
        )
    READ.clear()
    load()
    files = {f"{package}/{path}": file for (package, path), file in READ.items()}
    for package in {package for package, _ in READ}:
        files |= licences_of(package)
    return files


def licences_of(package: str) -> dict[str, Path]:
    """Return the texts of a package's licence; each with its place among the copies."""
    try:
        installed = distribution(DISTRIBUTIONS.get(package, package))
    except PackageNotFoundError:
        return {}
    return {
        f"{package}/{file.name}": Path(str(installed.locate_file(file)))
        for file in installed.files or ()
        if re.match(r"(?i)(licen[cs]e|copying)", file.name) and ".dist-info" in str(file)
    }
