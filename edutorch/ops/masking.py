"""Picking, finding and replacing numbers by a mask of bools."""

from __future__ import annotations

from typing import Any

from numpy import ndarray, vdot

from .. import backends
from ..backends.numpy import Array
from ..core.autograd.node_names import recorded_as
from ..core.op import op
from ..core.out_variants import takes_out
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor, array_of, wrap
from ..core.tensor_methods import as_method
from ..errors import DTypeError, refuse_complex
from .comparison import logical_not
from .comparison import where as choose
from .conversion import scalar_array
from .indexing import Index, as_index, getitem


@op(node="MaskedFillBackward1 if value.__class__ is Tensor else MaskedFillBackward0")
def masked_fill(xp: Any, input: Array, mask: Index, value: Array | float) -> Array:
    """A copy of `input` with one number wherever `mask` is true.

    >>> masked_fill(tensor([1.0, 2.0]), tensor([True, False]), -1.0)
    tensor([-1.,  2.])
    """
    mask = mask._array if isinstance(mask, Tensor) else mask
    if mask.dtype.kind != "b":
        raise DTypeError("masked_fill", "only supports boolean masks", {"mask": mask.dtype})
    hint = "use where(mask, value, x) for a number of its own at each place"
    return xp.where(mask, scalar_array(xp, "masked_fill", input, value, hint), input)


masked_fill.vjp(
    input=lambda g, mask: masked_fill(g, mask, 0),
    value=lambda g, mask: masked_fill(g, logical_not(mask), 0),
    latex={"input": r"g\,[not\ mask]", "value": r"\sum g\,[mask]"},
)


@as_method
@takes_out
@recorded_as("MaskedSelectBackward0")
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The numbers where `mask` is true, in a row.

    >>> masked_select(tensor([1, 2, 3]), tensor([True, False, True]))
    tensor([1, 3])
    """
    shape = broadcast_shapes(input.shape, mask.shape)
    return getitem(expand(input, shape), as_index(expand(mask, shape)))


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Choose per element: y = input where `condition` is true, else other.

    With the condition alone: where it is true, as a tensor of indices for each axis.

    >>> where(tensor([True, False]), tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return choose(condition, input, other, out=out)


where.op = choose.op  # type: ignore[attr-defined]


def scale_gradient(g: Any, factor: Any) -> Any:
    """g · factor, and 0 where the factor (a mask, too) is 0: also of an infinite g.

    Choosing takes several times as long as multiplying, so it is done only where NaN came out.
    """
    array = array_of(g)
    if array.__class__ is ndarray:
        product = g * factor
        array = array_of(product)
        length = vdot(array, array)  # the quickest question for NaN
        if length == length:
            return product
    return choose(factor == 0, 0.0, g * factor)


@as_method
@takes_out
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Where the numbers are not zero: a row of indices for each.

    >>> nonzero(tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    xp = backends.of(input._array).xp
    found = [wrap(each) for each in xp.nonzero(xp.atleast_1d(input._array))]
    if as_tuple:
        return tuple(found)
    return stack(found, 1) if input.ndim else wrap(xp.zeros((len(found[0]), 0), "int64"))


@as_method
def argwhere(input: Tensor) -> Tensor:
    """Where the numbers are not zero: a row of indices for each.

    >>> argwhere(tensor([0, 5]))
    tensor([[1]])
    """
    return nonzero(input)


@takes_out
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Which numbers occur among others? (`assume_unique` changes nothing: it is fast anyway.)

    >>> isin(tensor([1, 2, 3]), tensor([2, 5]))
    tensor([False,  True, False])
    """
    refuse_complex("isin", elements=elements, test_elements=test_elements)
    tensors = [each for each in (elements, test_elements) if isinstance(each, Tensor)]
    backend = backends.of(tensors[0]._array)
    arrays = [
        each._array if isinstance(each, Tensor) else backend.asarray(each)
        for each in (elements, test_elements)
    ]
    found = backend.xp.isin(*arrays)
    return wrap(backend.xp.logical_not(found) if invert else found)


from .joining import stack  # noqa: E402
from .views import expand  # noqa: E402
