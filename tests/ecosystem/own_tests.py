"""A plugin of pytest that runs torchvision's own tests on edutorch: some thousand, drawn by seed.

Its test files are copied by hand into a temporary folder and never committed:

    cd FOLDER/test; PYTHONPATH=REPOSITORY python -m pytest -p edutorch.alias \\
        -p tests.ecosystem.own_tests --draw 2000 test_ops.py test_transforms.py …

With `--only test_ops.py,test_utils.py` the part of the same draw in these files is run. Some tests
are listed from sets: the same draw needs the same PYTHONHASHSEED.

Tests that script, compile or export are left out, and those for another device. What the tests
import from PyTorch's own test tools is here, as far as they use it.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from edutorch import alias

LEFT_OUT = re.compile(r"script|compile|export|onnx|opcheck|optests|jit|cuda|cvcuda|mps|pickle_fx")


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--draw", type=int, default=2000, help="how many tests to draw")
    parser.addoption("--seed", type=int, default=0, help="by which seed")
    parser.addoption("--only", default="", help="run the drawn tests of these files")
    parser.addoption("--results", help="a file: a line is added for each test, as JSON")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Draw the tests that are run, those of one file next to each other."""
    wanted = [item for item in items if not LEFT_OUT.search(item.name.lower())]
    generator = random.Random(config.getoption("--seed"))
    drawn = set(generator.sample(range(len(wanted)), min(config.getoption("--draw"), len(wanted))))
    items[:] = [item for index, item in enumerate(wanted) if index in drawn]
    if only := config.getoption("--only"):
        items[:] = [item for item in items if item.path.name in only.split(",")]


REASONS: Counter[str] = Counter()
RESULTS: list[Path] = []


def pytest_configure(config: Any) -> None:
    if config.getoption("--results"):
        RESULTS.append(Path(config.getoption("--results")).resolve())


def pytest_runtest_logreport(report: Any) -> None:
    """Count why tests fail: by the first line of the message."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = (crash.message if crash else str(report.longrepr)) if report.longrepr else ""
    if report.failed:
        REASONS[text.splitlines()[0][:110] if text else "no message"] += 1
    if RESULTS and (report.when == "call" or report.outcome != "passed"):
        line = {"test": report.nodeid, "outcome": report.outcome, "seconds": report.duration}
        with RESULTS[0].open("a") as file:
            file.write(json.dumps(line | {"why": text[:400]}) + "\n")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write the counts."""
    for reason, count in REASONS.most_common(60):
        terminalreporter.write_line(f"{count:5} {reason}")


# What PyTorch has in `torch.testing._comparison` -------------------------------------------------


class UnsupportedInputs(Exception):
    """A pair is of another type."""


class Pair:
    """Two values that are compared; derived classes override `compare`."""

    types: tuple[type, ...] = ()

    def __init__(self, actual: Any, expected: Any, **settings: Any) -> None:
        import torch

        self.actual, self.expected = actual, expected
        self.rtol, self.atol = settings.get("rtol"), settings.get("atol")
        names = ("rtol", "atol", "equal_nan", "check_device", "check_dtype", "check_stride")
        self.settings = {name: settings[name] for name in names if name in settings}
        types = self.types or (torch.Tensor,)
        if not (isinstance(actual, types) and isinstance(expected, types)):
            raise UnsupportedInputs

    def compare(self) -> None:
        self._compare_values(self.actual, self.expected)

    def _compare_attributes(self, actual: Any, expected: Any) -> None:
        assert actual.shape == expected.shape, (actual.shape, expected.shape)

    def _equalize_attributes(self, actual: Any, expected: Any) -> tuple[Any, Any]:
        return actual, expected

    def _compare_values(self, actual: Any, expected: Any) -> None:
        import torch

        torch.testing.assert_close(actual, expected, **self.settings)

    def _fail(self, error_type: type[Exception], message: str) -> None:
        raise error_type(message)


class PlainPair(Pair):
    """Two numbers, bools or Nones."""

    types = (bool, int, float, complex, type(None))


def errors_of(actual: Any, expected: Any, pair_types: Sequence[type[Pair]], **settings: Any) -> Any:
    """Return what differs, in lists and dictionaries as well, as objects with `to_error`."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        assert set(actual) == set(expected)
        pairs = [(actual[key], expected[key]) for key in actual]
    elif isinstance(actual, list | tuple) and isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        pairs = list(zip(actual, expected, strict=True))
    else:
        return error_of(actual, expected, pair_types, **settings)
    return [error for pair in pairs for error in errors_of(*pair, pair_types, **settings)]


def error_of(actual: Any, expected: Any, pair_types: Sequence[type[Pair]], **settings: Any) -> Any:
    for pair_type in pair_types:
        try:
            pair = pair_type(actual, expected, **settings)
        except UnsupportedInputs:
            continue
        try:
            pair.compare()
        except AssertionError as error:
            return [SimpleNamespace(to_error=partial(first, error))]
        return []
    assert actual == expected
    return []


def first(error: AssertionError, message: object) -> AssertionError:
    return error


def add(name: str, **values: Any) -> None:
    module = ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module


def no_cvcuda(name: str) -> Any:
    if "cvcuda" not in name.lower():
        raise AttributeError(name)
    return lambda *args: False


def provide_modules() -> None:
    """Add the modules that the tests import, before a conftest of theirs is loaded."""
    alias.install()
    import torch

    np.seterr(divide="ignore", invalid="ignore")  # 1/0 is inf, also where warnings are errors
    vars(torch.testing).setdefault("__path__", [])
    for name in ("qint8", "quint8", "uint16", "uint32", "uint64"):
        if not hasattr(torch, name):  # tests name them where they are collected
            setattr(torch, name, name)
    add(
        "torch.testing._comparison", TensorLikePair=Pair, NumberPair=PlainPair,
        BooleanPair=PlainPair, NonePair=PlainPair,
        not_close_error_metas=lambda actual, expected, *, pair_types, **settings: errors_of(
            actual, expected, pair_types, **settings
        ),
    )  # fmt: skip
    optests = ModuleType("torch.testing._internal.optests")
    optests.generate_opcheck_tests = lambda **settings: None
    add("torch.testing._internal", __path__=[], optests=optests)
    sys.modules[optests.__name__] = optests
    torch.testing._internal = sys.modules["torch.testing._internal"]
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional

    # Tests of another version name what is for CV-CUDA, and is not run.
    modules = [value for value in vars(functional).values() if isinstance(value, ModuleType)]
    for module in (v2, functional, *modules):
        vars(module)["__getattr__"] = no_cvcuda
    add("torch._utils_internal", get_file_path_2=lambda *parts: str(Path(*map(str, parts))))


provide_modules()
