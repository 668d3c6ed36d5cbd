"""`vmap`: vectorization of a function of one example.

The function is called once. The tensors that it gets have the shape of one example and hold the
whole batch (see `backends/batching.py`), so that each op inside computes for the whole batch. Its
results get the batch dimension back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import backends
from ..backends.batching import BatchedBackend
from ..core.tensor import Tensor, writes_of
from ..modes import current, override_modes
from ..nn import Module
from ..nn.utils.stateless import reparametrize_module
from ..ops import cat, narrow, stack
from ..ops.conversion import batched, lift_to_level, unbatched
from ..utils._pytree import TreeSpec, container_children, tree_flatten, tree_leaves, tree_unflatten

Dims = Any
"""An int, None, or a tree of them that is a prefix of another tree."""


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
        func: takes and returns tensors, or trees of them, for a single example.
        in_dims: the dimension of the arguments to map over; None: all examples share the
            argument. One for all arguments, or a tuple with one (or a tree) for each.
        out_dims: the position of the batch dimension in the results.
        randomness: "error": random functions raise an error; "different": each example draws
            its own values; "same": all examples share them.
        chunk_size: the number of examples computed at a time; None: all at once.

    Raises: ValueError: the dims do not fit the arguments or results, or the sizes differ.
        VmapError (a RuntimeError), inside: `.item()`, `if x:` and the like, which would
        need one value for all examples.

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

    # Without `updated` a module's attributes would be copied to the function.
    @functools.wraps(func, updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        check_out_dims(out_dims, func)
        mapped = MappedArguments(func, in_dims, args)

        def call(tensors: Sequence[Any]) -> Any:
            return call_mapped(func, mapped, tensors, kwargs, out_dims, randomness)

        # Chunks bound the memory: the intermediate results of all examples exist at once.
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
        prefix = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
        if not isinstance(in_dims, int | tuple):
            raise ValueError(
                f"{prefix}expected `in_dims` to be int or a (potentially nested) tuple "
                f"matching the structure of inputs, got: {type(in_dims)}."
            )
        if not args:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
                "are trying to vmap over a function with no inputs. The latter is unsupported."
            )
        self.leaves, self.spec = tree_flatten(args)
        leaf_dims = broadcast_dims(in_dims, args)
        if leaf_dims is None:
            raise ValueError(
                f"{prefix}in_dims is not compatible with the structure of `inputs`. in_dims has "
                f"structure {tree_flatten(in_dims)[1]} but inputs has structure {self.spec}."
            )
        pairs = zip(self.leaves, leaf_dims, strict=True)
        self.dims = [normalize_dim(prefix, leaf, dim) for leaf, dim in pairs]
        self.size = self.common_size()

    def common_size(self) -> int:
        """Return the batch size."""
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
        """Return the leaves split into chunks of examples."""
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


def normalize_dim(prefix: str, leaf: Any, dim: Any) -> int | None:
    """Return a mapped dimension as a non-negative index.

    Raises: ValueError: it does not fit the leaf.
    """
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{prefix}Got in_dim={dim} for an input but in_dim must be either an integer "
            "dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{prefix}Got in_dim={dim} for an input but the input is of type {type(leaf)}. We "
            "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"{prefix}Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {leaf.ndim} so expected in_dim to satisfy "
            f"-{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return dim % leaf.ndim


def broadcast_dims(dims: Dims, tree: Any) -> list[Any] | None:
    """Return a dim for each leaf of `tree`; a dim in place of a container applies to all in it.

    Returns None if the structures do not match.
    """
    inside = container_children(tree)
    if dims is None or isinstance(dims, int) or container_children(dims) is None:
        return [dims] * len(tree_leaves(tree))
    if inside is None or type(dims) is not type(tree):
        return None
    children = container_children(dims)
    assert children is not None
    if len(children[0]) != len(inside[0]):
        return None
    # By key: two dicts may list the same keys in another order.
    if isinstance(tree, dict):
        if dims.keys() != tree.keys():
            return None
        children = [dims[key] for key in tree], None
    child_dims = [broadcast_dims(d, t) for d, t in zip(children[0], inside[0], strict=True)]
    if any(leaf_dims is None for leaf_dims in child_dims):
        return None
    return [dim for leaf_dims in child_dims for dim in leaf_dims]  # type: ignore[union-attr]


# One call --------------------------------------------------------------------------------------


def call_mapped(
    func: Callable[..., Any],
    mapped: MappedArguments,
    leaves: Sequence[Any],
    kwargs: dict[str, Any],
    out_dims: Dims,
    randomness: str,
) -> Any:
    """Call `func` inside a new level."""
    pairs = list(zip(leaves, mapped.dims, strict=True))
    # Any mapped tensor says the device and the batch size: they have been compared.
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
    """Return a batched tensor of a level that shares memory and version with the tensor."""
    inside = batched(tensor, level, dim)
    inside._writes = writes_of(tensor)
    return inside


def leave_level(
    func: Callable[..., Any], level: BatchedBackend, results: Any, out_dims: Dims
) -> Any:
    """Return the results of `func` with the batch dimension at `out_dims`."""
    leaves, spec = tree_flatten(results)
    dims = result_dims(func, results, spec, out_dims)
    name = name_of(func)
    outputs = []
    for value, dim in zip(leaves, dims, strict=True):
        if dim is None:
            if isinstance(value, Tensor) and backends.of(value._array) is level:
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim "
                    "is None"
                )
            outputs.append(value)
            continue
        if not isinstance(value, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. "
                "Did you mean to set out_dims= to None for output?"
            )
        rank = value.ndim + 1
        if not -rank <= dim < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], "
                f"but got {dim})"
            )
        outputs.append(unbatched(lift_to_level(value, level), level, dim % rank))
    return tree_unflatten(outputs, spec)


def result_dims(func: Callable[..., Any], results: Any, spec: TreeSpec, dims: Dims) -> list[Any]:
    """Return the batch dimension of each leaf of the results."""
    if isinstance(results, Tensor) and isinstance(dims, tuple) and len(dims) == 1:
        dims = dims[0]
    leaf_dims = broadcast_dims(dims, results)
    if leaf_dims is None:
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={dims})(<inputs>): out_dims is not compatible "
            f"with the structure of `outputs`. out_dims has structure {tree_flatten(dims)[1]} "
            f"but outputs has structure {spec}."
        )
    return leaf_dims


def concatenate_chunks(parts: Sequence[Any], out_dims: Dims, func: Callable[..., Any]) -> Any:
    """Concatenate the results of chunks."""
    spec = tree_flatten(parts[0])[1]
    dims = result_dims(func, parts[0], spec, out_dims)
    columns = zip(*(tree_leaves(part) for part in parts), strict=True)
    outputs = [
        column[0] if dim is None else cat(list(column), dim)
        for column, dim in zip(columns, dims, strict=True)
    ]
    return tree_unflatten(outputs, spec)


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


# Modules as functions of their parameters: to vectorize an ensemble of models --------------


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers.

    Args:
        parameter_and_buffer_dicts: tensors by name, as in `named_parameters()`; or several
            such dicts. All others stay.
        args: a tuple of arguments, or a single one.
        tie_weights: whether a tensor with two names is replaced under both.
        strict: whether missing names are an error.

    Raises: UnknownNameError (a RuntimeError): a name that the module does not have.

    >>> layer = nn.Linear(1, 1)
    >>> other = {"weight": tensor([[2.0]]), "bias": tensor([0.5])}
    >>> func.functional_call(layer, other, tensor([3.0]))
    tensor([6.5000])
    """
    tensor_dicts = parameter_and_buffer_dicts
    dicts = [tensor_dicts] if isinstance(tensor_dicts, Mapping) else list(tensor_dicts)
    tensors: dict[str, Tensor] = {}
    for dict_ in dicts:
        repeated = tensors.keys() & dict_.keys()
        if repeated:
            raise ValueError(f"{sorted(repeated)} appear in multiple dictionaries")
        tensors |= dict_
    # A list is one argument; only a tuple is several, as in PyTorch.
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrize_module(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of models of one class, stacked along a new dim 0.

    Raises: RuntimeError: no models, several classes, or several modes.

    >>> parameters, _ = func.stack_module_state([nn.Linear(2, 3) for _ in range(4)])
    >>> parameters["weight"].shape
    torch.Size([4, 3, 2])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(model) for model in models}) > 1 or len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to be of the same class, and all in "
            "training mode or all in eval mode."
        )
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {
            name: stack_tensors(
                [parameter[name] for parameter in parameters], parameters[0][name].requires_grad
            )
            for name in parameters[0]
        },
        {name: stack_tensors([buffer[name] for buffer in buffers], False) for name in buffers[0]},
    )


def stack_tensors(tensors: Sequence[Tensor], requires_grad: bool) -> Tensor:
    return stack([tensor.detach() for tensor in tensors]).requires_grad_(requires_grad)
