"""Products of matrices."""

from __future__ import annotations

from ..table import onnx_op
from ..values import Value, dtype_of, is_unsigned_storage, torch


@onnx_op("MatMul")
def mat_mul(A: Value, B: Value) -> Value:
    """The matrix product; further axes are batches."""
    if is_unsigned_storage(A):
        return torch.matmul(A.to(torch.int64), B.to(torch.int64)).to(dtype_of(A))
    return torch.matmul(A, B)


@onnx_op("Gemm")
def gemm(
    A: Value, B: Value, C: Value = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Value:  # fmt: skip
    """alpha · A B + beta · C, of A or its transpose, and B or its transpose."""
    if alpha == beta == 1 and transB and not transA and C is not None and is_row(C):
        return torch.nn.functional.linear(A, B, C)
    product = torch.matmul(torch.t(A) if transA else A, torch.t(B) if transB else B)
    product = product if alpha == 1 else product * alpha
    if C is None:
        return product
    return product + (C if beta == 1 else C * beta)


def is_row(C: Value) -> bool:
    """Return True if a value is known to have one axis: the bias of a linear layer."""
    from ..values import facts

    shape = facts(C).shape
    return shape is not None and len(shape) == 1


@onnx_op("Einsum")
def einsum(*Inputs: Value, equation: str) -> Value:
    """Einstein's sum."""
    return torch.einsum(equation, *Inputs)
