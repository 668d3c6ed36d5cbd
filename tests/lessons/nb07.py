"""What `notebooks/07_will_it_hold.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from tests.lessons.outputs import (
    drawn_by_graphviz,
    ends_with_step,
    percent,
    pictures_of,
    printed,
    shown,
)

PACKAGES = ["sklearn", "vega_datasets", "palmerpenguins"]

PROMISES = [
    r"mean of a million: (1\.00|0\.99)",
    r"Expected more than 1 value per channel when training",
]

STRICT = """
inputs = torch.rand(6, 1, 8, 8).to(device)
targets = torch.arange(6).to(device)
reader = make_reader(drop=0.5, hidden=8).to(device)
reader.append(OwnBatchNorm(10).to(device))
loss = F.cross_entropy(reader(inputs), targets)
loss.backward()
assert all(parameter.grad.device == device for parameter in reader.parameters())
assert reader[-1].running_mean.device == device

x = torch.randn(6, 3).to(device).requires_grad_()
gamma, beta = torch.ones(3).to(device), torch.zeros(3).to(device)
BatchNorm.apply(layer_norm(x, gamma, beta), gamma, beta).sum().backward()
assert x.grad.device == device
"""


def gaps_of(name: str, cell_outputs: list[Any]) -> list[float]:
    """Return the gaps that are printed for a model: on validation, on test."""
    gaps = re.findall(rf"^{name}: train .*, gap ([\d.]+)$", printed(cell_outputs), re.MULTILINE)
    assert gaps, name
    return [float(gap) for gap in gaps]


def check(cell_outputs: list[Any]) -> None:
    """The gap between train and test halves, twice; a leak shows where nothing is to be known."""
    for name, careful in (
        ("19 waves without decay", "19 waves with decay"),
        ("plain, after 500 steps", "all together"),
    ):
        before, after = gaps_of(name, cell_outputs)[-1], gaps_of(careful, cell_outputs)[-1]
        assert after <= before / 2
    assert percent(r"of the season's gap, (\d+)% is left", cell_outputs) <= 50
    assert percent(r"of the readers' gap, (\d+)% is left", cell_outputs) <= 50
    assert percent(r"best of 1000: validation (\d+)%", cell_outputs) >= 68
    assert 45 <= percent(r"best of 1000: .*test (\d+)%", cell_outputs) <= 55
    assert percent(r"columns chosen on all rows: (\d+)%", cell_outputs) >= 75
    assert percent(r"on the train half: (\d+)%", cell_outputs) <= 58
    raw, normed = re.findall(r"([\d.]+)% of \d+ new penguins", printed(cell_outputs))
    assert float(raw) < 60 and float(normed) > 95
    in_eval = re.findall(r"^eval , among .*s: +(.*)$", printed(cell_outputs), re.MULTILINE)
    assert len(in_eval) == 3 and len(set(in_eval)) == 1, "company changes nothing"
    graphs_are_drawn(cell_outputs)


def graphs_are_drawn(cell_outputs: list[Any]) -> None:
    assert drawn_by_graphviz(cell_outputs) == 8
    assert ends_with_step(cell_outputs, 100)
    penalty, training, evaluation, _, own_training, own_evaluation, _, leak = pictures_of(
        cell_outputs
    )
    assert "mse_loss" in penalty and "square" in penalty
    assert "small.2 · Dropout" in training and "small.2 · Dropout" not in evaluation
    assert {"running_mean", "add v2"} <= set(own_training), "updated on the side"
    assert "running_mean" in own_evaluation and "add v2" not in own_evaluation
    assert {"test", "cat", "topk"} <= set(leak)
    assert len([data for data in shown(cell_outputs) if "image/svg+xml" not in data]) >= 7
