"""Sparse tensors against PyTorch: a table of calls, texts, layouts, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch

INDICES = [[0, 1, 1, 0], [2, 0, 2, 2]]  # (0, 2) occurs twice: not coalesced
VALUES = [3.0, 4.0, 5.0, -1.5]
OTHER = [[0, 1], [0, 2]], [1.0, 2.0]


def operands(torch: Any) -> dict[str, Any]:
    """Return the tensors that the calls of the table name."""
    a = torch.sparse_coo_tensor(torch.tensor(INDICES), torch.tensor(VALUES), (2, 3))
    b = torch.sparse_coo_tensor(torch.tensor(OTHER[0]), torch.tensor(OTHER[1]), (2, 3))
    rows = torch.sparse_coo_tensor([[1, 0, 1]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (3, 2))
    dense = torch.arange(6.0).reshape(2, 3) - 2.5
    return {
        "torch": torch, "a": a, "b": b, "c": a.coalesce(), "rows": rows, "d": dense,
        "s": a.to_sparse_csr(), "z": a.to_sparse_csc(), "x": torch.arange(6.0).reshape(3, 2) / 3,
        "v": torch.tensor([1.0, -2.0, 0.5]), "cube": a.unsqueeze(0),
    }  # fmt: skip


CALLS = """
a.to_dense() | s.to_dense() | z.to_dense() | rows.to_dense() | a.coalesce() | c.indices() | c.values()
s.crow_indices() | s.col_indices() | s.values() | z.ccol_indices() | z.row_indices() | z.values()
d.to_sparse() | d.to_sparse(1) | d.to_sparse_csr() | d.to_sparse_csc() | a.to_sparse_csc()
d.to_sparse(layout=torch.sparse_csr) | s.to_sparse() | z.to_sparse() | z.to_sparse_csr() | d.to_dense()
torch.sparse.mm(a, x) | torch.mm(a, x) | torch.matmul(a, x) | torch.spmm(a, x) | a @ x | s @ x | z @ x
torch.mv(a, v) | a @ v | s @ v | x.t()[:, :2] @ a | torch.sparse.mm(a, a.t()) | a @ c.t() | s @ s.t()
torch.sparse.mm(d, x) | torch.smm(a, x) | torch.hspmm(a, x)
torch.addmm(d[:, :2], a, x, beta=2, alpha=0.5) | torch.sparse.addmm(d[:, :2], a, x, beta=2, alpha=0.5)
torch.nn.functional.linear(a, x.t()) | torch.nn.functional.linear(a, x.t(), v[:2])
torch.sparse.sampled_addmm(s, x[:2], d[:2], beta=0.5, alpha=2)
torch.sparse.sum(a) | torch.sparse.sum(a, 0) | torch.sparse.sum(a, -1) | torch.sparse.sum(a, (0, 1))
torch.sparse.sum(rows, 0) | torch.sparse.sum(rows, 1) | torch.sparse.sum(a, dtype=torch.float64)
a.sum() | a.sum(0) | s.sum() | a.norm() | a.any()
torch.sparse.softmax(a, 1) | torch.sparse.softmax(a, 0) | torch.sparse.log_softmax(a, -1)
torch.sparse.softmax(rows, 0) | torch.sparse.softmax(rows, 1) | torch.sparse.log_softmax(rows, 1)
a * 2 | 2 * a | a / 2 | -a | a * torch.tensor(3.0) | s * 2 | -s | a ** 2 | s * s
a + a | a + b | a - b | c + b.coalesce() | a.add(b, alpha=3) | s + s | a * b | a * d | d * a | d + a | d - a
a * v | torch.add(d, a, alpha=-0.5)
a.abs() | torch.relu(a) | a.sqrt() | a.sin() | a.tanh() | a.square() | a.sign() | a.floor() | a.isnan()
a.expm1() | s.relu() | s.abs() | torch.log1p(b)
a.t() | a.T | a.transpose(0, 1) | a.permute(1, 0) | s.t() | z.t()
a.index_select(0, torch.tensor([1, 1, 0])) | a.index_select(1, torch.tensor([2])) | a[1] | a[1, 2] | a[-1]
a.select(1, 2) | rows.select(1, 0) | rows.index_select(0, torch.tensor([1]))
torch.cat([a, b]) | torch.cat([a, b], 1) | torch.stack([a, b]) | a.unsqueeze(0) | a.unsqueeze(2)
a.clone() | a.double() | a.to(torch.float64) | a.long() | a.bool() | torch.zeros_like(a) | a.detach()
d.sparse_mask(c) | d.sparse_mask(s) | a.clone().mul_(2) | a.clone().add_(b) | d.clone().add_(a, alpha=-0.5)
a.clone().zero_() | a.clone().copy_(b) | torch.sparse.spdiags(d, torch.tensor([0, 1]), (3, 3))
a._nnz() | a.is_coalesced() | c.is_coalesced() | a.is_sparse | s.is_sparse | s.is_sparse_csr | a.layout
s.layout | z.layout | a.sparse_dim() | a.dense_dim() | rows.sparse_dim() | rows.dense_dim() | a.numel()
a.shape | a.dtype | len(a) | a.device | a.is_leaf | a.requires_grad | a.dim() | a.size(1) | d.is_sparse
""".replace("\n", "|").split("|")  # noqa: E501


def answer(call: str, names: dict[str, Any]) -> Any:
    """Return what a call gives, as values that can be compared."""
    result = eval(call, {}, names)
    if not hasattr(result, "to_dense"):
        return str(result)
    dense = result.to_dense().detach()
    return (
        str(result.layout), str(result.dtype), tuple(result.shape),
        np.asarray(dense.double().tolist()),
    )  # fmt: skip


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", [text.strip() for text in CALLS if text.strip()])
def test_calls(torch, call):
    ours, theirs = answer(call, operands(edutorch)), answer(call, operands(torch))
    if isinstance(theirs, str):
        assert ours == theirs
        return
    assert ours[:3] == theirs[:3]
    np.testing.assert_allclose(ours[3], theirs[3], rtol=1e-6, atol=1e-6)


TEXTS: list[Callable[[Any], Any]] = [
    lambda torch: operands(torch)["a"],
    lambda torch: operands(torch)["s"],
    lambda torch: operands(torch)["z"],
    lambda torch: operands(torch)["rows"],
    lambda torch: operands(torch)["a"].double(),
    lambda torch: operands(torch)["a"].bool(),
    lambda torch: torch.sparse_coo_tensor(INDICES, VALUES, (2, 3), requires_grad=True),
    lambda torch: torch.sparse_coo_tensor(
        INDICES, torch.tensor(VALUES, requires_grad=True), (2, 3)
    ),
    lambda torch: torch.sparse_coo_tensor(
        INDICES, torch.tensor(VALUES, requires_grad=True), (2, 3)
    ).coalesce(),
    lambda torch: torch.sparse_coo_tensor((2, 3)),
    lambda torch: torch.eye(1200).to_sparse(),
    lambda torch: torch.sparse_csr_tensor([0, 0], torch.zeros(0).long(), torch.zeros(0), (1, 3)),
]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_texts(torch, number):
    assert str(TEXTS[number](edutorch)) == str(TEXTS[number](torch))


def gradients(torch: Any, loss: str) -> list[np.ndarray]:
    """Return the gradients of the values and of a dense factor."""
    values = torch.tensor(VALUES, dtype=torch.float64, requires_grad=True)
    x = (torch.arange(6.0).reshape(3, 2) / 3).double().requires_grad_()
    d = torch.arange(6.0).reshape(2, 3).double().requires_grad_()
    a = torch.sparse_coo_tensor(torch.tensor(INDICES), values, (2, 3))
    total = eval(loss, {}, {"torch": torch, "a": a, "x": x, "d": d, "c": a.coalesce()})
    wanted = torch.autograd.grad(total, [values, x, d], allow_unused=True)
    return [np.zeros(1) if g is None else np.asarray(g.detach().tolist()) for g in wanted]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "loss",
    [
        "(torch.sparse.mm(a, x) ** 2).sum()", "((a @ x) ** 3).sum()", "(a.to_dense() ** 2).sum()",
        "(torch.sparse.sum(c, 0).to_dense() ** 2).sum()", "torch.sparse.sum(a) ** 2",
        "(torch.sparse.softmax(c, 1).to_dense() * d).sum()",
        "(torch.sparse.log_softmax(c, 1).to_dense() * d).sum()",
        "((a * 3).to_dense() * d).sum()", "(a.t().to_dense() ** 2).sum()",
        "(torch.addmm(x[:2], a, x) ** 2).sum()", "(c.values() ** 2).sum()",
        "((c.t() @ x[:2]) ** 2).sum()", "((d + a) ** 2).sum()",
        "(torch.sparse.mm(c, c.t()).to_dense() ** 2).sum()",
        "(d.to_sparse().to_dense() ** 2).sum()",
    ],
)  # fmt: skip
def test_gradients(torch, loss):
    for ours, theirs in zip(gradients(edutorch, loss), gradients(torch, loss), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.oracle
def test_the_gradient_of_a_sparse_leaf_is_sparse(torch):
    results = []
    for module in (edutorch, torch):
        a = module.sparse_coo_tensor(INDICES, VALUES, (2, 3)).coalesce().detach()
        a.requires_grad_()
        module.sparse.mm(a, module.ones(3, 2)).sum().backward()
        results.append((a.is_leaf, a.grad.layout, a.grad.coalesce().values().tolist()))
    assert str(results[0]) == str(results[1])


@pytest.mark.oracle
def test_files_of_pytorch_are_read(torch, tmp_path):
    tensors = operands(torch)
    for name in ("a", "c", "s", "z", "rows"):
        torch.save({"x": tensors[name]}, tmp_path / "x.pt")
        loaded = edutorch.load(tmp_path / "x.pt")["x"]
        assert str(loaded) == str(tensors[name])
