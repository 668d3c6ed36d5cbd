"""What the grader needs of whatever runs students' code, `JailFactory` or `WasmFactory`.

Where Linux's walls are missing, Python compiled to WebAssembly holds code in by itself. The grader
does not know which one it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ..attempt import Attempt


class Sandbox(Protocol):
    """Answers the questions of one submission; see `jail.Jail`."""

    def ask(
        self, answer_source: str, case: Mapping[str, Any], forbid: frozenset[str] = frozenset(),
        seconds: float | None = None,
    ) -> Attempt:  # fmt: skip
        """Return what the student's code answers, or the error that stopped it."""
        ...


class SandboxFactory(Protocol):
    """Makes sandboxes, and says which walls they have; see `chain.open_factory`."""

    walls: dict[str, tuple[bool | None, str]]

    def jail(self, cells: list[str]) -> AbstractContextManager[Sandbox]:
        """Return a sandbox for a submission, given the sources of its cells."""
        ...

    def close(self) -> None:
        """End the sandboxes, and remove what they had."""
        ...
