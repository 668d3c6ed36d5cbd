"""`custom_op`: a Python function as an operator of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from . import registration
from .inference import infer_schema
from .operators import NAMESPACES, OpOverload, namespace, split_name
from .registration import define_operator, device_keys
from .schema import OperatorError

__all__ = ["CustomOpDef", "custom_op"]


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None, schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Make a function an operator: one step in graphs, whatever happens inside.

    Args:
        name: "my::op", which then is `torch.ops.my.op` too.
        fn: the function, with annotations; without it this is a decorator.
        mutates_args: the names of the arguments that it writes to, or "unknown".
        device_types: the devices it works on; None: all.
        schema: "(Tensor x) -> Tensor", where the annotations do not say it.

    Raises: ValueError: the schema cannot be inferred.

    >>> @edutorch.library.custom_op("doc_custom::sine", mutates_args=())
    ... def sine(x: Tensor) -> Tensor:
    ...     return tensor(x.numpy()).sin()
    >>> sine.register_autograd(
    ...     lambda ctx, g: g * ctx.x.cos(),
    ...     setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0]),
    ... )
    >>> x = zeros(2, requires_grad=True)
    >>> sine(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """

    def decorator(function: Callable[..., Any]) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        definition = CustomOpDef(name, text, function, tags)
        definition.check_mutated(mutates_args)
        definition.register_kernel(device_types)(function)
        return definition

    return decorator if fn is None else decorator(fn)


class CustomOpDef:
    """What `custom_op` returns: the operator, to be called, and its registrations.

    A definition of the same name replaces an earlier one, so that a cell can be run again.
    """

    def __init__(self, name: str, schema: str, fn: Callable[..., Any], tags: Any = None) -> None:
        self._namespace, self._name, _ = split_name(name)
        self._qualname, self._init_fn = name, fn
        self.__doc__, self.__name__ = fn.__doc__, getattr(fn, "__name__", self._name)
        self.__wrapped__ = fn
        packet = namespace(self._namespace).packets.get(self._name)
        if packet is not None and packet.default.implementations.is_custom:
            NAMESPACES[self._namespace].remove(packet.default)
        self._opoverload: OpOverload = define_operator(
            self._namespace, f"{self._name}{schema}", tags or ()
        )
        self._opoverload.implementations.is_custom = True

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def check_mutated(self, mutates_args: str | Iterable[str]) -> None:
        """Raise OperatorError unless a given schema marks what `mutates_args` names."""
        schema = self._opoverload._schema
        marked = {argument.name for argument in schema.arguments if argument.is_write}
        if mutates_args != "unknown" and marked != set(mutates_args):
            NAMESPACES[self._namespace].remove(self._opoverload)
            raise OperatorError(
                self._qualname, "mutates_args and the schema do not agree",
                {"mutates_args": sorted(mutates_args), "schema": schema},
                "in a schema, what is written to is a Tensor(a!)",
            )  # fmt: skip

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Register an implementation for types of devices (None: all); a decorator without `fn`."""

        def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
            kernels = self._opoverload.implementations.kernels
            for key in device_keys("default" if device_types is None else device_types):
                kernels[key] = function
            return function

        return decorator if fn is None else decorator(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register what tells the shape and dtype of the results: see `library.register_fake`."""
        return registration.register_fake(self._opoverload, fn)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Register how the gradient is computed: see `library.register_autograd`."""
        registration.register_autograd(self._opoverload, backward, setup_context=setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Register how a batch of calls is computed: see `library.register_vmap`."""
        return registration.register_vmap(self._opoverload, func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Cast floating arguments under autocast: see `library.register_autocast`."""
        registration.register_autocast(self._opoverload, device_type, cast_inputs)

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Switch the kernel of a device off, or on again, inside a `with` block."""
        (key,) = device_keys(device_type)
        disabled = self._opoverload.implementations.disabled
        before = set(disabled)
        (disabled.discard if enabled else disabled.add)(key)
        try:
            yield
        finally:
            disabled.clear()
            disabled.update(before)
