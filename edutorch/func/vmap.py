"""Functions of one example, called with a whole batch: `vmap(f)`.

`f` is called once. The tensors it gets look like one example and hold all of them (see
`backends/batching.py`), so each op inside computes for the whole batch at once. What `f`
returns gets the dimension of the batch back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import backends
from ..backends.batching import BatchedBackend
from ..core.tensor import Tensor, writes_of
from ..modes import override_modes, current
from ..ops import cat, narrow
from ..ops.batching import batched, lift_to_level, unbatched
from ..utils._pytree import TreeSpec, opened, tree_flatten, tree_leaves, tree_unflatten

Dims = Any
"""An int, None, or a tree of them that is like the front part of another tree."""


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that maps `func` over a dimension of its arguments: yᵢ = f(xᵢ).

    Args:
        func: takes and returns tensors, or trees of them. It sees single examples.
        in_dims: which dimension of the arguments to map over; None: all examples share the
            argument. One for all arguments, or a tuple with one (or a tree) for each.
        out_dims: where this dimension comes in the results.
        randomness: "error" refuses random functions inside, "different" draws for each
            example, "same" draws once for all.
        chunk_size: compute with so many examples at a time; None: with all.

    Raises: ValueError: the dims do not fit the arguments or results, or the sizes differ.
        VmapError (a RuntimeError), inside: `.item()`, `if x:` and the like, which are
        about all examples at once.

    >>> vmap(dot)(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0, 1.0], [1.0, 0.0]]))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if chunk_size is not None and not (chunk_size == "auto" or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        check_out_dims(out_dims, func)
        mapped = MappedArguments(func, in_dims, args)

        def call(tensors: Sequence[Any]) -> Any:
            return call_mapped(func, mapped, tensors, kwargs, out_dims, randomness)

        if chunk_size is None or chunk_size >= mapped.size:
            return call(mapped.leaves)
        parts = [call(chunk) for chunk in mapped.chunks(chunk_size)]
        return concatenate_chunks(parts, out_dims, func)

    return function


class MappedArguments:
    """The arguments of a call, and which dimension of each tensor is mapped over.

    Raises: ValueError: they do not fit.
    """

    def __init__(self, func: Callable[..., Any], in_dims: Dims, args: tuple[Any, ...]) -> None:
        name = name_of(func)
        where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
        if not isinstance(in_dims, int | tuple):
            raise ValueError(
                f"{where}expected `in_dims` to be int or a (potentially nested) tuple "
                f"matching the structure of inputs, got: {type(in_dims)}."
            )
        if not args:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
                "are trying to vmap over a function with no inputs. The latter is unsupported."
            )
        self.leaves, self.spec = tree_flatten(args)
        found = broadcast_dims(in_dims, args)
        if found is None:
            raise ValueError(
                f"{where}in_dims is not compatible with the structure of `inputs`. in_dims has "
                f"structure {tree_flatten(in_dims)[1]} but inputs has structure {self.spec}."
            )
        pairs = zip(self.leaves, found, strict=True)
        self.dims = [normalize_dim(where, leaf, dim) for leaf, dim in pairs]
        self.size = self.common_size()

    def common_size(self) -> int:
        """Return how many examples there are."""
        pairs = zip(self.leaves, self.dims, strict=True)
        sizes = [leaf.shape[dim] for leaf, dim in pairs if dim is not None]
        if not sizes:
            raise ValueError("vmap: Expected at least one Tensor to vmap over")
        if len(set(sizes)) > 1:
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, "
                f"got sizes {sizes} for the mapped dimension"
            )
        return sizes[0]

    def chunks(self, chunk_size: int) -> list[list[Any]]:
        """Return the leaves cut into parts of so many examples."""
        starts = range(0, self.size, chunk_size)
        return [
            [
                leaf
                if dim is None
                else narrow(leaf, dim, start, min(chunk_size, self.size - start))
                for leaf, dim in zip(self.leaves, self.dims, strict=True)
            ]
            for start in starts
        ]


def normalize_dim(where: str, leaf: Any, dim: Any) -> int | None:
    """Return a mapped dimension counted from the front."""
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{where}Got in_dim={dim} for an input but in_dim must be either an integer "
            "dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where}Got in_dim={dim} for an input but the input is of type {type(leaf)}. We "
            "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"{where}Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {leaf.ndim} so expected in_dim to satisfy "
            f"-{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return dim % leaf.ndim


def broadcast_dims(dims: Dims, tree: Any) -> list[Any] | None:
    """Return a dim for each leaf of `tree`; a dim in the place of a container is for all in it.

    None: the two are not alike.
    """
    inside = opened(tree)
    if dims is None or isinstance(dims, int) or opened(dims) is None:
        return [dims] * len(tree_leaves(tree))
    if inside is None or type(dims) is not type(tree):
        return None
    children = opened(dims)
    assert children is not None
    if len(children[0]) != len(inside[0]):
        return None
    if isinstance(tree, dict):
        if dims.keys() != tree.keys():
            return None
        children = [dims[key] for key in tree], None
    found = [broadcast_dims(d, t) for d, t in zip(children[0], inside[0], strict=True)]
    return None if any(each is None for each in found) else [x for each in found for x in each]  # type: ignore[union-attr]


# One call --------------------------------------------------------------------------------------


def call_mapped(
    func: Callable[..., Any], mapped: MappedArguments, leaves: Sequence[Any], kwargs: dict[str, Any],
    out_dims: Dims, randomness: str,
) -> Any:  # fmt: skip
    """Call `func` inside of a new level."""
    pairs = list(zip(leaves, mapped.dims, strict=True))
    first, dim = next(pair for pair in pairs if pair[1] is not None)
    outer = current().batches
    inner = outer[-1] if outer else backends.of(first._array)
    level = BatchedBackend(inner, first.shape[dim], len(outer) + 1, randomness)
    entered = [x if d is None else enter_level(x, level, d) for x, d in pairs]
    args = tree_unflatten(entered, mapped.spec)
    with override_modes(batches=(*outer, level)):
        results = func(*args, **kwargs)
    return leave_level(func, level, results, out_dims)


def enter_level(tensor: Tensor, level: BatchedBackend, dim: int) -> Tensor:
    """Return a tensor inside of a level; a write to it is one to the tensor's memory."""
    inside = batched(tensor, level, dim)
    inside._writes = writes_of(tensor)
    return inside


def leave_level(func: Callable[..., Any], level: BatchedBackend, results: Any, out_dims: Dims) -> Any:
    """Return what `func` returned, with the dimension of the batch in its place."""
    leaves, spec = tree_flatten(results)
    dims = result_dims(func, results, spec, out_dims)
    name = name_of(func)
    found = []
    for value, dim in zip(leaves, dims, strict=True):
        if dim is None:
            if isinstance(value, Tensor) and backends.of(value._array) is level:
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim "
                    "is None"
                )
            found.append(value)
            continue
        if not isinstance(value, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. "
                "Did you mean to set out_dims= to None for output?"
            )
        room = value.ndim + 1
        if not -room <= dim < room:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-room}, {room - 1}], "
                f"but got {dim})"
            )
        found.append(unbatched(lift_to_level(value, level), level, dim % room))
    return tree_unflatten(found, spec)


def result_dims(func: Callable[..., Any], results: Any, spec: TreeSpec, dims: Dims) -> list[Any]:
    """Return the dim of the batch for each leaf of the results."""
    if isinstance(results, Tensor) and isinstance(dims, tuple) and len(dims) == 1:
        dims = dims[0]
    found = broadcast_dims(dims, results)
    if found is None:
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={dims})(<inputs>): out_dims is not compatible "
            f"with the structure of `outputs`. out_dims has structure {tree_flatten(dims)[1]} "
            f"but outputs has structure {spec}."
        )
    return found


def concatenate_chunks(parts: Sequence[Any], out_dims: Dims, func: Callable[..., Any]) -> Any:
    """Put the results of chunks behind each other."""
    spec = tree_flatten(parts[0])[1]
    dims = result_dims(func, parts[0], spec, out_dims)
    columns = zip(*(tree_leaves(part) for part in parts), strict=True)
    whole = [
        column[0] if dim is None else cat(list(column), dim)
        for column, dim in zip(columns, dims, strict=True)
    ]
    return tree_unflatten(whole, spec)


def check_out_dims(out_dims: Dims, func: Callable[..., Any]) -> None:
    """Raise ValueError unless all dims are integers or None."""
    if any(not isinstance(tree_leaf, int | None) for tree_leaf in tree_leaves(out_dims)):
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or "
            "a python collection of ints representing where in the outputs the vmapped dimension "
            "should appear."
        )


def name_of(func: Callable[..., Any]) -> str:
    if hasattr(func, "__name__"):
        return func.__name__
    if isinstance(func, functools.partial):
        return f"functools.partial({name_of(func.func)}, ...)"
    return repr(func)
