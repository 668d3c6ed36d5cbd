"""Sample arguments for the ops of edutorch.fft; see `op_cases.py`."""

from __future__ import annotations

from tests.op_cases import CASES, INTERNAL, some

# fmt: off
X, LONG = some(3, 4), some(2, 3, 5, seed=1)
Z = some(3, 4) + 1j * some(3, 4, seed=2)
HALF = some(4, 3) + 1j * some(4, 3, seed=3)

CASES["resize_signal"] = [
    {"input": LONG, "dim": (0, 2), "size": (3, 4)}, {"input": Z, "dim": (1,), "size": (6,)},
]
CASES["dft"] = [
    {"input": Z, "dim": dim, "inverse": inverse, "norm": norm}
    for dim in ((1,), (0, 1)) for inverse in (False, True)
    for norm in ("backward", "forward", "ortho")
] + [{"input": X, "dim": (0,), "inverse": False, "norm": "backward"}]
CASES["half_spectrum"] = [
    {"input": X, "dim": dim, "norm": norm}
    for dim in (0, 1) for norm in ("backward", "forward", "ortho")
] + [{"input": X[:, :1], "dim": 1, "norm": "ortho"}, {"input": X[:, :2], "dim": 1, "norm": "ortho"}]
CASES["from_half_spectrum"] = [
    {"input": HALF, "n": n, "dim": dim, "norm": norm}
    for n, dim in ((6, 0), (7, 0), (4, 1), (5, 1)) for norm in ("backward", "forward", "ortho")
] + [{"input": HALF[:1], "n": 1, "dim": 0, "norm": "backward"}, {"input": X, "n": 6, "dim": 1,
    "norm": "backward"}]
CASES["scale_spectrum"] = [{"input": HALF, "n": n, "dim": 0, "weight": 2.0} for n in (6, 7)]
for _name in ("resize_signal", "dft", "half_spectrum", "from_half_spectrum", "scale_spectrum"):
    INTERNAL[_name] = "part of the transforms in test_fft.py"
