"""The mistakes that everybody makes once: each has its own message, kept word for word in
`golden/mistakes.txt`. After changing one on purpose, run

    python -m tests.test_errors_of_mistakes
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import edutorch
from edutorch import errors

GOLDEN = Path(__file__).parent / "golden" / "mistakes.txt"


def leaf(*size: int) -> Any:
    return edutorch.ones(*size, requires_grad=True)


def twice(x: Any) -> None:
    y = (x * x).sum()
    y.backward()
    y.backward()


def overwritten_input(x: Any) -> None:
    w = edutorch.ones(2)
    y = (x * w).sum()
    w += 1
    y.backward()


def overwritten_result(x: Any) -> None:
    y = x.exp()
    z = y.sum()
    y.mul_(2)
    z.backward()


def wrong_backward(x: Any) -> None:
    class Twice(edutorch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    Twice.apply(x).sum().backward()


def missing_extra(*args: str) -> None:
    raise errors.missing_extra(*args)


NAMES = {name: getattr(edutorch, name) for name in dir(edutorch) if not name.startswith("_")} | {
    function.__name__: function
    for function in (
        leaf, twice, wrong_backward, overwritten_input, overwritten_result, missing_extra,
        setattr, print, len,
    )
}  # fmt: skip
NAMES |= {"float": float, "bool": bool, "F": edutorch.nn.functional}


PLACE = re.compile(rf"\S*({re.escape(Path(__file__).name)}):\d+")
"""A line of this file, which is somewhere else on each machine."""


def message_of(code: str) -> str:
    """Run a mistake and return the class and the text of what it raises."""
    try:
        eval(code, dict(NAMES))
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        ImportError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        return PLACE.sub(r"\1:…", f"{type(error).__name__}: {error}")
    return "no error"


def read() -> list[tuple[str, str]]:
    """Return (code, message) of every mistake in the golden file."""
    blocks = GOLDEN.read_text(encoding="utf-8").split(">>> ")[1:]
    parts = [block.split("\n# ")[0].partition("\n") for block in blocks]
    return [(code, text.rstrip("\n")) for code, _, text in parts]


@pytest.mark.parametrize(("code", "expected"), read(), ids=lambda value: value[:50])
def test_the_message(code, expected):
    assert message_of(code) == expected


def test_messages_are_of_this_library():
    """No text of an array library shines through, and nobody's message is empty."""
    foreign = ("array", "ufunc", "gufunc", "core dimension", "numpy boolean", "newaxis", "NumPy")
    for code, text in read():
        assert text != "no error", code
        assert "AttributeError" not in text, code
        assert len(text.partition(": ")[2]) > 10, code
        if "Error: numpy: can't call" not in text and "from_numpy" not in code:
            assert not [word for word in foreign if word in text.split("  hint:")[0]], code


def test_mistakes_are_caught_as_in_pytorch():
    """Code written for PyTorch catches these by its types."""
    error_classes = {cls for cls in vars(errors).values() if isinstance(cls, type)}
    names = {text.partition(":")[0] for _, text in read()}
    for name in names & {cls.__name__ for cls in error_classes}:
        caught = RuntimeError | IndexError | ImportError | TypeError
        assert issubclass(getattr(errors, name), caught)


def write() -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    for code, old in read():
        text = text.replace(f">>> {code}\n{old}\n", f">>> {code}\n{message_of(code)}\n")
    GOLDEN.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
