"""`typing.get_type_hints` works on every public class and function: a name in an annotation
must be one of the module that it stands in, also where a circle forbids to import it there.

Editors, dataclasses, command lines and converters of arguments call it.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.house import MODULES, module_name

UNRESOLVED = {
    "edutorch.viz.draw": ("Graph", "Node"),  # of fx, imported only if there is such a graph
    "edutorch.viz.explore.touch": ("LiveWidget",),  # needs packages that may be absent
}


def members(owner: ModuleType | type, module: str) -> Iterator[tuple[str, Any]]:
    """Yield the public functions and classes that are defined in a module, and their methods."""
    for name, value in list(vars(owner).items()):
        value = value.fget if isinstance(value, property) else inspect.unwrap(value)
        value = getattr(value, "__func__", value)
        is_own = getattr(value, "__module__", None) == module
        if name.startswith("_") and name != "__init__":
            continue
        if is_own and (inspect.isfunction(value) or inspect.isclass(value)):
            yield f"{owner.__name__}.{name}", value
        if is_own and inspect.isclass(value) and value is not owner:
            yield from members(value, module)


def problem(value: Any) -> str:
    """Return what `get_type_hints` raises, "" for nothing."""
    try:
        typing.get_type_hints(value)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is reported)
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.fixture(scope="module")
def modules() -> dict[str, ModuleType]:
    """Return all modules that can be imported here: each may complete the names of others."""
    found = {}
    for name in (module_name(path) for path in MODULES):
        with contextlib.suppress(ImportError):
            found[name] = importlib.import_module(name)
    return found


@pytest.mark.parametrize("part", sorted({module_name(path).split(".")[1] for path in MODULES[1:]}))
def test_type_hints_can_be_read(part: str, modules: dict[str, ModuleType]):
    """Of all functions, classes and methods in a part of the package."""
    problems = []
    for name, module in modules.items():
        if f"{name}.".startswith(f"edutorch.{part}."):
            hints = {what: problem(value) for what, value in members(module, name)}
            known = [f"name {word!r} is not defined" for word in UNRESOLVED.get(name, ())]
            problems += [
                f"{what}: {text}"
                for what, text in hints.items()
                if text and not any(reason in text for reason in known)
            ]
    assert not problems, "\n".join(problems)
