"""Sample arguments for the complex ops; see `op_cases.py`."""

from __future__ import annotations

import numpy as np

from tests.op_cases import CASES, some

Z = some(2, 3) + 1j * some(2, 3, seed=4)
A, B = some(2, 3), some(2, 3, seed=1)

CASES["complex"] = [{"real": A, "imag": B}, {"real": some(3), "imag": B}]
CASES["polar"] = [{"abs": A, "angle": B}]
CASES["imag"] = [{"input": Z}, {"input": np.asarray(Z[0, 0])}, {"input": Z[:0]}]
CASES["view_as_real"] = CASES["imag"]
CASES["real"] = [{"input": A}, *CASES["imag"]]
for name in ("conj_physical", "sgn", "angle"):
    CASES[name].append({"input": some()})
CASES["view_as_complex"] = [{"input": some(3, 2)}]
