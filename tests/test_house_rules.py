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
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import edutorch

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "edutorch"
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [
    *MODULES,
    *sorted((ROOT / "tests").rglob("*.py")),
    *sorted((ROOT / "benchmarks").rglob("*.py")),
    *sorted((ROOT / "widgets").glob("*.js")),
]

MAX_FILE = 400
MAX_FUNCTION = 60

# A module imports from its own layer and from those above it in this list.
LAYERS = (
    {"errors", "events", "lines", "modes", "dtypes", "memory_format", "torch_version", "version"},
    {"backends", "device"},
    {"core", "return_types"},
    {"ops"},
    {
        "fft",
        "linalg",
        "special",
        "signal",
        "nn",
        "optim",
        "func",
        "utils",
        "amp",
        "autograd",
        "cpu",
        "cuda",
        "distributions",
        "old_types",
        "overrides",
        "profiler",
        "random",
        "serialization",
        "settings",
        "types",
        "multiprocessing",
        "testing",
        "accelerator",
        "mps",
        "xpu",
        "__config__",
    },
    {"kernels", "fx", "distributed", "train"},
    {
        "_dynamo",
        "compiler",
        "compiling",
        "jit",
        "onnx",
        "export",
        "serve",
        "vision",
        "text",
        "audio",
    },
    {"viz"},
    {"classroom"},
    {"alias", "doctor", "cli", "__main__"},
)

# Papers, and the names of XML formats: text that nobody fetches.
KNOWN_ADDRESSES = {"www.w3.org", "arxiv.org", "doi.org", "www.apache.org"}


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=ids)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Layers ------------------------------------------------------------------------------


def layer_of(name: str) -> int:
    """Return how deep the part `name` lies: the number of its layer."""
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
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    package = list(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(tree):
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


@each([path for path in MODULES if path != PACKAGE / "__init__.py"])
def test_imports_go_downwards(path):
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    wrong = [
        f"line {line}: {own} imports {part}"
        for line, part in imported_parts(path)
        if layer_of(part) > layer_of(own)
    ]
    assert not wrong


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


@each([ROOT / name for name in ("edutorch", "tests", "benchmarks", "notebooks")])
def test_ruff_has_nothing_to_say(path):
    pytest.importorskip("ruff", reason="needs the extra `test`")
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--output-format=concise", path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# Sizes -------------------------------------------------------------------------------


@each(SOURCES)
def test_files_are_short(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_FILE, "split it by ideas"


@each([path for path in SOURCES if path.suffix == ".py"])
def test_functions_fit_on_a_screen(path):
    long = [
        f"{node.name} (line {node.lineno}): {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= MAX_FUNCTION
    ]
    assert not long


# Documentation -----------------------------------------------------------------------


@each(MODULES)
def test_modules_say_what_they_are_for(path):
    assert ast.get_docstring(parsed(path))


def public_names(module: ModuleType) -> list[str]:
    """Return what `from module import *` brings."""
    return getattr(module, "__all__", [name for name in vars(module) if name[0] != "_"])


FACES = [
    module_name(path)
    for path in MODULES
    if path.name == "__init__.py" or "\n__all__ = " in path.read_text(encoding="utf-8")
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


@pytest.mark.parametrize("face", FACES)
def test_public_names_are_documented(face):
    assert list(undocumented(face)) == []


def test_the_faces_are_found():
    assert {"edutorch", "edutorch.nn", "edutorch.nn.functional", "edutorch.optim"} <= set(FACES)


def docstrings(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield (name, line, text) of every docstring with examples.

    They are read from the source: what a decorator makes of a function does not matter.
    """
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text and ">>>" in text:
                yield getattr(node, "name", "module"), node.body[0].lineno, text


@each([path for path in MODULES if any(docstrings(path))])
def test_examples_in_docstrings_are_true(path):
    module = importlib.import_module(module_name(path))
    names = {name: getattr(edutorch, name) for name in public_names(edutorch)}
    names |= {"float": float, "int": int, "bool": bool, "edutorch": edutorch, "math": math}
    names["range"] = range  # edutorch has one too
    said: list[str] = []
    for name, line, text in docstrings(path):
        scope = {**vars(module), **names}
        example = doctest.DocTestParser().get_doctest(text, scope, name, str(path), line - 1)
        edutorch.manual_seed(0)
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert not said, "".join(said)


# Words -------------------------------------------------------------------------------


@each([path for path in SOURCES if path != Path(__file__).resolve()])
def test_nothing_is_left_for_later(path):
    found = re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b", path.read_text(encoding="utf-8"))
    assert not found


@each([*MODULES, *sorted((ROOT / "widgets").glob("*.[jc]s*"))])
def test_no_address_of_another_machine(path):
    """Nothing here may ask the network, so nothing here needs an address."""
    text = path.read_text(encoding="utf-8")
    hosts = set(re.findall(r"\b(?:https?|wss?)://([\w.-]+)", text))
    assert hosts <= KNOWN_ADDRESSES


FOLDERS = sorted({path.parent for path in MODULES}) + [
    ROOT / name for name in ("tests", "benchmarks", "docs", "notebooks", "widgets")
]


@pytest.mark.parametrize("folder", FOLDERS, ids=ids)
def test_folders_have_a_readme(folder):
    assert (folder / "README.md").is_file(), "say what lives here, in which order to read it"
