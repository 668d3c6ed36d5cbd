"""Later writes into indices, masks and second results have no effect, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import from_numpy, tensor
from edutorch.errors import StaleValueError

X = [[0.5, 1.5], [2.0, 0.25]]

INDEXED: dict[str, Callable[[Any, Any], Any]] = {
    "x[index]": lambda x, i: x[i],
    "x[index, :]": lambda x, i: x[i, :],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i.view(1, 2)),
    "take_along_dim": lambda x, i: edutorch.take_along_dim(x, i.view(1, 2), 0),
    "embedding": lambda x, i: edutorch.nn.functional.embedding(i, x),
    "masked_fill": lambda x, i: x.masked_fill(i == 1, 0.0),
    "index_add": lambda x, i: edutorch.zeros(2, 2).index_add(0, i, x),
    "scatter": lambda x, i: edutorch.zeros(2, 2).scatter(0, i.view(1, 2), x),
    "scatter_add": lambda x, i: edutorch.zeros(2, 2).scatter_add(0, i.view(1, 2), x),
    "index_put": lambda x, i: edutorch.zeros(2, 2).index_put((i,), x),
    "cross_entropy": lambda x, i: edutorch.nn.functional.cross_entropy(x, i),
}


@pytest.mark.parametrize("op", INDEXED)
@pytest.mark.parametrize("how", ["in place", "numpy", "from_numpy"])
def test_positions_that_are_changed(op, how):
    right = tensor(X, requires_grad=True)
    (INDEXED[op](right, tensor([0, 0])) ** 2).sum().backward()
    x, outside = tensor(X, requires_grad=True), np.zeros(2, np.int64)
    index = from_numpy(outside) if how == "from_numpy" else tensor([0, 0])
    loss = (INDEXED[op](x, index) ** 2).sum()
    if how == "in place":
        index.fill_(1)
    else:
        (outside if how == "from_numpy" else index.numpy())[:] = 1
    try:
        loss.backward()
    except StaleValueError:
        return
    assert x.grad.tolist() == right.grad.tolist()


SECOND: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: x.max(0),
    "sort": lambda x: x.sort(0),
    "topk": lambda x: x.topk(1, 0),
    "cummax": lambda x: x.cummax(0),
    "kthvalue": lambda x: x.kthvalue(1, 0),
    "mode": lambda x: x.mode(0),
    "median": lambda x: x.median(0),
    "qr": lambda x: edutorch.linalg.qr(x),
    "eigh": lambda x: edutorch.linalg.eigh(x),
}


@pytest.mark.parametrize("op", SECOND)
@pytest.mark.parametrize("how", ["in place", "numpy"])
def test_second_results_that_are_changed(op, how):
    right, x = tensor(X, requires_grad=True), tensor(X, requires_grad=True)
    SECOND[op](right)[0].sum().backward()
    first, second = SECOND[op](x)
    loss = first.sum()
    if how == "in place":
        second.detach().fill_(1)
    else:
        second.detach().numpy()[...] = 1
    try:
        loss.backward()
    except StaleValueError:
        return
    assert x.grad.tolist() == right.grad.tolist()
