"""A failed export leaves nothing behind: the module, the generator and the next export."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.core.tensor import Tensor
from edutorch.export import Dim, export
from edutorch.fx.capture_patches import ARRAY, GRAD, current_tracer
from edutorch.utils._pytree import tree_flatten
from tests.export.networks import arguments_at, network


def branches(y):
    return y if y.sum() > 0 else -y


def raises(y):
    raise RuntimeError("the module's own error")


def raises_in_a_branch(y):
    return torch.cond(y.sum() > -100, raises, lambda y: y, (y,))


def returns_other_shapes(y):
    return torch.cond(y.sum() > 0, lambda y: y[0], lambda y: y, (y,))


def grows_in_a_loop(y):
    return torch.while_loop(lambda y: y.sum() < 10, lambda y: (y[None] + 1,), (y,))


def is_interrupted(y):
    raise KeyboardInterrupt("stop")


FAILURES = [branches, raises, raises_in_a_branch, returns_other_shapes, grows_in_a_loop,
    is_interrupted, lambda y: y[y > 0], lambda y: y.numpy()]  # fmt: skip


class Recurrent(nn.Module):
    """A GRU, and then what cannot be exported."""

    def __init__(self, end) -> None:
        super().__init__()
        self.cell, self.end = nn.GRU(4, 5, batch_first=True), end

    def forward(self, x):
        return self.end(self.cell(x)[0] + torch.rand(5))


@pytest.mark.parametrize("end", FAILURES)
@pytest.mark.parametrize("shapes", [None, ({0: Dim("batch", max=9), 1: Dim("time", max=9)},)])
def test_nothing_is_left_behind(end, shapes):
    module, x = Recurrent(end), torch.randn(3, 7, 4)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    arrays = {name: value._array for name, value in module.named_parameters()}
    random, names = torch.get_rng_state(), set(module.__dict__)
    with pytest.raises((Exception, KeyboardInterrupt), match=r"\w"):
        export(module, (x,), dynamic_shapes=shapes)
    assert current_tracer() is None
    assert Tensor.__dict__["_array"] is ARRAY and Tensor.__dict__["_grad"] is GRAD
    assert torch.equal(torch.get_rng_state(), random) and set(module.__dict__) == names
    for name, value in module.named_parameters():
        assert value._array is arrays[name] and value.grad is None and value.is_leaf
        assert torch.equal(value, state[name])
    module.end = torch.tanh
    module(x).sum().backward()  # it still trains
    assert all(parameter.grad is not None for parameter in module.parameters())


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_the_next_export_is_right(name):
    for end in FAILURES:
        with pytest.raises((Exception, KeyboardInterrupt), match=r"\w"):
            export(Recurrent(end), (torch.randn(3, 7, 4),))
    module, args, shapes = made = network(name)
    program = export(module, args, dynamic_shapes=shapes).module()
    for number in range(5):
        inputs = arguments_at(made, number)
        with torch.no_grad():
            results = (tree_flatten(run(*inputs))[0] for run in (module, program))
            for first, second in zip(*results, strict=True):
                np.testing.assert_allclose(first.numpy(), second.numpy(), rtol=1e-6, atol=1e-7)
