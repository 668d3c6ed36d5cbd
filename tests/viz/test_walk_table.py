"""The table of a walk fits into the width of a notebook, and loses no number by it."""

from __future__ import annotations

import re
from typing import Any

import pytest

import edutorch as torch
from edutorch import nn, viz
from edutorch.nn import functional as F
from edutorch.viz.backward_walk.backward_steps import LINE_WIDTH
from edutorch.viz.backward_walk.walk import Walk


def walked(loss: torch.Tensor, **options: Any) -> Walk:
    walk = viz.walk(loss, **options)
    walk.finish()
    return walk


def matrices() -> torch.Tensor:
    x, target = torch.randn(4, 2), torch.randn(4, 1)
    first, second = torch.randn(2, 3, requires_grad=True), torch.randn(3, 1, requires_grad=True)
    bias = torch.randn(3, requires_grad=True)
    return (((x @ first + bias).tanh() @ second - target) ** 2).mean()


def a_network_with_long_names() -> tuple[torch.Tensor, nn.Module]:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a_layer_with_a_very_long_name_indeed_for_a_layer = nn.Linear(36, 10)
            self.convolution = nn.Conv2d(1, 4, 3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            maps = F.max_pool2d(self.convolution(images).relu(), 2)
            return self.a_layer_with_a_very_long_name_indeed_for_a_layer(maps.flatten(1))

    model = Deep()
    return F.cross_entropy(model(torch.randn(6, 1, 8, 8)), torch.arange(6)), model


@pytest.mark.parametrize("case", ["matrices", "network", "added to"])
def test_no_line_wraps(case: str) -> None:
    torch.manual_seed(0)
    loss, model = (matrices(), None) if case == "matrices" else a_network_with_long_names()
    if case == "added to":
        loss.backward(retain_graph=True)
    walk = walked(loss, model=model)
    assert max(map(len, walk.table().splitlines())) <= LINE_WIDTH
    for station in walk.stations:
        lines = [line for line in str(station).splitlines() if "█" in line]
        assert all(len(line) <= LINE_WIDTH for line in lines), "no histogram is broken in two"


def test_every_number_of_a_gradient_is_there() -> None:
    torch.manual_seed(0)
    walk = walked(matrices())
    flat = re.sub(r"\s+", " ", walk.table())
    for station in walk.stations:
        for amount in (station.incoming, *(flow.gradient for flow in station.flows)):
            for number in re.findall(r"-?\d[\d.e+-]*", amount.text):
                assert number in flat, amount.text


def test_a_matrix_has_a_line_for_each_row() -> None:
    a = torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 1.0]], requires_grad=True)
    b = torch.tensor([[2.123, 1.0, 0.25], [-1.5, 1.0, 0.75]], requires_grad=True)
    y = a @ b
    walk = viz.walk((y * y).sum())  # here, where the names are
    walk.finish()
    assert walk.table().splitlines()[-4:-1] == [
        "4     a.grad  [3.15, 11.3;                      = [3.15, 11.3;",
        "               3.99, -7.62;                        3.99, -7.62;",
        "               29.4, -4.36]                        29.4, -4.36]",
    ]
