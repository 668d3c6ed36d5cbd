"""`cond`, `while_loop` and `scan`: run, exported, refused where shapes differ."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.errors import DTypeError, ShapeError
from edutorch.export import Dim, export


class Branching(nn.Module):
    """A choice, a loop and a scan, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: self.linear(x) + x.shape[0], torch.cos, (x,))
        count, z = torch.while_loop(
            lambda count, z: z.abs().max() < 100, lambda count, z: (count + 1, z * 2 + x),
            (torch.tensor(0), y.abs() + 1),
        )  # fmt: skip
        total, steps = torch.scan(lambda c, a: (c + a, self.linear(c)), y[0], y)
        return count, z, total, steps


def test_branches_are_graphs_of_the_program():
    module = Branching()
    shapes = ({0: Dim("batch", min=1, max=16)},)
    program = export(module, (torch.ones(3, 4),), dynamic_shapes=shapes)
    names = {name for name, _ in program.graph_module.named_children()}
    assert names == {
        "true_graph_0", "false_graph_0", "cond_graph_0", "body_graph_0", "combine_graph_0",
    }  # fmt: skip
    running = program.module()
    for sign in (1, -1):
        x = sign * torch.rand(5, 4)
        for a, b in zip(module(x), running(x), strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_gradients_flow_through_branches():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.cond(torch.tensor(True), lambda x: x * 3, lambda x: x, (x,))
    carry, _ = torch.scan(lambda c, a: (c * a, c), torch.tensor(1.0), y)
    carry.backward()
    assert x.grad.tolist() == [18.0, 9.0]


def test_a_scan_may_run_backwards():
    xs = torch.arange(6.0).reshape(2, 3)
    total, sums = torch.scan(lambda c, a: (c + a, c + a), torch.zeros(2), xs, dim=1, reverse=True)
    assert total.tolist() == [3.0, 12.0]
    assert sums.tolist() == [[3.0, 12.0], [3.0, 9.0], [2.0, 5.0]]


@pytest.mark.parametrize(
    ("error", "false_fn"), [(ShapeError, lambda x: x[0]), (DTypeError, lambda x: x > 0)]
)
def test_branches_must_return_the_same(error, false_fn):
    class Unequal(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x * 2, false_fn, (x,))

    with pytest.raises(error, match="true_fn"):
        export(Unequal(), (torch.ones(3),))
