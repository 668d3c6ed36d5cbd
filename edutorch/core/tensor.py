"""The tensor: an array and its node in the recorded graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from .. import backends, dtypes
from ..backends.device import Device
from ..backends.numpy import Array, Shared
from ..errors import CodeLocation, GradientError, ShapeError
from ..events import TensorAliased, TensorWritten, emit
from ..modes import current
from . import error_messages, tensor_interop
from .autograd import graph, versions
from .autograd.graph import LEAF, Hooks, Node, RemovableHandle, fill
from .autograd.graph import array_of as array_of
from .autograd.versions import VersionCounter
from .error_messages import check_memory
from .shapes import Size, missing_dim
from .storage import MemoryMembers
from .tensor_interop import TensorInterop

PLAIN_TENSORS: set[type] = set()
"""The classes whose ops take the fast path: Tensor and Parameter."""


class Tensor(TensorInterop, MemoryMembers):
    """A multi-dimensional array that can record how it was computed.

    Make one with `tensor(...)`, `zeros(...)`, … rather than with this class.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = (
        "__dict__", "__weakref__", "_array", "_base", "_grad", "_hooks", "_node", "_writes",
    )  # fmt: skip

    _array: Any  # the elements, in an array of the device's library
    _node: Any  # the op that made it; LEAF: a leaf that requires grad; None: neither
    _grad: Tensor | None
    _writes: VersionCounter | None  # shared with every tensor that views the same memory
    _base: Tensor | None  # the tensor this one is a view of
    _hooks: Hooks | None  # a leaf's

    is_quantized = False  # see `compat/ao/quantization/quantized_tensor.py`
    _order = 0  # a leaf is older than every node
    __array_priority__ = 1000  # NumPy lets our operators handle `ndarray * Tensor`
    __hash__ = object.__hash__  # type: ignore[assignment]  (`==` compares elements)

    def __new__(cls, *data: Any, **named: Any) -> Any:
        """Make a tensor of a size or from values: PyTorch's old constructor."""
        self = object.__new__(cls)
        if cls in PLAIN_TENSORS and cls is not Tensor:
            return self  # a Parameter fills itself
        values = data[0] if data and not isinstance(data[0], int) else None
        dtype = dtypes.get_default_dtype().numpy
        if isinstance(values, Tensor):
            return share_version(fill(self, values._array), values)
        if values is None or isinstance(values, Size):
            # Without a size it is empty, but Size([]) is that of a single element.
            size = tuple(size for size in data if isinstance(size, int)) or (0,)
            size = size if values is None else values
            check_memory("Tensor", size, dtype)
            return fill(self, backends.CPU.xp.zeros(size, dtype))
        return fill(self, backends.CPU.xp.array(values, dtype))

    def __init__(self, *data: Any, **named: Any) -> None:
        """Do nothing: `__new__` has made the tensor. Subclasses may take any arguments."""

    # Shape, dtype, device -----------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return Size(self._array.shape)

    @property
    def dtype(self) -> dtypes.dtype:
        """The dtype of the elements."""
        return dtypes.of(self._array.dtype)

    @property
    def device(self) -> Device:
        """The device of the elements."""
        return Device(backends.of(self._array).device_name)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._array.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.size * self._array.dtype.itemsize

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a GPU."""
        return backends.of(self._array).is_accelerator

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension."""
        if dim is None:
            return self.shape
        try:
            return self._array.shape[dim]
        except (IndexError, TypeError):
            raise missing_dim("size", dim, self._array.ndim) from None

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self._array.ndim

    def numel(self) -> int:
        """Return the number of elements."""
        return self._array.size

    def element_size(self) -> int:
        """Return the bytes per element."""
        return self._array.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Return True if the dtype is real floating-point."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Return True if the dtype is complex."""
        return self.dtype.is_complex

    # Autograd ---------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient will be computed for this tensor."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether a gradient is computed for this leaf.

        Raises: GradientError: not a leaf, or not a floating or complex tensor.
        """
        if not requires_grad:
            if not self.is_leaf:
                raise GradientError(
                    "requires_grad",
                    "you can only change requires_grad flags of leaf variables",
                    hint="use x.detach() for a copy that needs no gradient",
                )
            self._node = None
        elif self._node is None:
            if self._array.dtype not in dtypes.DIFFERENTIABLE:
                raise GradientError(
                    "requires_grad",
                    "only Tensors of floating point and complex dtype can require gradients",
                    {"dtype": self.dtype},
                    hint="write the numbers with a decimal point, or use x.float()",
                )
            self._node = LEAF
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it was created by the user and not by a recorded op."""
        return self._node is None or self._node is LEAF

    @property
    def grad_fn(self) -> Node | None:
        """The node of the op that computed it, None for a leaf."""
        node = self._node
        return None if node is None or node is LEAF else node.public_node()[0]

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, None before the first backward."""
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad: expected a Tensor or None, got {type(value).__name__}")
            if value._array.shape != self._array.shape:
                raise ShapeError(
                    "grad",
                    "a gradient has the shape of its tensor",
                    {"tensor": tuple(self.shape), "grad": tuple(value.shape)},
                )
        self._grad = value

    @property
    def data(self) -> Tensor:
        """The same memory, detached from the graph. Writes to it are still recorded."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        writes_of(self).bump()
        self._array = value._array
        if current().listeners:
            emit(TensorWritten(self, value))

    @property
    def _version(self) -> int:
        return versions.count_from_now(self)

    def _bump(self, location: CodeLocation | None = None) -> None:
        """Record a write to the memory (at `location`, by default that of the user's call)."""
        array = self._array
        is_part = getattr(array, "base", None) is not None
        writes_of(self).bump(location, array if is_part else None)

    def is_inference(self) -> bool:
        """Return True if it was created in inference mode."""
        return self._writes is not None and self._writes.time == float("inf")

    def detach(self) -> Tensor:
        """Return a tensor of the same memory that is detached from the graph."""
        if self.__class__ not in PLAIN_TENSORS:
            return self._detach_subclass()
        output = wrap(self._array)
        share_version(output, self)
        if current().listeners:
            emit(TensorAliased(self, output, detached=True))
        return output

    def detach_(self) -> Tensor:
        """Detach this tensor from the graph: it becomes a leaf."""
        versions.forget_history(self)
        return self

    def register_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        """Call `hook(gradient)` during backward; a tensor it returns replaces the gradient.

        Raises: GradientError: this tensor needs no gradient.
        """
        if self._node is None:
            raise GradientError(
                "register_hook", "cannot register a hook on a tensor that doesn't require gradient"
            )
        return self._add_hook("gradient", hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `hook(tensor)` each time backward has added to the `.grad` of this leaf.

        Raises: GradientError: not a leaf that requires grad.
        """
        if self._node is not LEAF:
            raise GradientError(
                "register_post_accumulate_grad_hook",
                "post accumulate grad hooks can only be registered on leaf tensors "
                "that require gradients",
                hint="use x.register_hook, which sees the gradient of any tensor",
            )
        return self._add_hook("accumulated", hook)

    def _add_hook(self, slot: str, hook: Callable[..., Any]) -> RemovableHandle:
        """Add a hook to one of the slots of `Hooks`, here or at the node."""
        if self._node is not None and self._node is not LEAF:
            return self._node.add_hook(slot, hook)
        self._hooks = self._hooks or Hooks()
        return RemovableHandle(getattr(self._hooks, slot), hook)

    def retain_grad(self) -> None:
        """Store the gradient of a tensor that is not a leaf in `.grad`.

        Raises: GradientError: it does not require grad.
        """
        if self._node is None:
            raise GradientError(
                "retain_grad", "can't retain_grad on a Tensor that has requires_grad=False",
                hint="call x.requires_grad_() before computing with it",
            )  # fmt: skip
        if not self.is_leaf:
            self._node.add_hook("retain", RetainGradHook(self))


class RetainGradHook:
    """The hook of `retain_grad`: it moves with its tensor to the node of each in-place write."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = ref(tensor)

    def __call__(self, gradient: Tensor) -> None:
        tensor = self.tensor()
        if tensor is not None:
            tensor._grad = gradient


def move_retain_hooks(tensor: Tensor, history: object) -> None:
    """Move the hooks of `retain_grad` from a tensor's former node to its present one.

    (Hooks of `register_hook` stay: they see the gradient of the former value.)
    """
    hooks = getattr(history, "hooks", None)
    if not hooks or not hooks.retain:
        return
    for key in [key for key, hook in hooks.retain.items() if hook.tensor() is tensor]:
        hook = hooks.retain.pop(key)
        if tensor._node is not None and tensor._node is not LEAF:
            tensor._node.add_hook("retain", hook)


PLAIN_TENSORS.add(Tensor)


def wrap(array: Array) -> Tensor:
    """Make a tensor around an array of any backend (a NumPy scalar becomes 0-d)."""
    if array.__class__ is not np.ndarray:
        if isinstance(array, np.generic):
            array = np.asarray(array)
        elif array.__class__ is Shared and array.base is None:  # a copy: nothing else refers to it
            array = array.view(np.ndarray)
    return fill(object.__new__(Tensor), array)


def node_of(value: object) -> Any:
    """Return a tensor's node; None for anything else."""
    return value._node if isinstance(value, Tensor) else None


def writes_of(tensor: Tensor) -> VersionCounter:
    """Return the version counter of a tensor's memory; most tensors never need one.

    Its node shares it: the array that the node saved may be this memory.
    """
    writes, node = tensor._writes, tensor._node
    if writes is not None:
        return writes
    if node is None or node is LEAF:
        writes = VersionCounter()
    else:
        writes = node.writes = node.writes or VersionCounter()
    tensor._writes = writes
    return writes


def attach_view(view: Tensor, of: Tensor) -> None:
    """Make a view share the version counter of the tensor whose memory it views."""
    writes = of._writes or writes_of(of)
    view._writes = writes
    view._base = of if of._base is None else of._base
    views = writes.views
    if len(views) == writes.views_limit:  # drop those that no longer exist
        views = [reference for reference in views if reference() is not None]
        writes.views, writes.views_limit = views, 2 * len(views) + 8
    views.append(ref(view))


def attach_views(pieces: Sequence[Tensor], of: Tensor) -> None:
    """Do what `attach_view` does for several views at once."""
    writes = of._writes or writes_of(of)
    base = of if of._base is None else of._base
    for view in pieces:
        view._writes = writes
        view._base = base
    views = writes.views
    if len(views) + len(pieces) > writes.views_limit:
        views = [reference for reference in views if reference() is not None]
        writes.views, writes.views_limit = views, 2 * (len(views) + len(pieces)) + 8
    views.extend(map(ref, pieces))


def share_version(tensor: Tensor, of: Tensor) -> Tensor:
    """Make a tensor share the version counter of another one, without being a view of it."""
    attach_view(tensor, of)
    writes: Any = tensor._writes
    if writes.owner is None:
        writes.owner = ref(tensor._base)
    tensor._base = None
    return tensor


def restore_result(node: Node, y: Array) -> Tensor:
    """Make a tensor again of the result that `node` saved as an array.

    (Saving the tensor itself would be a circle: it holds the node.)
    """
    tensor = wrap(y)
    tensor._node = node
    writes_of(tensor)
    if current().levels and "tangents" in node.notes:  # the result moves
        tensor.__dict__["_tangents"] = node.notes["tangents"]
    return tensor


Node.restore_result = restore_result  # type: ignore[assignment]

# Their annotations name it: `typing.get_type_hints` looks it up in their globals.
for _module in (error_messages, graph, tensor_interop, versions):
    _module.Tensor = Tensor  # type: ignore[attr-defined]
