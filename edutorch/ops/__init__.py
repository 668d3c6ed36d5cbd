"""Every op, by family. What is in the `__all__` of these files is public as `edutorch.<name>`."""

# ruff: noqa: F405  (the second names at the end are of names from a star)

from __future__ import annotations

from types import ModuleType as _Module

from ..core.tensor import Tensor as _Tensor
from ..core.composed import wrap_functions as _guard
from .creation import *
from .from_data import *
from .random import *
from .elementwise import *
from .trigonometry import *
from .complex import *
from .special import *
from .gamma import *
from .bessel import *
from .arithmetic import *
from .minmax import *
from .floating_point import *
from .comparison import *
from .reduction import *
from .statistics import *
from .variance import *
from .quantiles import *
from .cumulative import *
from .calculus import *
from .sorting import *
from .bincount_searchsorted import *
from .views import *
from .views import expand  # left out of `__all__`: only a method, as in PyTorch
from .shape import *
from .rearrange import *
from .joining import *
from .conversion import *
from .view_copy import *
from .inplace_views import *
from .gather_scatter import *
from .index_writes import *
from .scatter_reduce import *
from .masking import *
from .indexing import *
from .linalg import *
from .einsum import *
from .products import *
from .covariance import *
from .decompositions import *
from .eigen import *
from .torch_linalg import *
from .windows import *
from .random_counts import *
from . import indexing, random_fill  # methods of Tensor only
from . import plain_creation  # the fast path of `zeros(2, 3)`
from .sparse import methods as _sparse_methods

# PyTorch's second names for the same functions; those of methods are methods too.
multiply, divide, true_divide, subtract, negative, absolute = mul, div, div, sub, neg, abs
arctan, arcsin, arccos, arctan2, arcsinh, arccosh, arctanh = (
    atan, asin, acos, atan2, asinh, acosh, atanh,
)  # fmt: skip
greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
swapdims = transpose
moveaxis, clip, fix = movedim, clamp, trunc
concat = concatenate = cat
row_stack, trapz = vstack, trapezoid

for _name in (
    "multiply", "divide", "true_divide", "subtract", "negative", "absolute", "arctan", "arcsin",
    "arccos", "arctan2", "arcsinh", "arccosh", "arctanh", "greater", "greater_equal", "less",
    "less_equal", "not_equal", "swapdims", "moveaxis", "clip", "fix",
):  # fmt: skip
    setattr(_Tensor, _name, globals()[_name])
    if hasattr(globals()[_name], "in_place"):
        setattr(_Tensor, f"{_name}_", globals()[_name].in_place)

# In-place methods that PyTorch has as functions too: exp_(x) is x.exp_().
for _name in (
    "abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil "
    "clamp clamp_max clamp_min clip conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fix "
    "floor frac gcd i0 lcm ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg "
    "reciprocal round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy"
).split():
    globals()[f"{_name}_"] = getattr(_Tensor, f"{_name}_")

# Operator names that PyTorch keeps from Python 2, and `reversed(tensor)`.
for _name in ("__div__", "__rdiv__", "__idiv__"):
    setattr(_Tensor, _name, getattr(_Tensor, _name.replace("div", "truediv")))


def _reversed(self: _Tensor) -> _Tensor:
    """The tensor with its first axis in reverse order."""
    return flip(self, (0,)) if self.ndim else self


_Tensor.__reversed__ = _reversed  # type: ignore[attr-defined]

_guard(globals())
abs.in_place = _Tensor.abs_  # the guarded one

__all__ = [
    _name
    for _name, _value in globals().items()
    if not _name.startswith("_")
    and not isinstance(_value, _Module)
    and _name not in ("annotations", "expand")
]
