"""The rules of the house, so that nobody has to remember them.

What a linter can see (line length, unused names, missing types, broad excepts) ruff
checks; the rest is here: who may import whom, sizes, documentation, what an import costs.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import edutorch
from tests.house import (
    MODULES,
    PACKAGE,
    ROOT,
    WINGS,
    body_lines,
    entries,
    lines_of_code,
    module_name,
    parsed,
    text_of,
)  # fmt: skip

SOURCES = [
    *MODULES,
    *sorted((ROOT / "tests").rglob("*.py")),
    *sorted((ROOT / "benchmarks").rglob("*.py")),
    *sorted((ROOT / "widgets").glob("*.js")),
]

MAX_FILE = 400
MAX_FUNCTION = 40
LONG_FUNCTIONS = 27  # so many are longer: fewer is better, more is an error

# A module imports from its own layer and from those above it in this list.
LAYERS = (
    {"errors"},
    {"modes"},
    {"events"},
    {"dtypes"},
    {"backends"},
    {"settings"},
    {"core"},
    {"ops"},
    {"fft", "linalg", "random", "special"},
    {"amp", "autograd", "cuda", "func", "nn", "profiler", "signal", "utils"},
    {"optim"},
    {"distributions"},
    {"serialization"},
    {"train"},
    {"fx"},
    {"kernels"},
    {"compilation"},
    {"distributed"},
    {"export"},
    {"jit", "onnx"},
    {"viz"},
    {"serve"},
    {"datasets"},
    {"vision", "text", "audio", "rl"},
    {"zoo"},
    {"classroom"},
    {"compat"},  # what PyTorch has, with nothing to teach: nothing below reads it
    {"cli", "__main__"},
)

MAX_ENTRIES = 32

COMPAT = PACKAGE / "compat"
"""On the search path of the package: `compat/mps.py` is imported as `edutorch.mps`."""

# Papers, and the names of XML formats: text that nobody fetches.
KNOWN_ADDRESSES = {
    "www.w3.org", "arxiv.org", "doi.org", "www.apache.org",
    "127.0.0.1", "cdn.jsdelivr.net",  # where a site is served, and loads Pyodide from
}  # fmt: skip


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def over_files(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=ids)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield each statement in a statement, however deep. Expressions are not looked at."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(tree, part, ()):
            yield child
            yield from statements(child)


def broken(paths: Iterable[Path], rule: Callable[[Path], Iterable[str]]) -> str:
    """Ask a rule what is wrong with each file, and say all of it, a line each.

    Together the files are one test: thousands that take no time cost minutes to be kept apart.
    """
    return "\n".join(f"{ids(path)}: {what}" for path in paths for what in rule(path))


# Layers ------------------------------------------------------------------------------


def layer_of(name: str) -> int:
    """Return how deep the part `name` lies: the number of its layer."""
    if (COMPAT / f"{name}.py").exists() or (COMPAT / name / "__init__.py").exists():
        name = "compat"
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    raise AssertionError(f"edutorch.{name} has no place in LAYERS: give it one")


def imported_parts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, part) for each part of edutorch that a module imports, anywhere in it.

    Imports for type checkers only do not count: they do not happen.
    """
    tree = parsed(path)
    for_types = {
        id(inner)
        for node in statements(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in statements(node)
    }
    package = module_name(path, ROOT).split(".")
    if path.name != "__init__.py":
        package.pop()
    for node in statements(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{source}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            root, _, rest = name.partition(".")
            if root == "edutorch" and rest:
                yield node.lineno, rest.partition(".")[0]


def upward_imports(path: Path) -> Iterator[str]:
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    for line, part in imported_parts(path):
        if layer_of(part) > layer_of(own):
            yield f"line {line}: {own} imports {part}"


def test_imports_go_downwards():
    wrong = broken([path for path in MODULES if path != PACKAGE / "__init__.py"], upward_imports)
    assert not wrong, wrong


def test_the_top_level_is_small():
    assert len(entries()) <= MAX_ENTRIES, sorted(entries())
    assert {*entries()} - {"__init__"} == set().union(*LAYERS) - WINGS


def test_the_import_scan_sees_every_form(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "edutorch" / "core" / "tensor.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "from .. import modes\n"
        "from ..nn.module import Module\n"
        "import edutorch.viz\n"
        "def late():\n    from edutorch import optim\n"
        "from .op import Op\n"
        "if TYPE_CHECKING:\n    from .. import func\n"
    )
    assert sorted(imported_parts(file)) == [
        (1, "modes"),
        (2, "nn"),
        (3, "viz"),
        (5, "optim"),
        (6, "core"),
    ]


HEAVY = ("cupy", "numba", "IPython", "anywidget", "ipywidgets", "jupyterlab", "matplotlib", "torch")


def test_importing_edutorch_imports_nothing_heavy():
    code = f"import edutorch, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@over_files([ROOT / name for name in ("edutorch", "tests", "benchmarks", "notebooks")])
def test_ruff_has_nothing_to_say(path):
    pytest.importorskip("ruff", reason="needs the extra `test`")
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--output-format=concise", path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# Sizes -------------------------------------------------------------------------------


def code_lines(path: Path) -> int:
    """Return how many lines of a file hold code: docstrings, comments and blanks are free."""
    if path.suffix == ".py":
        return len(lines_of_code(path))
    lines = (line.strip() for line in text_of(path).splitlines())
    return sum(bool(line) and not line.startswith(("//", "/*", "*")) for line in lines)


def too_many_lines(path: Path) -> Iterator[str]:
    if text_of(path).count("\n") <= MAX_FILE:  # most files: they need not be parsed
        return
    lines = code_lines(path)
    if lines > MAX_FILE:
        yield f"{lines} lines of code: split it by ideas"


def test_files_are_short():
    long = broken(SOURCES, too_many_lines)
    assert not long, long


def long_functions(path: Path) -> Iterator[str]:
    for node in statements(parsed(path)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.end_lineno - node.lineno < MAX_FUNCTION:
            continue
        lines = body_lines(path, node)
        if lines > MAX_FUNCTION:
            yield f"{node.name} (line {node.lineno}): {lines} lines of code"


def test_functions_are_short():
    long = broken([path for path in SOURCES if path.suffix == ".py"], long_functions)
    assert len(long.splitlines()) <= LONG_FUNCTIONS, long


def test_the_sizes_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    short, long = tmp_path / "short.py", tmp_path / "long.py"
    short.write_text("def f():\n" + "    f()\n" * (MAX_FUNCTION - 1))
    long.write_text("try:\n    f()\nexcept E:\n    async def g():\n" + "        g()\n" * MAX_FILE)
    said = "long.py: 404 lines of code: split it by ideas"
    assert broken([short, long], too_many_lines) == said
    assert broken([short, long], long_functions) == "long.py: g (line 4): 400 lines of code"
    told = tmp_path / "told.py"
    told.write_text('"""' + "text\n" * MAX_FILE + '"""\n# why\nf()\n')
    assert code_lines(told) == 1


# Documentation -----------------------------------------------------------------------


def without_a_docstring(path: Path) -> Iterator[str]:
    if not ast.get_docstring(parsed(path)):
        yield "say at its top what it is for"


def test_modules_say_what_they_are_for():
    silent = broken(MODULES, without_a_docstring)
    assert not silent, silent


def public_names(module: ModuleType) -> list[str]:
    """Return what `from module import *` brings."""
    return getattr(module, "__all__", [name for name in vars(module) if name[0] != "_"])


FACES = [
    module_name(path)
    for path in MODULES
    if path.name == "__init__.py" or "\n__all__ = " in text_of(path)
]


def undocumented(face: str) -> Iterator[str]:
    """Yield the public names and methods of a module that nobody has described."""
    module = importlib.import_module(face)
    for name in public_names(module):
        value = getattr(module, name)
        if not callable(value) or not str(value.__module__).startswith("edutorch"):
            continue
        if not value.__doc__:
            yield f"{face}.{name}"
        if inspect.isclass(value):
            for part in vars(value):
                if part.startswith("_") or inspect.isdatadescriptor(getattr(value, part)):
                    continue
                if callable(getattr(value, part)) and not inspect.getdoc(getattr(value, part)):
                    yield f"{face}.{name}.{part}"


def test_public_names_are_documented():
    assert [name for face in FACES for name in undocumented(face)] == []


def test_the_faces_are_found():
    assert {"edutorch", "edutorch.nn", "edutorch.nn.functional", "edutorch.optim"} <= set(FACES)


def docstrings(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield (name, line, text) of every docstring with examples.

    They are read from the source: what a decorator makes of a function does not matter.
    """
    tree = parsed(path)
    for node in (tree, *statements(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text and ">>>" in text:
                yield getattr(node, "name", "module"), node.body[0].lineno, text


@over_files([path for path in MODULES if ">>>" in text_of(path)])
def test_examples_in_docstrings_are_true(path):
    module = importlib.import_module(module_name(path))
    names = {name: getattr(edutorch, name) for name in public_names(edutorch)}
    names |= {"float": float, "int": int, "bool": bool, "edutorch": edutorch, "math": math}
    names["range"] = range  # edutorch has one too
    said: list[str] = []
    absent: list[str] = []
    for name, line, text in docstrings(path):
        scope = {**vars(module), **names}
        example = doctest.DocTestParser().get_doctest(text, scope, name, str(path), line - 1)
        edutorch.manual_seed(0)
        wrong: list[str] = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=wrong.append)
        reason = re.search(r"MissingExtraError: .*", "".join(wrong))
        if reason and {"datasets", "distributed"} & set(path.parts):
            absent.append(reason[0])
        else:
            said += wrong
    assert not said, "".join(said)
    if absent:
        pytest.skip("; ".join(absent))


# Words -------------------------------------------------------------------------------


def test_nothing_is_left_for_later():
    problems = broken(
        [path for path in SOURCES if path != Path(__file__).resolve()],
        lambda path: re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b", text_of(path)),
    )
    assert not problems, problems


def unknown_addresses(path: Path) -> set[str]:
    return set(re.findall(r"\b(?:https?|wss?)://([\w.-]+)", text_of(path))) - KNOWN_ADDRESSES


def test_no_address_of_another_machine():
    """Nothing here may ask the network, so nothing here needs an address."""
    scripts = sorted((ROOT / "widgets").glob("*.[jc]s*"))
    problems = broken([*MODULES, *scripts], unknown_addresses)
    assert not problems, problems


PLATFORM = {"platform.py", "graphviz_worker.py"}
"""Where the platform may be asked for: the second is a script of a process of its own."""


def questions_about_the_platform(path: Path) -> list[str]:
    if path.name in PLATFORM:
        return []
    return re.findall(r"\bsys\.platform\b|\bos\.name\b|\bplatform\.system\(", text_of(path))


def test_one_place_says_what_the_platform_can_do():
    """`backends/platform.py`: so that no file is forgotten where a platform lacks something."""
    problems = broken(MODULES, questions_about_the_platform)
    assert not problems, problems


FOLDERS = sorted({path.parent for path in MODULES}) + [
    ROOT / name for name in ("tests", "benchmarks", "docs", "notebooks", "widgets")
]


def test_folders_have_a_readme():
    missing = [ids(folder) for folder in FOLDERS if not (folder / "README.md").is_file()]
    assert not missing, "say what lives here, in which order to read it"
