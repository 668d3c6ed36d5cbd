"""Operators and the namespaces they are in: what `torch.ops.my.op` returns.

    torch.ops.my                an `OpNamespace`
    torch.ops.my.op             an `OpOverloadPacket`: all overloads of a name
    torch.ops.my.op.default     an `OpOverload`: one schema, with its implementations

The operators of `Library` and `custom_op` are kept in `NAMESPACES`. A namespace whose operators
edutorch has itself (`aten`, `torchvision`) is filled when it is first asked for: see `PROVIDERS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .schema import FunctionSchema, OperatorError, parse_schema

__all__ = ["OpNamespace", "OpOverload", "OpOverloadPacket", "find_operator", "namespace"]

PROVIDERS = {
    "aten": "edutorch.library.aten",
    "prims": "edutorch.library.aten",
    "torchvision": "edutorch.library.torchvision_ops",
    "image": "edutorch.library.image_ops",
    "_torchaudio": "edutorch.library.torchaudio_ops",
    "torchaudio": "edutorch.library.torchaudio_ops",
}
"""Modules that define the operators of a namespace: each has a function `fill(namespace)`."""


@dataclass
class AutogradFormula:
    """What `register_autograd` was given."""

    backward: Callable[..., Any]
    setup_context: Callable[..., Any] | None


@dataclass
class Implementations:
    """Everything that is registered for one operator, except its schema.

    Args:
        kernels: functions by dispatch key: "CPU", "CUDA", "Meta", "Autograd",
            "CompositeImplicitAutograd" (made of ops that have gradients),
            "CompositeExplicitAutograd" (for every device).
        fake: returns results of the right shape and dtype without computing them.
        formula: how its gradient is computed.
        vmap_rule: computes a batch of calls.
        autocast: the dtype that floating inputs are cast to under autocast, by device.
        is_custom: made by `custom_op`: without a formula, backward raises an error.
        disabled: the devices whose kernel is switched off for now.
    """

    kernels: dict[str, Callable[..., Any]] = field(default_factory=dict)
    fake: Callable[..., Any] | None = None
    formula: AutogradFormula | None = None
    vmap_rule: Callable[..., Any] | None = None
    autocast: dict[str, Any] = field(default_factory=dict)
    is_custom: bool = False
    disabled: set[str] = field(default_factory=set)


class OpOverload:
    """One operator: a schema and its implementations. Calling it runs the right one.

    >>> edutorch.ops.aten.mul.Tensor
    <OpOverload(op='aten.mul', overload='Tensor')>
    """

    def __init__(self, packet: OpOverloadPacket, schema: FunctionSchema) -> None:
        self._schema = schema
        self.overloadpacket, self.namespace = packet, packet.namespace
        self._overloadname = schema.overload_name or "default"
        self._opname = packet.opname
        self.__name__ = f"{packet.opname}.{self._overloadname}"
        self.__qualname__ = str(self)
        self.__module__ = packet.__module__
        self.__doc__ = f"The operator {schema}."
        self.tags: list[Any] = []
        self.implementations = Implementations()
        self.recorder: Any = None  # the `Function` of `autograd_formula.py`, once it is needed

    def name(self) -> str:
        """Return "my::op", or "my::op.overload"."""
        overload = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.namespace}::{self._opname}{overload}"

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        op, overload = f"{self.namespace}.{self._opname}", self._overloadname
        return f"<OpOverload(op='{op}', overload='{overload}')>"

    def __hash__(self) -> int:
        return hash(str(self))

    def __deepcopy__(self, memo: object) -> OpOverload:
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return find_operator, (self.name(),)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        from .calling import call

        return call(self, args, kwargs)

    def has_kernel_for_dispatch_key(self, key: str) -> bool:
        """Return True if a kernel is registered under this dispatch key."""
        return key in self.implementations.kernels


class OpOverloadPacket:
    """All operators of one name, which differ in their arguments.

    Calling it runs the overload whose schema the arguments fit.
    """

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.opname, self.__name__ = namespace, name, name
        self.__module__ = f"torch.ops.{namespace}"
        self.__qualname__ = f"torch.ops.{namespace}.{name}"
        self._qualified_op_name = f"{namespace}::{name}"
        self.overload_table: dict[str, OpOverload] = {}

    def overloads(self) -> list[str]:
        """Return the names of the overloads."""
        return list(self.overload_table)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.opname}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.overload_table]

    def __deepcopy__(self, memo: object) -> OpOverloadPacket:
        return self

    def __getattr__(self, name: str) -> OpOverload:
        if not name.startswith("__") and "overload_table" in vars(self):
            overload = self.overload_table.get(name) or self.find_overload(name)
            if overload is not None:
                return overload
        shown = self.__dict__.get("_qualified_op_name", "?")
        raise AttributeError(
            f"The underlying op of '{shown.replace('::', '.')}' has no overload name '{name}'"
        )

    def find_overload(self, name: str) -> OpOverload | None:
        """Return an overload that is not in the table yet. (Here: there is none.)"""
        return None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        overloads = list(self.overload_table.values())
        for overload in overloads[:-1]:
            try:
                overload._schema.bind(args, kwargs)
            except OperatorError:
                continue
            return overload(*args, **kwargs)
        return overloads[-1](*args, **kwargs)


class OpNamespace:
    """The operators below `torch.ops.my`, as attributes.

    >>> edutorch.ops.aten.relu(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = f"torch.ops.{name}"
        self.packets: dict[str, OpOverloadPacket] = {}
        self.is_filled = name not in PROVIDERS

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self.name}'>"

    def __dir__(self) -> list[str]:
        return sorted(self.packets)

    def fill(self) -> None:
        """Define the operators that edutorch has itself, once."""
        if not self.is_filled:
            self.is_filled = True
            importlib.import_module(PROVIDERS[self.name]).fill(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "packets" not in vars(self):
            raise AttributeError(name)
        self.fill()
        packet = self.packets.get(name) or self.find_packet(name)
        if packet is not None:
            return packet
        raise AttributeError(
            f"'_OpNamespace' '{self.name}' object has no attribute '{name}': "
            f"no operator {self.name}::{name} is registered. torch.library.custom_op or "
            f"Library('{self.name}', 'DEF') defines one",
            name=name,
        )

    def find_packet(self, name: str) -> OpOverloadPacket | None:
        """Return an operator that is not in the table yet. (Here: there is none.)"""
        return None

    def define(self, schema: FunctionSchema) -> OpOverload:
        """Add an operator, and return it."""
        name = schema.name.rpartition("::")[2]
        packet = self.packets.get(name)
        if packet is None:
            packet = self.packets[name] = OpOverloadPacket(self.name, name)
        overload = OpOverload(packet, schema)
        packet.overload_table[overload._overloadname] = overload
        return overload

    def remove(self, overload: OpOverload) -> None:
        """Remove an operator."""
        packet = overload.overloadpacket
        packet.overload_table.pop(overload._overloadname, None)
        if not packet.overload_table:
            self.packets.pop(packet.opname, None)

    def define_composite(self, schema: str, function: Callable[..., Any]) -> OpOverload:
        """Add an operator that is a function of tensors: its gradient is that of the ops inside.

        Args:
            schema: "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor".
        """
        overload = self.define(parse_schema(f"{self.name}::{schema}"))
        overload.implementations.kernels["CompositeImplicitAutograd"] = function
        return overload


NAMESPACES: dict[str, OpNamespace] = {}


def namespace(name: str) -> OpNamespace:
    """Return a namespace; it is made when it is first asked for."""
    if name not in NAMESPACES:
        if name in ("aten", "prims"):
            from .aten import AtenNamespace

            NAMESPACES[name] = AtenNamespace(name)
        else:
            NAMESPACES[name] = OpNamespace(name)
    return NAMESPACES[name]


def split_name(qualname: str) -> tuple[str, str, str]:
    """Return (namespace, name, overload) of "my::op" or "my::op.overload".

    Raises: OperatorError: it has no namespace.
    """
    space, separator, rest = qualname.partition("::")
    if not separator or not space or not rest:
        raise OperatorError(
            "torch.library", f"expected a name like 'my::op', got {qualname!r}",
            hint="the part before `::` is the namespace, usually that of your package",
        )  # fmt: skip
    name, _, overload = rest.partition(".")
    return space, name, overload or "default"


def find_operator(name: Any) -> OpOverload:
    """Return the operator of a name, an overload, a packet, or a `CustomOpDef`.

    Raises: OperatorError: there is none.
    """
    if isinstance(name, OpOverload):
        return name
    if isinstance(name, OpOverloadPacket):
        return name.default
    if hasattr(name, "_opoverload"):
        return name._opoverload
    space, op, overload = split_name(name)
    try:
        return getattr(getattr(namespace(space), op), overload)
    except AttributeError as error:
        raise OperatorError(
            "torch.library", f"operator {name} does not exist",
            hint="define it first, by custom_op or Library(...).define",
        ) from error  # fmt: skip
