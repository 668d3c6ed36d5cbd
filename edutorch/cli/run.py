"""`python -m edutorch run SCRIPT`: runs an unmodified PyTorch script on edutorch.

The environment is that of plain `python SCRIPT`: the script's folder is first on the path,
`sys.argv` has its arguments, and `__name__ == "__main__"`; with `-m`, that of `python -m MODULE`.
The traceback of an uncaught exception starts at the script's own code.

`python -m edutorch graph SCRIPT` runs it in the same way and draws its graph, without a notebook:
the graph of its last backward; without a backward, all that was computed last, in grey where it has
no gradient; after an error, what was computed until then.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace, TracebackType
from typing import Any, Literal, cast

from .. import alias
from ..errors import EdutorchError
from . import torchrun

_NOT_OURS_YET = re.compile(r"cannot import name '(\w+)' from '((?:edutorch|torch)[\w.]*)'")


def run(script: str, arguments: list[str]) -> int:
    """Run the file `script`, with `import torch` importing edutorch."""
    path = os.path.abspath(script)
    if not os.path.isfile(path):
        if script == torchrun.NAME:
            return torchrun.torchrun(arguments)
        print(f"edutorch run: there is no file {script!r}", file=sys.stderr)
        return 2
    alias.install()
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(path)  # it was the folder that `python -m` ran in
    sys.excepthook = _report_for(path)

    main = ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = SourceFileLoader("__main__", path)
    sys.modules["__main__"] = main
    # Its own future imports count, not ours: `annotations` would change what dataclasses see.
    exec(compile(Path(path).read_bytes(), path, "exec", dont_inherit=True), vars(main))
    return 0


def run_module(name: str, arguments: list[str]) -> int:
    """Run the module `name`, or the `__main__` of a package, as `python -m name` would."""
    alias.install()
    sys.argv = ["-m", *arguments]
    sys.path[0] = os.getcwd()
    # `torch.distributed.run` is a module of ours: its own name leads to its text.
    spec = _find_main_spec(alias.our_name(name) if name.startswith("torch.") else name)
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
        # An error in the file's own syntax has no frame of it: then nothing is left, as in Python.
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        if missing := _NOT_OURS_YET.match(str(error)):
            name, module = missing.groups()
            error.add_note(alias.absent(module, name))
        sys.__excepthook__(exc_type, error.with_traceback(trace), trace)

    return report


# Drawing the graph of a script ------------------------------------------------------------------

FORMATS = (".svg", ".png", ".html", ".dot")


ROWS = 200


def add_cuda_as_cpu(parser: argparse.ArgumentParser) -> None:
    """Add the option that lets simulated cards answer for "cuda"."""
    parser.add_argument(
        "--cuda-as-cpu", metavar="N", help='let N simulated cards (1) answer for "cuda", on the CPU'
    )


USAGE = "edutorch graph"
Part = Literal["forward", "backward", "both"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `graph`, which may come before or after the script."""
    parser.add_argument("-o", "--output", metavar="FILE", help="write FILE.svg, .png, .html, .dot")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--backward", action="store_true", help="draw the graph of backward")
    which.add_argument("--both", action="store_true", help="draw forward and backward")
    parser.add_argument(
        "--open", action="append", default=[], metavar="PATH", help="show a module open"
    )


def graph(options: argparse.Namespace, rest: list[str]) -> int:
    """Run the script and draw its graph; return the exit code: the script's own, if not 0.

    Args:
        rest: arguments that belong to the script in any case.
    """
    script_options = argparse.ArgumentParser(prog=USAGE, add_help=False, allow_abbrev=False)
    add_options(script_options)
    more, script_arguments = script_options.parse_known_args(options.arguments)
    output = more.output or options.output
    if problem := check_output(output):
        print(f"{USAGE}: {problem}", file=sys.stderr)
        return 2
    backward, both = options.backward or more.backward, options.both or more.both
    part: Part = "both" if both else "backward" if backward else "forward"
    recorder, code = run_recorded(options.script, [*script_arguments, *rest])
    if recorder is None:
        return code
    try:
        draw_code = draw_recorded(recorder, part, [*options.open, *more.open], output)
    except (EdutorchError, OSError) as error:
        print(f"{USAGE}: {error}", file=sys.stderr)
        return code or 1
    return code or draw_code


def check_output(output: str | None) -> str:
    """Return what is wrong with the name of a file, before anything runs."""
    if output is None:
        return ""
    path = Path(output)
    if path.suffix.lower() not in FORMATS:
        known = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        return f"cannot tell the format of {output!r}; use a name that ends in {known}"
    if not path.absolute().parent.is_dir():
        return f"there is no folder {str(path.parent)!r} to write {path.name!r} in"
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        return f"cannot write {output!r}"
    return ""


def run_recorded(script: str, arguments: list[str]) -> tuple[Any, int]:
    """Run a script with a recorder; return the recorder (None if it did not run) and exit code."""
    from ..events import listening
    from ..viz.graph.names import Names
    from ..viz.live.recorder import Recorder

    recorder = Recorder(Names((), cast(FrameType, ScriptFrame())), detailed=True)
    failed, code = False, 0
    try:
        with listening(recorder):
            code = run(script, arguments)
            if code:
                return None, code
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 (it is reported, and decides the exit code)
        sys.stdout.flush()
        sys.excepthook(type(error), error, error.__traceback__)
        failed, code = True, 130 if isinstance(error, KeyboardInterrupt) else 1
    if failed and recorder.pending:
        recorder.finish_step()
    recorder.finish()
    return recorder, code


class ScriptFrame(SimpleNamespace):
    """A frame with the script's current variables, which names in the picture are taken from."""

    @property
    def f_locals(self) -> dict[str, Any]:
        main: ModuleType | None = sys.modules.get("__main__")
        return vars(main) if main is not None else {}

    f_globals = f_locals


def draw_recorded(recorder: Any, part: Part, groups: list[str], output: str | None) -> int:
    """Draw the recorded graph, into a file or as a table on the terminal."""
    from ..viz.backward_walk.backward_steps import backward_snapshot
    from ..viz.graph.fold import UnknownGroupError
    from ..viz.render.static import Drawing

    if recorder.snapshot is None:
        print(
            f"{USAGE}: nothing was recorded: the script computed nothing from a tensor",
            file=sys.stderr,
        )
        return 1
    snapshot = recorder.snapshot
    if part == "backward" and not any(node.differentiable for node in snapshot.graph.nodes):
        print(f"{USAGE}: --backward: nothing that has a gradient was computed", file=sys.stderr)
        return 1
    drawing = Drawing(backward_snapshot(snapshot, part))
    try:
        drawing = drawing.open(*groups)
    except UnknownGroupError as error:
        print(f"{USAGE}: --open: {error}", file=sys.stderr)
        return 2
    if output is None:
        print(drawing.table(ROWS))
        return 0
    path = Path(output)
    if path.suffix.lower() == ".html":
        from ..viz.history.export import drawing_page
        from ..viz.render.static import write_file

        write_file(path, drawing_page(drawing))
    else:
        drawing.save(path)
    size = f"{len(drawing.snapshot.graph.nodes)} boxes for {len(snapshot.graph.nodes)} nodes"
    print(f"{output}: {size}", file=sys.stderr)
    return 0
