"""`python -m edutorch run SCRIPT`: runs an unmodified PyTorch script on edutorch.

The environment is that of plain `python SCRIPT`: the script's folder is first on the path,
`sys.argv` has its arguments, and `__name__ == "__main__"`; with `-m`, that of `python -m MODULE`.
The traceback of an uncaught exception starts at the script's own code.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType

from .. import alias

_NOT_OURS_YET = re.compile(r"cannot import name '(\w+)' from 'edutorch([\w.]*)'")


def run(script: str, arguments: list[str]) -> int:
    """Run the file `script`, with `import torch` importing edutorch."""
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


def run_module(name: str, arguments: list[str]) -> int:
    """Run the module `name`, or the `__main__` of a package, as `python -m name` would."""
    alias.install()
    sys.argv = ["-m", *arguments]
    sys.path[0] = os.getcwd()
    spec = _find_main_spec(name)
    if spec is None or spec.origin is None or not isinstance(spec.loader, InspectLoader):
        print(f"edutorch run: there is no module {name!r}", file=sys.stderr)
        return 2
    sys.argv[0] = spec.origin
    sys.excepthook = _report_for(spec.origin)

    main = ModuleType("__main__")
    main.__file__, main.__loader__ = spec.origin, spec.loader
    main.__spec__, main.__package__ = spec, spec.parent
    sys.modules["__main__"] = main
    code = spec.loader.get_code(spec.name)
    assert code is not None
    exec(code, vars(main))
    return 0


def _find_main_spec(name: str) -> ModuleSpec | None:
    """Return the spec of a module that can be run; of a package, its `__main__`."""
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if not name.startswith(f"{error.name}"):
            raise
        return None
    return spec


def _report_for(path: str) -> Callable[..., None]:
    """Return an excepthook that omits the stack frames before the script at `path`."""

    def report(
        exc_type: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        if missing := _NOT_OURS_YET.match(str(error)):
            name, module_path = missing.groups()
            error.add_note(f"edutorch has no torch{module_path}.{name} (yet)")
        sys.__excepthook__(exc_type, error.with_traceback(trace), trace)

    return report
