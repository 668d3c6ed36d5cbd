"""`swap_tensors`, `collect_env`, and modules whose names PyTorch has elsewhere."""

from __future__ import annotations

import subprocess
import sys
import weakref

import pytest

import edutorch
from edutorch import nn
from edutorch.utils import swap_tensors


def test_tensors_are_swapped():
    parameter, plain = nn.Parameter(edutorch.ones(2)), edutorch.zeros(3)
    plain.tag = "plain"
    parameter.grad = edutorch.full((2,), 5.0)
    swap_tensors(parameter, plain)
    assert (type(parameter), type(plain)) == (edutorch.Tensor, nn.Parameter)
    assert (parameter.tolist(), plain.tolist()) == ([0, 0, 0], [1, 1])
    assert parameter.tag == "plain"
    assert not hasattr(plain, "tag")
    assert plain.grad.tolist() == [5, 5]
    assert (parameter.requires_grad, plain.requires_grad) == (False, True)
    swap_tensors(plain, plain)
    assert plain.tolist() == [1, 1]


def test_a_history_is_swapped_too():
    x = edutorch.tensor([2.0], requires_grad=True)
    y, other = x * 3, edutorch.zeros(1)
    swap_tensors(y, other)
    other.backward()
    assert x.grad.item() == 3


def test_what_is_not_swapped():
    x, y = edutorch.ones(1), edutorch.zeros(1)
    reference = weakref.ref(y)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref"):
        swap_tensors(x, y)
    assert reference() is y
    with pytest.raises(TypeError, match="t2 is no tensor: int"):
        swap_tensors(x, 3)


def test_the_environment_is_described():
    command = [sys.executable, "-m", "edutorch.utils.collect_env"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "edutorch version: " in text
    assert "[pip] numpy: " in text


def test_functional_has_the_same_functions(torch):
    import edutorch.functional
    import torch.functional

    assert sorted(edutorch.functional.__all__) == sorted(torch.functional.__all__)
    for name in edutorch.functional.__all__:
        assert getattr(edutorch.functional, name) is getattr(edutorch, name)


def test_private_names_of_pruning(torch):
    from torch.nn.utils import prune as theirs

    from edutorch.nn.utils import prune

    assert prune._compute_nparams_toprune(0.3, 10) == theirs._compute_nparams_toprune(0.3, 10)
    assert prune._compute_nparams_toprune(4, 10) == 4
    x = edutorch.arange(6.0).reshape(2, 3)
    expected = theirs._compute_norm(torch.arange(6.0).reshape(2, 3), 2, 0)
    assert edutorch.allclose(prune._compute_norm(x, 2, 0), edutorch.tensor(expected.numpy()))
    for module, library in ((prune, edutorch), (theirs, torch)):
        with pytest.raises(ValueError, match="multidimensional"):
            module._validate_structured_pruning(library.ones(2))
        with pytest.raises(IndexError, match="Invalid index 5"):
            module._validate_pruning_dim(library.ones(2, 2), 5)
        with pytest.raises(ValueError, match=r"amount=2\.0"):
            module._validate_pruning_amount_init(2.0)
        with pytest.raises(ValueError, match="amount=20"):
            module._validate_pruning_amount(20, 10)


def test_recurrent_layers_list_their_weights(torch):
    ours = nn.LSTM(2, 3, 2, bidirectional=True)
    theirs = torch.nn.LSTM(2, 3, 2, bidirectional=True)
    assert ours._flat_weights_names == theirs._flat_weights_names
    assert [x.shape for x in ours._flat_weights] == [tuple(x.shape) for x in theirs._flat_weights]
    assert [len(x) for x in ours.all_weights] == [len(x) for x in theirs.all_weights]
    ours.flatten_parameters()
