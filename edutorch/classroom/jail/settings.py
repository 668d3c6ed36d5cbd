"""What a jail may use, and which walls it must have."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

MIB = 1 << 20

FLAGS = ("-P", "-s", "-S", "-B", "-c")
"""Of Python: it imports from no folder of the user, and from no site-packages."""

MEMORY_STATUS = 75
"""The exit code of Python in WebAssembly that has no memory left to say so."""

WALLS = (
    "user namespace", "mount namespace", "pid namespace", "network namespace", "ipc namespace",
    "uts namespace", "own uid", "landlock", "seccomp", "limits", "watcher",
)  # fmt: skip
"""All walls, in the order in which they are raised. `walls.py` says what each keeps out."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The limits of a jail, and of what comes out of it.

    Attributes:
        memory: bytes of all processes of a jail together, beyond what was there at its start.
        disk: bytes in its home, the only place that it can write to.
        processes: processes and threads of a jail.
        descriptors: open files of a process.
        cpu_seconds: of a process, whatever the clock says.
        seconds: for one exercise, if `ask` is not told.
        submission_seconds: for all exercises of a submission.
        answer_bytes, header_bytes: of one answer: its arrays, and the rest.
        packages: import names besides NumPy that the student's code may import.
        fewer_walls: run where walls are missing, too; the results say which.
        without: walls that are not raised, to try the others alone.
        wasm: run the code in WebAssembly, whatever walls there are.
        bwrap: the program `bwrap` to build the namespaces with; "" looks for it on the path.
    """

    memory: int = 512 * MIB
    disk: int = 32 * MIB
    processes: int = 16
    descriptors: int = 64
    cpu_seconds: int = 60
    seconds: float = 10.0
    submission_seconds: float = 120.0
    answer_bytes: int = 16 * MIB
    header_bytes: int = 2 * MIB
    packages: tuple[str, ...] = ()
    fewer_walls: bool = False
    without: frozenset[str] = frozenset()
    wasm: bool = False
    bwrap: str = ""

    def has(self, wall: str) -> bool:
        """Return whether a wall is wanted."""
        return wall not in self.without

    def without_walls(self, missing: Iterable[str]) -> Settings:
        """Return the settings without some walls."""
        return dataclasses.replace(self, without=self.without | set(missing))

    def to_json(self) -> bytes:
        """Return the settings as JSON."""
        fields = dataclasses.asdict(self)
        return json.dumps({**fields, "without": sorted(self.without)}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Settings:
        """Return the settings that `to_json` has written."""
        fields: dict[str, Any] = json.loads(text)
        fields["packages"] = tuple(fields["packages"])
        fields["without"] = frozenset(fields["without"])
        return cls(**fields)
