"""Helpers of the linear algebra files: checks, adjoints, several results in one array.

A node has one output, but a decomposition has several, each with a gradient. So its op
returns them concatenated into one vector per matrix, and `split_matrices` splits it again:
their gradients then arrive as one gradient of the vector.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..backends import has_elements
from ..backends.blas import LONG, interruptible
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..backends.platform import IS_BROWSER
from ..core.error_messages import is_any_true, need_tensor
from ..core.tensor import Tensor, array_of
from ..errors import DTypeError, GradientError, LinAlgError, ShapeError, running_function
from .complex import abs, conj, has_complex_dtype, real
from .masking import where
from .rearrange import tril, triu
from .views import narrow, reshape, transpose, unsqueeze

# Calls of LAPACK, all of which go through `lapack` -------------------------------------------
#
# LAPACK expects finite input. With NaN or infinity some of its algorithms never terminate, and
# others return plausible but wrong results; so such inputs are refused here. LAPACK cannot be
# interrupted either: long computations run in another thread (see `backends/blas.py`).


MULTIPLICATIONS = {
    "cholesky": 1, "det": 1, "slogdet": 1, "solve": 1, "inv": 2, "qr": 4, "eigh": 9, "svd": 20,
    "eig": 25, "eigvalsh": 9,
}  # fmt: skip
"""The approximate number of multiplications divided by m · n · min(m, n)."""


ITERATIVE = {
    "svd": "linalg.svd linalg.svdvals linalg.pinv linalg.matrix_rank linalg.cond linalg.lstsq "
    "linalg.matrix_norm linalg.norm nuclear_norm svd_lowrank pca_lowrank",
    "eigh": "linalg.eigh linalg.eigvalsh lobpcg",
    "eigvalsh": "linalg.eigvalsh",
    "eig": "linalg.eig linalg.eigvals",
}
"""The iterative algorithms, which may not terminate with NaN; and the public functions that
use them."""

DIRECT = ("cholesky", "inv", "solve")
"""The algorithms that fail for a singular matrix, or one that is not positive-definite."""


def lapack(xp: Namespace, name: str, input: Array, *arguments: Any) -> Any:
    """Return `xp.linalg.name(input, *arguments)`, in another thread if it takes long.

    Raises: LinAlgError: an iterative algorithm is given NaN or infinity, or does not converge.
        xp.linalg.LinAlgError: another one fails.
    """
    if name in ITERATIVE and has_elements(input):
        check_finite(xp, name, input, arguments)
    function = getattr(xp.linalg, name)
    if IS_BROWSER and name in DIRECT:
        function = noticing_failure(function, xp)
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


def noticing_failure(function: Callable[..., Any], xp: Namespace) -> Callable[..., Any]:
    """Return a function that raises LinAlgError for a singular matrix.

    NumPy learns of that from a flag of the processor, which WebAssembly lacks: it returns NaN.
    """

    def call(*matrices: Array) -> Any:
        result = function(*matrices)
        if xp.isnan(result).any() and all(xp.isfinite(matrix).all() for matrix in matrices):
            raise xp.linalg.LinAlgError
        return result

    return call


def check_finite(xp: Namespace, name: str, input: Array, arguments: tuple[Any, ...]) -> None:
    """Raise LinAlgError if an element that the algorithm reads is NaN or infinite."""
    if name in ("eigh", "eigvalsh"):  # the other triangle may hold anything
        input = xp.triu(input) if arguments[0] == "U" else xp.tril(input)
    if not bool(xp.isfinite(input).all()):
        raise LinAlgError(
            running_function(tuple(ITERATIVE[name].split())),
            "the algorithm failed to converge because the input matrix contained non-finite "
            "values: it should not contain infs or NaNs",
            {"A": tuple(input.shape)}, "x.isfinite() shows where they are",
        )  # fmt: skip


# Checks and shapes ---------------------------------------------------------------------------


MATRIX_TYPES = ("float32", "float64", "complex64", "complex128")


def check_floating_or_complex(name: str, input: ArrayOrTensor) -> None:
    """Raise DTypeError unless the input is floating-point or complex."""
    array = array_of(input)
    need_tensor(name, "input", array)
    dtype = array.dtype
    if dtype.kind not in "fc" and dtype.name != "bfloat16":
        raise DTypeError(
            name, f"expected floating or complex numbers, got {dtype.name}",
            hint="convert with .float()",
        )  # fmt: skip


def check_matrix(
    name: str, input: ArrayOrTensor, square: bool = False, any_dtype: bool = False
) -> tuple[int, ...]:
    """Return the batch shape of matrices.

    Args:
        any_dtype: whether to accept dtypes that LAPACK does not support.

    Raises: ShapeError: not matrices, or not square. DTypeError: unsupported by LAPACK.
    """
    need_tensor(name, "input", input)
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(
            name, "expected a matrix or a batch of matrices, with at least 2 dimensions",
            {"input": shape}, "x.unsqueeze(-1) makes a column of a vector",
        )  # fmt: skip
    if square and shape[-1] != shape[-2]:
        raise ShapeError(
            name, f"expected square matrices, got {shape[-2]} rows and {shape[-1]} columns",
            {"input (... n n)": shape},
            "linalg.pinv, lstsq and svd take any shape",
        )  # fmt: skip
    dtype = array_of(input).dtype
    if dtype.name not in MATRIX_TYPES and not any_dtype:
        raise DTypeError(
            name, f"needs float32 or float64, or their complex numbers, got {dtype.name}",
            hint="convert with .float()",
        )  # fmt: skip
    return shape[:-2]


def singular_error(name: str, input: ArrayOrTensor) -> LinAlgError:
    """Make the error for a singular matrix."""
    return LinAlgError(
        name, "a matrix is singular: it has no inverse", {"input": tuple(input.shape)},
        "linalg.pinv and lstsq take any matrix; adding a little to the diagonal also helps",
    )  # fmt: skip


def batch_text(index: tuple[int, ...]) -> str:
    """Return PyTorch's text for the index of a matrix in a batch."""
    return f"(Batch element {', '.join(map(str, index))}): " if index else ""


def join_matrices(xp: Namespace, batch: tuple[int, ...], *matrices: Array) -> Array:
    """The elements of several matrices (or vectors) as one vector per element of the batch."""
    rows = [matrix.reshape((*batch, math.prod(matrix.shape[len(batch) :]))) for matrix in matrices]
    return xp.concatenate(rows, axis=-1)


def split_matrices(y: ArrayOrTensor, shapes: Sequence[tuple[int, ...]]) -> Iterator[Any]:
    """Split what `join_matrices` has joined into matrices of these shapes."""
    batch, start = tuple(y.shape[:-1]), 0
    for shape in shapes:
        size = math.prod(shape)
        yield reshape(narrow(y, -1, start, size), (*batch, *shape))
        start += size


def real_part(x: ArrayOrTensor) -> Any:
    """The real part: joining real values with complex ones has made them complex."""
    return real(x) if has_complex_dtype(x) else x


# Transposes and gradient conventions --------------------------------------------------------------


def matrix_transpose(x: ArrayOrTensor) -> Any:
    """The transpose of each matrix."""
    return transpose(x, -2, -1)


def adjoint_of(x: ArrayOrTensor) -> Any:
    """The conjugate transpose of each matrix."""
    return conj(transpose(x, -2, -1))


def with_conjugate_gradients(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a rule that uses the papers' convention: the gradient as direction of steepest ascent.

    The engine propagates its conjugate (see the head of `core/autograd/engine.py`): so it is
    conjugated before and after. For real tensors that changes nothing.
    """

    @functools.wraps(rule)
    def ours(g: ArrayOrTensor, *values: Any) -> Any:
        return conj(rule(conj(g), *values))

    return ours


def safe_divide(x: ArrayOrTensor, gap: ArrayOrTensor) -> Any:
    """x / gap, with 0 / 0 = 0."""
    return x / where((gap == 0) & (x == 0), 1.0, gap)


def divide_by_gap(x: ArrayOrTensor, gap: ArrayOrTensor, used: ArrayOrTensor) -> Any:
    """x[i, j] / gap[i, j], the last step to a derivative of eigenvectors or singular vectors.

    Vectors of equal values are not unique, and have no derivative: the result is infinite or
    NaN, as in PyTorch. It is 0 where neither vector is `used`: nothing depends on them.
    """
    pairs = zero_diagonal(unsqueeze(used, -1) | unsqueeze(used, -2))
    return x / where((gap == 0) & (pairs == 0), 1.0, gap)


def used_vectors(g: ArrayOrTensor, g_v: ArrayOrTensor) -> Any:
    """Return a mask of the columns that the loss depends on: their gradient is not 0.

    Forward mode starts from a g of 0 and differentiates with respect to it (see
    `core/autograd/forward_mode.py`): there the mask is all true.
    """
    by_itself = isinstance(g, Tensor) and g.is_leaf and g.requires_grad
    used = (g_v != 0).any(-2)
    return used == used if by_itself else used


def zero_diagonal(x: ArrayOrTensor) -> Any:
    """Each matrix with zeros on its diagonal."""
    return tril(x, -1) + triu(x, 1)


def check_phase_invariance(name: str, turning: ArrayOrTensor) -> None:
    """Raise GradientError for a loss that depends on the arbitrary phase of eigenvectors.

    Args:
        turning: the derivative of the loss with respect to the phase of each vector.
    """
    if is_any_true(abs(turning) > 0.01):
        raise GradientError(
            name,
            "the loss depends on the phase of the vectors, so its gradient is ill-defined: "
            "each is specified up to multiplication by e^{i φ}",
            hint="use what no phase changes, such as v.abs() or a projection v @ v.mH",
        )
