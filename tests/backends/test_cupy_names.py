"""Every `xp.name(...)` in the library exists in CuPy, with a signature that fits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from edutorch.backends import cupy_names

ROOT = Path(cupy_names.__file__).parents[1]
GENERIC = sorted(
    path
    for folder in ("core", "ops", "nn", "optim", "func", "amp")
    for path in ROOT.glob(f"{folder}/**/*.py")
)
UFUNC_METHODS = {"reduce": {"axis", "dtype", "out", "keepdims"}, "accumulate": {"axis"}}


def dotted_name(node: ast.AST) -> str:
    """Write `xp.linalg.norm` as that text, anything else than a plain chain as ''."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted_name(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def problems(source: str) -> Iterator[str]:
    """Yield the calls in `source` that CuPy would not accept."""
    tree = ast.parse(source)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        name = (
            dotted_name(node) if isinstance(node, ast.Attribute) and id(node) not in inner else ""
        )
        call = called.get(id(node))
        if isinstance(node, ast.Call) and dotted_name(node.func) == "lapack":
            name, call = xp_call(node)
        if name.startswith("xp.") and name != "xp.linalg":
            try:
                check(name.removeprefix("xp."), call)
            except (AttributeError, TypeError) as error:
                yield f"line {node.lineno}: {error}"


def xp_call(node: ast.Call) -> tuple[str, ast.Call]:
    """Write `lapack(xp, "qr", a)` as the call `xp.linalg.qr(a)` that it makes."""
    _, name, *arguments = node.args
    return f"xp.linalg.{ast.literal_eval(name)}", ast.Call(node.func, arguments, node.keywords)


def check(name: str, call: ast.Call | None) -> None:
    known = cupy_names.known()
    if name in ("ndarray", *known["constants"]):
        return
    ufunc, _, method = name.partition(".")
    if ufunc in known["ufuncs"] and method:
        if ufunc not in cupy_names.REDUCING or method not in UFUNC_METHODS:
            raise AttributeError(f"CuPy has no {name}")
        wrong = (
            {keyword.arg for keyword in call.keywords} - UFUNC_METHODS[method] if call else set()
        )
        if wrong:
            raise TypeError(f"CuPy's {name} does not take {sorted(wrong)}")
        return
    if name not in known["functions"] and name not in known["ufuncs"]:
        raise AttributeError(f"CuPy has no function {name}")
    if call is None:
        return
    keywords = frozenset(keyword.arg for keyword in call.keywords if keyword.arg is not None)
    spread = any(isinstance(argument, ast.Starred) for argument in call.args)
    spread = spread or any(keyword.arg is None for keyword in call.keywords)
    if not spread:
        cupy_names.check_call(name, len(call.args), keywords)
    elif name in known["functions"]:
        accepted = cupy_names.signature(name).parameters.values()
        names = {parameter.name for parameter in accepted}
        if (
            not any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted)
            and keywords - names
        ):
            raise TypeError(f"CuPy's {name} does not take {sorted(keywords - names)}")


@pytest.mark.parametrize("path", GENERIC, ids=lambda path: str(path.relative_to(ROOT)))
def test_generic_code_asks_only_for_what_cupy_has(path):
    assert list(problems(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("xp.vecdot(a, b)", "CuPy has no function vecdot"),
        ("xp.linalg.vector_norm(a)", "CuPy has no function linalg.vector_norm"),
        ("reduce(xp.geomspace, a)", "CuPy has no function geomspace"),
        ("xp.sum(a, where=b)", "unexpected keyword argument 'where'"),
        ("xp.sum(*a, initial=0)", "CuPy's sum does not take ['initial']"),
        ("xp.max(a, initial=0)", "unexpected keyword argument 'initial'"),
        ("xp.clip(a, 0, 1, max=b)", "unexpected keyword argument 'max'"),
        ("xp.exp(a, where=b)", "and ['where']"),
        ("xp.exp(a, b, c)", "it got 3 arguments"),
        ("xp.maximum.reduce(a)", "CuPy has no maximum.reduce"),
        ("xp.add.at(a, b, c)", "CuPy has no add.at"),
        ("xp.add.reduce(a, initial=1)", "CuPy's add.reduce does not take ['initial']"),
        ("xp.random.normal(a)", "CuPy has no function random.normal"),
        ('lapack(xp, "schur", a)', "CuPy has no function linalg.schur"),
        ('lapack(xp, "inv", a, True)', "too many positional arguments"),
    ],
)
def test_the_check_sees(source, complaint):
    (problem,) = problems(source)
    assert problem.startswith("line 1: ")
    assert complaint in problem


@pytest.mark.parametrize(
    "source",
    [
        "xp.sum(a, axis=1, keepdims=True)", "xp.add.reduce(a, axis=1)", "xp.float32",
        "xp.linalg.norm(a)", "xp.einsum(text, *operands)", "f(xp.exp)", "xp.pad(a, 1, **how)",
        "isinstance(a, xp.ndarray)", 'lapack(xp, "qr", a, "reduced")',
        "other.xp.vecdot(a)", "np.vecdot(a, b)",
    ],
)  # fmt: skip
def test_the_check_lets_pass(source):
    assert list(problems(source)) == []


def test_the_list_is_that_of_the_installed_cupy():
    cupy = pytest.importorskip("cupy", exc_type=ImportError)
    known = cupy_names.known()
    installed = cupy_names.collect(cupy)
    if installed["cupy"] == known["cupy"]:
        assert installed == known
    for section in ("functions", "ufuncs", "methods"):
        assert set(known[section]) <= set(installed[section])
