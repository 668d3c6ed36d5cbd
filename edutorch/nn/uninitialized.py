"""Parameters and buffers whose shape is not known yet: what lazy modules begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..errors import ShapeError, ShapeValueError
from ..modes import no_grad
from ..ops import empty
from .parameter import Buffer, Parameter, adopt

__all__ = ["UninitializedBuffer", "UninitializedParameter", "is_lazy"]

ALLOWED = {
    "as_type", "bfloat16", "copy_", "cpu", "cuda", "detach", "double", "float", "half",
    "requires_grad_", "to", "to_device",
}  # fmt: skip
"""What may be done before there is a shape: moving, converting, and loading nothing."""


class Uninitialized:
    """What parameters and buffers without a shape share. Only type and device are known."""

    __slots__ = ()
    becomes: ClassVar[type[Tensor]]

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Take a shape, with numbers that are still to be set, and become an ordinary one.

        >>> weight = nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> weight.shape
        torch.Size([2, 3])
        """
        tensor: Any = self
        device = tensor.device if device is None else device
        dtype = tensor.dtype if dtype is None else dtype
        wanted = tensor.requires_grad
        made = empty(tuple(shape), device=device, dtype=dtype)
        tensor.__class__ = self.becomes
        with no_grad():
            tensor.data = made
        tensor.requires_grad_(wanted)

    @property
    def shape(self) -> Any:
        """Refuse: there is none. Raises: ShapeError."""
        raise ShapeError(
            None, "Can't access the shape of an uninitialized parameter or buffer. This error "
            "usually happens in `load_state_dict` when trying to load an uninitialized parameter "
            "into an initialized one", hint="call `forward` to initialize the parameters first",
        )  # fmt: skip

    @property
    def data(self) -> Any:
        """A plain tensor without elements: to fill it, as `apply` of an `init` does, is nothing."""
        tensor: Any = self
        return empty(0, device=tensor.device, dtype=tensor.dtype)

    @data.setter
    def data(self, value: Tensor) -> None:
        Tensor.data.__set__(self, value)

    ndim = property(lambda self: refuse("ndim", type(self)))

    def size(self, dim: int | None = None) -> Any:
        """Refuse: there is none. Raises: ShapeValueError."""
        return refuse("size", type(self))

    def dim(self) -> int:
        """Refuse: there are none. Raises: ShapeValueError."""
        return refuse("dim", type(self))

    def numel(self) -> int:
        """Refuse: nobody knows. Raises: ShapeValueError."""
        return refuse("numel", type(self))

    def __len__(self) -> int:
        return refuse("len", type(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Answer for every op: only what needs no shape is done."""
        if func.__name__ in ALLOWED:
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[misc]
        return refuse(func.__name__, cls)


def refuse(op: str, kind: type) -> Any:
    """Raise ShapeValueError (a ValueError, as PyTorch's)."""
    raise ShapeValueError(
        op, f"Attempted to use an uninitialized parameter ({kind.__name__}): its shape is not "
        "known yet", hint="call the lazy module with a dummy batch first",
    )  # fmt: skip


class UninitializedParameter(Uninitialized, Parameter):
    """A parameter whose shape is not known yet; `materialize` makes it a `Parameter`.

    >>> nn.UninitializedParameter()
    <UninitializedParameter>
    """

    __slots__ = ()
    becomes = Parameter

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an empty one."""
        return object.__new__(cls)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        adopt(self, empty(0, device=device, dtype=dtype))
        if requires_grad:
            self.requires_grad = True

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, str(self.device), self.dtype)


class UninitializedBuffer(Uninitialized, Buffer):
    """A buffer whose shape is not known yet; `materialize` makes it a `Buffer`.

    >>> nn.UninitializedBuffer()
    <UninitializedBuffer>
    """

    __slots__ = ()
    becomes = Buffer

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an empty one."""
        return object.__new__(cls)

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None,
        persistent: bool = True,
    ) -> None:  # fmt: skip
        adopt(self, empty(0, device=device, dtype=dtype))
        self.persistent = persistent
        if requires_grad:
            self.requires_grad = True

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) not in memo:
            settings = (self.requires_grad, self.device, self.dtype, self.persistent)
            memo[id(self)] = type(self)(*settings)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, str(self.device), self.dtype, self.persistent)


def is_lazy(param: Any) -> bool:
    """Say whether a parameter or buffer has no shape yet.

    >>> is_lazy(nn.LazyLinear(3).weight)
    True
    """
    return isinstance(param, Uninitialized)
