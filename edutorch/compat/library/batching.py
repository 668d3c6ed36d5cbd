"""A call of an operator inside `vmap`: its own rule, or one call for each example."""

from __future__ import annotations

from typing import Any, NamedTuple

from edutorch import backends
from edutorch.backends.batching import BatchedBackend
from edutorch.core.tensor import Tensor
from edutorch.modes import current, override_modes
from edutorch.ops import stack, unbind
from edutorch.ops.conversion import batched, lift_to_level, unbatched
from edutorch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from .operators import OpOverload
from .schema import OperatorError


class VmapInfo(NamedTuple):
    """What a vmap rule is told: the number of examples, and how they draw random numbers."""

    batch_size: int
    randomness: str


def is_batched(value: object) -> bool:
    """Return True if a value is a tensor inside a level of vmap."""
    return isinstance(value, Tensor) and isinstance(backends.of(value._array), BatchedBackend)


def call_batched(op: OpOverload, values: list[Any]) -> Any:
    """Run an operator for all examples of the innermost level of vmap.

    Raises: OperatorError: what the vmap rule returns does not fit.
    """
    leaves, spec = tree_flatten(values)
    levels = [backends.of(leaf._array) for leaf in leaves if is_batched(leaf)]
    level: Any = max(levels, key=lambda level: level.level)
    dims = [0 if is_batched(leaf) and backends.of(leaf._array) is level else None
            for leaf in leaves]  # fmt: skip
    outside = [
        leaf if dim is None else unbatched(lift_to_level(leaf, level), level, 0)
        for leaf, dim in zip(leaves, dims, strict=True)
    ]
    outer = tuple(batch for batch in current().batches if batch.level < level.level)
    with override_modes(batches=outer):
        rule = op.implementations.vmap_rule
        if rule is None:
            result = call_for_examples(op, outside, dims, spec, level.size)
            out_dims: Any = tree_map(lambda _: 0, result)
        else:
            info = VmapInfo(level.size, level.randomness)
            in_dims = tuple(tree_unflatten(dims, spec))
            returned = rule(info, in_dims, *tree_unflatten(outside, spec))
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise OperatorError(
                    op.name(), "the vmap rule has to return (output, out_dims)",
                    {"returned": type(returned).__name__},
                )  # fmt: skip
            result, out_dims = returned
    results, result_spec = tree_flatten(result)
    result_dims = [out_dims] * len(results) if isinstance(out_dims, int | None) else None
    result_dims = result_dims or tree_flatten(out_dims)[0]
    inside = [
        batched(output, level, dim) if isinstance(output, Tensor) else output
        for output, dim in zip(results, result_dims, strict=True)
    ]
    return tree_unflatten(inside, result_spec)


def call_for_examples(
    op: OpOverload, leaves: list[Any], dims: list[int | None], spec: Any, size: int
) -> Any:
    """Call an operator once for each example, and stack the results."""
    columns = [
        [leaf] * size if dim is None else unbind(leaf, 0)
        for leaf, dim in zip(leaves, dims, strict=True)
    ]
    results = [op(*tree_unflatten(list(row), spec)) for row in zip(*columns, strict=True)]
    flat = [tree_flatten(result)[0] for result in results]
    stacked = [stack(list(column)) for column in zip(*flat, strict=True)]
    return tree_unflatten(stacked, tree_flatten(results[0])[1])
