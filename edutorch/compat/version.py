"""`torch.version`: the version and build settings. Nothing here is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterable

PYTORCH = "2.13.0"
"""The version of PyTorch whose names and behaviour edutorch follows."""


VersionLike = str | Iterable[int | str]
"""A version as text, or its numbers."""


class TorchVersion(str):
    """A string such as "2.13.0+cpu" that is ordered by its numbers.

    It can be compared with another version, a string or a tuple of numbers; suffixes after the
    numbers are ignored.

    >>> TorchVersion("2.13.0+cpu") >= "2.9", TorchVersion("2.13.0") >= (3, 0)
    (True, False)
    """

    __slots__ = ()
    __hash__ = str.__hash__  # a class that defines `__eq__` loses it otherwise

    def __lt__(self, other: VersionLike) -> bool:
        return _release_numbers(self) < _release_numbers(other)

    def __le__(self, other: VersionLike) -> bool:
        return _release_numbers(self) <= _release_numbers(other)

    def __gt__(self, other: VersionLike) -> bool:
        return _release_numbers(self) > _release_numbers(other)

    def __ge__(self, other: VersionLike) -> bool:
        return _release_numbers(self) >= _release_numbers(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str | tuple | list):
            return NotImplemented
        return (
            str(self) == other
            if isinstance(other, str)
            else _release_numbers(self) == _release_numbers(other)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other


def _release_numbers(version: VersionLike) -> list[int]:
    """Return the leading numbers, without trailing zeros: 2.0 is 2."""
    if isinstance(version, str):
        match = re.match(r"v?(\d+(?:\.\d+)*)", version)
        if match is None:
            raise ValueError(f"{version!r} is no version: expected numbers, as in '2.13.0'")
        release = [int(part) for part in match[1].split(".")]
    else:
        release = [int(part) for part in version]
    while release and release[-1] == 0:
        release.pop()
    return release


OWN = "0.1.0"
"""edutorch's own version."""

__version__: str = TorchVersion(f"{PYTORCH}+edutorch.{OWN}")
"""The value of `torch.__version__` in a script that runs on edutorch."""

debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version: str | None = None
