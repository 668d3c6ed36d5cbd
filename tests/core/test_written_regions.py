"""Stale values are detected where a write overlaps the saved value, and nowhere else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import edutorch
from edutorch import autograd, tensor, zeros
from edutorch.core.autograd.versions import MIN_LIMIT, WrittenRegions
from edutorch.errors import StaleValueError
from tests.devices import device  # noqa: F401  (a fixture)

PARTS = {
    "all": ...,
    "a row": 1,
    "rows": slice(1, 3),
    "a column": (slice(None), 1),
    "every second column": (slice(None), slice(None, None, 2)),
    "a block": (slice(0, 2), slice(0, 2)),
    "the last row": (None, 3),
}
WRITES = {
    "setitem": lambda memory, part: memory.__setitem__(part, 7.0),
    "in place": lambda memory, part: memory[part].mul_(2),
    "zero_": lambda memory, part: memory[part].zero_(),
    "copy_": lambda memory, part: memory[part].copy_(edutorch.tensor(3.0)),
    "data": lambda memory, part: memory.data.__setitem__(part, 7.0),
    "detach": lambda memory, part: memory.detach()[part].add_(1),
    "out": lambda memory, part: edutorch.add(memory[part], 1, out=memory[part]),
    "no_grad": lambda memory, part: edutorch.no_grad()(lambda: memory[part].exp_())(),
    "transposed": lambda memory, part: memory.t().t()[part].neg_(),
}


def overlaps(written, saved):
    """Return True if two parts of a matrix have an element in common, by trying it out."""
    marks = np.zeros((4, 4))
    marks[written] = 1
    return bool(np.any(marks[saved]))


@pytest.mark.parametrize(
    ("write", "where"), [*((write, "cpu") for write in WRITES), ("setitem", "strict")]
)
def test_only_writes_that_reach_the_value(write, where):
    for (name, written), (other, saved) in itertools.product(PARTS.items(), repeat=2):
        memory = edutorch.ones(4, 4, device=where)
        weight = tensor(2.0, requires_grad=True, device=where)
        product = (memory[saved] * weight).sum()
        expected = float(memory[saved].sum())
        WRITES[write](memory, written)
        if overlaps(written, saved):
            with pytest.raises(StaleValueError):
                product.backward()
        else:
            product.backward()
            assert weight.grad.item() == expected, (name, other)


def test_an_integration_writes_its_steps_into_a_buffer(device):  # noqa: F811
    def solve(x, rows):
        rows[0] = x
        for step in range(4):
            rows[step + 1] = rows[step] + rows[step] * rows[step] * 0.1
        return sum(rows[step].sum() for step in range(5))

    x = tensor([1.0, 2.0], dtype=edutorch.float64, requires_grad=True)
    (expected,) = autograd.grad(solve(x, [None] * 5), x)
    (slope,) = autograd.grad(solve(x, zeros(5, 2, dtype=edutorch.float64)), x)
    assert (slope - expected).abs().max().item() < 1e-12
    assert autograd.gradgradcheck(lambda x: solve(x, zeros(5, 2, dtype=edutorch.float64)), x)


def test_stages_of_a_step_are_columns_of_one_buffer():
    """As in a Runge-Kutta method: each stage reads the columns that were written before it."""
    x = tensor([1.0, 2.0], requires_grad=True)
    weights = tensor([0.5, 0.25, 0.25])
    stages = zeros(2, 3)
    stages[:, 0] = x
    for stage in (1, 2):
        point = x + (stages[:, :stage] * weights[:stage]).sum(1)
        stages.data[:, stage] = (point * point).detach()
    total = (stages * weights * x[:, None]).sum()
    total.backward()
    assert x.grad.isfinite().all()


def test_a_write_into_all_forgets_the_parts():
    memory, weight = edutorch.ones(3, 2), tensor(2.0, requires_grad=True)
    product = (memory[0] * weight).sum()
    memory[1] = 3.0
    memory.mul_(2)
    memory[2] = 4.0
    assert len(memory._writes.regions.writes) == 1
    with pytest.raises(StaleValueError, match="overwritten"):
        product.backward()


def test_the_error_names_the_write_that_reached_the_value():
    memory, weight = edutorch.ones(3, 2), tensor(2.0, requires_grad=True)
    product = (memory[0] * weight).sum()
    memory[0] = 3.0  # this one
    memory[1] = 3.0
    with pytest.raises(StaleValueError) as caught:
        product.backward()
    assert "# this one" in caught.value.arguments["overwritten"]


def test_parts_that_are_written_again_are_kept_once():
    memory = edutorch.ones(5, 2)
    for step in range(3 * MIN_LIMIT):
        memory[step % 5] = float(step)
    assert len(memory._writes.regions.writes) <= MIN_LIMIT
    saved, since = memory[0]._array, memory._writes.time
    memory[1] = 0.0
    assert not memory._writes.may_have_changed(saved, since)
    memory[0] = 0.0
    assert memory._writes.may_have_changed(saved, since)


def test_too_many_parts_count_as_all(monkeypatch):
    monkeypatch.setattr("edutorch.core.autograd.versions.MAX_REGIONS", 10)
    regions, memory = WrittenRegions(0), np.zeros(2 * MIN_LIMIT)
    for position in range(MIN_LIMIT + 1):
        regions.add((memory, position, position + 1, None))
    assert (regions.whole, regions.writes) == (MIN_LIMIT + 1, [])
