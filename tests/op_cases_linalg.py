"""Sample arguments for the ops of edutorch.linalg; see `op_cases.py`."""

from __future__ import annotations

import numpy as np

from tests.op_cases import CASES, EXCLUDED, INTERNAL, some
from tests.op_oracles import THEIRS

# fmt: off
SQUARE = some(2, 3, 3) + 2 * np.eye(3)
WIDE, TALL = some(2, 3, seed=1), some(3, 2, seed=2)

CASES["inv"] = CASES["det"] = [{"A": SQUARE}, {"A": SQUARE[0]}]
CASES["log_det"] = [{"input": SQUARE}, {"input": SQUARE[0]}]
CASES["matrix_exp"] = [{"input": SQUARE}, {"input": 0.1 * SQUARE[0]}]
CASES["solve_matrices"] = [{"input": SQUARE, "other": some(2, 3, 2)}]
CASES["solve_rows"] = [
    {"input": SQUARE, "other": some(2, 3, 2), "upper": False, "unitriangular": False},
    {"input": SQUARE, "other": some(2, 3, 2), "upper": True, "unitriangular": True},
]
CASES["pseudoinverse"] = [
    {"input": each, "atol": None, "rtol": None, "hermitian": False}
    for each in (SQUARE, WIDE, TALL)
]
CASES["rank_of"] = [*CASES["pseudoinverse"], {**CASES["pseudoinverse"][1], "atol": 1.0}]
CASES["qr_joined"] = [
    {"input": SQUARE, "complete": False}, {"input": WIDE, "complete": True},
    {"input": TALL, "complete": False},
]
CASES["eliminated"] = [{"input": each, "pivot": True} for each in (SQUARE, WIDE, TALL)]
CASES["reflected"] = [{"input": each} for each in (SQUARE, WIDE, TALL)]
CASES["ldl_of"] = [{"input": SQUARE, "hermitian": False}]
CASES["ldl_solved"] = [{
    "input": np.tril(SQUARE[0]) + 2 * np.eye(3), "other": TALL, "pivots": [1, 3, 3],
    "hermitian": False,
}]
for name in (
    "eliminated", "ldl_of", "ldl_solved", "log_det", "matrix_exp", "pseudoinverse", "qr_joined",
    "rank_of", "reflected", "solve_matrices", "solve_rows",
):
    INTERNAL[name] = "part of the functions in test_linalg.py"
THEIRS["inv"] = lambda torch: torch.linalg.inv
THEIRS["det"] = lambda torch: torch.linalg.det

for name in ("cholesky", "eigh_joined"):
    EXCLUDED[name] = "takes symmetric matrices only: see test_linalg.py"
for name in ("eig_joined", "svd_joined"):
    EXCLUDED[name] = "the phase of the vectors is open: see test_linalg.py"
