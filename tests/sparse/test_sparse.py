"""Sparse tensors by themselves: derivatives, refusals, bad input, files, memory, a GCN."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest

import edutorch
from edutorch import backends, nn, optim, sparse, viz
from edutorch.autograd import gradcheck, gradgradcheck
from edutorch.errors import DTypeError, EdutorchError, ShapeError
from edutorch.nn import functional as F
from edutorch.ops.sparse import products

INDICES = edutorch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])


def matrix(values=(3.0, 4.0, 5.0, -1.5), **options):
    return edutorch.sparse_coo_tensor(
        INDICES, edutorch.tensor(values, dtype=edutorch.float64), (2, 3), **options
    )


def random(*shape, seed=0):
    return edutorch.tensor(np.random.default_rng(seed).normal(size=shape))


# Derivatives -----------------------------------------------------------------------------


@pytest.mark.parametrize("scipy", [True, False], ids=["scipy", "definition"])
def test_products_by_differences(monkeypatch, scipy):
    if scipy:
        pytest.importorskip("scipy")
    monkeypatch.setattr(products, "_HAS_SCIPY", scipy)
    values, x = random(4).requires_grad_(), random(3, 2, seed=1).requires_grad_()

    def product(values, x):
        return sparse.mm(edutorch.sparse_coo_tensor(INDICES, values, (2, 3)), x)

    assert gradcheck(product, (values, x))
    assert gradgradcheck(product, (values, x))


def test_softmax_by_differences():
    def function(values):
        a = edutorch.sparse_coo_tensor(INDICES, values, (2, 3))
        return sparse.softmax(a, 1).values() * random(3)

    assert gradcheck(function, (random(4).requires_grad_(),))


def test_scipy_and_the_definition_agree(monkeypatch):
    pytest.importorskip("scipy")
    rng = np.random.default_rng(0)
    a = edutorch.sparse_coo_tensor(rng.integers(0, 50, (2, 400)), rng.normal(size=400), (50, 50))
    x = random(50, 7)
    with_scipy = [a @ x, a.t() @ x, a.to_sparse_csr() @ x, a.to_sparse_csc() @ x]
    monkeypatch.setattr(products, "_HAS_SCIPY", False)
    without = [a @ x, a.t() @ x, a.to_sparse_csr() @ x, a.to_sparse_csc() @ x]
    for one, other in zip(with_scipy, without, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_pattern_larger_than_one_look_up(monkeypatch):
    monkeypatch.setattr(products, "ROWS_AT_ONCE", 3)
    values, x = random(4).requires_grad_(), random(3, 2)
    (edutorch.sparse_coo_tensor(INDICES, values, (2, 3)) @ x).sum().backward()
    expected = [x[int(column)].sum().item() for column in INDICES[1]]
    np.testing.assert_allclose(values.grad, expected)


def test_grad_of_a_sparse_leaf():
    a = matrix(requires_grad=True)
    (gradient,) = edutorch.autograd.grad((a @ random(3, 2)).sum(), a)
    assert gradient.is_sparse and gradient.shape == a.shape and a.grad is None
    a.register_hook(lambda g: g * 2)
    (a @ edutorch.ones(3, 1, dtype=edutorch.float64)).sum().backward()
    assert a.grad._values().tolist() == [2.0] * 4
    a.grad = None
    assert a.grad is None


@pytest.mark.parametrize("reference", [True, False])
def test_gradients_accumulate(reference):
    def run():
        a = matrix(requires_grad=True)
        for _ in range(2):
            sparse.sum(a * a).backward()
        return a.grad._values().tolist()

    with backends.reference_only() if reference else nullcontext():
        run_twice = run()
    assert run_twice == [6.0, 16.0, 20.0, 6.0]  # (0, 2) holds 3 - 1.5


# Refusals: no function makes a sparse tensor dense unasked --------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "a.exp()", "a.cos()", "a.mean()", "a.flip(0)", "a.max()", "a.reshape(3, 2)", "a == a",
        "a[0:1]", "a.bmm(a)", "edutorch.ones_like(a)", "edutorch.rand_like(a)", "a.fill_(1)",
        "F.dropout(a)", "a.cumsum(0)", "a ** 0", "a ** -1", "a.tolist()",
        "F.gelu(a)", "F.cross_entropy(a, a)", "edutorch.linalg.inv(a)", "a.view(6)",
        "edutorch.where(a > 0, a, a)", "edutorch.fft.fft(a)", "a.sort()", "a.clamp(0)",
        "nn.BatchNorm1d(3)(a)", "edutorch.equal(a, a)", "a.sum(0, keepdim=True)",
        "edutorch.zeros(2, 3).copy_(a)", "a.stride()", "a.data_ptr()",
    ],
)  # fmt: skip
def test_other_functions_are_refused(call):
    with pytest.raises(NotImplementedError) as caught:
        eval(call, {"a": matrix(), "edutorch": edutorch, "F": F, "nn": nn})
    text = str(caught.value)
    assert "'SparseCPU' backend" in text and "to_dense()" in text, text


def test_the_error_names_op_and_layout():
    with pytest.raises(NotImplementedError, match="exp: could not run 'aten::exp' with arg"):
        matrix().exp()
    with pytest.raises(NotImplementedError, match="SparseCsrCPU"):
        matrix().to_sparse_csr().exp()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ("a.numpy()", TypeError, "Use Tensor.to_dense"),
        ("np.asarray(a)", TypeError, "Use Tensor.to_dense"),
        ("d.mul_(a)", TypeError, "Use Tensor.to_dense"),
        ("a.item()", RuntimeError, "6 elements cannot be converted to Scalar"),
        ("a.values()", RuntimeError, "uncoalesced tensor, please call .coalesce"),
        ("a.indices()", RuntimeError, "uncoalesced"),
        ("a.crow_indices()", RuntimeError, "row compressed tensor layout but got Sparse"),
        ("a.to_sparse_csr().indices()", RuntimeError, "coordinate tensor layout but got SparseCsr"),
        ("a.to_sparse_csr().coalesce()", RuntimeError, "got SparseCsr"),
        ("a.to_sparse_csr().is_coalesced()", RuntimeError, "got SparseCsr"),
        ("d.values()", RuntimeError, "got Strided"), ("d.coalesce()", RuntimeError, "got Strided"),
        ("a + 1", RuntimeError, "add\\(sparse, dense\\) is not supported"),
        ("a + d", RuntimeError, "Use add\\(dense, sparse\\)"),
        ("a / d", RuntimeError, "scalar or zero-dim dense"),
        ("a + a.t()", RuntimeError, r"\[2, 3\] != \[3, 2\]"),
        ("a * a.t()", RuntimeError, "match"),
        ("a @ d", RuntimeError, "Expected dim 0 size 3, got 2"),
        ("a @ d.t().float()", RuntimeError, "same dtype"),
        ("sparse.mm(a, d[0])", RuntimeError, "must be matrices"),
        ("a.index_select(0, edutorch.tensor([2]))", IndexError, "valid indices are 0 to 1"),
        ("a[2]", IndexError, "out of range"), ("a[0, 0, 0]", IndexError, "."),
        ("a.transpose(0, 2)", IndexError, "."),
        ("edutorch.cat([a, a.t()])", RuntimeError, "same sizes"),
        ("edutorch.cat([a, d])", RuntimeError, "dense one"),
        ("sparse.sum(d)", TypeError, "expected a sparse tensor"),
        ("sparse.softmax(d, 1)", TypeError, "expected a sparse tensor"),
        ("sparse.sampled_addmm(a, d, d)", TypeError, "csr layout"),
        ("sparse.sampled_addmm(a.to_sparse_csr(), d, d)", RuntimeError, "shape of input"),
        ("d.sparse_mask(d)", TypeError, "expected mask to be sparse"),
        ("d.sparse_mask(a.t())", RuntimeError, "incompatible sizes"),
        ("d.to_sparse(3)", RuntimeError, "sparse_dim must be from 1 to 2"),
        ("d[0].to_sparse_csr()", RuntimeError, "two axes"),
        ("d.to_sparse(layout=edutorch.strided)", TypeError, "sparse layout"),
        ("a.backward()", RuntimeError, "only for scalar outputs"),
        ("setattr(w, 'grad', d)", RuntimeError, "is a sparse tensor"),
        ("w.mul_(2)", RuntimeError, "in-place operation"),
        ("copy.deepcopy(w * 2)", RuntimeError, "graph leaves"),
        ("sparse.spdiags(d, edutorch.tensor([0]), (2, 2))", TypeError, "number of offsets"),
    ],
)  # fmt: skip
def test_errors(call, error, text):
    names = {
        "a": matrix(), "d": random(2, 3), "w": matrix(requires_grad=True), "sparse": sparse,
        "edutorch": edutorch, "np": np, "copy": copy,
    }  # fmt: skip
    with pytest.raises(error, match=text):
        eval(call, names)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([[-1]], [1.0], (2,)), ShapeError, "found negative index -1 for dim 0"),
        (([[2]], [1.0], (2,)), ShapeError, "for dim 0, size is 2 but found index 2"),
        (([[0, 1]], [1.0], (2,)), ShapeError, "nnz from indices: 2, nnz from values: 1"),
        (([[0.5]], [1.0], (2,)), DTypeError, "must be an int64 tensor"),
        (([[True]], [1.0], (2,)), DTypeError, "must be an int64 tensor"),
        (([[0], [1]], [1.0], (2,)), ShapeError, "len\\(size\\) = 1, sparse_dim = 2"),
        (([0, 1], [1.0, 2.0], (2,)), ShapeError, "must be sparse_dim x nnz, but got: \\[2\\]"),
        (([[0]], [[1.0, 2.0]], (2, 3)), ShapeError, "dense axes"),
        (([[0]], 1.0, (2,)), ShapeError, "same nnz"),
        (([[0]], [1.0], (-2,)), ShapeError, "whole numbers"),
        (([[0]], [1.0], (2.5,)), ShapeError, "whole numbers"),
        (([[0]] * 3, [1.0], (2**31,) * 3), ShapeError, "2\\*\\*63"),
    ],
)  # fmt: skip
def test_wrong_coordinates(arguments, error, text):
    with pytest.raises(error, match=text):
        edutorch.sparse_coo_tensor(*arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([1, 2], [0, 1], [1.0, 2.0], (1, 2)), r"`crow_indices\[..., 0\] == 0`"),
        (([0, 1], [0, 1], [1.0, 2.0], (1, 2)), r"`crow_indices\[..., -1\] == nnz`"),
        (([0, 2], [0, 2], [1.0, 2.0], (1, 2)), "`0 <= col_indices < ncols`"),
        (([0, 2, 1], [0], [1.0], (2, 2)), "must not decrease"),
        (([0, 1, 2], [0, 1], [1.0, 2.0], (3, 2)), r"number of rows \+ 1 \(=4\), but got 3"),
        (([0, 1, 2], [0, 1], [1.0, 2.0, 3.0], (2, 2)), "equal to nnz"),
        (([0, 2], [1, 0], [1.0, 2.0], (1, 2)), "sorted and distinct"),
        (([0, 2], [1, 1], [1.0, 2.0], (1, 2)), "sorted and distinct"),
        (([[0, 1]], [0], [1.0], (1, 2)), "one axis"), (([0, 1], [0], [1.0], (1, 2, 3)), "two axes"),
    ],
)  # fmt: skip
def test_wrong_compressed_rows(arguments, text):
    with pytest.raises(ShapeError, match=text):
        edutorch.sparse_csr_tensor(*arguments)


# Copies and files --------------------------------------------------------------------------


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_csr", "to_sparse_csc", "coalesce"])
def test_copies_and_files(tmp_path, convert):
    a = getattr(matrix(), convert)().requires_grad_()
    edutorch.save({"a": a, "again": [a.detach()]}, tmp_path / "a.edu")
    loaded = edutorch.load(tmp_path / "a.edu")
    for other in (pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a), loaded["a"]):
        assert str(other) == str(a) and other is not a and type(other) is type(a)
    assert str(loaded["again"][0]) == str(a.detach())


def test_unpickling_in_a_new_process_has_all_methods(tmp_path):
    import subprocess
    import sys

    (tmp_path / "a.pkl").write_bytes(pickle.dumps(matrix()))
    path = str(tmp_path / "a.pkl")
    code = f"import pickle; a = pickle.load(open({path!r}, 'rb')); print(a.T + a.t())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "nnz=8" in done.stdout


# Size ------------------------------------------------------------------------------------


def test_a_large_matrix_is_small():
    size, count = 100_000, 1_000_000
    rng = np.random.default_rng(0)
    indices = edutorch.from_numpy(rng.integers(0, size, (2, count)))
    values = edutorch.from_numpy(rng.normal(size=count).astype(np.float32))
    tracemalloc.start()
    with backends.reference_only():  # importing SciPy and a compiler is not what is measured
        a = edutorch.sparse_coo_tensor(indices, values, (size, size)).coalesce()
        y = a @ edutorch.ones(size, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 64 * 2**20 and y.shape == (size, 2)
    stored = a.indices().nbytes + a.values().nbytes
    assert stored == a._nnz() * (2 * 8 + 4) <= 20 * 2**20


# A graph network ------------------------------------------------------------------------------


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features, multiply):
        super().__init__()
        self.weight = nn.Parameter(random(in_features, out_features) / 3)
        self.bias = nn.Parameter(edutorch.zeros(out_features, dtype=edutorch.float64))
        self.multiply = multiply

    def forward(self, input, adj):
        support = edutorch.mm(input, self.weight)
        return self.multiply(adj, support) + self.bias


class GCN(nn.Module):
    def __init__(self, multiply):
        super().__init__()
        self.gc1 = GraphConvolution(8, 16, multiply)
        self.gc2 = GraphConvolution(16, 2, multiply)

    def forward(self, x, adj):
        return F.log_softmax(self.gc2(F.relu(self.gc1(x, adj)), adj), dim=1)


def community_graph(n=60):
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, n)
    same = classes[:, None] == classes
    edges = np.triu(rng.random((n, n)) < np.where(same, 0.3, 0.03), 1)
    adjacency = (edges | edges.T) + np.eye(n)
    return edutorch.tensor(adjacency / adjacency.sum(1, keepdims=True)), edutorch.tensor(classes)


@pytest.mark.parametrize("multiply", [edutorch.spmm, sparse.mm, edutorch.mm, edutorch.matmul])
def test_a_graph_network_trains_as_with_a_dense_matrix(multiply):
    adjacency, classes = community_graph()
    x = random(60, 8, seed=2)
    gradients = []
    for adj in (adjacency, adjacency.to_sparse(), adjacency.to_sparse_csr()):
        model = GCN(multiply)
        F.nll_loss(model(x, adj), classes).backward()
        gradients.append([param.grad for param in model.parameters()])
    for dense, *sparse_ones in zip(*gradients, strict=True):
        for other in sparse_ones:
            np.testing.assert_allclose(other, dense, atol=1e-13)
    model, adj = GCN(multiply), adjacency.to_sparse()
    optimizer = edutorch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.nll_loss(model(x, adj), classes)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_a_picture_names_the_sparse_tensor():
    A = matrix(requires_grad=True)
    picture = viz.draw((A @ random(3, 2)).sum())
    assert "A (sparse 2×3)" in picture.dot
    assert "matmul" in picture.dot or "sparse.mm" in picture.dot


def test_every_error_is_ours():
    from edutorch.ops.sparse.tensor import not_for_sparse

    error = pickle.loads(pickle.dumps(not_for_sparse("exp")))
    assert isinstance(error, EdutorchError) and isinstance(error, NotImplementedError)
    assert not hasattr(matrix()._array, "strides")


def test_sparse_tensors_are_drawn_by_what_they_store(recwarn):
    weight = sparse_of(3.0, 5.0).requires_grad_()
    picture = viz.draw(weight * 2)
    values = [stats for stats in picture.snapshot.values if stats is not None]
    assert {(stats.size, stats.max) for stats in values} == {(2, 5.0), (1, 2.0), (2, 10.0)}
    assert "3.0000 … +5.0000" in str(viz.show(weight))
    assert "unknown" not in viz.draw(edutorch.zeros(2, 2).to_sparse().requires_grad_() * 2).dot
    embedding = nn.Embedding(6, 2, sparse=True)
    optimizer = optim.SparseAdam(embedding.parameters())
    with viz.live(embedding) as view:
        for _ in range(8):
            optimizer.zero_grad()
            embedding(edutorch.tensor([1, 4])).sum().backward()
            optimizer.step()
    assert view.trouble.findings == {} and view.drawing().snapshot is not None
    assert [str(each.message) for each in recwarn if "viz" in str(each.message)] == []


def sparse_of(*values):
    indices = [list(range(len(values)))] * 2
    return edutorch.sparse_coo_tensor(indices, list(values), (6, 6))


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_the_terms_of_a_product_can_be_reduced_in_other_ways(reduce):
    a = edutorch.tensor([[1.0, 2, 0], [0, 0, 0], [3, 0, 3]]).to_sparse_csr().requires_grad_()
    x = edutorch.tensor([[1.0, 1], [1, 5], [1, 0]], requires_grad=True)
    y = sparse.mm(a, x, reduce)
    expected = {
        "sum": [[3, 11], [0, 0], [6, 3]], "mean": [[1.5, 5.5], [0, 0], [3, 1.5]],
        "amax": [[2, 10], [0, 0], [3, 3]], "amin": [[1, 1], [0, 0], [3, 0]],
    }  # fmt: skip
    assert y.tolist() == expected[reduce]
    y.sum().backward()
    gradients = {  # the first of equal terms gets it
        "sum": [2, 6, 2, 1], "mean": [1, 3, 1, 0.5], "amax": [0, 6, 2, 0], "amin": [2, 0, 1, 0],
    }  # fmt: skip
    assert a.grad.values().tolist() == gradients[reduce]
    assert sparse.mm(edutorch.zeros(0, 3).to_sparse_csr(), x, reduce).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda a, x: sparse.mm(a, x, "product"), "either sum, mean, amax or amin"),
        (lambda a, x: sparse.mm(a.to_sparse_coo(), x, "mean"), "mat1 to be sparse csr"),
        (lambda a, x: sparse.mm(a, a, "mean"), "mat2 to be dense"),
    ],
)
def test_a_reduction_that_does_not_fit(call, match):
    a = edutorch.eye(3).to_sparse_csr()
    with pytest.raises(RuntimeError, match=match):
        call(a, edutorch.ones(3, 2))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_it_stays_on_its_device(layout):
    sparse = getattr(edutorch.eye(3), f"to_sparse_{layout}")()
    for moved in (sparse.cpu(), sparse.to("cpu"), sparse.to("cpu", edutorch.float64)):
        assert moved.layout is sparse.layout
        assert moved.device.type == "cpu"
        assert moved.to_dense().sum() == 3
