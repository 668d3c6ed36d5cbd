"""Calls of `xp.linalg`: the only place where LAPACK is called.

LAPACK expects finite input. With NaN or infinity some of its algorithms never terminate, and
others return plausible but wrong results; so such inputs are refused here. LAPACK cannot be
interrupted either: long computations run in another thread (see `backends/interruptible.py`).
"""

from __future__ import annotations

from typing import Any

from ..backends.interruptible import LONG, interruptible
from ..backends.numpy import Array, Namespace
from ..errors import LinAlgError, running_function

MULTIPLICATIONS = {
    "cholesky": 1, "det": 1, "slogdet": 1, "solve": 1, "inv": 2, "qr": 4, "eigh": 9, "svd": 20,
    "eig": 25,
}  # fmt: skip
"""The approximate number of multiplications divided by m · n · min(m, n)."""

ITERATIVE = {
    "svd": "linalg.svd linalg.svdvals linalg.pinv linalg.matrix_rank linalg.cond linalg.lstsq "
    "linalg.matrix_norm linalg.norm nuclear_norm svd_lowrank pca_lowrank",
    "eigh": "linalg.eigh linalg.eigvalsh lobpcg",
    "eig": "linalg.eig linalg.eigvals",
}
"""The iterative algorithms, which may not terminate with NaN; and the public functions that
use them."""


def lapack(xp: Namespace, name: str, input: Array, *arguments: Any) -> Any:
    """Return `xp.linalg.name(input, *arguments)`, in another thread if it takes long.

    Raises: LinAlgError: an iterative algorithm is given NaN or infinity, or does not converge.
        xp.linalg.LinAlgError: another one fails.
    """
    if name in ITERATIVE:
        check_finite(xp, name, input, arguments)
    function = getattr(xp.linalg, name)
    try:
        if input.size * min(input.shape[-2:]) * MULTIPLICATIONS[name] < LONG:
            return function(input, *arguments)
        return interruptible(function, input, *arguments)
    except xp.linalg.LinAlgError:
        if name not in ITERATIVE:
            raise
        raise LinAlgError(
            running_function(tuple(ITERATIVE[name].split())),
            "the algorithm failed to converge because the input matrix is ill-conditioned or has "
            "too many repeated values",
            {"A": tuple(input.shape)}, "float64 may help: x.double()",
        ) from None  # fmt: skip


def check_finite(xp: Namespace, name: str, input: Array, arguments: tuple[Any, ...]) -> None:
    """Raise LinAlgError if an element that the algorithm reads is NaN or infinite."""
    if name == "eigh":  # the other triangle may hold anything
        input = xp.triu(input) if arguments[0] == "U" else xp.tril(input)
    if not bool(xp.isfinite(input).all()):
        raise LinAlgError(
            running_function(tuple(ITERATIVE[name].split())),
            "the algorithm failed to converge because the input matrix contained non-finite "
            "values: it should not contain infs or NaNs",
            {"A": tuple(input.shape)}, "x.isfinite() shows where they are",
        )  # fmt: skip
