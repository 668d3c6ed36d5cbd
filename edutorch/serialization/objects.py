"""Pickling of whole objects: a module, an optimizer, whatever `pickle` can write.

An object is pickled by the name of its class, which must be importable when the file is loaded.
Tensors are not part of the pickle: they are stored beside it, as all tensors of a checkpoint are
(see `encode.py`). So they share memory after loading as before, other programs can read
them, and `map_location` moves them.

Loading a pickle can run any code, so `load` does it for `weights_only=False` alone.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from ..core.tensor import PLAIN_TENSORS, Tensor, fill, share_version, wrap
from ..errors import EdutorchError
from ..nn.modules.hooks import Hook
from .encode import Encoder
from .safe_classes import CheckpointError

PROTOCOL = 4


def encode_object(packer: Encoder, value: object) -> dict[str, Any]:
    """Pickle an object; return its tree: the name of the pickle, and the tensors' trees.

    Raises: CheckpointError: an attribute cannot be pickled. The error names it and its class.
    """
    file = io.BytesIO()
    names: dict[int, str] = {}
    # The first name of a tensor counts: tied weights have several.
    for tensor, name in tensor_names(value):
        names.setdefault(tensor, name)
    pickler = ObjectPickler(file, packer, names)
    try:
        pickler.dump(value)
    except CANNOT_PICKLE as error:
        raise explain_error(value, error) from error
    data = np.frombuffer(file.getvalue(), np.uint8)
    return {"pickle": packer.arrays.store(data, "pickle", "cpu"), "tensors": pickler.trees}


CANNOT_PICKLE = (
    pickle.PicklingError, ArithmeticError, AttributeError, ImportError, LookupError,
    RecursionError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


class ObjectPickler(pickle.Pickler):
    """A pickler that writes a tensor as its index among the stored tensors.

    Args:
        file: where the pickle goes.
        packer: stores the tensors.
        names: the names of the tensors in the file, by `id`.
    """

    def __init__(self, file: io.BytesIO, packer: Encoder, names: dict[int, str]) -> None:
        super().__init__(file, PROTOCOL)
        self.packer, self.names = packer, names
        self.trees: list[dict[str, Any]] = []
        self.indices: dict[int, int] = {}
        self.tensors: list[Tensor] = []  # kept alive, so that an id stays one tensor's

    def persistent_id(self, obj: object) -> int | None:
        """Return a tensor's index; None for anything else, and for what tensors do not store."""
        if not is_plain_tensor(obj):
            return None
        index = self.indices.get(id(obj))
        if index is None:
            index = self.indices[id(obj)] = len(self.trees)
            self.tensors.append(obj)
            path = self.names.get(id(obj), f"tensor.{index}")
            self.trees.append(self.packer.encode_tensor(obj, path))
        return index

    def reducer_override(self, obj: object) -> Any:
        """Rebuild a tensor of a subclass from a plain tensor, which is stored like any other."""
        if isinstance(obj, Tensor) and type(obj).__reduce_ex__ is Tensor.__reduce_ex__:
            _, (cls, *_), state = obj.__reduce_ex__(PROTOCOL)
            return rebuild_subclass, (cls, wrap(obj._array), obj.requires_grad), state
        return NotImplemented


def is_plain_tensor(value: object) -> TypeGuard[Tensor]:
    """Return True for a tensor of a class of ours without attributes that a user has set."""
    return type(value) in PLAIN_TENSORS and not value.__dict__.keys() - {"persistent", "_tangents"}


def rebuild_subclass(cls: type, plain: Tensor, requires_grad: bool) -> Tensor:
    """Make a tensor of a subclass that shares the memory of a plain one.

    Saved pickles refer to this function by its name, which must not change.
    """
    tensor = fill(object.__new__(cls), plain._array)
    share_version(tensor, plain)
    return tensor.requires_grad_() if requires_grad else tensor


def tensor_names(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[int, str]]:
    """Yield (id, name) of the tensors of a module, or of modules in dicts and lists."""
    start = f"{path}." if path else ""
    if hasattr(value, "named_parameters") and hasattr(value, "named_buffers"):
        for members in (value.named_buffers, value.named_parameters):
            yield from ((id(tensor), f"{start}{name}") for name, tensor in members())
    elif isinstance(value, Mapping | list | tuple) and depth < 10:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, member in items:
            yield from tensor_names(member, f"{start}{key}", depth + 1)


# Finding what cannot be pickled ----------------------------------------------------------------


class PickleProbe(pickle.Pickler):
    """A pickler whose output is thrown away: it only tells whether pickling works."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), PROTOCOL)

    def persistent_id(self, obj: object) -> str | None:
        return "tensor" if is_plain_tensor(obj) else None


def pickling_error(value: object) -> Exception | None:
    """Return the exception that pickling a value raises, or None."""
    try:
        PickleProbe().dump(value)
    except CANNOT_PICKLE as error:
        return error
    return None


def iter_members(value: object) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of what is pickled with a value: items and attributes."""
    if isinstance(value, Hook):
        yield "", value.function
        return
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", member) for key, member in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", member) for index, member in enumerate(value))
    attributes = getattr(value, "__dict__", None)
    if not isinstance(attributes, dict) or isinstance(value, type | types.FunctionType):
        return
    for name, member in attributes.items():
        if name in ("_modules", "_parameters", "_buffers") and isinstance(member, dict):
            yield from ((f".{inner}", part) for inner, part in member.items())
        else:
            yield f".{name}", member


def explain_error(root: object, error: Exception) -> CheckpointError:
    """Return an error that names the innermost attribute that cannot be pickled, and its owner.

    The search pickles the members of what fails, level by level: slow, but only after a failure.
    """
    value, path, owner, attribute = root, "", root, ""
    visited: set[int] = set()
    while id(value) not in visited:
        visited.add(id(value))
        for step, member in iter_members(value):
            inner = pickling_error(member)
            if inner is not None:
                if step.startswith("."):
                    owner, attribute = value, ""
                attribute += step
                value, path, error = member, path + step, inner
                break
    name = attribute.removeprefix(".")
    what = (
        f"`{name}` of {type(owner).__qualname__}" if name else with_article(type(root).__qualname__)
    )
    where = f" (at {path.removeprefix('.')!r})" if path.removeprefix(".") != name else ""
    why = lookup_error_reason(value, error)
    hint = BY_NAME if why else "save model.state_dict(), which is data only"
    if not why:
        text = error.message if isinstance(error, EdutorchError) else str(error)
        why = text.strip() or type(error).__name__
    return CheckpointError("save", f"cannot save {what}{where}: {why}", hint=hint)


BY_NAME = (
    "a file refers to functions and classes by name: define them at the top level of a module "
    "or a notebook; or save model.state_dict(), which needs no code"
)


def with_article(noun: str) -> str:
    return f"{'an' if noun[:1] in 'AEIOUaeiou' else 'a'} {noun}"


def lookup_error_reason(value: object, error: Exception) -> str:
    """Return why a function or class cannot be looked up by name; "" if it can."""
    cls = value if isinstance(value, type) else type(value)
    if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
        return "it is a lambda, which has no name"
    if isinstance(value, types.FunctionType) and "<locals>" in value.__qualname__:
        return f"the function {value.__qualname__} is defined inside another one"
    if "<locals>" in cls.__qualname__:
        return f"the class {cls.__qualname__} is defined inside a function"
    if "not the same object" in str(error):
        return f"{cls.__qualname__} was defined again since this object was made; make it anew"
    return ""
