"""Each op with its sample inputs, exported and run: `python -m tests.onnx.op_board`."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from typing import Any

import numpy as np

import edutorch as torch
from edutorch import nn
from edutorch.core.op import REGISTRY, Op
from edutorch.errors import EdutorchError
from edutorch.utils._pytree import tree_flatten
from tests.op_calls import CASES, arguments, call

FAMILIES = {
    "complex numbers": (
        "complex", "polar", "real", "imag", "view_as_real", "view_as_complex", "resize_signal",
        "dft", "half_spectrum", "from_half_spectrum", "scale_spectrum",
    ),
    "linear algebra beyond products, determinants and inverses": (
        "solve_forward", "qr_forward", "matrix_exp", "lu_factor_forward", "pinv_forward",
        "matrix_rank_forward", "apply_householder", "ldl_factor_forward", "ldl_solve_forward",
        "eigvalsh_forward", "svdvals_forward",
    ),
}  # fmt: skip
"""Families that ONNX lacks, and the ops of each that are refused."""

REFUSED = {
    "nextafter": "ONNX reads no bits of a number before opset 26",
    "view_dtype": "ONNX reads no bits of a number before opset 26",
    "getitem": "x[mask] has a size that depends on the data; other indices leave",
    "as_strided": "a view of no elements at all is refused; others leave",
    "ctc_loss_forward": "its recurrence runs over lists of different lengths",
    "resample_axis": "only kernels call it; a captured `interpolate` is made of ops that leave",
    "add_product": "a captured `addmm`, `baddbmm` or `addmv` is made of ops that leave",
}
"""The other ops that are refused, in some of their cases or in all."""


class Call(nn.Module):
    """A call of an op: its tensors are inputs, its settings are constants."""

    def __init__(self, op: Op, bound: dict[str, Any]) -> None:
        super().__init__()
        self.op, self.bound = op, bound
        leaves, self.spec = tree_flatten(bound)
        self.leaves = leaves
        self.tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))

    def forward(self, *tensors: torch.Tensor) -> Any:
        from edutorch.utils._pytree import tree_unflatten

        values = iter(tensors)
        leaves = [next(values) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        return call(self.op, tree_unflatten(leaves, self.spec))


def outcome(op: Op, case: dict[str, Any]) -> str:
    """Return "ok", or why a call does not leave as ONNX or computes something else there."""
    module = Call(op, arguments(op, case, dtype="float32"))
    if not module.tensors:
        return "ok"
    try:
        with torch.no_grad():
            expected = module(*module.tensors)
        model = torch.onnx.export(module, module.tensors)
        computed = model(*module.tensors)
    except EdutorchError as error:
        return f"refused: {str(error).splitlines()[0][:160]}"
    except Exception as error:  # noqa: BLE001  (onnxruntime raises its own)
        return f"error: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
    pairs = zip(tree_flatten(expected)[0], tree_flatten(computed)[0], strict=True)
    for right, value in pairs:
        if not isinstance(right, torch.Tensor):
            continue
        a, b = right.detach().numpy(), value.detach().numpy()
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"wrong: {b.dtype}{b.shape} for {a.dtype}{a.shape}"
        scale = float(np.abs(a[np.isfinite(a)]).max(initial=1)) if a.dtype.kind == "f" else 1.0
        if not np.allclose(b, a, rtol=1e-4, atol=1e-5 * scale, equal_nan=True):
            return "wrong: other values"
    return "ok"


def board(names: list[str]) -> dict[str, str]:
    """Return the outcome of each op: the first that is not ok among its cases."""
    results = {}
    for name, op in REGISTRY.items():
        if name in CASES and (not names or name in names):
            outcomes = (outcome(op, case) for case in CASES[name])
            results[name] = next((text for text in outcomes if text != "ok"), "ok")
    return results


def table(results: dict[str, str]) -> str:
    """Return each op that does not leave, with the reason, and how many do."""
    reasons = {name: family for family, names in FAMILIES.items() for name in names} | REFUSED
    lines = [
        f"{name:24} {reasons.get(name, 'no reason is known')}\n{'':24} {text}"
        for name, text in results.items() if text != "ok"
    ]  # fmt: skip
    return "\n".join([*lines, str(Counter(text.partition(":")[0] for text in results.values()))])


def main() -> None:
    """Print each op that does not leave, and how many do."""
    warnings.simplefilter("ignore")
    print(table(board(sys.argv[1:])))


if __name__ == "__main__":
    main()
