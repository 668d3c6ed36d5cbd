"""Proxies: the placeholders for values in symbolic tracing."""

from __future__ import annotations

import builtins
import dis
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from ..errors import EdutorchError
from .graph import Graph
from .node import INFIX, PREFIX, Argument, Node, Target, map_aggregate

__all__ = ["Proxy", "TraceError"]


class TraceError(ValueError):
    """The function cannot be traced symbolically."""


class NoLengthError(EdutorchError, RuntimeError):
    """A proxy has no length."""


class TracerBase:
    """Adds nodes to a graph, and returns proxies for them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def create_node(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        name: str | None = None, type_expr: object = None,
    ) -> Node:  # fmt: skip
        """Add a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy for a node's value."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        name: str | None = None, type_expr: object = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:  # fmt: skip
        """Add a node, and return its proxy."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Argument) -> Any:
        """Return an argument in the form that nodes accept.

        Raises: NotImplementedError: a type of value that a graph cannot hold.
        """
        return map_aggregate(a, self._convert_argument)

    def _convert_argument(self, value: object) -> Any:
        return value.node if isinstance(value, Proxy) else value

    def to_bool(self, obj: Proxy) -> bool:
        """Refuse to convert a proxy to bool. Raises: TraceError: always."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Any:
        """Unpack a proxy where the bytecode tells the number of targets: `a, b = x`.

        Raises: TraceError: it is iterated in any other way.
        """
        count = unpack_count(sys._getframe(2))  # the frame that unpacks the proxy
        if count is None:
            raise TraceError(
                "Proxy object cannot be iterated: a stand-in has no length. This happens in a loop "
                "over a traced value, or with *value; loop over range(n) instead"
            )
        return builtins.iter([obj.__getitem__(i) for i in range(count)])

    def keys(self, obj: Proxy) -> Any:
        """Record a call of `keys`."""
        return self.create_proxy("call_method", "keys", (obj,), {})


def unpack_count(frame: FrameType) -> int | None:
    """Return the number of targets that the current instruction unpacks a value into, or None."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti and instruction.opname == "UNPACK_SEQUENCE":
            return instruction.arg
    return None


class Proxy:
    """Stands for the value of `node`: every operation on it adds a node to the graph."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer, self.node = tracer or TracerBase(node.graph), node

    def __getattr__(self, name: str) -> Attribute:
        # Python and NumPy ask for protocols that a proxy must not seem to have.
        if name.startswith("__") or name == "_array":
            raise AttributeError(f"a traced value has no {name!r}: it stands for any tensor")
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise NoLengthError(
            "len", "'len' is not supported in symbolic tracing by default: a traced value has no "
            "length", hint="to record the call, put fx.wrap('len') at the top of the module; or "
            "use fx.capture, which runs the function",
        )  # fmt: skip

    def keys(self) -> Any:
        """Record a call of `keys`."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: object, args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Record the call of an op as a node."""
        proxies: list[Proxy] = []
        map_aggregate((args, kwargs), lambda x: proxies.append(x) if isinstance(x, Proxy) else None)
        return proxies[0].tracer.create_proxy("call_function", function, tuple(args), kwargs or {})

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"


class Attribute(Proxy):
    """An attribute of a proxy: a method if it is called, a value if it is used."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None  # x.shape is a node; x.relu() must not be two

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of the value, created on first use."""
        if self._node is None:
            self._node = self.tracer.create_proxy(
                "call_function", getattr, (self.root, self.attr), {}
            ).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _add_operators() -> None:
    def infix(function: Callable[..., Any], turned: bool) -> Any:
        def method(self: Proxy, other: object) -> Proxy:
            args = (other, self) if turned else (self, other)
            return self.tracer.create_proxy("call_function", function, args, {})

        return method

    def prefix(function: Callable[..., Any]) -> Any:
        return lambda self: self.tracer.create_proxy("call_function", function, (self,), {})

    for function in INFIX:
        name = function.__name__.strip("_")
        setattr(Proxy, f"__{name}__", infix(function, turned=False))
        if name not in ("eq", "ne", "lt", "le", "gt", "ge"):
            setattr(Proxy, f"__r{name}__", infix(function, turned=True))
    for function in (*PREFIX, operator.abs):
        setattr(Proxy, f"__{function.__name__.strip('_')}__", prefix(function))
    Proxy.__getitem__ = infix(operator.getitem, turned=False)  # type: ignore[attr-defined]
    Proxy.__hash__ = object.__hash__  # type: ignore[assignment]


_add_operators()
