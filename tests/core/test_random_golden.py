"""The samples of a seed, as documented in docs/reproducibility.md.

`EDUTORCH_WRITE_GOLDEN=1 pytest tests/core/test_random_golden.py` writes them anew: only for a
change that is meant, with a line in the changelog.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import distributions
from edutorch.backends.philox import philox4x32

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "random.json"
SEED = 20_26

FLOATING = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
REAL = FLOATING[:4]
WHOLE = ("uint8", "int16", "int64", "float32")


def filled(fill: Any) -> Any:
    return lambda dtype: fill(edutorch.zeros(5, dtype=dtype))


def draw(distribution: str, *settings: float) -> Any:
    """The samples of a distribution."""
    return lambda dtype: getattr(distributions, distribution)(
        *(edutorch.tensor(setting, dtype=dtype) for setting in settings)
    ).sample((5,))


CASES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "rand": (lambda dtype: edutorch.rand(5, dtype=dtype), FLOATING),
    "randn": (lambda dtype: edutorch.randn(5, dtype=dtype), FLOATING),
    "randint": (lambda dtype: edutorch.randint(-0, 100, (5,), dtype=dtype), WHOLE),
    "randperm": (lambda dtype: edutorch.randperm(8, dtype=dtype), ("int32", "int64")),
    "normal": (lambda dtype: edutorch.normal(1.0, 2.0, (5,), dtype=dtype), REAL),
    "bernoulli": (lambda dtype: edutorch.full((12,), 0.5, dtype=dtype).bernoulli(), REAL),
    "multinomial": (
        lambda dtype: edutorch.multinomial(edutorch.ones(9, dtype=dtype), 5), ("float32",)
    ),
    "multinomial with replacement": (
        lambda dtype: edutorch.multinomial(edutorch.ones(9, dtype=dtype), 5, True), ("float32",)
    ),
    "poisson": (
        lambda dtype: edutorch.poisson(edutorch.tensor([0.5, 3, 30, 300], dtype=dtype)), REAL[2:]
    ),
    "binomial": (
        lambda dtype: edutorch.binomial(
            edutorch.tensor([5.0, 50, 500], dtype=dtype), edutorch.tensor(0.4, dtype=dtype)
        ),
        REAL[2:],
    ),
    "uniform_": (filled(lambda x: x.uniform_(-1, 1)), FLOATING),
    "normal_": (filled(lambda x: x.normal_(1, 2)), FLOATING),
    "random_": (filled(lambda x: x.random_(100)), WHOLE),
    "bernoulli_": (filled(lambda x: x.bernoulli_(0.5)), (*REAL, "int64")),
    "exponential_": (filled(lambda x: x.exponential_()), REAL[2:]),
    "geometric_": (filled(lambda x: x.geometric_(0.3)), (*REAL[2:], "int64")),
    "cauchy_": (filled(lambda x: x.cauchy_()), REAL[2:]),
    "log_normal_": (filled(lambda x: x.log_normal_()), REAL[2:]),
    "Gamma": (draw("Gamma", 0.7, 2.0), REAL[2:]),
    "Beta": (draw("Beta", 2.0, 3.0), REAL[2:]),
    "StudentT": (draw("StudentT", 4.0), REAL[2:]),
    "VonMises": (draw("VonMises", 0.0, 2.0), REAL[2:]),
    "Gumbel": (draw("Gumbel", 0.0, 1.0), REAL[2:]),
    "Laplace": (draw("Laplace", 0.0, 1.0), REAL[2:]),
}  # fmt: skip
ALL = [(name, dtype) for name, (_, dtypes) in CASES.items() for dtype in dtypes]

# Exact: nothing but bits and arithmetic as IEEE 754 rounds it. The others go through exp, log and
# their kind, whose last digit differs from one machine's library to the next.
EXACT = {"rand", "randn", "randint", "randperm", "bernoulli", "uniform_", "random_", "bernoulli_"}


def first_elements(name: str, dtype: str) -> list[float]:
    edutorch.manual_seed(SEED)
    elements = CASES[name][0](getattr(edutorch, dtype))
    elements = edutorch.view_as_real(elements).flatten() if elements.is_complex() else elements
    return elements.double().tolist()


@pytest.mark.skipif("EDUTORCH_WRITE_GOLDEN" not in os.environ, reason="only to write them anew")
def test_write():
    lines = [
        f"  {json.dumps(f'{name} {dtype}')}: {json.dumps(first_elements(name, dtype))}"
        for name, dtype in ALL
    ]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@pytest.mark.parametrize(("name", "dtype"), ALL)
def test_the_numbers_of_a_seed(name, dtype):
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))[f"{name} {dtype}"]
    ours = first_elements(name, dtype)
    if name in EXACT:
        assert ours == expected
    else:
        digits = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-5, "complex64": 1e-5}
        tolerance = digits.get(dtype, 1e-12)
        np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)


def test_the_bits_come_from_philox():
    """4x32 Philox with 10 rounds; the seed is the key, and blocks are counted from 0."""
    a, b, c, d = philox4x32((0, 0, 0, 0), (SEED, 0))
    edutorch.manual_seed(SEED)
    assert edutorch.rand(4).tolist() == [(word >> 8) * 2.0**-24 for word in (a, b, c, d)]
    edutorch.manual_seed(SEED)
    assert edutorch.rand(2, dtype=edutorch.float64).tolist() == [
        (high << 32 | low) // 2**11 * 2.0**-53 for low, high in ((a, b), (c, d))
    ]
