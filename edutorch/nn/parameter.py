"""Parameters and buffers, and their uninitialized (lazy) forms."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, SupportsIndex

from ..core.tensor import PLAIN_TENSORS, Tensor, fill, share_version, wrap
from ..errors import ShapeError, ShapeValueError
from ..modes import no_grad
from ..ops import empty
from .common_types import DeviceLike, DTypeLike

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy",
]  # fmt: skip


def share_data(tensor: Tensor, data: Tensor | None) -> None:
    """Let a new tensor share the memory of `data` (an empty tensor if None)."""
    source = empty(0) if data is None else data
    if not isinstance(source, Tensor):
        raise TypeError(
            f"{type(tensor).__name__}: expected a Tensor, got {type(data).__name__}; "
            "make one with tensor(...)"
        )
    fill(tensor, source._array)
    share_version(tensor, source)  # both share one version counter


class Parameter(Tensor):
    """A trainable tensor: as an attribute of a module it is listed in `parameters()`.

    Results computed from parameters are ordinary tensors.

    >>> nn.Parameter(tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **named: Any) -> Parameter:
        """Make the form that the data asks for: of a `DTensor` a parameter in parts."""
        data = args[0] if args else named.get("data")
        return object.__new__(getattr(data, "_parameter_class", cls))

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        share_data(self, data)
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        # Tied parameters stay one tensor in the copy: `memo` maps the old one to it.
        if id(self) not in memo:
            copied = type(self)(self.detach().clone(), self.requires_grad)
            copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
            memo[id(self)] = copied
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _rebuild, (type(self), wrap(self._array), self.requires_grad), self.__dict__ or None


class Buffer(Tensor):
    """A tensor of a module that is not trained, such as a running mean.

    A `persistent` buffer is part of the module's `state_dict`.

    >>> nn.Buffer(zeros(2))
    tensor([0., 0.])
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        share_data(self, data)
        self.persistent = persistent

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) not in memo:
            copied = type(self)(self.detach().clone(), persistent=self.persistent)
            copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
            memo[id(self)] = copied
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _rebuild, (type(self), wrap(self._array), self.persistent), self.__dict__ or None


def _rebuild(cls: type, data: Tensor, flag: bool) -> Any:
    """Unpickle a parameter or a buffer."""
    return cls(data, flag) if issubclass(cls, Parameter) else cls(data, persistent=flag)


# The fast call paths take these classes for ordinary tensors: their ops have no special forms.
PLAIN_TENSORS |= {Parameter, Buffer}


ALLOWED_WITHOUT_SHAPE = {
    "bfloat16", "convert_dtype", "copy_", "cpu", "cuda", "detach", "double", "float", "half",
    "requires_grad_", "to", "to_device",
}  # fmt: skip
"""The functions that are allowed without a shape."""


class UninitializedTensorMixin:
    """The base of parameters and buffers without a shape, with known dtype and device."""

    __slots__ = ()
    initialized_class: ClassVar[type[Tensor]]

    def materialize(
        self, shape: Sequence[int], device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        """Allocate memory of a shape, and become an ordinary parameter or buffer.

        >>> weight = nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> weight.shape
        torch.Size([2, 3])
        """
        tensor: Any = self
        device = tensor.device if device is None else device
        dtype = tensor.dtype if dtype is None else dtype
        requires_grad = tensor.requires_grad
        data = empty(tuple(shape), device=device, dtype=dtype)
        # Before `data` is set, which the uninitialized class refuses.
        tensor.__class__ = self.initialized_class
        with no_grad():
            tensor.data = data
        tensor.requires_grad_(requires_grad)

    @property
    def shape(self) -> Any:
        """Raise ShapeError: the shape is not known yet."""
        raise ShapeError(
            None, "Can't access the shape of an uninitialized parameter or buffer. This error "
            "usually happens in `load_state_dict` when trying to load an uninitialized parameter "
            "into an initialized one", hint="call `forward` to initialize the parameters first",
        )  # fmt: skip

    @property
    def data(self) -> Any:
        """A plain tensor without elements, so that initializers have no effect."""
        tensor: Any = self
        return empty(0, device=tensor.device, dtype=tensor.dtype)

    @data.setter
    def data(self, value: Tensor) -> None:
        Tensor.data.__set__(self, value)  # type: ignore[arg-type]

    ndim = property(lambda self: raise_uninitialized("ndim", type(self)))

    def size(self, dim: int | None = None) -> Any:
        """Raise ShapeValueError: the shape is not known yet."""
        return raise_uninitialized("size", type(self))

    def dim(self) -> int:
        """Raise ShapeValueError: the shape is not known yet."""
        return raise_uninitialized("dim", type(self))

    def numel(self) -> int:
        """Raise ShapeValueError: the shape is not known yet."""
        return raise_uninitialized("numel", type(self))

    def __len__(self) -> int:
        return raise_uninitialized("len", type(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Intercept every op: only those that need no shape are allowed."""
        # An op on memory without a shape would compute with 0 elements and raise nothing.
        if func.__name__ in ALLOWED_WITHOUT_SHAPE:
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[misc]
        return raise_uninitialized(func.__name__, cls)


def raise_uninitialized(op: str, cls: type) -> Any:
    """Raise ShapeValueError (a ValueError, as in PyTorch)."""
    raise ShapeValueError(
        op, f"Attempted to use an uninitialized parameter ({cls.__name__}): its shape is not "
        "known yet", hint="call the lazy module with a dummy batch first",
    )  # fmt: skip


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet; `materialize` makes it a `Parameter`.

    >>> nn.UninitializedParameter()
    <UninitializedParameter>
    """

    __slots__ = ()
    initialized_class = Parameter

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Create an empty instance."""
        return object.__new__(cls)

    def __init__(
        self, requires_grad: bool = True, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        share_data(self, empty(0, device=device, dtype=dtype))
        if requires_grad:
            self.requires_grad = True

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return type(self), (self.requires_grad, str(self.device), self.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet; `materialize` makes it a `Buffer`.

    >>> nn.UninitializedBuffer()
    <UninitializedBuffer>
    """

    __slots__ = ()
    initialized_class = Buffer

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Create an empty instance."""
        return object.__new__(cls)

    def __init__(
        self, requires_grad: bool = False, device: DeviceLike = None, dtype: DTypeLike = None,
        persistent: bool = True,
    ) -> None:  # fmt: skip
        share_data(self, empty(0, device=device, dtype=dtype))
        self.persistent = persistent
        if requires_grad:
            self.requires_grad = True

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) not in memo:
            settings = (self.requires_grad, self.device, self.dtype, self.persistent)
            memo[id(self)] = type(self)(*settings)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return type(self), (self.requires_grad, str(self.device), self.dtype, self.persistent)


def is_lazy(param: object) -> bool:
    """Return True if a parameter or buffer is uninitialized.

    >>> is_lazy(nn.LazyLinear(3).weight)
    True
    """
    return isinstance(param, UninitializedTensorMixin)
