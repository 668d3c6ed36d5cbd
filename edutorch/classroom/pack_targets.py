"""What a pack is for: a platform and a Python, and which wheels fit and are missing there."""

from __future__ import annotations

import platform
import re
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..backends.platform import IS_MACOS, IS_WINDOWS

LINUX = {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux"}
MACOS = {"os_name": "posix", "sys_platform": "darwin", "platform_system": "Darwin"}
WINDOWS = {"os_name": "nt", "sys_platform": "win32", "platform_system": "Windows"}

PLATFORMS: dict[str, dict[str, str]] = {
    "linux": {**LINUX, "platform_machine": "x86_64"},
    "linux-arm": {**LINUX, "platform_machine": "aarch64"},
    "macos-arm": {**MACOS, "platform_machine": "arm64"},
    "macos-intel": {**MACOS, "platform_machine": "x86_64"},
    "windows": {**WINDOWS, "platform_machine": "AMD64"},
}
"""By name, what the markers of requirements (`; sys_platform == "win32"`) ask for."""

OLDEST_GLIBC, NEWEST_GLIBC = 5, 28  # 2.28: Debian 10, Ubuntu 20.04
MACOS_VERSION = (13, 0)


class Target(NamedTuple):
    """A platform by its name, and a Python as "3.12"."""

    platform: str
    python: str

    def __str__(self) -> str:
        return f"{self.platform}, Python {self.python}"

    @property
    def environment(self) -> dict[str, str]:
        """What the markers of requirements ask for."""
        return {
            **PLATFORMS[self.platform], "python_version": self.python,
            "python_full_version": f"{self.python}.0", "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0", "platform_release": "",
            "platform_version": "", "platform_python_implementation": "CPython",
        }  # fmt: skip

    def pip_options(self) -> list[str]:
        """Return what says to `pip download` which wheels fit."""
        options = ["--implementation", "cp", "--python-version", self.python]
        for tag in platform_tags(self.platform):
            options += ["--platform", tag]
        return options

    def tags(self) -> frozenset[Any]:
        """Return the tags of all wheels that fit."""
        return tags_of(self)


def platform_tags(name: str) -> list[str]:
    """Return the platform tags of wheels that run on a platform, the newest first.

    >>> from edutorch.classroom.pack_targets import platform_tags
    >>> platform_tags("windows")
    ['win_amd64']
    """
    from packaging.tags import mac_platforms

    machine = PLATFORMS[name]["platform_machine"]
    if name == "windows":
        return ["win_amd64"]
    if name.startswith("macos"):
        return list(mac_platforms(MACOS_VERSION, machine))
    glibc = range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)
    old = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
    tags = [[f"manylinux_2_{minor}_{machine}"] for minor in glibc]
    for minor, tag in zip(glibc, tags, strict=True):
        tag += [f"{old[minor]}_{machine}"] if minor in old else []
    return [tag for both in tags for tag in both]


@cache
def tags_of(target: Target) -> frozenset[Any]:
    from packaging.tags import compatible_tags, cpython_tags

    version = tuple(map(int, target.python.split(".")))
    platforms = platform_tags(target.platform)
    interpreter = "cp{}{}".format(*version)
    return frozenset(
        [
            *cpython_tags(version, platforms=platforms),
            *compatible_tags(version, interpreter, platforms),
        ]
    )


def this_machine() -> str:
    """Return the name of the platform that this Python runs on."""
    machine = platform.machine().lower()
    is_arm = machine in ("arm64", "aarch64")
    if IS_WINDOWS:
        return "windows"
    if IS_MACOS:
        return "macos-arm" if is_arm else "macos-intel"
    return "linux-arm" if is_arm else "linux"


# What is missing ---------------------------------------------------------------------------------


def missing_requirements(wheels: Path, root: str, target: Target) -> set[str]:
    """Return the requirements of a target that no wheel in a folder fulfils.

    Args:
        root: what is to be installed, as "edutorch[lab]".
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    known = wheels_for(wheels, target)
    missing: set[str] = set()
    waiting, seen = [Requirement(root)], set[tuple[str, str]]()
    while waiting:
        requirement = waiting.pop()
        fitting = [
            path for version, path in known.get(canonicalize_name(requirement.name), ())
            if requirement.specifier.contains(version, prereleases=True)
        ]  # fmt: skip
        if not fitting:
            missing.add(without_marker(requirement))
            continue
        for extra in {"", *requirement.extras}:
            if (fitting[0].name, extra) not in seen:
                seen.add((fitting[0].name, extra))
                waiting += requirements_of(fitting[0], {**target.environment, "extra": extra})
    return missing


def without_marker(requirement: Any) -> str:
    """Return a requirement for `pip download`, which would ask its marker for this machine."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def wheels_for(folder: Path, target: Target) -> dict[str, list[tuple[Any, Path]]]:
    """Return the wheels that fit a target by their projects: (version, path), the newest first."""
    from packaging.utils import parse_wheel_filename

    known: dict[str, list[tuple[Any, Path]]] = {}
    for path in folder.glob("*.whl"):
        name, version, _, tags = parse_wheel_filename(path.name)
        if not tags.isdisjoint(target.tags()):
            known.setdefault(name, []).append((version, path))
    for versions in known.values():
        versions.sort(reverse=True)
    return known


def requirements_of(wheel: Path, environment: dict[str, str]) -> Iterator[Any]:
    """Yield the requirements that a wheel has on a platform."""
    from packaging.requirements import Requirement

    for line in requires_dist(wheel):
        requirement = Requirement(line)
        if requirement.marker is None:
            if not environment["extra"]:
                yield requirement
        elif requirement.marker.evaluate(environment):
            yield requirement


@cache
def requires_dist(wheel: Path) -> tuple[str, ...]:
    """Return what a wheel says that it needs."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(
            name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)
        )
        text = archive.read(name).decode("utf-8")
    return tuple(HeaderParser().parsestr(text).get_all("Requires-Dist") or ())
