"""Nested dicts and lists as one flat dict, whose keys are paths: "optimizer.state.0.step"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...core.tensor import Tensor
from ...serialization import CheckpointError
from .chunks import is_sharded

__all__ = ["Path", "flatten", "set_at", "unflatten"]

Path = tuple[Any, ...]
"""Where a value is: a str or an int is a key of a dict, a list of one int an index of a list."""


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor, whole or in parts."""
    return isinstance(value, Tensor) or is_sharded(value)


def has_tensors(value: Any) -> bool:
    """Whether there are tensors in nested containers."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return is_tensor(value)
    return any(map(has_tensors, value))


def flatten(state_dict: Mapping[Any, Any]) -> dict[str, tuple[Path, Any]]:
    """Return each value of nested containers with its path, by a key.

    Lists without tensors are values themselves, and so are empty containers.

    Raises: CheckpointError: two paths have the same key.

    >>> from edutorch.distributed.checkpoint.nested import flatten
    >>> flatten({"a": {"b": 1, "c": [2, 3]}})
    {'a.b': (('a', 'b'), 1), 'a.c': (('a', 'c'), [2, 3])}
    """
    flat: dict[str, tuple[Path, Any]] = {}
    for path, value in iterate(state_dict, ()):
        key = ".".join(str(step[0] if isinstance(step, list) else step) for step in path)
        if key in flat:
            raise CheckpointError("save", f"two values have the key {key!r}: rename one of them")
        flat[key] = path, value
    return flat


def iterate(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield each value of nested containers with its path."""
    members: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping) and all(isinstance(key, str | int) for key in value):
        members = list(value.items())
    elif isinstance(value, list | tuple) and has_tensors(value):
        members = [([index], member) for index, member in enumerate(value)]
    if not members and path:
        yield path, value
    for step, member in members:
        yield from iterate(member, (*path, step))


def set_at(state_dict: Any, path: Path, value: Any) -> None:
    """Set the value at a path of containers that exist."""
    *steps, last = path
    holder = state_dict
    for step in steps:
        holder = holder[step[0] if isinstance(step, list) else step]
    if isinstance(holder, tuple):
        raise CheckpointError(
            "load", f"a tuple cannot take a value (at {path!r})", hint="use a list there"
        )
    holder[last[0] if isinstance(last, list) else last] = value


def unflatten(values: Mapping[Path, Any]) -> dict[Any, Any]:
    """Return the nested containers that `flatten` has taken apart.

    Args:
        values: the value of each path; in it an index of a list is a tuple of one int.

    >>> from edutorch.distributed.checkpoint.nested import unflatten
    >>> unflatten({("a", "b"): 1, ("a", "c", (0,)): 2})
    {'a': {'b': 1, 'c': [2]}}
    """
    root: dict[Any, Any] = {}
    for path, value in values.items():
        holder: Any = root
        for step, after in zip(path, (*path[1:], None), strict=True):
            inner = value if after is None else [] if isinstance(after, tuple) else {}
            if isinstance(step, tuple):
                if len(holder) <= step[0]:
                    holder.append(inner)
                holder = holder[step[0]]
            else:
                holder = holder.setdefault(step, inner)
    return root
