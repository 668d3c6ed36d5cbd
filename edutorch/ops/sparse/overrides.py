"""Which functions sparse tensors have: the table that `SparseTensor.__torch_function__` reads.

The keys are the names of ops. What is not here raises NotImplementedError.
"""

from __future__ import annotations

from typing import Any

from ...core.autograd import backward
from ...core.registry import op_function
from ...core.storage import sparse_coo
from ...core.tensor import Tensor
from . import conversion, elementwise, matmul, movement, reductions
from .conversion import to_dense
from .pattern import Pattern
from .tensor import OVERRIDES, SparseTensor, make_sparse, not_for_sparse


def grad(outputs: Any, inputs: Any, *args: Any, **named: Any) -> tuple[Any, ...]:
    """`autograd.grad` of or for sparse tensors: of their values."""
    roots, wanted = backward.as_list(outputs), backward.as_list(inputs)
    results = backward.grad(
        [root.entries if isinstance(root, SparseTensor) else root for root in roots],
        [tensor.entries if isinstance(tensor, SparseTensor) else tensor for tensor in wanted],
        *args, **named,
    )  # fmt: skip
    return tuple(
        tensor.with_entries(result)
        if isinstance(tensor, SparseTensor) and result is not None else result
        for tensor, result in zip(wanted, results, strict=True)
    )  # fmt: skip


def in_place(name: str) -> Any:
    """Make the in-place form of a function: the tensor becomes the result."""
    function = OVERRIDES[name]

    def twin(self: Tensor, *args: Any, **named: Any) -> Tensor:
        if isinstance(self, SparseTensor):
            return self.replace(function(self, *args, **named))
        operands = [to_dense(x) if isinstance(x, SparseTensor) else x for x in args]
        if name not in ("add", "sub"):  # a sparse result does not fit into a dense tensor
            raise not_for_sparse(f"{name}_")
        return getattr(self, f"{name}_")(*operands, **named)

    return twin


def to(self: SparseTensor, *target: Any, **named: Any) -> SparseTensor:
    """Convert the stored elements, or move them; itself if nothing changes."""
    entries = self.entries.to(*target, **named)
    return self if entries is self.entries else self.with_entries(entries)


OVERRIDES |= {name: elementwise.of_values(name) for name in elementwise.KEEP_ZERO}
OVERRIDES |= {name: elementwise.of_values(name) for name in elementwise.LINEAR}
OVERRIDES |= {
    "add": elementwise.add, "sub": elementwise.sub, "mul": elementwise.mul,
    "div": elementwise.div, "pow": elementwise.power, "sum": reductions.sum,
    "any": reductions.any, "softmax": reductions.softmax, "log_softmax": reductions.log_softmax,
    "vector_norm": reductions.vector_norm, "norm": reductions.norm, "mm": matmul.mm,
    "matmul": matmul.matmul, "mv": matmul.mv, "linear": matmul.linear, "addmm": matmul.addmm,
    "transpose": movement.transpose, "t": movement.t, "permute": movement.permute,
    "index_select": movement.index_select, "select": movement.select,
    "getitem": movement.getitem, "cat": movement.cat, "stack": movement.stack,
    "unbind": movement.unbind, "unsqueeze": movement.unsqueeze,
    "grad": grad,
}  # fmt: skip
OVERRIDES["to"] = to
OVERRIDES |= {f"{name}_": in_place(name) for name in ("add", "sub", "mul", "div", "neg", "abs")}


def make_empty(
    self: SparseTensor, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> SparseTensor:
    """Return a tensor of the same shape in which nothing is stored: `zeros_like`."""
    pattern = Pattern(self.pattern.indices[:, :0], self.pattern.shape, True)
    entries = self.entries.detach()[:0].to(dtype=dtype, device=device)
    return make_sparse(pattern, entries, self._layout).requires_grad_(requires_grad)


def zero_(self: SparseTensor) -> SparseTensor:
    """Remove all stored elements."""
    return self.replace(make_empty(self))


def copy_(self: SparseTensor, src: Tensor, non_blocking: bool = False) -> SparseTensor:
    """Become a copy of another sparse tensor."""
    if not isinstance(src, SparseTensor) or src._layout is not self._layout:
        raise not_for_sparse("copy_")
    converted = src.with_entries(op_function("clone")(src.entries.to(self.dtype)))
    return self.replace(converted)


def to_layout_methods() -> None:
    """Attach the methods that are no ops, or that an op would not reach."""
    methods = {
        "make_empty": make_empty, "zero_": zero_, "copy_": copy_, "norm": reductions.norm,
        "sparse_mask": mask_sparse, "T": property(movement.t),
    }  # fmt: skip
    for name, method in methods.items():
        setattr(SparseTensor, name, method)


def mask_sparse(self: SparseTensor, mask: SparseTensor) -> SparseTensor:
    """Return the elements at the positions of another sparse tensor; 0 where none is stored."""
    ones = mask.with_entries(mask.entries.detach() * 0 + 1)
    return conversion.coalesced(self) * ones if self._layout is sparse_coo else self * ones


to_layout_methods()
