"""The sparse tensor: a pattern, and a dense tensor of the values at it.

The values are an ordinary tensor, and every function of a sparse tensor is made of ops on them. So
autograd needs nothing new: the gradient of a sparse tensor is that of its values, at the same
pattern. A function that is not in `overrides.py` is refused, because to compute it densely might
take a million times the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import backends
from ...backends.device import Device
from ...backends.numpy import Array
from ...core.autograd.graph import RemovableHandle
from ...core.storage import layout as Layout
from ...core.storage import sparse_coo, sparse_csc, sparse_csr
from ...core.tensor import Tensor, wrap
from ...errors import EdutorchError, GradientError, running_function
from ...modes import current
from .pattern import Pattern

LAYOUT_NAMES = {sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc"}
"""The names of the layouts in PyTorch's errors."""

OVERRIDES: dict[str, Callable[..., Any]] = {}
"""The functions of sparse tensors, by the name of the op: filled by `overrides.py`."""


class SparseLayoutError(EdutorchError, NotImplementedError, AttributeError):
    """A function is not defined for sparse tensors.

    (An AttributeError as well: `hasattr` asks by such errors.)
    """


def not_for_sparse(name: str, layout_name: str = "Sparse") -> SparseLayoutError:
    """Return the error for a function that sparse tensors do not have."""
    return SparseLayoutError(
        name,
        f"could not run 'aten::{name}' with arguments from the '{layout_name}CPU' backend",
        hint="use x.to_dense() first, if the dense tensor fits into memory",
    )


class SparseArray:
    """What stands in the place of a sparse tensor's array: its shape, its dtype, what it stores.

    An op that a sparse tensor reaches unforeseen asks it for more, and fails with an error that
    names the function.
    """

    __slots__ = ("dtype", "entries", "layout", "shape")

    def __init__(self, shape: tuple[int, ...], entries: Tensor, layout: Layout) -> None:
        self.shape, self.entries, self.layout = shape, entries, layout
        self.dtype = entries._array.dtype

    @property
    def stored(self) -> Array:
        """The elements that are stored."""
        return self.entries._array

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements of the dense tensor."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    def __getattr__(self, name: str) -> Any:
        public = running_function((name,)).partition(":")[0]
        raise not_for_sparse(public, LAYOUT_NAMES[self.layout])

    def __array__(self, *args: Any, **named: Any) -> Any:
        raise TypeError(
            f"can't convert {LAYOUT_NAMES[self.layout]} layout tensor to numpy. "
            "Use Tensor.to_dense() first."
        )


backends.register_type(SparseArray)  # whoever asks for its backend gets the error


class SparseTensor(Tensor):
    """A tensor of which only some elements are stored; the others are 0.

    Make one with `sparse_coo_tensor`, `sparse_csr_tensor` or `x.to_sparse()`.

    Attributes:
        pattern: the positions of the stored elements.
        entries: the stored elements, of shape (n, *sizes of the dense axes).
    """

    pattern: Pattern
    entries: Tensor
    _layout: Layout

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call the function of sparse tensors that stands for an op.

        Raises: SparseLayoutError (a NotImplementedError): there is none.
        """
        override = OVERRIDES.get(func.__name__) or getattr(func, "composed", None)
        if override is None:
            sparse = [value for value in args if isinstance(value, cls)]
            layout = sparse[0]._layout if sparse else sparse_coo
            op = getattr(func, "op", None)
            raise not_for_sparse(op.label if op else func.__name__, LAYOUT_NAMES[layout])
        return override(*args, **(kwargs or {}))

    # What it is ---------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """How the positions are stored: `sparse_coo`, `sparse_csr` or `sparse_csc`."""
        return self._layout

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is `sparse_coo`."""
        return self._layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is `sparse_csr`."""
        return self._layout is sparse_csr

    @property
    def device(self) -> Device:
        """The device of the values."""
        return self.entries.device

    @property
    def is_cuda(self) -> bool:
        """Whether the values are on a GPU."""
        return self.entries.is_cuda

    @property
    def is_cpu(self) -> bool:
        """Whether the values are on the CPU."""
        return self.entries.is_cpu

    def sparse_dim(self) -> int:
        """Return the number of sparse axes."""
        return len(self.pattern.shape)

    def dense_dim(self) -> int:
        """Return the number of axes of each value."""
        return self.entries.ndim - 1

    def _nnz(self) -> int:
        """Return the number of stored elements."""
        return self.pattern.count

    def is_coalesced(self) -> bool:
        """Return True if the positions are sorted and all different (COO).

        Raises: RuntimeError: another layout.
        """
        self._check_layout("is_coalesced", sparse_coo)
        return self.pattern.is_coalesced

    def _check_layout(self, name: str, wanted: Layout) -> None:
        if self._layout is not wanted:
            words = {
                sparse_coo: "sparse coordinate", sparse_csr: "sparse row compressed",
                sparse_csc: "sparse column compressed",
            }  # fmt: skip
            raise RuntimeError(
                f"{name} expected {words[wanted]} tensor layout but got "
                f"{LAYOUT_NAMES[self._layout]}"
            )

    # The parts ----------------------------------------------------------------------------

    def _indices(self) -> Tensor:
        """Return the indices, of shape (sparse axes, n), coalesced or not."""
        self._check_layout("_indices", sparse_coo)
        return wrap(self.pattern.indices)

    def _values(self) -> Tensor:
        """Return the values, coalesced or not."""
        return self.entries

    def indices(self) -> Tensor:
        """Return the indices of a coalesced tensor, of shape (sparse axes, n).

        Raises: RuntimeError: it is not coalesced, or of another layout.
        """
        self._check_layout("indices", sparse_coo)
        self._check_coalesced("indices")
        return wrap(self.pattern.indices)

    def values(self) -> Tensor:
        """Return the values; gradients flow through them.

        Raises: RuntimeError: it is not coalesced.
        """
        if self._layout is sparse_coo:
            self._check_coalesced("values")
        return self.entries

    def _check_coalesced(self, name: str) -> None:
        if not self.pattern.is_coalesced:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )

    def crow_indices(self) -> Tensor:
        """Return where each row begins among the values (CSR), of shape (rows + 1)."""
        self._check_layout("crow_indices", sparse_csr)
        return wrap(self.pattern.pointers(0))

    def col_indices(self) -> Tensor:
        """Return the column of each value (CSR)."""
        self._check_layout("col_indices", sparse_csr)
        return wrap(self.pattern.indices[1])

    def ccol_indices(self) -> Tensor:
        """Return where each column begins among the values (CSC), of shape (columns + 1)."""
        self._check_layout("ccol_indices", sparse_csc)
        return wrap(self.pattern.pointers(1))

    def row_indices(self) -> Tensor:
        """Return the row of each value (CSC)."""
        self._check_layout("row_indices", sparse_csc)
        return wrap(self.pattern.indices[0])

    def with_entries(self, entries: Tensor) -> SparseTensor:
        """Return a tensor of the same pattern with other values."""
        return make_sparse(self.pattern, entries, self._layout)

    def replace(self, other: SparseTensor) -> SparseTensor:
        """Become another sparse tensor: what an in-place function does."""
        if self.requires_grad and self.is_leaf:
            refuse_leaf_write(self)
        self.pattern, self.entries, self._array = other.pattern, other.entries, other._array
        return self

    # Autograd: all that it records is recorded by its values -------------------------------

    @property
    def _node(self) -> Any:
        return self.entries._node

    @_node.setter
    def _node(self, node: Any) -> None:
        self.entries._node = node

    @property
    def _grad(self) -> Tensor | None:
        gradient = self.entries._grad
        return None if gradient is None else self.with_entries(gradient)

    @_grad.setter
    def _grad(self, value: Any) -> None:
        if value is not None and not isinstance(value, SparseTensor):
            raise GradientError("grad", "the gradient of a sparse tensor is a sparse tensor")
        self.entries._grad = None if value is None else value.entries

    def detach(self) -> SparseTensor:
        """Return a tensor of the same memory that is detached from the graph."""
        return self.with_entries(self.entries.detach())

    @property
    def data(self) -> SparseTensor:
        """The same memory, detached from the graph."""
        return self.detach()

    def register_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        """Call `hook(gradient)` during backward; a sparse tensor it returns replaces it."""

        def of_values(gradient: Tensor) -> Any:
            replaced = hook(self.with_entries(gradient))
            return None if replaced is None else replaced.entries

        return self.entries.register_hook(of_values)

    def retain_grad(self) -> None:
        """Store the gradient of a tensor that is not a leaf in `.grad`."""
        self.entries.retain_grad()

    def backward(self, gradient: Any = None, *args: Any, **named: Any) -> None:
        """Compute the gradients of all leaves behind it, from a sparse gradient of its pattern."""
        if gradient is None:
            raise GradientError(
                "backward", "grad can be implicitly created only for scalar outputs",
                {"output": tuple(self.shape)}, "use torch.sparse.sum(x).backward()",
            )  # fmt: skip
        self.entries.backward(gradient.entries, *args, **named)

    # Copies, text -------------------------------------------------------------------------

    def __copy__(self) -> SparseTensor:
        return self.detach().requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        if not self.is_leaf:
            raise GradientError(
                "deepcopy",
                "Only Tensors created explicitly by the user (graph leaves) support the "
                "deepcopy protocol at the moment",
                hint="use x.clone(), which stays in the graph, or x.detach().clone()",
            )
        if id(self) not in memo:
            copied = self.with_entries(self.entries.detach().clone())
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        from .public import rebuild_sparse

        parts = self.pattern.indices, self.pattern.shape, self.pattern.is_coalesced
        return rebuild_sparse, (parts, self.entries.detach(), self._layout, self.requires_grad)

    def __repr__(self) -> str:
        from .text import sparse_text

        return sparse_text(self)

    def item(self) -> Any:
        """Return the only element as a Python number. Raises: RuntimeError: there are more."""
        if self._array.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar"
            )
        return self.entries.sum().item()

    def tolist(self) -> Any:
        """Raise SparseLayoutError: see `to_dense`."""
        raise not_for_sparse("tolist", LAYOUT_NAMES[self._layout])

    def numpy(self, *, force: bool = False) -> Any:
        """Raise TypeError: see `to_dense`."""
        self._array.__array__()


def refuse_leaf_write(tensor: SparseTensor) -> None:
    """Raise GradientError if recording is on: a leaf that requires grad is not written to."""
    if current().grad:
        raise GradientError(
            "sparse", "a leaf Variable that requires grad is being used in an in-place operation.",
            {"input": tuple(tensor.shape)}, "update it inside `with no_grad():`",
        )  # fmt: skip


def make_sparse(pattern: Pattern, entries: Tensor, layout: Layout = sparse_coo) -> SparseTensor:
    """Make a sparse tensor of a pattern and of the values at it, which keep their history."""
    pattern = pattern.on_device_of(entries._array)
    tensor = object.__new__(SparseTensor)
    tensor.pattern, tensor.entries, tensor._layout = pattern, entries, layout
    shape = (*pattern.shape, *entries._array.shape[1:])
    tensor._array = SparseArray(shape, entries, layout)
    tensor._writes = tensor._base = tensor._hooks = None
    return tensor
