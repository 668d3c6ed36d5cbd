"""What the files on matrices share: checks, adjoints, several results in one array.

A node has one output, but a decomposition has several, each with a gradient. So its op
returns them joined into one long vector per matrix, and `parts` cuts them out again:
their gradients then meet in the vector's, and nothing else has to know about it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..backends.numpy import Array
from ..core.error_messages import need_tensor
from ..core.tensor import Tensor, array_of
from ..errors import DTypeError, GradientError, LinAlgError, ShapeError

MATRIX_TYPES = ("float32", "float64", "complex64", "complex128")


def check_floating_or_complex(name: str, input: Any) -> None:
    """Raises: DTypeError: the numbers are neither floating nor complex."""
    need_tensor(name, "input", array_of(input))
    kind = array_of(input).dtype
    if kind.kind not in "fc" and kind.name != "bfloat16":
        raise DTypeError(
            name, f"expected floating or complex numbers, got {kind.name}",
            hint="convert with .float()",
        )  # fmt: skip


def check_matrix(
    name: str, input: Any, square: bool = False, any_dtype: bool = False
) -> tuple[int, ...]:
    """Return the axes in front of the matrices.

    Args:
        any_dtype: no LAPACK is needed.

    Raises: ShapeError: not matrices, or not square. DTypeError: of a type without LAPACK.
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
    kind = array_of(input).dtype
    if kind.name not in MATRIX_TYPES and not any_dtype:
        raise DTypeError(
            name, f"needs float32 or float64, or their complex numbers, got {kind.name}",
            hint="convert with .float()",
        )  # fmt: skip
    return shape[:-2]


def singular_error(name: str, input: Any) -> LinAlgError:
    """The error for a matrix without an inverse."""
    return LinAlgError(
        name, "a matrix is singular: it has no inverse", {"input": tuple(input.shape)},
        "linalg.pinv and lstsq take any matrix; adding a little to the diagonal also helps",
    )  # fmt: skip


def batch_text(index: tuple[int, ...]) -> str:
    """Say which matrix of a batch is meant, as PyTorch does."""
    return f"(Batch element {', '.join(map(str, index))}): " if index else ""


def join_matrices(xp: Any, batch: tuple[int, ...], *matrices: Array) -> Array:
    """The numbers of several matrices (or vectors), as one vector per element of the batch."""
    rows = [matrix.reshape((*batch, math.prod(matrix.shape[len(batch) :]))) for matrix in matrices]
    return xp.concatenate(rows, axis=-1)


def split_matrices(y: Any, shapes: Sequence[tuple[int, ...]]) -> Iterator[Any]:
    """Cut what `joined` has joined into matrices of these shapes."""
    batch, start = tuple(y.shape[:-1]), 0
    for shape in shapes:
        size = math.prod(shape)
        yield reshape(narrow(y, -1, start, size), (*batch, *shape))
        start += size


def real_part(x: Any) -> Any:
    """The real part; joining real numbers with complex ones has made them complex."""
    return real(x) if has_complex_dtype(x) else x


# Transposes, and the rules of papers --------------------------------------------------------------


def matrix_transpose(x: Any) -> Any:
    """The transpose of each matrix."""
    return transpose(x, -2, -1)


def adjoint_of(x: Any) -> Any:
    """The conjugate transpose of each matrix."""
    return conj(transpose(x, -2, -1))


def with_conjugate_gradients(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule as papers write it, where a gradient is the direction in which L grows fastest.

    In the graph its conjugate flows (see the head of `core/autograd/engine.py`): so it is conjugated
    on the way in and on the way out. Real numbers do not notice.
    """

    @functools.wraps(rule)
    def ours(g: Any, *values: Any) -> Any:
        return conj(rule(conj(g), *values))

    return ours


def safe_divide(x: Any, gap: Any) -> Any:
    """x / gap, where 0 / 0 is 0: what does not count may be undetermined."""
    return x / where((gap == 0) & (x == 0), 1.0, gap)


def divide_by_gap(x: Any, gap: Any, used: Any) -> Any:
    """x[i, j] / gap[i, j], the last step to a derivative of eigenvectors or singular vectors.

    Vectors of equal values are undetermined, and have no derivative: the result is infinite or
    NaN, as PyTorch's. It is 0 where neither vector is `used`, so nothing depends on them.
    """
    pairs = zero_diagonal(unsqueeze(used, -1) | unsqueeze(used, -2))
    return x / where((gap == 0) & (pairs == 0), 1.0, gap)


def used_vectors(g: Any, g_v: Any) -> Any:
    """Whether something depends on a column: its gradient is not 0.

    Forward mode begins with a g of 0 and differentiates by it (see `core/autograd/forward_mode.py`): there
    everything may depend on each.
    """
    by_itself = isinstance(g, Tensor) and g.is_leaf and g.requires_grad
    used = (g_v != 0).any(-2)
    return used == used if by_itself else used


def zero_diagonal(x: Any) -> Any:
    return tril(x, -1) + triu(x, 1)


def check_phase_invariance(name: str, turning: Any) -> None:
    """Refuse a loss that depends on the phase of complex eigenvectors, which is arbitrary.

    Args:
        turning: how the loss changes when each vector is turned by a phase: should be 0.

    Raises: GradientError: it is not.
    """
    if bool((abs(turning) > 0.01).any()):
        raise GradientError(
            name,
            "the loss depends on the phase of the vectors, so its gradient is ill-defined: "
            "each is specified up to multiplication by e^{i φ}",
            hint="use what no phase changes, such as v.abs() or a projection v @ v.mH",
        )


from .complex import conj, has_complex_dtype, real  # noqa: E402
from .elementwise import abs  # noqa: E402
from .masking import where  # noqa: E402
from .rearrange import tril, triu  # noqa: E402  (rules may use any op)
from .views import narrow, reshape, transpose, unsqueeze  # noqa: E402
