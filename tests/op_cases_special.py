"""Sample arguments for the special functions; see `op_cases.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_cases import AN_EDGE, CASES, NOT_FINITE, TOO_LARGE, WIDER, some
from tests.op_oracles import THEIRS

# PyTorch's J and Y from 3 to 20 and its Airy function from -4 to -2 have 6 to 11 digits: the
# numbers there are compared with mpmath's, in test_special.py.
INF = np.inf
ODD = np.array([np.nan, INF, -INF, 0.0, -0.0, 1.5])
WAVE = np.array([-2.9, -2.1, 1.9, 2.1, 0.01])
ABOVE_0 = np.array([0.05, 0.7, 1.9, 2.1, 2.9])

ANYWHERE = "bessel_j0 bessel_j1 spherical_bessel_j0 i0 i0e i1 i1e".split()
POSITIVE = (
    "bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 "
    "scaled_modified_bessel_k1"
).split()
POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
    "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
    "laguerre_polynomial_l legendre_polynomial_p"
).split()

# fmt: off
for name in ANYWHERE:
    CASES[name].append({"x" if name.startswith("spherical") else "input": WAVE})
    if name[0] == "i":
        CASES[name] += [{"input": np.array([26.5, 60.5, -700.5]), "only_values": TOO_LARGE}]
for name in POSITIVE:
    CASES[name].append({"x" if name.startswith("scaled") else "input": ABOVE_0})
for name in POLYNOMIALS:
    CASES[name] = [
        {"x": some(2, 3), "n": np.array([[0, 1, 2], [3, 7, -1]])},
        {"x": some(2, 3), "n": 4},
        {"x": some(2, 3), "n": some(2, 3, low=0.2, high=5.8)},
        {"x": np.array([-1.0, 0.0, 1.0]), "n": 5},
    ]
CASES["airy_ai"].append({"x": np.array([-1.4, 8.0])})
for name in ("lgamma", "digamma"):
    CASES[name].append({"input": np.array([-3.3, -0.7, 0.05, 11.5, 250.5])})
CASES["mvlgamma"] = [{"input": some(2, 3, low=1.2, high=4.0), "p": p} for p in (1, 3)]
CASES["polygamma"] = [{"input": some(2, 3, low=0.4, high=4.0), "n": n} for n in (0, 1, 2, 4)]
CASES["polygamma"] += [{"input": np.array([-3.3, -0.7, 11.5]), "n": 2}]
CASES["zeta"] = [
    {"input": some(2, 3, low=1.5, high=5.0), "other": some(2, 3, low=0.4, high=30.0, seed=1)},
    {"input": some(2, 3, low=1.5, high=5.0), "other": 1},
    {"input": np.array([2.0, 3.0]), "other": np.array([-1.3, -2.6])},
    {"input": np.array([np.nan, -INF, 0.0, -0.0, 1.5]), "other": 2.5, "only_values": NOT_FINITE},
]
SHAPES = some(2, 3, low=0.2, high=6.0, seed=1)
CASES["igamma"] = CASES["igammac"] = [
    {"input": SHAPES, "other": some(2, 3, low=0.3, high=9.0)},
    {"input": np.array([25.0, 40.0, 90.0, 1000.0]), "other": np.array([9.5, 15.0, 210.0, 970.0])},
    {"input": np.array([0.0, 2.0, 0.0, 2.0, INF, -1.0]), "other": np.array([1.0, 0, 0, INF, 1, 1]),
        "only_values": NOT_FINITE},
]
CASES["erfcx"].append({"input": np.array([5.9, 6.1, 80.5])})
CASES["ndtr"].append({"input": np.array([-9.5, -20.5, 6.5])})
CASES["log_ndtr"].append({"input": np.array([-9.5, -200.5, 6.5])})
CASES["ndtri"] += [{"input": np.array([0.0, 1.0, 2.0, 1e-30]), "only_values": AN_EDGE}]
CASES["entr"] += [{"input": ODD, "only_values": NOT_FINITE}]
CASES["xlog1py"] = [
    {"input": some(2, 3), "other": some(2, 3, low=-0.7, high=3.0, seed=1)},
    {"input": some(2, 3), "other": 2.5}, {"input": 2.0, "other": some(2, 3, low=0.2, high=3.0)},
    {"input": np.array([0.0, 0.0, 1.0]), "other": np.array([-1.0, np.nan, -1.0]),
        "only_values": NOT_FINITE},
]
for name in "lgamma digamma erfcx ndtr log_ndtr i0e i1e".split():
    CASES[name].append({"input": ODD, "only_values": NOT_FINITE})
# fmt: on

THEIRS["xlog1py"] = lambda torch: lambda input, other: torch.special.xlog1py(input, other)


def _polygamma(torch: Any) -> Any:
    def polygamma(input: Any, n: int) -> Any:
        y = torch.polygamma(n, input)  # for n = 1 it has 9 digits
        return torch.special.zeta(2.0, input.double()).to(y.dtype) if n == 1 else y

    return polygamma


THEIRS["polygamma"] = _polygamma

for name in (
    *POSITIVE, *POLYNOMIALS, "bessel_j0", "bessel_j1", "spherical_bessel_j0", "airy_ai", "zeta",
    "erfcx", "log_ndtr", "ndtri",
):  # fmt: skip
    for dtype in ("float16", "bfloat16"):
        WIDER[name, dtype] = "computed in float64 whatever the type: PyTorch refuses half ones"
