"""Containers of modules and parameters: sequences, lists, dicts."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar, SupportsIndex

from ...core.tensor import Tensor
from ..parameter import Parameter
from .module import Module, indent_lines

__all__ = [
    "Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
]  # fmt: skip

NamedModules = Mapping[str, Module] | Iterable[Any]
NamedValues = Mapping[str, Any] | Iterable[Any]
"""What dicts of modules and of parameters are made from: a mapping or such a dict, or pairs."""


def normalize_index(index: SupportsIndex, count: int) -> int:
    """Return an index counted from the front.

    Raises: IndexError: it is out of range.
    """
    index = operator.index(index)
    if not -count <= index < count:
        raise IndexError(f"index {index} is out of range: there are {count} modules")
    return index % count


class IndexedModules(Module):
    """Base of containers with indices; the children are named "0", "1", … by default."""

    def _renumber(self, modules: Iterable[Any]) -> None:
        # A new dict: the order of keys is that of the calls.
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def _name_at(self, index: SupportsIndex) -> str:
        return list(self._modules)[normalize_index(index, len(self))]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        self.add_module(self._name_at(index), module)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            del self._modules[name]
        # Names that the user chose stay as they are.
        if all(name.isdigit() for name in self._modules):
            self._renumber(list(self))

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Insert a module before the one at `index`."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add several modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def pop(self, key: int) -> Any:
        """Remove a module and return it."""
        module = self._modules[self._name_at(key)]
        del self[key]
        return module


class Sequential(IndexedModules):
    """A chain of modules: each one's output is the next one's input.

    Takes modules in order, or an OrderedDict of named modules.

    >>> nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        """Apply all modules in order."""
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            # A slice keeps the names, and with them the keys of the state_dict.
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        return self.extend(list(other))


class ModuleList(IndexedModules):
    """A list of modules that registers them as children. It has no `forward`.

    >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._name_at(index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __iadd__(self, other: Iterable[Module]) -> ModuleList:
        return self.extend(list(other))

    def __repr__(self) -> str:
        """Merge equal neighbours into one line, as PyTorch does: `(0-2): 3 x Linear(…)`."""
        runs: list[tuple[int, int, str]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = runs[-1][0], i, text
            else:
                runs.append((i, i, text))
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({i}): {indent_lines(text)}" if i == last
            else f"({i}-{last}): {last - i + 1} x {indent_lines(text)}"
            for i, last, text in runs
        ]  # fmt: skip
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class NamedMembers(Module):
    """Base of the dicts: what they share with Python's, over one registry of the module."""

    _registry: ClassVar[str]

    @property
    def _members(self) -> dict[str, Any]:
        return self.__dict__[self._registry]

    def __getitem__(self, key: str) -> Any:
        return self._members[key]

    def __delitem__(self, key: str) -> None:
        del self._members[key]

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, key: str) -> bool:
        return key in self._members

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._members.keys()

    def values(self) -> Iterable[Any]:
        """Return the modules or parameters."""
        return self._members.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return the names, each with its module or parameter."""
        return self._members.items()

    def pop(self, key: str) -> Any:
        """Remove a module or parameter and return it."""
        return self._members.pop(key)

    def clear(self) -> None:
        """Remove all modules or parameters."""
        self._members.clear()


class ModuleDict(NamedMembers):
    """A dict of modules that registers them as children. It has no `forward`.

    >>> list(nn.ModuleDict({"encode": nn.Linear(2, 1), "act": nn.ReLU()}))
    ['encode', 'act']
    """

    _registry = "_modules"

    def __init__(self, modules: NamedModules | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def update(self, modules: NamedModules) -> None:
        """Add modules from a mapping, or from pairs of name and module."""
        pairs: Any = modules.items() if isinstance(modules, Mapping | ModuleDict) else modules
        for name, module in pairs:
            self[name] = module


def as_parameter(value: object) -> Any:
    """Return a plain tensor as a parameter, other values unchanged."""
    return Parameter(value) if type(value) is Tensor else value


class ParameterList(Module):
    """A list of parameters; a plain tensor becomes a parameter.

    >>> len(list(nn.ParameterList([zeros(2), zeros(3)]).parameters()))
    2
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._parameters[str(normalize_index(index, len(self)))]

    def __setitem__(self, index: int, value: object) -> None:
        self.register_parameter(str(normalize_index(index, len(self))), as_parameter(value))

    def append(self, value: object) -> ParameterList:
        """Add a parameter at the end."""
        self.register_parameter(str(len(self)), as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several parameters at the end."""
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return parameter_lines(self, lambda value: value.dtype)


class ParameterDict(NamedMembers):
    """A dict of parameters; a plain tensor becomes a parameter.

    >>> list(nn.ParameterDict({"a": zeros(2)}).keys())
    ['a']
    """

    _registry = "_parameters"

    def __init__(self, parameters: NamedValues | None = None) -> None:
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def __setitem__(self, key: str, value: object) -> None:
        self.register_parameter(key, as_parameter(value))

    def __or__(self, other: Mapping[str, Any] | ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def copy(self) -> ParameterDict:
        """Return a new dict of the same parameters."""
        return type(self)(OrderedDict(self._parameters))

    def update(self, parameters: NamedValues) -> None:
        """Add parameters from a mapping, or from pairs of name and parameter."""
        pairs: Any = parameters
        if isinstance(parameters, OrderedDict | ParameterDict):
            pairs = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())  # as PyTorch does with a plain dict
        for name, value in pairs:
            self[name] = value

    def get(self, key: str, default: object = None) -> Any:
        """Return a parameter, or `default` if the name is unknown."""
        return self._parameters.get(key, default)

    def setdefault(self, key: str, default: object = None) -> Any:
        """Return a parameter, after setting it to `default` if the name is unknown."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Remove the last parameter, and return its name and value."""
        return self._parameters.popitem()

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """Return a new dict in which every key has the same parameter."""
        return ParameterDict(dict.fromkeys(keys, default))

    def extra_repr(self) -> str:
        return parameter_lines(self)


def parameter_lines(
    module: Module, type_name: Callable[[Tensor], object] = lambda value: value.type()
) -> str:
    return "\n".join(
        f"  ({name}): Parameter containing: [{type_name(value)} of size "
        f"{'x'.join(str(size) for size in value.shape)}]"
        for name, value in module._parameters.items()
        if value is not None
    )


class Container(Module):
    """A module with named children. Deprecated: subclass `Module` instead.

    >>> import warnings
    >>> warnings.simplefilter("ignore")
    >>> nn.Container(a=nn.Identity()).a
    Identity()
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.", FutureWarning, stacklevel=2,
        )  # fmt: skip
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)
