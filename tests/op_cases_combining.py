"""Sample arguments for the ops that combine, count and keep extremes; see `op_cases.py`."""

from __future__ import annotations

import numpy as np

from tests.op_cases import A_TIE, CASES, NOT_FINITE, index, some

# fmt: off
A = some(2, 3)
TIES = np.array([[1.0, 3.0, 3.0, 2.0, 1.0], [5.0, 5.0, 4.0, 4.0, 4.0]])
ODD = np.array([1.0, 1.0, np.nan, 2.0, np.nan])

# Combining numbers at one place ------------------------------------------------------------------

INDEX = index([[0, 0, 2, 0], [1, 2, 1, 1]])
PUT = {"input": some(2, 4), "dim": 1, "index": INDEX, "src": some(2, 4, seed=1)}
CASES["scatter_reduce"] = [
    {**PUT, "reduce": reduce, "include_self": include}
    for reduce in ("sum", "prod", "mean", "amax", "amin") for include in (True, False)
] + [
    {**PUT, "dim": -2, "index": index([[0, 1, 1, 1], [0, 0, 1, 1]]), "reduce": "prod"},
    {**PUT, "src": some(3, 5, seed=1), "reduce": "mean"},
    {**PUT, "src": some(3, 5, seed=1), "reduce": "amax"},
    {"input": some(3), "dim": 0, "index": index([1]), "src": some(4, seed=1), "reduce": "prod"},
    {"input": some(3), "dim": 0, "index": index(np.zeros(0, np.int64)), "src": some(0),
        "reduce": "amin"},
    {"input": some(), "dim": 0, "index": index([0]).reshape(()), "src": some(low=-1.0),
        "reduce": "amax"},
    {"input": some(2), "dim": 0, "index": index([0] * 7), "src": some(7, seed=1),
        "reduce": "prod", "include_self": False},
    {"input": np.array([2.0, 0.0]), "dim": 0, "index": index([0, 0, 0, 1]),
        "src": np.array([3.0, 0.0, 5.0, 7.0]), "reduce": "prod"},
]

# Along an axis -----------------------------------------------------------------------------------

CASES["mode_dim"] = [
    {"input": TIES, "dim": dim, "keepdim": keep, "only_values": A_TIE}
    for dim in (0, -1) for keep in (True, False)
] + [{"input": A, "dim": 1, "keepdim": False}, {"input": some(), "dim": 0, "keepdim": False}]
CASES["cum_minmax"] = [
    {"input": x, "dim": dim, "largest": largest}
    for x in (A, some(2, 3, 2)) for dim in (0, -1) for largest in (True, False)
] + [
    {"input": ODD, "dim": 0, "largest": True, "only_values": NOT_FINITE},
    {"input": ODD, "dim": 0, "largest": False, "only_values": NOT_FINITE},
    {"input": TIES, "dim": 1, "largest": True, "only_values": A_TIE},
    {"input": some(), "dim": 0, "largest": True},
    {"input": some(2, 0), "dim": 1, "largest": True},
]
