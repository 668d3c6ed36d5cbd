"""PyTorch's values of expressions: `python -m tests.golden_lines` writes them with PyTorch.

`golden/lines.json` has, for each of `MODULES` and each expression in its `LINES`, what the module's
`outcome` returns for PyTorch, written as Python: a tensor is (dtype, shape, elements).

    "a.sum(1)": "('torch.float32', (2,), [-0.27, 1.91])"
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "golden" / "lines.json"
MODULES = ("test_functions", "test_numbers", "test_parts_and_places")
HINT = "write it again where PyTorch is: python -m tests.golden_lines"


def all_texts(library: Any) -> dict[str, dict[str, str]]:
    """Return all that the file holds."""
    texts = {}
    for name in MODULES:
        module = import_module(f"tests.{name}")
        texts[name] = {text: repr(module.outcome(text, library)) for text in module.expressions()}
    return texts


@cache
def written() -> dict[str, dict[str, str]]:
    return json.loads(FILE.read_text())


def golden(module: str, expression: str) -> Any:
    """Return PyTorch's outcome of an expression."""
    return parse(written()[module][expression])


def parse(text: str) -> Any:
    """Return the value of a text: numbers, strings, lists and tuples."""
    names = {"nan": math.nan, "inf": math.inf, "nanj": complex(0, math.nan), "__builtins__": {}}
    return eval(text, names | {"infj": complex(0, math.inf)})


if __name__ == "__main__":
    import torch as pytorch

    FILE.write_text(json.dumps(all_texts(pytorch), indent=0) + "\n")
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")
