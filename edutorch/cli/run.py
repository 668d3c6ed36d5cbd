"""`python -m edutorch run SCRIPT`: a PyTorch script on edutorch, unmodified.

The script sees what plain `python SCRIPT` would show it: its own folder first
on the path, its arguments, `__name__ == "__main__"`. An error it does not
catch is reported with its own lines only.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

from .. import alias

_NOT_OURS_YET = re.compile(r"cannot import name '(\w+)' from 'edutorch([\w.]*)'")


def run(script: str, arguments: list[str]) -> int:
    """Run the file `script` with `import torch` meaning edutorch."""
    path = os.path.abspath(script)
    if not os.path.isfile(path):
        print(f"edutorch run: there is no file {script!r}", file=sys.stderr)
        return 2
    alias.install()
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(path)
    sys.excepthook = _report_for(path)

    main = ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = SourceFileLoader("__main__", path)
    sys.modules["__main__"] = main
    exec(compile(Path(path).read_bytes(), path, "exec", dont_inherit=True), vars(main))
    return 0


def _report_for(path: str) -> Callable[..., None]:
    """Return an excepthook that leaves out the lines that led to the script at `path`."""

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        if missing := _NOT_OURS_YET.match(str(error)):
            name, place = missing.groups()
            error.add_note(f"edutorch has no torch{place}.{name} (yet)")
        sys.__excepthook__(kind, error.with_traceback(trace), trace)

    return report
