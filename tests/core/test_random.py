"""Random numbers: reproducible, and of the right distribution."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import edutorch
from edutorch import Generator, manual_seed
from edutorch.errors import ShapeError
from tests.devices import device  # noqa: F401

pytestmark = pytest.mark.usefixtures("device")

MAKERS = {
    "rand": lambda **how: edutorch.rand(4, **how),
    "randn": lambda **how: edutorch.randn(4, **how),
    "randint": lambda **how: edutorch.randint(0, 1000, (4,), **how),
    "randperm": lambda **how: edutorch.randperm(50, **how),
    "normal": lambda **how: edutorch.normal(1.0, 2.0, (4,), **how),
    "bernoulli": lambda **how: edutorch.bernoulli(edutorch.full((40,), 0.5), **how),
    "multinomial": lambda **how: edutorch.multinomial(edutorch.ones(50), 20, **how),
    "with replacement": lambda **how: edutorch.multinomial(edutorch.ones(50), 20, True, **how),
    "uniform_": lambda **how: edutorch.zeros(4).uniform_(-1, 1, **how),
    "normal_": lambda **how: edutorch.zeros(4).normal_(0, 2, **how),
    "bernoulli_": lambda **how: edutorch.zeros(40).bernoulli_(0.5, **how),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_seed_gives_the_same_numbers(maker):
    make = MAKERS[maker]
    manual_seed(3)
    first, second = make(), make()
    manual_seed(3)
    assert make().tolist() == first.tolist()
    assert make().tolist() == second.tolist()
    assert first.tolist() != second.tolist()
    manual_seed(4)
    assert make().tolist() != first.tolist()


@pytest.mark.parametrize("maker", MAKERS)
def test_generators_are_independent(maker, device):  # noqa: F811
    make = MAKERS[maker]
    own = Generator(device if maker not in ("multinomial", "with replacement") else "cpu")
    own.manual_seed(7)
    first = make(generator=own)
    manual_seed(0)
    common = make()
    own.manual_seed(7)
    manual_seed(0)
    assert make(generator=own).tolist() == first.tolist()
    assert make().tolist() == common.tolist(), "one generator does not disturb the other"


def test_the_same_numbers_in_the_next_process():
    code = "import edutorch; edutorch.manual_seed(5); print(edutorch.randn(3).tolist())"
    texts = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    manual_seed(5)
    assert texts[0] == texts[1] == f"{edutorch.randn(3, device='cpu').tolist()}\n"


def test_seeds_are_remembered():
    manual_seed(11)
    assert edutorch.initial_seed() == 11
    generator = Generator()
    assert generator.seed() == generator.initial_seed()
    assert Generator().initial_seed() != Generator().initial_seed()


# Distributions ---------------------------------------------------------------------------------

MANY = 20_000


def test_rand():
    x = edutorch.rand(MANY)
    assert x.min().item() >= 0
    assert x.max().item() < 1
    assert x.mean().item() == pytest.approx(0.5, abs=0.01)
    assert x.var().item() == pytest.approx(1 / 12, abs=0.005)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_rand_in_other_types_stays_below_1(dtype):
    x = edutorch.rand(MANY, dtype=getattr(edutorch, dtype))
    assert x.dtype.name == dtype
    assert float(x.max()) < 1


def test_randn():
    x = edutorch.randn(MANY)
    assert x.mean().item() == pytest.approx(0, abs=0.03)
    assert x.std().item() == pytest.approx(1, abs=0.03)
    within = (x.abs() < 1).float().mean().item()
    assert within == pytest.approx(math.erf(math.sqrt(0.5)), abs=0.02)


def test_randint():
    x = edutorch.randint(-2, 3, (MANY,))
    assert x.dtype is edutorch.int64
    assert sorted(set(x.tolist())) == [-2, -1, 0, 1, 2]
    assert np.bincount(np.array(x.tolist()) + 2).min() > MANY / 5 * 0.9
    assert edutorch.randint(5, (3,), dtype=edutorch.int32).dtype is edutorch.int32
    with pytest.raises(ShapeError, match="needs low < high"):
        edutorch.randint(3, 3, (1,))


def test_randperm():
    assert sorted(edutorch.randperm(100).tolist()) == list(range(100))
    assert edutorch.randperm(0).shape == (0,)


def test_bernoulli_and_normal_follow_their_inputs():
    chances = edutorch.full((MANY,), 0.3)
    assert edutorch.bernoulli(chances).mean().item() == pytest.approx(0.3, abs=0.02)
    means = edutorch.arange(0.0, 3.0)
    drawn = edutorch.normal(means.expand(MANY, 3), 0.5)
    assert drawn.mean(0).tolist() == pytest.approx([0, 1, 2], abs=0.03)
    assert drawn.std(0).tolist() == pytest.approx([0.5] * 3, abs=0.03)


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement):
    weights = edutorch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 2.0]]).repeat(MANY // 20, 1)
    drawn = edutorch.multinomial(weights, 1, replacement)
    first, second = drawn[0::2, 0], drawn[1::2, 0]
    assert (first == 2).float().mean().item() == pytest.approx(0.75, abs=0.05)
    assert (second == 0).float().mean().item() == pytest.approx(0.5, abs=0.06)
    assert not (first == 0).any()


def test_multinomial_without_replacement_never_repeats():
    drawn = edutorch.multinomial(edutorch.ones(200, 6), 6)
    assert all(sorted(row) == list(range(6)) for row in drawn.tolist())
    with pytest.raises(ShapeError, match="cannot draw 3 samples without replacement"):
        edutorch.multinomial(edutorch.tensor([1.0, 1.0, 0.0]), 3)
    with pytest.raises(ShapeError, match="weights must be finite"):
        edutorch.multinomial(edutorch.tensor([-1.0, 2.0]), 1)
