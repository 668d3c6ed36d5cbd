"""`Library`, and the functions that define operators and register their implementations."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from edutorch.backends import DEVICES
from edutorch.errors import ArgumentError, InvalidValueError, warn

from .operators import (
    NAMESPACES,
    PROVIDERS,
    AutogradFormula,
    Implementations,
    OpOverload,
    find_operator,
    namespace,
    split_name,
)
from .schema import OperatorError, parse_schema

__all__ = [
    "Library", "define", "impl", "impl_abstract", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_vmap",
]  # fmt: skip

DISPATCH_KEYS = {
    "": "CompositeImplicitAutograd", "CompositeImplicitAutograd": "CompositeImplicitAutograd",
    "CompositeExplicitAutograd": "CompositeExplicitAutograd", "CPU": "CPU", "CUDA": "CUDA",
    "Meta": "Meta", "Autograd": "Autograd", "AutogradCPU": "Autograd", "AutogradCUDA": "Autograd",
    "CompositeExplicitAutogradNonFunctional": "CompositeExplicitAutograd",
}  # fmt: skip
"""The dispatch keys that have a meaning here, and under which key a kernel is kept."""

IGNORED_KEYS = {
    "XPU", "MPS", "PrivateUse1", "HPU", "XLA", "MTIA", "IPU", "QuantizedCPU", "QuantizedCUDA",
    "SparseCPU", "SparseCUDA", "Autocast", "AutocastCPU", "AutocastCUDA", "AutocastXPU",
    "AutogradXPU", "AutogradMPS", "AutogradPrivateUse1", "BackendSelect", "Functionalize",
    "MkldnnCPU", "ADInplaceOrView", "Python", "NestedTensorCPU", "NestedTensorCUDA", "ZeroTensor",
}  # fmt: skip
"""Dispatch keys of devices and layouts that do not exist here: their kernels are not called."""

DEVICE_KEYS = {
    "cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "default": "CompositeExplicitAutograd",
    "xpu": "XPU", "mps": "MPS", "hpu": "HPU",
}  # fmt: skip
"""The dispatch key of each type of device."""

DEFINING: dict[str, weakref.ref[Library]] = {}
"""The `Library(…, "DEF")` of each namespace: there may be one."""

PENDING: dict[tuple[str, str, str], Implementations] = {}
"""Implementations of operators that are not defined yet."""


class Library:
    """Operators of a namespace, defined and implemented here.

    Args:
        ns: the namespace, usually the name of a package.
        kind: "DEF" defines operators, and there is one for a namespace; "FRAGMENT" as well, and
            there may be several; "IMPL" only implements.
        dispatch_key: the key of kernels that are registered without one.

    Raises: ValueError: an unknown kind. RuntimeError: the namespace is defined already.

    >>> library = edutorch.library.Library("doc_library", "FRAGMENT")
    >>> library.define("twice(Tensor x) -> Tensor")
    'twice'
    >>> library.impl("twice", lambda x: 2 * x, "CPU")
    >>> edutorch.ops.doc_library.twice(ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise InvalidValueError(
                "Library", f"Unsupported kind: {kind}", hint="one of DEF, FRAGMENT and IMPL"
            )
        if kind == "DEF":
            earlier = DEFINING.get(ns)
            if ns in PROVIDERS or (earlier is not None and earlier() is not None):
                raise OperatorError(
                    "Library",
                    "Only a single TORCH_LIBRARY can be used to register the namespace "
                    f"{ns}; please put all of your definitions in a single TORCH_LIBRARY block",
                    hint=f'use Library("{ns}", "FRAGMENT") to add to it',
                )
            DEFINING[ns] = weakref.ref(self)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._overloads: list[OpOverload] = []
        self._undo: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator, and return its name.

        Args:
            schema: "my_op(Tensor x, int n=1) -> Tensor".
            alias_analysis: "" or "CONSERVATIVE"; there is no difference here.

        Raises: SchemaError: the schema cannot be read. RuntimeError: it is defined already.
        """
        if self.kind == "IMPL":
            raise OperatorError(
                "Library.define", f"a library of kind IMPL defines nothing: {schema}",
                hint=f'use Library("{self.ns}", "FRAGMENT")',
            )  # fmt: skip
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise OperatorError("Library.define", f"Invalid alias_analysis type {alias_analysis}")
        overload = define_operator(self.ns, schema, tags)
        self._overloads.append(overload)
        return overload._schema.name.rpartition("::")[2] + (
            f".{overload._schema.overload_name}" if overload._schema.overload_name else ""
        )

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *,
        with_keyset: bool = False, allow_override: bool = False,
    ) -> None:  # fmt: skip
        """Register a kernel of an operator.

        Args:
            op_name: "my_op", "my_op.overload", or the operator.
            dispatch_key: which arguments it is for: "CPU", "CUDA", "Meta", "Autograd",
                "CompositeImplicitAutograd" (all, made of ops that have gradients), which is the
                default, or "CompositeExplicitAutograd" (all devices, without a gradient).

        Raises: TypeError: `fn` is no function. RuntimeError: an unknown key, or another namespace.
        """
        if not callable(fn):
            raise ArgumentError(
                "Library.impl",
                f"Input function is required to be a callable but found type {type(fn)}",
            )
        name = op_name.name() if isinstance(op_name, OpOverload) else op_name
        name = name if "::" in name else f"{self.ns}::{name}"
        if not name.startswith(f"{self.ns}::"):
            raise OperatorError(
                "Library.impl", f"{name} is not in the namespace of this library", {"ns": self.ns}
            )
        set_kernel(name, dispatch_key or self.dispatch_key, fn, self)

    def _register_fake(
        self, op_name: str, fn: Callable[..., Any], *args: Any, **named: Any
    ) -> None:
        registered = implementations_of(f"{self.ns}::{op_name}")
        self._undo.append(lambda: setattr(registered, "fake", None))
        registered.fake = fn

    def _destroy(self) -> None:
        """Remove what this library has defined and registered."""
        for undo in reversed(self._undo):
            undo()
        for overload in self._overloads:
            NAMESPACES[overload.namespace].remove(overload)
        self._undo, self._overloads = [], []
        if self.kind == "DEF":
            DEFINING.pop(self.ns, None)


@contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """Make a library whose operators are removed at the end of the block."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


def define_operator(ns: str, schema: str, tags: Any = ()) -> OpOverload:
    """Add an operator to a namespace.

    Raises: OperatorError: the name belongs to another namespace, or is defined already.
    """
    parsed = parse_schema(schema)
    space, separator, _ = parsed.name.partition("::")
    if separator and space != ns:
        raise OperatorError(
            "Library.define",
            f"Explicitly provided namespace ({space}) in schema string does not match the "
            f"namespace of the library ({ns})",
            {"schema": schema},
        )
    if not separator:
        parsed = parse_schema(f"{ns}::{schema.lstrip()}")
    home = namespace(ns)
    if not home.is_filled:
        home.fill()
    name = parsed.name.partition("::")[2]
    overload = parsed.overload_name or "default"
    packet = home.packets.get(name)
    if packet is not None and overload in packet.overload_table:
        raise OperatorError(
            "Library.define",
            f"Tried to register an operator ({parsed}) with the same name and overload name "
            "multiple times",
            {"registered": packet.overload_table[overload]._schema},
        )
    operator = home.define(parsed)
    operator.tags = list(tags) if isinstance(tags, list | tuple) else [tags]
    pending = PENDING.pop((ns, name, overload), None)
    if pending is not None:
        operator.implementations = pending
    return operator


def implementations_of(name: Any) -> Implementations:
    """Return what is registered for an operator, which may not be defined yet."""
    if not isinstance(name, str):
        return find_operator(name).implementations
    key = split_name(name)
    home = namespace(key[0])
    home.fill()
    packet = home.packets.get(key[1])
    if packet is not None and key[2] in packet.overload_table:
        return packet.overload_table[key[2]].implementations
    return PENDING.setdefault(key, Implementations())


def set_kernel(
    name: Any, dispatch_key: str, function: Callable[..., Any], library: Library | None = None
) -> None:
    """Register a kernel under a dispatch key.

    Raises: OperatorError: an unknown key.
    """
    key = DISPATCH_KEYS.get(dispatch_key)
    if key is None and dispatch_key in IGNORED_KEYS:
        return
    if key is None:
        raise OperatorError(
            "torch.library", f"could not parse dispatch key: {dispatch_key}",
            hint=f"one of {', '.join(filter(None, DISPATCH_KEYS))}",
        )  # fmt: skip
    kernels = implementations_of(name).kernels
    if key in kernels and kernels[key] is not function:
        warn(f"{name}: overriding a previously registered kernel for the dispatch key {key}")
    kernels[key] = function
    if library is not None:
        library._undo.append(lambda: kernels.pop(key, None))


# Functions ----------------------------------------------------------------------------------------


def define(
    qualname: Any, schema: str, alias_analysis: str = "", *, lib: Library | None = None,
    tags: Any = (),
) -> Any:  # fmt: skip
    """Define an operator.

    Args:
        qualname: "my::op". (Or a library; the schema then has the name, and what is returned is a
            decorator of its implementation.)
        schema: "(Tensor x) -> Tensor".

    >>> edutorch.library.define("doc_define::twice", "(Tensor x) -> Tensor")
    >>> edutorch.library.impl("doc_define::twice", "cpu", lambda x: 2 * x)
    >>> edutorch.ops.doc_define.twice(ones(1))
    tensor([2.])
    """
    if isinstance(qualname, Library):
        library = qualname
        name = library.define(schema, alias_analysis, tags=tags)

        def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, function)
            return function

        return decorator
    if not isinstance(qualname, str):
        raise InvalidValueError(
            "define", f"expected the operator's name, got {type(qualname).__name__}"
        )
    space, _, _ = split_name(qualname)
    overload = define_operator(space, f"{qualname.partition('::')[2]}{schema}", tags)
    if lib is not None:
        lib._overloads.append(overload)
    return None


def impl(
    qualname: Any, types: Any, func: Callable[..., Any] | str | None = None, *,
    lib: Library | None = None,
) -> Any:  # fmt: skip
    """Register a kernel for types of devices; without `func` it is a decorator.

    Args:
        qualname: "my::op". (Or, as `Library.impl`: a library, a name and a dispatch key.)
        types: "cpu", "cuda", "default" (every device), or a list of these.
    """
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func if isinstance(func, str) else ""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, function, key)
            return function

        return register

    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        for key in device_keys(types):
            set_kernel(qualname, key, function, lib)
        return function

    return decorator if func is None else (decorator(func), None)[1]  # type: ignore[arg-type]


def device_keys(types: str | Sequence[str]) -> list[str]:
    """Return the dispatch keys of types of devices.

    Raises: OperatorError: an unknown one.
    """
    names = [types] if isinstance(types, str) else list(types)
    unknown = [name for name in names if name not in DEVICE_KEYS]
    if unknown:
        raise OperatorError(
            "torch.library", f"unknown device type: {', '.join(map(str, unknown))}",
            hint=f"one of {', '.join(DEVICE_KEYS)}",
        )  # fmt: skip
    return [DEVICE_KEYS[name] for name in names]


def register_kernel(
    op: Any, device_types: str | Sequence[str] | None, func: Callable[..., Any] | None = None, /, *,
    lib: Library | None = None,
) -> Any:  # fmt: skip
    """Register a kernel for types of devices (None: every device); without `func` a decorator."""
    return impl(op, device_types or "default", func, lib=lib)


def register_fake(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None,
    _stacklevel: int = 1, allow_override: bool = False,
) -> Any:  # fmt: skip
    """Register what tells the shape and dtype of an operator's results (or return a decorator).

    It gets the arguments of the operator on the device "meta", and returns empty tensors.

    Raises: RuntimeError: the operator does not exist.
    """

    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        operator = find_operator(op)
        operator.implementations.fake = function
        if lib is not None:
            lib._undo.append(lambda: setattr(operator.implementations, "fake", None))
        return function

    return decorator if func is None else decorator(func)


def impl_abstract(
    qualname: Any, func: Callable[..., Any] | None = None, *, lib: Library | None = None,
    _stacklevel: int = 1,
) -> Any:  # fmt: skip
    """Register the same as `register_fake`, whose older name this is."""
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:  # fmt: skip
    """Register how the gradient of an operator is computed.

    Args:
        backward: `backward(ctx, *grads)` returns a gradient for each argument.
        setup_context: `setup_context(ctx, inputs, output)` saves in `ctx` what backward needs.
            Arguments after `*` come in a further one, `keyword_only_inputs`.

    Raises: RuntimeError: the operator does not exist, or writes to its arguments.
    """
    operator = find_operator(op)
    if operator._schema.is_mutable:
        raise OperatorError(
            "register_autograd",
            f"Cannot register autograd formula for non-functional operator {operator}",
            {"schema": operator._schema},
            "write an operator that returns new tensors",
        )
    if operator.namespace in PROVIDERS:
        return  # it is made of ops here, which have gradients of their own
    operator.implementations.formula = AutogradFormula(backward, setup_context)


def register_vmap(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Any:
    """Register how an operator computes a batch of calls; without `func` a decorator.

    The rule is called as `rule(info, in_dims, *args)`, with the arguments of all examples and the
    dimension of the examples in each (None: they share it); `info.batch_size` is their number. It
    returns (output, out_dims).
    """

    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        find_operator(op).implementations.vmap_rule = function
        return function

    return decorator if func is None else decorator(func)


def register_autocast(
    op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None
) -> None:
    """Cast the floating arguments of an operator to a dtype under autocast."""
    if device_type not in DEVICES:
        raise InvalidValueError("register_autocast", f"Unknown device type: {device_type}")
    find_operator(op).implementations.autocast[device_type] = cast_inputs
