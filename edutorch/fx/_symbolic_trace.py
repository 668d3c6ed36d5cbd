"""Symbolic tracing: a function is called with proxies, which record what is done to them.

Nothing is computed. The graphs show modules as they are written, with calls of layers as single
nodes, for any shape; but a proxy has no shape, and no `if` can depend on it. `capture` is the
alternative: it runs the function and records every op.
"""

from __future__ import annotations

import builtins
import inspect
import math
import sys
import types
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..dtypes import dtype
from ..nn import Module, Parameter, Sequential, functional
from ..nn.modules.registration import ModuleTree
from .graph import PACKAGE, Graph
from .graph_module import GraphModule
from .node import IMPURE, Argument, map_aggregate
from .proxy import Proxy, TracerBase

__all__ = ["Tracer", "has_side_effect", "symbolic_trace", "wrap"]

WRAPPED_FUNCTIONS: list[tuple[dict[str, Any], str]] = []


class Tracer(TracerBase):
    """Traces symbolically. A derived class can choose which modules stay single nodes.

    Args:
        autowrap_modules: Python modules whose functions accept proxies.
        autowrap_functions: further functions that do.
        param_shapes_constant: accepted for compatibility.
    """

    def __init__(
        self, autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(Graph())
        self.modules, self.functions = autowrap_modules, autowrap_functions
        self.root: Any = None

    # To be overridden -------------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return True if a call of a module is one node: by default, for the layers of `nn`."""
        own = type(m).__module__.startswith("edutorch.nn")
        return own and not isinstance(m, Sequential)

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Trace a call of a module: as one node, or into it."""
        path = self.path_of_module(m)
        if not self.is_leaf_module(m, path):
            return forward(*args, **kwargs)
        return self.create_proxy("call_module", path, args, kwargs)

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a module below the root.

        Raises: NameError: it is not a submodule.
        """
        for name, submodule in self.root.named_modules():
            if submodule is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def _convert_argument(self, value: object) -> Any:
        if isinstance(value, Proxy):
            return value.node
        if isinstance(value, Tensor):
            return self.graph.create_node("get_attr", self._path_of_tensor(value))
        plain = bool | int | float | complex | str | bytes | dtype | type | range
        if value is None or value is Ellipsis or isinstance(value, plain):
            return value
        if callable(value) or type(value).__module__.startswith("edutorch"):
            return value
        raise NotImplementedError(f"argument of type: {type(value)}")

    def _path_of_tensor(self, value: Tensor) -> str:
        """Return the path of a parameter or buffer; another tensor becomes a constant."""
        for name, tensor in [*self.root.named_parameters(), *self.root.named_buffers()]:
            if tensor is value:
                return name
        number = 0
        while hasattr(self.root, f"_tensor_constant{number}"):
            if getattr(self.root, f"_tensor_constant{number}") is value:
                return f"_tensor_constant{number}"
            number += 1
        setattr(self.root, f"_tensor_constant{number}", value)
        return f"_tensor_constant{number}"

    # Tracing -----------------------------------------------------------------------------------

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """Return the graph of a module or function.

        Args:
            concrete_args: arguments that keep a value instead of being traced.

        Raises: TraceError: control flow depends on a traced value.
        """
        if isinstance(root, Module):
            self.root, function = root, type(root).forward
            args: list[Any] = [root]
        else:
            self.root, function, args = Module(), root, []
        self.graph = Graph(tracer_cls=type(self))
        kwargs: dict[str, Any] = {}
        for parameter in list(inspect.signature(function).parameters.values())[len(args) :]:
            self._parameter(parameter, concrete_args or {}, args, kwargs)
        with ProxyPatches(self, function):
            result = function(*args, **kwargs)
        self.graph.output(self.create_arg(result))
        return self.graph

    def _parameter(
        self, parameter: inspect.Parameter, concrete: dict[str, Any], args: list[Any],
        kwargs: dict[str, Any],
    ) -> None:  # fmt: skip
        """Make the placeholder of one parameter: by `create_proxy`, which tracers override."""
        name, passing = parameter.name, parameter.kind
        if passing is parameter.VAR_POSITIONAL or passing is parameter.VAR_KEYWORD:
            star = "*" if passing is parameter.VAR_POSITIONAL else "**"
            proxy = self.create_proxy("placeholder", star + name, (), {}, name)
            if passing is parameter.VAR_POSITIONAL:
                args.append(proxy)
            else:
                kwargs[name] = proxy
            return
        if name in concrete:
            argument = concrete[name]
            self.graph.placeholder(name, default_value=argument)
        else:
            default = () if parameter.default is parameter.empty else (parameter.default,)
            argument = self.create_proxy("placeholder", name, default, {}, name)
        if passing is parameter.KEYWORD_ONLY:
            kwargs[name] = argument
        else:
            args.append(argument)


class ProxyPatches:
    """Patches modules and composite functions while tracing, so that they accept proxies."""

    def __init__(self, tracer: Tracer, function: Callable[..., Any]) -> None:
        self.tracer, self.function = tracer, function
        self.undo: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self.patch_modules()
        self.patch_functions()

    def patch_modules(self) -> None:
        """Let calls of modules, and their parameters, become nodes."""
        # Every module is called through the tracer, which decides.
        tracer, calling = self.tracer, Module.__call__

        def call(module: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return calling(module, *args, **kwargs)

            return tracer.call_module(module, forward, args, kwargs)

        self.replace_slot(Module, "__call__", call)
        reading = ModuleTree.__getattr__
        proxies: dict[str, Proxy] = {}

        def read(module: Module, name: str) -> Any:
            value = reading(module, name)
            if not isinstance(value, Parameter):
                return value
            path = next(
                (n for n, parameter in tracer.root.named_parameters() if parameter is value), None
            )
            if path is None:
                return value
            if path not in proxies:  # one `get_attr` for each parameter
                proxies[path] = tracer.create_proxy("get_attr", path, (), {})
            return proxies[path]

        self.replace_slot(ModuleTree, "__getattr__", read)

    def patch_functions(self) -> None:
        """Let functions that are no ops accept proxies: ops do so by `__torch_function__`."""
        tracer = self.tracer
        known: dict[int, Any] = {}
        for scope in (functional.__dict__, sys.modules[PACKAGE].__dict__):
            for name, value in list(scope.items()):
                if isinstance(value, types.FunctionType) and not hasattr(value, "op"):
                    known[id(value)] = value
                    self.shadow_name(scope, name, accept_proxies(value))
        for module in tracer.modules:
            for name, value in list(module.__dict__.items()):
                if callable(value) and not name.startswith("_"):
                    known[id(value)] = value
                    self.shadow_name(module.__dict__, name, accept_proxies(value))
        known |= {id(function): function for function in tracer.functions}
        scope = getattr(self.function, "__globals__", {})
        for name, value in list(scope.items()):
            if id(value) in known:
                self.shadow_name(scope, name, accept_proxies(value))
        for scope, name in WRAPPED_FUNCTIONS:
            value: Any = scope.get(name, getattr(builtins, name, None))
            if not hasattr(value, "_takes_proxies"):
                self.shadow_name(scope, name, accept_proxies(value))

    def __exit__(self, *exception: object) -> None:
        for restore in reversed(self.undo):
            restore()

    def replace_slot(self, holder: type, name: str, value: object) -> None:
        before = holder.__dict__[name]
        setattr(holder, name, value)
        self.undo.append(lambda: setattr(holder, name, before))

    def shadow_name(self, scope: dict[str, Any], name: str, value: object) -> None:
        missing = name not in scope
        before = scope.get(name)
        scope[name] = value
        self.undo.append(lambda: scope.pop(name) if missing else scope.update({name: before}))


def accept_proxies(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that becomes a node when it is called with a proxy."""

    def call_or_record(*args: Any, **kwargs: Any) -> Any:
        proxies: list[Proxy] = []
        map_aggregate((args, kwargs), lambda x: proxies.append(x) if isinstance(x, Proxy) else None)
        if not proxies:
            return function(*args, **kwargs)
        return proxies[0].tracer.create_proxy("call_function", function, args, kwargs)

    call_or_record.__name__ = getattr(function, "__name__", "function")
    call_or_record._takes_proxies = function  # type: ignore[attr-defined]
    return call_or_record


def unwrap_proxies(value: Argument) -> Any:
    """Replace proxies by their nodes."""
    return map_aggregate(
        value, lambda element: element.node if isinstance(element, Proxy) else element
    )


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Return a module that does what `root` does, with its graph to be read and changed.

    Args:
        root: a module or a function.
        concrete_args: arguments that keep a value instead of being traced.

    Raises: TraceError: an `if`, a loop or a length depends on a traced value.

    >>> traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    >>> print(traced.graph)
    graph():
        %input_1 : [num_users=1] = placeholder[target=input]
        %_0 : [num_users=1] = call_module[target=0](args = (%input_1,), kwargs = {})
        %_1 : [num_users=1] = call_module[target=1](args = (%_0,), kwargs = {})
        return %_1
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "Traced")
    return GraphModule(tracer.root, graph, name)


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Make a function of the calling module a single node, instead of tracing into it.

    Call it at module level, with a function's name or as its decorator.
    """
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":  # the name is patched in the globals of this module
        raise NotImplementedError("wrap must be called at the top level of a module")
    WRAPPED_FUNCTIONS.append((frame.f_globals, name))
    return fn_or_name


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Keep calls of a function in graphs even if their result is not used.

    >>> fx.has_side_effect(print) is print
    True
    """
    IMPURE.add(fn)
    return fn
