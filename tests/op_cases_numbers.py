"""Sample arguments for integer ops, floating-point parts, and minima and maxima; see
`op_cases.py`."""

from __future__ import annotations

import numpy as np

from tests.op_cases import AN_EDGE, CASES, NOT_FINITE, index, some
from tests.op_oracles import THEIRS

# fmt: off
A, B = some(2, 3), some(2, 3, low=-1.9, high=2.3, seed=1)
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5])
WHOLE, PARTS = index([[6, 5, -4], [3, 0, 7]]), index([[4, 10, 6], [0, 0, -14]])
STEPS = index([[0, 1, 2], [3, 70, 1]])
NANS = np.array([1.0, np.nan, 2.0, 0.0, 1.0, np.nan])
TINY = np.array([2000.0, -np.inf])

for name in ("gcd", "lcm"):
    CASES[name] = [{"input": WHOLE, "other": PARTS}]
for name in ("bitwise_left_shift", "bitwise_right_shift"):
    CASES[name] = [{"input": WHOLE, "other": STEPS}, {"input": WHOLE, "other": 2}]
CASES["copysign"] = [
    {"input": A, "other": B}, {"input": A, "other": -1.5}, {"input": A, "other": 2},
    {"input": ODD, "other": ODD[::-1].copy(), "only_values": NOT_FINITE},
]
CASES["nextafter"] += [
    {"input": ODD, "other": np.zeros(6), "only_values": "differences of infinities"},
]
CASES["frexp_forward"] = [{"input": A}, {"input": 100 * B}, {"input": some()}]
THEIRS["frexp_forward"] = lambda torch: lambda input: tuple(torch.frexp(input))
for name in ("fmax", "fmin"):
    CASES[name].append({"input": ODD, "other": NANS, "only_values": NOT_FINITE})
CASES["heaviside"] += [
    {"input": np.array([0.0, -0.0, 1.0]), "values": some(3), "only_values": AN_EDGE},
]
CASES["logaddexp2"].append({"input": TINY, "other": TINY, "only_values": NOT_FINITE})
