"""Sample arguments for the ops of edutorch.linalg; see `op_cases.py`."""

from __future__ import annotations

import numpy as np

from tests.op_cases import CASES, EXCLUDED, INTERNAL, some
from tests.op_oracles import THEIRS

# fmt: off
SQUARE = some(2, 3, 3) + 2 * np.eye(3)
WIDE, TALL = some(2, 3, seed=1), some(3, 2, seed=2)

CASES["inv"] = CASES["det"] = [{"A": SQUARE}, {"A": SQUARE[0]}]
CASES["slogdet_forward"] = [{"input": SQUARE}, {"input": SQUARE[0]}]
CASES["matrix_exp"] = [{"input": SQUARE}, {"input": 0.1 * SQUARE[0]}]
CASES["solve_forward"] = [{"input": SQUARE, "other": some(2, 3, 2)}]
CASES["solve_triangular_forward"] = [
    {"input": SQUARE, "other": some(2, 3, 2), "upper": False, "unitriangular": False},
    {"input": SQUARE, "other": some(2, 3, 2), "upper": True, "unitriangular": True},
]
CASES["pinv_forward"] = [
    {"input": matrix, "atol": None, "rtol": None, "hermitian": False}
    for matrix in (SQUARE, WIDE, TALL)
]
CASES["matrix_rank_forward"] = [*CASES["pinv_forward"], {**CASES["pinv_forward"][1], "atol": 1.0}]
CASES["svdvals_forward"] = [{"input": matrix} for matrix in (SQUARE, WIDE, TALL)]
CASES["eigvalsh_forward"] = [{"input": SQUARE + SQUARE.swapaxes(1, 2), "UPLO": "L"}]
CASES["add_product"] = [
    {"left": WIDE, "right": TALL, "input": some(2, seed=3), "beta": 1.0, "alpha": 1.0},
    {"left": SQUARE, "right": SQUARE, "input": some(2, 3, 1), "beta": -2.0, "alpha": 0.5},
    {"left": WIDE, "right": some(3), "input": some(2, seed=3), "beta": 0.5, "alpha": 1.0},
]
CASES["qr_forward"] = [
    {"input": SQUARE, "complete": False}, {"input": WIDE, "complete": True},
    {"input": TALL, "complete": False},
]
CASES["lu_factor_forward"] = [{"input": matrix, "pivot": True} for matrix in (SQUARE, WIDE, TALL)]
CASES["apply_householder"] = [{"input": matrix} for matrix in (SQUARE, WIDE, TALL)]
CASES["ldl_factor_forward"] = [{"input": SQUARE, "hermitian": False}]
CASES["ldl_solve_forward"] = [{
    "input": np.tril(SQUARE[0]) + 2 * np.eye(3), "other": TALL, "pivots": [1, 3, 3],
    "hermitian": False,
}]
for name in (
    "lu_factor_forward", "ldl_factor_forward", "ldl_solve_forward", "slogdet_forward", "matrix_exp",
    "pinv_forward", "qr_forward", "svdvals_forward", "eigvalsh_forward", "add_product",
    "matrix_rank_forward", "apply_householder", "solve_forward", "solve_triangular_forward",
):
    INTERNAL[name] = "part of the functions in test_linalg.py"
THEIRS["inv"] = lambda torch: torch.linalg.inv
THEIRS["det"] = lambda torch: torch.linalg.det

for name in ("cholesky", "eigh_forward"):
    EXCLUDED[name] = "takes symmetric matrices only: see test_linalg.py"
for name in ("eig_forward", "svd_forward"):
    EXCLUDED[name] = "the phase of the vectors is open: see test_linalg.py"
