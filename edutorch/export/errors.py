"""The errors of exported programs."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import EdutorchError, ShapeError

__all__ = ["ExportError", "ProgramFileError", "ProgramInputError"]


class ExportError(EdutorchError, RuntimeError):
    """A module cannot be exported: the line is named, and what to use there instead."""

    def __init__(
        self, message: str, arguments: Mapping[str, object] | None = None, hint: str | None = None
    ) -> None:
        super().__init__("export", message, arguments, hint)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.arguments, self.hint)


class ProgramInputError(ShapeError, AssertionError):
    """A call of a program with inputs that it was not exported for."""


class ProgramFileError(EdutorchError, RuntimeError):
    """A file that is no exported program, or is damaged. Nothing in it was executed."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__("export.load", message, None, hint)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.hint)
