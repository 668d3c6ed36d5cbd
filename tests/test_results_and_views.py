"""Named results, windows as views, and functions that find what occurs: as in PyTorch."""

from __future__ import annotations

import pickle
import re

import pytest

import edutorch
from tests.devices import DEVICES
from tests.oracle import require_torch
from tests.test_functions import close, outcome, plain

# As in test_functions.py; x has equal numbers and equal rows.
LINES = """
t.mode(x), x.mode(0), x.mode(dim=1, keepdim=True), t.mode(x, 0).values
t.cummax(a, 0), a.cummin(1), t.cummax(x, dim=1), x.cummin(0).indices, t.cummax(n, 0)
t.nanmedian(n), n.nanmedian(0), n.nanmedian(dim=1, keepdim=True), t.nanmedian(t.tensor(2.0), 0)
t.nanmedian(t.tensor([math.nan])), a.nanmedian(0)
t.fill(a, 2), t.fill(i, 2.0), t.fill(m, False)
t.unique(x, dim=0), t.unique(x, dim=1), x.unique(dim=-1, return_inverse=True, return_counts=True)
t.unique(x, return_inverse=True), t.unique(t.zeros(0)), t.unique(c, dim=1, return_counts=True)
t.unique_consecutive(x), x.unique_consecutive(return_inverse=True, return_counts=True)
t.unique_consecutive(x, dim=0), x.unique_consecutive(dim=1, return_counts=True)
t.unique_consecutive(x, True, True, 0), t.unique_consecutive(t.zeros(0))
v.unfold(0, 2, 1), v.unfold(0, 3, 2), a.unfold(1, 2, 1), a.T.unfold(0, 2, 1), c.unfold(1, 2, 1)
c.unfold(-1, 4, 1), t.tensor(1.0).unfold(0, 1, 1), c.unfold(0, 1, 1).stride()
a.scatter_reduce(1, k, t.ones(2, 3), "sum"), a.scatter_reduce(1, k * 0, a, reduce="amax")
i.scatter_reduce(0, i * 0, i, "mean"), i.scatter_reduce(0, i * 0, i, "mean", include_self=False)
a.clone().scatter_reduce_(0, k % 2, a, "prod", include_self=False)
t.scatter_reduce(a, 1, k, a, "amin"), i.scatter_reduce(0, i * 0, -i, "prod")
"""


@pytest.mark.oracle
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("line", LINES.strip().splitlines(), ids=lambda line: line[:40])
def test_line(line, device):
    line = re.sub(
        r"\bx\b", "t.tensor([[1, 1, 2, 2], [0, 3, 0, 0], [1, 1, 2, 2], [1, 1, 2, 2]])", line
    )
    theirs = outcome(f"[{line}]", require_torch())
    edutorch.set_default_device(device)
    try:
        assert close(outcome(f"[{line}]", edutorch), theirs)
    finally:
        edutorch.set_default_device("cpu")


NAMED = """
x.max(1)
x.min(0)
x.sort()
x.topk(2)
x.kthvalue(2)
x.median(0)
x.nanmedian(0)
x.mode(0)
x.cummax(1)
x.cummin(1)
x.aminmax()
"""


@pytest.mark.oracle
@pytest.mark.parametrize("line", NAMED.split("\n")[1:-1])
def test_named_results_print_as_pytorchs(line):
    torch = require_torch()
    rows = [[1.5, 2.0, 3.0], [5.0, 1.0, 4.0]]
    ours = eval(line, {"x": edutorch.tensor(rows)})
    theirs = eval(line, {"x": torch.tensor(rows)})
    assert repr(ours) == repr(theirs)
    assert type(ours) is getattr(edutorch.return_types, type(theirs).__name__)
    first, second = ours
    assert first is ours[0] and second is ours[1]
    assert type(pickle.loads(pickle.dumps(ours))) is type(ours)


@pytest.mark.parametrize("device", DEVICES)
def test_windows_show_the_memory_of_the_tensor(device):
    x = edutorch.arange(5.0, device=device)
    windows = x.unfold(0, 3, 1)
    x[2] = 9.0
    assert windows.tolist() == [[0, 1, 9], [1, 9, 3], [9, 3, 4]]
    assert windows.data_ptr() == x.data_ptr()


def test_a_write_into_windows_is_in_the_gradient():
    x = edutorch.arange(6.0, requires_grad=True)
    y = x * 2
    y.unfold(0, 2, 2)[1] = 0.0
    (y * y).sum().backward()
    assert x.grad.tolist() == [0, 8, 0, 0, 32, 40]


@pytest.mark.oracle
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
def test_gradients_of_scatter_reduce_where_numbers_tie_or_vanish(how, include):
    results = []
    for library in (edutorch, require_torch()):
        # PyTorch shares with a number that does not count, if it happens to be equal.
        elements = [2.0, 0.0, 3.0, 4.0] if include else [2.5, 0.5, 3.5, 4.0]
        x = library.tensor(elements, requires_grad=True)
        src = library.tensor([2.0, 0.0, 0.0, 5.0, 3.0, 3.0], requires_grad=True)
        index = library.tensor([0, 0, 1, 1, 2, 2])
        y = x.scatter_reduce(0, index, src, how, include_self=include)
        (y * library.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
        results.append((plain(x.grad), plain(src.grad)))
    assert results[0] == results[1]


def test_scatter_reduce_refuses_what_it_does_not_know():
    x = edutorch.zeros(2)
    with pytest.raises(RuntimeError, match="amax"):
        x.scatter_reduce(0, edutorch.tensor([0]), x, "max")
