"""The functions with a page, and their public names."""

from __future__ import annotations

import functools
import importlib
import inspect
from dataclasses import dataclass, field
from typing import Any

from edutorch.core.op import REGISTRY, Op
from edutorch.core.tensor import Tensor

NAMESPACES = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")
TENSOR = "torch.Tensor"


@dataclass
class Entry:
    """One function and its names. `name` is that of its page; `public` is False inside."""

    name: str
    value: Any
    names: list[str] = field(default_factory=list)
    twins: list[str] = field(default_factory=list)  # the in-place forms
    public: bool = True

    @property
    def op(self) -> Op | None:
        """The op whose function this is, None for one composed of ops."""
        op = getattr(self.value, "op", None)
        names = (op.name, inspect.unwrap(op.forward).__name__) if isinstance(op, Op) else ()
        return op if self.short in names else None

    @property
    def short(self) -> str:
        return inspect.unwrap(self.function).__name__

    @property
    def function(self) -> Any:
        """The function itself, also of a property."""
        return self.value.fget if isinstance(self.value, property) else self.value

    @property
    def written(self) -> Any:
        """The function that the source shows, without what decorators made of it."""
        return inspect.unwrap(self.function)

    @property
    def module(self) -> str:
        return self.written.__module__

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.value) or ""

    @property
    def methods(self) -> list[str]:
        return [name for name in self.names if name.startswith(f"{TENSOR}.")]


def space(namespace: str) -> Any:
    """Return ours for one of PyTorch's namespaces."""
    if namespace == TENSOR:
        return Tensor
    return importlib.import_module(namespace.replace("torch", "edutorch", 1))


def members(namespace: str) -> dict[str, Any]:
    """Return the public functions (of Tensor: methods and properties too) of a namespace."""
    holder = space(namespace)
    names = dir(holder) if namespace == TENSOR else holder.__dict__.get("__all__", dir(holder))
    members = {name: getattr(holder, name) for name in names if not name.startswith("_")}
    member_types = (property,) if namespace == TENSOR else ()
    return {
        name: value
        for name, value in members.items()
        if (inspect.isfunction(value) or isinstance(value, member_types))
        and str(getattr(_function(value), "__module__", "")).startswith("edutorch")
    }


def _function(value: Any) -> Any:
    return value.fget if isinstance(value, property) else value


def _is_twin(value: Any) -> bool:
    return (getattr(value, "__doc__", None) or "").startswith("The in-place form of `")


def has_page(function: Any) -> bool:
    """Whether a function has a page of its own."""
    return id(inspect.unwrap(function)) in _with_page()


@functools.cache
def _with_page() -> set[int]:
    return {id(entry.written) for entry in entries().values()}


@functools.cache
def entries() -> dict[str, Entry]:
    """Return every entry by the name of its page, in the order of the names."""
    by_value: dict[int, Entry] = {}
    twins: list[tuple[str, Any]] = []
    for namespace in (*NAMESPACES, TENSOR):
        for name, value in members(namespace).items():
            full = f"{namespace}.{name}"
            if _is_twin(value):
                twins.append((full, value))
                continue
            key = id(inspect.unwrap(_function(value)))
            entry = by_value.get(key)
            if entry is None:
                entry = by_value[key] = Entry(full.removeprefix("torch."), value)
            entry.names.append(full)
            _prefer_own_name(entry, full, value)
    covered = {id(entry.op) for entry in by_value.values()}
    for op in REGISTRY.values():
        key = id(inspect.unwrap(op.forward))
        if key not in by_value and id(op) not in covered:
            by_value[key] = Entry(f"inside.{op.name}", op.function, public=False)
    made = {entry.name: entry for entry in by_value.values()}
    for full, _ in twins:
        _owner(made, full).twins.append(full)
    return dict(sorted(made.items(), key=lambda item: item[0].lower()))


def _prefer_own_name(entry: Entry, full: str, value: Any) -> None:
    """Return the name of the page, which is the function's own name: `abs`, not `absolute`."""
    if _rank(full, value) < _rank(f"torch.{entry.name}", entry.value):
        entry.name, entry.value = full.removeprefix("torch."), value


def _rank(full: str, value: Any) -> tuple[bool, bool, bool]:
    """Order names: the least is the best."""
    written = inspect.unwrap(_function(value))
    place, _, short = full.rpartition(".")
    home = f"{written.__module__}.".startswith(place.replace("torch", "edutorch", 1) + ".")
    layer = home and place != "torch"
    return place == TENSOR, not layer, short != written.__name__


def _owner(made: dict[str, Entry], full: str) -> Entry:
    """Return the entry whose in-place form has the name `full`."""
    plain = full.removesuffix("_")
    for entry in made.values():
        if plain in entry.names:
            return entry
    short = plain.rpartition(".")[2]
    return next(entry for entry in made.values() if entry.name.rpartition(".")[2] == short)
