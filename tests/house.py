"""Measures the source: `python -m tests.house` prints the table of docs/architecture.md."""

from __future__ import annotations

import ast
import importlib
import io
import statistics
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "edutorch"
MODULES = sorted(PACKAGE.rglob("*.py"))
WINGS = {
    "jit", "onnx", "export", "serve", "distributed", "vision", "text", "audio", "rl", "classroom",
    "datasets", "zoo",
}  # fmt: skip
"""Packages that stand beside the core: the limit of entries does not count them."""

MAX_PARAMETERS = 8
COMMENTED = ("core", "kernels", "compilation", "viz/live")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


@cache
def lines_of_code(path: Path) -> frozenset[int]:
    """Return the lines of a file that hold code: docstrings, comments and blanks are free."""
    code, docs = set(), set()
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if (text := line.strip()) and text[0] != "#":
            code.add(number)
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and node.lineno != node.end_lineno:
            code.update(range(node.lineno, node.end_lineno + 1))  # blank lines of a long text, too
        # A text that stands alone is a docstring, or stands behind a constant.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docs.update(range(node.lineno, node.end_lineno + 1))
    return frozenset(code - docs)


def functions() -> Iterator[tuple[Path, Function]]:
    """Yield every function of the package with its file."""
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, Function):
                yield path, node


def body_lines(path: Path, function: Function) -> int:
    """Return how many lines of code the body of a function has."""
    first, last = function.body[0].lineno, function.end_lineno or function.lineno
    return sum(line in lines_of_code(path) for line in range(first, last + 1))


def parameters(function: Function) -> list[ast.arg]:
    arguments = function.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument for argument in listed if argument.arg not in ("self", "cls")]


PUBLIC = (
    "edutorch", "edutorch.autograd", "edutorch.autograd.profiler", "edutorch.nn",
    "edutorch.nn.functional", "edutorch.optim", "edutorch.optim.lr_scheduler", "edutorch.profiler",
    "edutorch.testing", "edutorch.train", "edutorch.utils.data", "edutorch.utils.tensorboard",
)  # fmt: skip
"""Modules whose functions and classes have the argument lists of PyTorch (`train`: Lightning's)."""


@cache
def public_owners() -> frozenset[tuple[str, str]]:
    """Return the modules and names of public functions and classes."""
    modules = [importlib.import_module(name) for name in PUBLIC]
    objects = [value for module in modules for value in vars(module).values()]
    owners = ((getattr(o, "__module__", ""), getattr(o, "__name__", "")) for o in objects)
    return frozenset(owner for owner in owners if all(isinstance(part, str) for part in owner))


def long_signatures() -> list[tuple[Path, Function, bool]]:
    """Return the functions with more than eight parameters, and whether a user calls them."""
    result = []
    for path in MODULES:
        classes = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)]
        owner = {id(member): node.name for node in classes for member in node.body}
        module = sys.modules.get(module_name(path))
        exported = set(getattr(module, "__all__", ()))
        for node in ast.walk(parsed(path)):
            if isinstance(node, Function) and len(parameters(node)) > MAX_PARAMETERS:
                name = owner.get(id(node), node.name)
                is_public = (module_name(path), name) in public_owners() or name in exported
                result.append((path, node, is_public))
    return result


def share_of_any() -> float:
    """Return the share of annotated parameters whose type is `Any` alone."""
    annotations = [
        ast.unparse(argument.annotation)
        for _, function in functions()
        for argument in parameters(function)
        if argument.annotation is not None
    ]
    return sum(annotation == "Any" for annotation in annotations) / len(annotations)


def comments_per_100_statements(folder: str) -> float:
    comments = statements = 0
    for path in (PACKAGE / folder).rglob("*.py"):
        tokens = tokenize.generate_tokens(io.StringIO(text_of(path)).readline)
        texts = [token.string for token in tokens if token.type == tokenize.COMMENT]
        comments += sum("fmt:" not in text and "type: ignore" not in text for text in texts)
        statements += sum(isinstance(node, ast.stmt) for node in ast.walk(parsed(path)))
    return 100 * comments / max(statements, 1)


def entries() -> list[str]:
    """Return the modules and packages of `edutorch/`, the wings apart."""
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return sorted((modules | packages) - WINGS)


# Import circles ----------------------------------------------------------------------


def module_name(path: Path, root: Path = ROOT) -> str:
    """Return the name under which a file is imported: `compat/` is on the package's path."""
    parts = path.relative_to(root).with_suffix("").parts
    if parts[1] == "compat" and len(parts) > 2 and parts[2] != "__init__":
        parts = (parts[0], *parts[2:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, late: bool) -> Iterator[str]:
    """Yield the modules that a file imports; `late`: also those that its functions import."""
    known = {module_name(module): module for module in MODULES}
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    for node in statements(parsed(path), late):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{source}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name not in known:
                name = name.rpartition(".")[0]
            if name in known:
                yield name


def statements(tree: ast.AST, late: bool) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported; `late`: those of functions too."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(tree, field, ()):
            yield statement
            for_types = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(
                statement.test
            )
            if not for_types and (late or not isinstance(statement, Function)):
                yield from statements(statement, late)


def circles(late: bool) -> list[list[str]]:
    """Return the groups of modules that import each other (Tarjan's components)."""
    graph = {module_name(path): sorted(set(imports(path, late))) for path in MODULES}
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for target in graph[name]:
            if target not in order:
                visit(target)
                lowest[name] = min(lowest[name], lowest[target])
            elif target in stack:
                lowest[name] = min(lowest[name], order[target])
        if lowest[name] == order[name]:
            cut = stack.index(name)
            group, stack[cut:] = stack[cut:], []
            if len(group) > 1:
                groups.append(sorted(group))

    for name in graph:
        if name not in order:
            visit(name)
    return sorted(groups)


# The way of a student ----------------------------------------------------------------


def files_of_a_step() -> dict[Path, int]:
    """Return the files that `(x * w).backward()` enters inside of `reference_only()`.

    Each with the lines that one has to read: of a file of ops the block of the op, of any other
    file all that is in it, documentation and comments too.
    """
    from edutorch import ones, tensor
    from edutorch.backends import reference_only

    entered: dict[Path, set[int]] = {}

    def trace(frame: FrameType, event: str, argument: object) -> None:
        path, line = Path(frame.f_code.co_filename), frame.f_code.co_firstlineno
        if PACKAGE in path.parents or path.name.startswith("<edutorch"):
            entered.setdefault(path, set()).add(line)

    x, w = tensor([2.0, 3.0]), tensor([4.0, 5.0], requires_grad=True)
    scalar, one = tensor(2.0, requires_grad=True), ones(2)
    with reference_only():
        (x * w).backward(one)  # the call paths are there now
        w.grad = None
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            (x * w).backward(one)
            (scalar * scalar).backward()
        finally:
            sys.settrace(before)
    return {path: lines_to_read(path, lines) for path, lines in entered.items()}


def lines_to_read(path: Path, entered: set[int]) -> int:
    """Return how many lines of a file belong to what was entered at some of its lines."""
    if PACKAGE / "ops" not in path.parents:
        return len(text_of(path).splitlines())
    blocks = [
        (min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))]), node)
        for node in parsed(path).body
    ]
    return sum(
        (node.end_lineno or start) - start + 1
        for start, node in blocks
        if any(start <= line <= (node.end_lineno or start) for line in entered)
    )


# The table ---------------------------------------------------------------------------


def table() -> list[tuple[str, str, str]]:
    """Return rows of what is measured, its value and its goal."""
    sizes = sorted(body_lines(path, function) for path, function in functions())
    modules = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] not in WINGS]
    code = sum(len(lines_of_code(path)) for path in modules)
    long = long_signatures()
    own = sum(not is_public for _, _, is_public in long)
    step = files_of_a_step()
    rows = [
        ("entries in edutorch/", f"{len(entries())}", "≤ 32"),
        ("files, without the wings", f"{len(modules)}", "≤ 478"),
        ("lines of code, without the wings", f"{code:,}", "≤ 70,200"),
        ("import circles", f"{len(circles(late=False))}", "0"),
        ("with imports in functions", f"{len(circles(late=True))}", "≤ 3"),
        ("median function, lines of code", f"{statistics.median(sizes):g}", "≤ 6"),
        ("95 % of functions, lines", f"{sizes[int(0.95 * len(sizes))]}", "≤ 25"),
        (f"functions with more than {MAX_PARAMETERS} parameters", f"{len(long)}", "≤ 15"),
        ("of them with an argument list that is not PyTorch's", f"{own}", "≤ 15"),
        ("files that (x * w).backward() enters", f"{len(step)}", "≤ 4"),
        ("lines to read in them", f"{sum(step.values())}", "≤ 800"),
        ("parameters of type Any", f"{share_of_any():.0%}", "≤ 10 %"),
    ]
    rows += [
        (f"comments per 100 statements, {name}/", f"{comments_per_100_statements(name):.1f}", "≥ 6")
        for name in COMMENTED
    ]
    return rows


def main() -> None:
    print("| measure | now | goal |\n|:--|--:|--:|")
    for name, value, goal in table():
        print(f"| {name} | {value} | {goal} |")


if __name__ == "__main__":
    main()
