"""How an op runs on distributed tensors.

    rule: which placements fit together  →  the cheapest  →  redistribute the inputs
    →  the op on the local parts  →  the result with its placements

Where an input is replicated and the result is not, each rank computes only a term of the input's
gradient: backward then adds these up (`arriving` in `Redistribute`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.registry import REGISTRY
from ...core.subclasses import DisableTorchFunctionSubclass
from ...core.tensor import Tensor
from ...modes import no_grad
from ...ops import empty
from ..device_mesh import DeviceMesh
from ..errors import DistError
from .dtensor import DTensor, as_replicated, wrap_local
from .placement_types import Partial, Placement, Replicate, Shard
from .redistribution import Redistribute, Spec, gradient_placements, local_shape

__all__ = ["Call", "Candidate", "RULES", "SPECIAL", "call"]

TRANSPARENT = {"detach", "requires_grad_", "retain_grad", "as_subclass", "register_hook", "view_as"}
"""Functions that are not ops, and whose result is placed as the tensor is."""


class Candidate(NamedTuple):
    """Placements that fit together, along one axis of a mesh: of each input, and of the result."""

    inputs: tuple[Placement | None, ...]
    output: Placement


class Call(NamedTuple):
    """A call of an op, as its rule sees it.

    Args:
        op: its definition.
        inputs: the specs of its tensor arguments in order; None for numbers.
        settings: its other arguments, with their defaults.
        output: the shape of the result as a whole.
        parts: how many ranks there are along the axis of the mesh.
        mesh_size: the number of all ranks.
    """

    op: Any
    inputs: tuple[Spec | None, ...]
    settings: dict[str, Any]
    output: tuple[int, ...]
    parts: int
    mesh_size: int


RULES: dict[str, Callable[[Call], list[Candidate]]] = {}
"""The rules of ops, by name; those of whole families are found by `rule_of`."""

LOCAL_SHAPE = {"view": "shape", "reshape": "shape", "expand": "size"}
"""Ops that get the shape of their result: they are called with that of the local part."""

SPECIAL: dict[str, Callable[..., Any]] = {}
"""Functions that compute an op in another way; they return NotImplemented where they do not."""


def call(func: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> Any:
    """Run a function that has distributed tensors among its arguments."""
    name = func.__name__
    if name in TRANSPARENT:
        with DisableTorchFunctionSubclass():
            result = func(*args, **named)
        return wrap_local(result, args[0]._spec) if type(result) is Tensor else result
    if hasattr(func, "op"):
        return call_op(func, args, named)
    if (composed := getattr(func, "composed", None)) is not None:
        return composed(*args, **named)
    if name.endswith("_"):
        return call_in_place(func, args, named)
    raise no_rule(name, args)


def no_rule(name: str, args: Sequence[Any]) -> DistError:
    """Return the error for an op without a rule."""
    placed = [value for value in args if isinstance(value, DTensor)]
    return DistError(
        name, "Operator does not have a sharding strategy registered for DTensors",
        {f"input {i}": f"{tuple(x.shape)} {x.placements}" for i, x in enumerate(placed)},
        "call x.redistribute(placements=[Replicate()]) and x.to_local(), then it, then "
        "DTensor.from_local; or use ops that have a rule (see distributed/tensor/README.md)",
    )  # fmt: skip


class Arguments(NamedTuple):
    """The arguments of an op's call, sorted."""

    mesh: DeviceMesh
    tensors: list[Any]  # the inputs, tensors or numbers; then tensors among the settings
    settings: dict[str, Any]
    names: list[str]  # of the settings that are tensors

    def rebuild(self, op: Any, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and named arguments with other tensors."""
        count = len(tensors) - len(self.names)
        named = self.settings | dict(zip(self.names, tensors[count:], strict=True))
        first = list(tensors[:count])
        if op.variadic:
            return [first], named
        return [], named | dict(zip(op.inputs, first, strict=True))


def sort_arguments(op: Any, args: Sequence[Any], settings: dict[str, Any]) -> Arguments:
    """Sort the arguments of a call, and make plain scalars distributed.

    Raises: DistError: a plain tensor takes part, or two meshes.
    """
    inputs = list(args[0]) if op.variadic else list(args)
    if not op.variadic:  # what is None at the end has been left out
        inputs += [None] * (len(op.inputs) - len(inputs))
    names = [name for name, value in settings.items() if isinstance(value, Tensor)]
    values = inputs + [settings[name] for name in names]
    meshes = {id(v.device_mesh): v.device_mesh for v in values if isinstance(v, DTensor)}
    mesh = next(iter(meshes.values()))
    for other in meshes.values():
        if other != mesh:
            raise DistError(op.name, "DTensors of two meshes", {"first": mesh, "second": other})
    for i, value in enumerate(values):
        if isinstance(value, Tensor) and not isinstance(value, DTensor):
            if value.numel() != 1 or value.ndim > 1:
                raise DistError(
                    op.name, "got mixed torch.Tensor and DTensor, need to convert all "
                    "torch.Tensor to DTensor before calling distributed operators!",
                    {"plain tensor": tuple(value.shape)},
                    "distribute_tensor(x, mesh, placements), or DTensor.from_local",
                )  # fmt: skip
            values[i] = as_replicated(value, mesh)
    defaults = {
        key: op.signature.parameters[key].default for key in op.settings if key not in settings
    }
    return Arguments(mesh, values, defaults | settings, names)


def call_op(func: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """Run an op."""
    op = func.op
    if op.name in SPECIAL:
        result = SPECIAL[op.name](*args, **named)
        if result is not NotImplemented:
            return result
    named = dict(named)
    if "out" in named:
        raise DistError(op.name, "out= is not supported for DTensors", {}, "use the result")
    arguments = sort_arguments(op, args, named)
    shapes = output_shapes(func, op, arguments)
    inputs, output = choose(func, arguments, shapes[0])
    locals_ = [place(x, want, output) for x, want in zip(arguments.tensors, inputs, strict=True)]
    specs = [Spec(arguments.mesh, output, shape) for shape in shapes]
    positional, settings = arguments.rebuild(op, locals_)
    if op.name in LOCAL_SHAPE:
        settings[LOCAL_SHAPE[op.name]] = local_shape(specs[0])
    with DisableTorchFunctionSubclass():
        result = func(*positional, **settings)
    if isinstance(result, Tensor):
        if any(result is x for x in locals_):  # `contiguous`, and others that change nothing
            result = result.view_as(result)
        return wrap_local(result, specs[0])
    parts = [wrap_local(part, spec) for part, spec in zip(result, specs, strict=True)]
    container: Any = type(result)
    return container(*parts) if hasattr(container, "_fields") else container(parts)


def output_shapes(func: Any, op: Any, arguments: Arguments) -> list[tuple[int, ...]]:
    """Return the shapes of the results, from tensors without elements."""
    hollow = [
        empty(value.shape, dtype=value.dtype, device="meta") if isinstance(value, Tensor) else value
        for value in arguments.tensors
    ]
    positional, settings = arguments.rebuild(op, hollow)
    with no_grad(), DisableTorchFunctionSubclass():
        result = func(*positional, **settings)
    results = [result] if isinstance(result, Tensor) else result
    return [tuple(part.shape) for part in results]


COST = {(Shard, Replicate): 1.0, (Partial, Replicate): 2.0, (Partial, Shard): 1.0}
"""What a redistribution sends, in units of the tensor's size; what is not here is almost free."""


def cost(spec: Spec | None, axis: int, want: Placement | None) -> float:
    """Return what it costs to bring an input to a placement; infinite where that cannot be."""
    if spec is None or want is None:
        return 0.0
    now = spec.placements[axis]
    if now == want:
        return 0.0
    if isinstance(want, Partial) and not now.is_replicate():
        return float("inf")
    size = 1.0
    for length in spec.shape:
        size *= length
    if isinstance(now, Shard) and isinstance(want, Shard):
        return size / spec.mesh.size(axis) + 1.0
    return COST.get((type(now), type(want)), 0.0) * size + 0.1


def choose(
    func: Any, arguments: Arguments, output: tuple[int, ...]
) -> tuple[list[list[Placement]], tuple[Placement, ...]]:
    """Return the cheapest placements of the inputs, and those of the result.

    Raises: DistError: the op has no rule.
    """
    from .rules import rule_of

    mesh, op = arguments.mesh, func.op
    specs = tuple(x._spec if isinstance(x, DTensor) else None for x in arguments.tensors)
    rule = rule_of(op)
    if rule is None:
        raise no_rule(op.name, arguments.tensors)
    wanted: list[list[Placement]] = [[] for _ in specs]
    result = []
    for axis in range(mesh.ndim):
        asked = Call(op, specs, arguments.settings, output, mesh.size(axis), mesh.size())
        whole = Candidate(tuple(None if s is None else Replicate() for s in specs), Replicate())
        candidates = [*rule(asked), whole]
        sums = [sum(map(cost, specs, [axis] * len(specs), c.inputs)) for c in candidates]
        best = candidates[sums.index(min(sums))]
        for want, placement in zip(wanted, best.inputs, strict=True):
            want.append(Replicate() if placement is None else placement)
        result.append(best.output)
    return wanted, tuple(result)


def place(value: Any, want: Sequence[Placement], output: Sequence[Placement]) -> Any:
    """Return the local part of an input, where it is to be; numbers as they are."""
    if not isinstance(value, DTensor):
        return value
    spec, target = value._spec, tuple(want)
    local = value._local_tensor
    arriving = tuple(
        Partial() if wanted.is_replicate() and not result.is_replicate() else wanted
        for wanted, result in zip(gradient_placements(target), output, strict=True)
    )  # fmt: skip
    arriving = tuple(
        Replicate() if wanted.is_partial() else gradient
        for wanted, gradient in zip(target, arriving, strict=True)
    )
    is_needed = local.requires_grad and arriving != gradient_placements(target)
    if target == spec.placements and not is_needed:
        return local
    return Redistribute.apply(local, spec, target, arriving)


def call_in_place(func: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """Run an elementwise op that writes into its first argument, which keeps its placements."""
    target, *others = args
    op = REGISTRY.get(func.__name__[:-1])
    if func.__name__ not in ("zero_", "fill_") and not (op and op.family.broadcasts):
        raise no_rule(func.__name__, args)
    if not isinstance(target, DTensor):
        raise DistError(func.__name__, "a DTensor cannot be written into a plain tensor")
    if any(p.is_partial() for p in target.placements) and func.__name__ != "zero_":
        raise no_rule(func.__name__, args)
    parts = [local_for(target, func.__name__, value) for value in others]
    named = {key: local_for(target, func.__name__, value) for key, value in named.items()}
    with DisableTorchFunctionSubclass():
        func(target, *parts, **named)
    return target


def local_for(target: DTensor, name: str, value: Any) -> Any:
    """Return the part of an operand that fits to the part of `target`."""
    if not isinstance(value, Tensor):
        return value
    if not isinstance(value, DTensor):
        if value.numel() == 1:
            return value
        raise no_rule(name, [target])
    if value.numel() == 1:
        return value.full_tensor()
    missing = len(target.shape) - len(value.shape)
    want: list[Placement] = [
        Shard(p.dim - missing)
        if isinstance(p, Shard) and p.dim >= missing and value.shape[p.dim - missing] != 1
        else Replicate()
        for p in target.placements
    ]
    return value.redistribute(placements=want)._local_tensor
