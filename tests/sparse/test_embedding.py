"""`nn.Embedding(sparse=True)`: sparse gradients, and the optimizers that take them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import backends, nn
from edutorch.modes import listening

TABLE = np.random.default_rng(0).normal(size=(6, 3))


def train(torch: Any, name: str, settings: dict[str, Any]) -> list[Any]:
    """Return the table after four steps, and the names of the optimizer's state."""
    words = torch.nn.Embedding.from_pretrained(
        torch.tensor(TABLE.copy()), freeze=False, sparse=True, padding_idx=2
    )
    optimizer = getattr(torch.optim, name)(words.parameters(), **settings)
    for step in range(4):
        optimizer.zero_grad()
        (words(torch.tensor([[1, 1, 3], [2, step, 5]])) ** 2).sum().backward()
        assert words.weight.grad.is_sparse
        optimizer.step()
    state = optimizer.state_dict()["state"]
    return [np.array(words.weight.tolist()), sorted(state.get(0, {}))]


OPTIMIZERS = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}), ("SGD", {"lr": 0.1, "maximize": True}),
    ("SparseAdam", {"lr": 0.1}), ("SparseAdam", {"lr": 0.1, "betas": (0.5, 0.9), "eps": 0.1}),
    ("SparseAdam", {"lr": 0.1, "maximize": True}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "settings"), OPTIMIZERS)
def test_steps_are_pytorchs(torch, name, settings):
    ours, theirs = train(edutorch, name, settings), train(torch, name, settings)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12, atol=1e-14)
    assert ours[1] == theirs[1]


@pytest.mark.parametrize("name", ["Adam", "RMSprop", "AdamW", "NAdam"])
def test_other_optimizers_say_so(name):
    with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
        train(edutorch, name, {"lr": 0.1})


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_weight_decay_is_refused(name):
    with pytest.raises(RuntimeError, match="weight_decay"):
        train(edutorch, name, {"lr": 0.1, "weight_decay": 0.1})


def test_sparse_adam_refuses_dense_gradients():
    param = edutorch.ones(2, requires_grad=True)
    param.sum().backward()
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        edutorch.optim.SparseAdam([param]).step()


def gradient(**options: Any) -> Any:
    words = nn.Embedding.from_pretrained(
        edutorch.tensor(TABLE.copy()), freeze=False, sparse=True, **options
    )
    (words(edutorch.tensor([[1, 1, 3], [2, 0, 5]])) ** 2).sum().backward()
    return words.weight


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}])
@pytest.mark.parametrize("reference", [False, True])
def test_the_gradient_equals_the_dense_one(options, reference):
    with backends.reference_only() if reference else nullcontext():
        sparse = gradient(**options).grad
        words = nn.Embedding.from_pretrained(edutorch.tensor(TABLE.copy()), freeze=False, **options)
        (words(edutorch.tensor([[1, 1, 3], [2, 0, 5]])) ** 2).sum().backward()
    assert sparse.is_sparse and sparse.shape == (6, 3)
    np.testing.assert_allclose(sparse.to_dense(), words.weight.grad, atol=1e-14)


def test_two_uses_of_a_table_and_a_dense_use():
    words = nn.Embedding.from_pretrained(edutorch.ones(4, 2), freeze=False, sparse=True)
    (words(edutorch.tensor([1])) + words(edutorch.tensor([3]))).sum().backward()
    assert sorted(words.weight.grad._indices().tolist()[0]) == [1, 3]
    words(edutorch.tensor([0])).sum().backward()  # sparse + sparse
    assert words.weight.grad.is_sparse and words.weight.grad._nnz() == 3
    words.weight.sum().backward()  # sparse + dense
    assert not words.weight.grad.is_sparse
    assert words.weight.grad.tolist() == [[2.0, 2.0], [2.0, 2.0], [1.0, 1.0], [2.0, 2.0]]
    words.weight.grad = None
    (words(edutorch.tensor([0])).sum() + words.weight.sum()).backward()
    assert words.weight.grad.tolist() == [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    words(edutorch.tensor([2])).sum().backward()  # dense + sparse
    assert words.weight.grad[2].tolist() == [2.0, 2.0]


def test_a_watched_step_has_the_same_gradient():
    words = nn.Embedding.from_pretrained(edutorch.ones(4, 2), freeze=False, sparse=True)
    seen: list[Any] = []
    with listening(seen.append):
        words(edutorch.tensor([1, 1])).sum().backward()
    assert words.weight.grad.is_sparse and seen


def test_zero_grad_and_bags():
    bag = nn.EmbeddingBag.from_pretrained(
        edutorch.ones(4, 2), freeze=False, sparse=True, mode="sum"
    )
    bag(edutorch.tensor([[0, 2], [2, 3]])).sum().backward()
    assert bag.weight.grad.to_dense().tolist() == [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0], [1.0, 1.0]]
    optimizer = edutorch.optim.SGD(bag.parameters(), lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert bag.weight.grad.to_dense().tolist() == [[0.0, 0.0]] * 4
    hooked = nn.Embedding.from_pretrained(edutorch.ones(2, 1), freeze=False, sparse=True)
    hooked.weight.register_hook(lambda g: g * 2)  # hooks see dense gradients
    hooked(edutorch.tensor([1])).sum().backward()
    assert hooked.weight.grad.tolist() == [[0.0], [2.0]]
