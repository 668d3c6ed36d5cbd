"""Source locations: the line of the user's code that led to a call.

Errors, pictures and anomaly mode show it. Finding the location is cheap, reading its text is not.
So locations are kept, and their text is read only on demand.
"""

from __future__ import annotations

import linecache
import sys
from types import CodeType, FrameType
from typing import NamedTuple

CodeLocation = tuple[CodeType, int]
"""A code object and the index of an instruction in it; `read_line` returns its line."""


class Source(NamedTuple):
    """A line of code: the file it is in, its number and its text."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.text}".rstrip()


def user_frame(depth: int = 1) -> FrameType:
    """Return the innermost frame outside this library (or the outermost, if all are inside).

    Args:
        depth: how many frames above this one to begin.
    """
    frame = sys._getframe(depth)
    while frame.f_globals.get("__name__", "").startswith("edutorch.") and frame.f_back:
        frame = frame.f_back
    return frame


def user_location() -> CodeLocation:
    """Return the location in the user's code of the current call."""
    frame = user_frame(2)
    return frame.f_code, frame.f_lasti


def read_line(location: CodeLocation) -> Source:
    """Return the line of a location, with its text if the file can still be read.

    >>> read_line(user_location()).line > 0
    True
    """
    code, instruction = location
    file, line = code.co_filename, code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    return Source(file, line, linecache.getline(file, line).strip())
