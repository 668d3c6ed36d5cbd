"""PyTorch's results as golden files: `python -m tests.golden_ops` writes them with PyTorch.

`golden/ops/<module>.json` has a line per op, case number (in the case files) and dtype. A tensor
is a text: dtype, shape and elements, with all digits of its dtype.

    "sum 1 float16": ["float16[3] 0.25 -0.083374 -1.4165"]

For large tensors only the first elements are written, the sum and Σ y·cos(i), which depends on
the positions. Where PyTorch raises an error, a word stands in place of the list.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from edutorch.core.op import REGISTRY, Op
from tests.op_calls import TOLERANCE, TYPES, answer, array, every, has_twin, is_compared
from tests.op_cases import CASES, INTERNAL

FOLDER = Path(__file__).parent / "golden" / "ops"
WHOLE, FIRST = 24, 8
"""The number of elements up to which tensors are written in full, else the first ones."""

DIGITS = {"float32": 9, "complex64": 9, "float16": 5, "bfloat16": 4}


def dtypes_of(op: Op, number: int) -> list[str]:
    """Return the dtypes that a case is tested with."""
    case = CASES[op.name][number]
    floating = any("float64" in str(getattr(leaf, "dtype", "")) for leaf in leaves(case))
    dtypes = ("float64", *TYPES) if floating else ("float64",)
    return [dtype for dtype in dtypes if is_compared(op, case, dtype)]


def leaves(value: Any) -> list[Any]:
    """Return the leaves of an argument, at any depth."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


# As text -------------------------------------------------------------------------------------


def text_of(tensor: Any) -> str:
    """Return the text of a tensor of either library."""
    dtype, values = str(tensor.dtype).removeprefix("torch."), array(tensor)
    elements = values.flatten()
    shape = ",".join(map(str, values.shape))
    if elements.size > WHOLE:
        elements = np.concatenate([elements[:FIRST], checksums(elements)])
    return " ".join(
        [f"{dtype}[{shape}]", *(word(number, DIGITS.get(dtype, 17)) for number in elements)]
    )


def checksums(elements: np.ndarray) -> np.ndarray:
    wide = elements if elements.dtype.kind == "c" else elements.astype(float)
    return np.array([wide.sum(), (wide * np.cos(np.arange(wide.size))).sum()])


def word(number: Any, digits: int) -> str:
    number = number.item()
    if isinstance(number, complex):
        return f"{number.real:.{digits}g},{number.imag:.{digits}g}"
    return f"{number:.{digits}g}" if isinstance(number, float) else str(int(number))


def number_of(text: str) -> complex:
    real, _, imaginary = text.partition(",")
    return complex(float(real), float(imaginary or 0))


def agrees(tensor: Any, text: str) -> bool:
    """Return True if a tensor of either library agrees with its golden text."""
    words_here, wanted = text_of(tensor).split(), text.split()
    if words_here[0] != wanted[0]:
        return False
    tolerance = TOLERANCE.get(words_here[0].partition("[")[0], 0)
    pairs = [np.array([number_of(word) for word in words[1:]]) for words in (words_here, wanted)]
    close = tolerance * (1 if array(tensor).size <= WHOLE else array(tensor).size)
    return all(
        np.allclose(a, b, rtol=tolerance, atol=close, equal_nan=True)
        for a, b in ((pairs[0].real, pairs[1].real), (pairs[0].imag, pairs[1].imag))
    )


# Files -----------------------------------------------------------------------------------------


def golden_names() -> list[str]:
    """Return the names of the ops that PyTorch may have too."""
    return [name for name in REGISTRY if name in CASES and name not in INTERNAL]


def file_of(op: Op) -> Path:
    return FOLDER / f"{op.forward.__module__.rpartition('.')[2]}.json"


@cache
def written(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def golden(op: Op, number: int, dtype: str) -> Any:
    """Return the texts of a case's results, PyTorch's error, or None if it is not in the file."""
    return written(file_of(op)).get(f"{op.name} {number} {dtype}")


def write() -> None:
    """Compute all results with PyTorch and write the files."""
    files: dict[Path, list[str]] = {}
    for name in golden_names():
        op = REGISTRY[name]
        if not has_twin(op):
            continue
        for number in range(len(CASES[name])):
            for dtype in dtypes_of(op, number):
                expected = answer(name, number, dtype)
                entry = (
                    expected
                    if isinstance(expected, str)
                    else [text_of(result) for result in every(expected)]
                )
                line = f"{json.dumps(f'{name} {number} {dtype}')}: {json.dumps(entry)}"
                files.setdefault(file_of(op), []).append(line)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for path, lines in files.items():
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"{path.name}: {len(lines)} answers")


if __name__ == "__main__":
    write()
