"""Registration of parameters, buffers and child modules, and walks over the module tree.

A module registers parameters, buffers and child modules under the attribute that they were
assigned to. `parameters()`, `modules()`, … walk over the tree of modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...core.tensor import Tensor
from ..parameter import Buffer, Parameter
from .hooks import run_registration_hooks

if TYPE_CHECKING:
    from .module import Module

REGISTRIES = ("_parameters", "_buffers", "_modules")


class ModuleTree:
    """The registries of a `Module`, and the iterators over them."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    def __init__(self) -> None:
        # Not by assignment: `__setattr__` needs these registries.
        self.__dict__.update(
            _parameters={}, _buffers={}, _modules={}, _non_persistent_buffers_set=set()
        )

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        for registry in REGISTRIES:
            if registry in attributes and name in attributes[registry]:
                return attributes[registry][name]
        # Only called where the ordinary look-up failed, so ordinary attributes stay fast.
        text = f"'{type(self).__name__}' object has no attribute '{name}'"
        if "_parameters" not in attributes:
            text += "; does its __init__ call super().__init__() first?"
        raise AttributeError(text, name=name, obj=self)

    def __setattr__(self, name: str, value: object) -> None:
        if "_parameters" not in self.__dict__:
            if isinstance(value, Parameter | Buffer | ModuleTree):
                type_name = type(value).__name__
                raise AttributeError(
                    f"cannot assign {type_name} before Module.__init__() call: "
                    f"let __init__ of {type(self).__name__} begin with super().__init__()"
                )
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            # A name lives in one registry only; in its own it keeps its place in the state_dict.
            self._remove_name(name, keep="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, ModuleTree):
            self._remove_name(name, keep="_modules")
            self.add_module(name, value)  # type: ignore[arg-type]
        # After Parameter and Module, the frequent cases.
        elif isinstance(value, Buffer):
            self._remove_name(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        else:
            self._set_plain_attribute(name, value)

    def _set_plain_attribute(self, name: str, value: object) -> None:
        """Set an attribute; a registered name only accepts None (or, for a buffer, a tensor)."""
        for registry, member_type, type_name in (
            (self._parameters, "parameter", "torch.nn.Parameter"),
            (self._modules, "child module", "torch.nn.Module"),
            (self._buffers, "buffer", "torch.nn.Buffer, torch.Tensor"),
        ):
            if name in registry:
                if value is not None and not (
                    member_type == "buffer" and isinstance(value, Tensor)
                ):
                    raise TypeError(
                        f"cannot assign '{type(value).__name__}' as {member_type} '{name}' "
                        f"({type_name} or None expected)"
                    )
                registry[name] = run_registration_hooks(member_type.split()[-1], self, name, value)
                return
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for registry in REGISTRIES:
            if name in self.__dict__.get(registry, ()):
                self._remove_name(name)
                return
        object.__delattr__(self, name)

    def _remove_name(self, name: str, keep: str = "") -> None:
        """Remove a name from all registries but `keep`, where it keeps its position."""
        self.__dict__.pop(name, None)
        for registry in REGISTRIES:
            if registry != keep:
                self.__dict__[registry].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        for registry in REGISTRIES:
            names |= set(self.__dict__.get(registry, ()))
        return sorted(names)

    def _check_name(self, name: str, registry: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a name should be a string, got {type(name).__name__}")
        if "." in name or not name:
            raise KeyError(f"a name can't be empty or contain a dot, got {name!r}")
        if name not in registry and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (None reserves the name without a parameter).

        Raises: KeyError: the name is taken. TypeError: not a Parameter.
        """
        self._check_name(name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        # An optimizer would move the result, and the next forward pass would compute it anew.
        if param is not None and not param.is_leaf:
            raise ValueError(f"parameter '{name}' must be a leaf, not the result of an op")
        self._parameters[name] = run_registration_hooks("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is not trained; a persistent one is part of the state_dict.

        Raises: KeyError: the name is taken. TypeError: not a Tensor.
        """
        self._check_name(name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = run_registration_hooks("buffer", self, name, tensor)
        non_persistent = self._non_persistent_buffers_set
        (non_persistent.discard if persistent else non_persistent.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module.

        Raises: KeyError: the name is taken. TypeError: not a Module.
        """
        self._check_name(name, self._modules)
        if module is not None and not isinstance(module, ModuleTree):
            hint = "; unpack the list: nn.Sequential(*layers)" if isinstance(module, list) else ""
            raise TypeError(f"{type(module).__name__} is not a Module subclass{hint}")
        self._modules[name] = run_registration_hooks("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a child module: alias of `add_module`."""
        self.add_module(name, module)

    # Walks over the tree --------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all submodules, each with its path, such as "layers.0"."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        # Without this every path to a shared module is listed.
        if remove_duplicate:
            memo.add(self)
        yield prefix, self  # type: ignore[misc]
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Yield this module and all submodules."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct children, each with its name."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Yield the direct children."""
        return (child for _, child in self.named_children())

    def _named_members(
        self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules if recurse else [(prefix, self)]:
            for name, member in module.__dict__[registry].items():
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters, each with its path, such as "layers.0.weight"."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield all parameters, for an optimizer."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield all buffers, each with its path."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield all buffers."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path such as "layers.0"; "" is this one.

        Raises: AttributeError: there is none.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, ModuleTree):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module  # type: ignore[return-value]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Set the module at a path, replacing the one that is there.

        Args:
            target: the path, such as "layers.0".
            module: the new module.
            strict: whether a module must exist there; otherwise the last name may be new.

        Raises: ValueError: no path, or not a module. AttributeError: nothing is there.

        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> model.set_submodule("1", nn.Tanh()); model[1]
        Tanh()
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, ModuleTree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if not isinstance(getattr(parent, name, module), ModuleTree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path such as "layers.0.weight".

        Raises: AttributeError: there is none.
        """
        return self._get_member("_parameters", "an nn.Parameter", target)

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path.

        Raises: AttributeError: there is none.
        """
        return self._get_member("_buffers", "a buffer", target)

    def _get_member(self, registry: str, description: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module.__dict__[registry]:
            raise AttributeError(f"`{name}` is not {description}")
        return module.__dict__[registry][name]
