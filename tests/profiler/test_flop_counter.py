"""FLOPs of a block, compared with PyTorch's."""

from __future__ import annotations

import pytest

import edutorch
from edutorch.utils.flop_counter import FlopCounterMode


def count(library, counter, wants_input):
    nn = library.nn
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3, stride=2, padding=1),
        nn.ConvTranspose2d(6, 2, 3), nn.Flatten(), nn.Linear(50, 10),
    )  # fmt: skip
    x = library.ones(2, 1, 8, 8, requires_grad=wants_input)
    with counter:
        net(x).sum().backward()
    return counter


@pytest.mark.parametrize("wants_input", [False, True])
def test_the_total_is_pytorchs(torch, wants_input):
    from torch.utils.flop_counter import FlopCounterMode as Theirs

    theirs = count(torch, Theirs(display=False), wants_input)
    ours = count(edutorch, FlopCounterMode(display=False), wants_input)
    assert ours.get_total_flops() == theirs.get_total_flops()
    names = {"Global", "Sequential", *(f"Sequential.{number}" for number in (0, 2, 3, 5))}
    assert ours.get_flop_counts().keys() == names
    for name in names - {"Global"}:
        mine, other = (sum(counter.get_flop_counts()[name].values()) for counter in (ours, theirs))
        assert mine == other, name


def test_groups_count_once():
    """PyTorch counts the gradient of a grouped filter as if there were no groups."""
    conv = edutorch.nn.Conv2d(4, 6, 3, padding=1, groups=2)
    with FlopCounterMode(display=False) as counter:
        conv(edutorch.ones(2, 4, 6, 6)).sum().backward()
    assert counter.get_total_flops() == 2 * (2 * (2 * 6 * 6 * 6) * (2 * 3 * 3))


def test_the_table_is_printed(capsys):
    with FlopCounterMode(depth=0):
        edutorch.ones(3, 4) @ edutorch.ones(4, 5)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:1] + lines[2:]] == [
        ["Module", "FLOP", "%", "Total"], ["Global", "120", "100.00%"],
        ["-", "matmul", "120", "100.00%"],
    ]  # fmt: skip
    assert FlopCounterMode().get_total_flops() == 0
