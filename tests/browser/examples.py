"""The examples in the docstrings of edutorch, run in Pyodide: what is wrong there and true here.

Only what a tab computes is asked: no kernels, no pictures, nothing of the command line.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import math
from collections.abc import Iterator
from pathlib import Path

import edutorch

PACKAGE = Path(edutorch.__file__).parent
NOT_HERE = (
    "classroom", "cli", "compat", "compilation", "datasets", "fx", "kernels", "profiler", "viz",
)  # fmt: skip
WITHOUT_BFLOAT16 = ("ml_dtypes", "bfloat16")  # Pyodide 0.27 lacks it, and so do these examples
DIFFERENT = {
    "small": "its value here is another",
    "xlogy": "the logarithm of e is rounded to 0.99999994",
    "Muon": "its products are not rounded to bfloat16",
}


def wrong_examples() -> Iterator[str]:
    """Yield what doctest says of each example that is wrong."""
    names = {name: getattr(edutorch, name) for name in dir(edutorch) if not name.startswith("_")}
    names |= {"edutorch": edutorch, "math": math}
    names |= {
        builtin.__name__: builtin for builtin in (bool, float, int, range)
    }  # edutorch has some, too
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if ">>>" not in path.read_text("utf-8") or parts[1] in NOT_HERE or "cupy" in parts[-1]:
            continue
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        for name, text in docstrings(path):
            example = doctest.DocTestParser().get_doctest(
                text, {**vars(module), **names}, name, str(path), 0
            )
            edutorch.manual_seed(0)
            said: list[str] = []
            doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
            wrong = "".join(said)
            if wrong and name not in DIFFERENT and not any(x in wrong for x in WITHOUT_BFLOAT16):
                yield wrong


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each docstring with examples."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text and ">>>" in text:
                yield getattr(node, "name", "module"), text
