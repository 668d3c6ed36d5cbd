"""The parameters of one module that are gathered together.

    at rest        each rank has rows of each parameter (a DTensor, `Shard(0)`)
    forward        all_gather: all rows → the module computes → they are freed
    backward       all_gather again, for the ops that need them → freed
    gradients      reduce_scatter: each rank gets the average for its own rows

The gathered parameters are results of one function of the graph, `Gather`. Its backward runs when
the gradients of all of them are complete.

With tensor parallel, a parameter is divided already, and "all rows" are those of the own part. At
rest, the axes of tensor parallel come first in its mesh: those of FSDP divide the parts further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ... import backends
from ...autograd import Function
from ...autograd.graph import saved_tensors_hooks
from ...core.tensor import Tensor, wrap
from ...modes import current, no_grad
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ...ops import empty, zeros
from ...utils.checkpoint import RECOMPUTATION_CONTEXTS
from ..collectives import all_gather_into_tensor, all_reduce, reduce_scatter_tensor
from ..device_mesh import DeviceMesh
from ..errors import DistError
from ..reduce_op import ReduceOp
from ..tensor.dtensor import DTensor, wrap_local
from ..tensor.placement_types import Placement, Replicate, Shard, chunk_bounds
from ..tensor.redistribution import Spec
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

__all__ = ["ParamGroup"]

Owner = tuple[Module, str]


class Message(NamedTuple):
    """Parameters that travel together: their positions in the group, and where they arrive."""

    indices: Sequence[int]
    received: Tensor
    work: Any


class Pending(NamedTuple):
    """Messages on their way, with the state that the parameters had when they were sent."""

    stamp: list[tuple[int, int]]
    messages: list[Message]


class ParamGroup:
    """Parameters, and where in the module they are.

    Args:
        named: each parameter with all modules and names under which it is known.
        mesh: of one axis; or of two: copies along the first, parts along the second.
        mixed: the dtypes.
        offload: whether parts are in the memory of the host.

    Raises: DistError: a parameter without axes, or one that is divided along the same mesh.
    """

    def __init__(
        self, named: Sequence[tuple[Parameter, list[Owner]]], mesh: DeviceMesh,
        mixed: MixedPrecisionPolicy, offload: OffloadPolicy,
    ) -> None:  # fmt: skip
        self.mesh, self.mixed, self.offload = mesh, mixed, offload
        self.axis = mesh.ndim - 1
        self.parts, self.here = mesh.size(self.axis), mesh.get_local_rank(self.axis)
        self.owners = [owners for _, owners in named]
        self.specs = [p._spec if isinstance(p, DTensor) else None for p, _ in named]
        self.shapes = [tuple(map(int, local_of(parameter).shape)) for parameter, _ in named]
        self.parameters = [self.shard(parameter, owners) for parameter, owners in named]
        self.full: list[Any] | None = None  # the gathered arrays
        self.pending: Pending | None = None  # what is on its way
        self.next_in_backward: list[ParamGroup] = []  # gathered when backward needs this one
        self.depth = 0  # of calls of the module inside of one another
        self.is_synced, self.divisor = True, float(mesh.size())
        self.waiting: dict[int, Any] = {}  # gradients that have not been averaged yet
        self.install(self.parameters)

    def shard(self, parameter: Parameter, owners: list[Owner]) -> Any:
        """Return this rank's rows of a parameter as a parameter of its own."""
        name = owners[0][1]
        if not parameter.ndim:
            raise DistError(
                "fully_shard", f"fully_shard doesn't support scalar parameters. Change {name} "
                "to a 1D tensor with numel equal to 1.",
            )  # fmt: skip
        whole = local_of(parameter)
        start, stop = chunk_bounds(whole.shape[0], self.parts, self.here)
        local = whole.detach()[start:stop].clone()
        if isinstance(self.offload, CPUOffloadPolicy):
            local = local.to("cpu")
        placements: tuple[Placement, ...] = (*(Replicate(),) * self.axis, Shard(0))
        mesh = self.mesh
        if isinstance(parameter, DTensor):
            mesh = joined_mesh(name, parameter, mesh)
            placements = (*parameter.placements, *placements)
        spec = Spec(mesh, placements, tuple(parameter.shape))
        return Parameter(wrap_local(local, spec), parameter.requires_grad)

    def install(self, tensors: Sequence[Tensor]) -> None:
        """Make tensors the parameters of the module."""
        for tensor, owners in zip(tensors, self.owners, strict=True):
            for module, name in owners:
                module._parameters[name] = tensor  # type: ignore[assignment]

    def follow_module(self) -> None:
        """Take the module's parameters: `load_state_dict(assign=True)` may have exchanged them."""
        for index, owners in enumerate(self.owners):
            module, name = owners[0]
            now = module._parameters.get(name)
            if now is not self.parameters[index] and isinstance(now, DTensor):
                self.parameters[index] = now

    # Gathering ----------------------------------------------------------------------------

    def compute_dtype(self, parameter: Tensor) -> Any:
        """Return the dtype in which the module sees a parameter."""
        is_cast = self.mixed.param_dtype is not None and parameter.is_floating_point()
        return self.mixed.param_dtype if is_cast else parameter.dtype

    def by_dtype(self) -> Iterator[tuple[Any, list[int]]]:
        """Yield the parameters that travel together: those of one dtype."""
        dtypes = [self.compute_dtype(parameter) for parameter in self.parameters]
        for dtype in dict.fromkeys(dtypes):
            yield dtype, [i for i, other in enumerate(dtypes) if other == dtype]

    def part_size(self, index: int) -> int:
        """Return how many elements each rank sends of a parameter, padding included."""
        first, *rest = self.shapes[index]
        return -(-first // self.parts) * int(np.prod(rest, dtype=np.int64))

    def device(self) -> Any:
        """Return where the whole parameters are: with the parts, unless these are offloaded."""
        local = self.parameters[0]._local_tensor.device
        return local if local.type == self.mesh.device_type else self.mesh.device_type

    def gather(self) -> list[Any]:
        """Return the arrays of the whole parameters, which all ranks have from now on."""
        if self.full is None:
            pending, self.pending = self.pending, None
            for message in pending.messages if pending else ():
                message.work.wait()
            if pending is None or pending.stamp != self.stamp():
                pending = self.send(is_async=False)
            full: list[Any] = [None] * len(self.parameters)
            for message in pending.messages:
                arrays = self.unpack(message)
                for index, array in zip(message.indices, arrays, strict=True):
                    full[index] = array
            self.full = full
        return self.full

    def prefetch(self) -> None:
        """Begin to gather, beside the program. All ranks of the mesh call it."""
        if self.full is None and self.pending is None:
            self.follow_module()
            self.pending = self.send(is_async=True)

    def stamp(self) -> list[tuple[int, int]]:
        """Return what changes when the parameters do."""
        return [(id(parameter), parameter._version) for parameter in self.parameters]

    def send(self, is_async: bool) -> Pending:
        """Send this rank's rows of all parameters, in one message for each dtype."""
        with no_grad():
            messages = [self.send_some(*some, is_async) for some in self.by_dtype()]
        return Pending(self.stamp(), messages)

    def send_some(self, dtype: Any, indices: Sequence[int], is_async: bool) -> Message:
        """Send this rank's rows of parameters that travel in one message."""
        sizes = [self.part_size(index) for index in indices]
        device = self.device()
        sent = zeros(sum(sizes), dtype=dtype, device=device)
        start = 0
        for index, size in zip(indices, sizes, strict=True):
            local = self.parameters[index]._local_tensor.detach().reshape(-1)
            sent[start : start + local.numel()] = local.to(device=device, dtype=dtype)
            start += size
        received = empty(self.parts * sent.numel(), dtype=dtype, device=device)
        work = all_gather_into_tensor(received, sent, self.mesh.get_group(self.axis), is_async)
        return Message(indices, received, work)

    def unpack(self, message: Message) -> Iterator[Any]:
        """Yield the whole arrays of the parameters of a message."""
        rows = message.received._array.reshape(self.parts, -1)
        start = 0
        for index in message.indices:
            size = self.part_size(index)
            first, *rest = self.shapes[index]
            block = rows[:, start : start + size]
            whole = block.reshape(-1)[: first * int(np.prod(rest, dtype=np.int64))]
            # A copy, so that nothing else of the message stays in memory.
            yield whole.reshape(first, *rest).copy()
            start += size

    def free(self) -> None:
        """Forget the gathered arrays."""
        self.full = None

    @contextmanager
    def unsharded(self, reshards: bool, keeps: bool = False) -> Iterator[None]:
        """Inside of it, the module has the whole parameters.

        Args:
            reshards: free them afterwards, and gather them again for backward.
            keeps: take changes of them over into the parts.
        """
        if self.depth:  # the module calls itself
            yield
            return
        self.free()  # they may be older than the last step
        self.follow_module()
        locals_ = [parameter._local_tensor for parameter in self.parameters]
        whole = zip(Gather.apply(self, *locals_), self.specs, strict=True)
        self.install([placed(tensor, spec) for tensor, spec in whole])
        self.depth += 1
        RECOMPUTATION_CONTEXTS.append(self.regathered)
        try:
            with packing(self, current().saving) if current().grad and reshards else no_packing():
                yield
        finally:
            RECOMPUTATION_CONTEXTS.pop()
            self.depth -= 1
            self.install(self.parameters)
            if keeps:
                self.write_back()
            if reshards or not current().grad:
                self.free()

    @contextmanager
    def regathered(self) -> Iterator[None]:
        """Inside of it, the module has the whole parameters, to compute activations again."""
        if self.depth:
            yield
            return
        self.install([
            placed(wrap(array).requires_grad_(parameter.requires_grad), spec)
            for array, parameter, spec in zip(
                self.gather(), self.parameters, self.specs, strict=True
            )
        ])  # fmt: skip
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            self.install(self.parameters)

    def write_back(self) -> None:
        """Write the own rows of the whole parameters into the parts."""
        for parameter, whole in zip(self.parameters, self.gather(), strict=True):
            start, stop = chunk_bounds(whole.shape[0], self.parts, self.here)
            parameter._array[...] = (
                wrap(whole[start:stop]).to(dtype=parameter.dtype, device=parameter.device)._array
            )
            parameter._bump()

    # Gradients ----------------------------------------------------------------------------

    def reduce(self, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return the average gradients of this rank's rows, from those of the whole parameters."""
        self.free()
        full: list[Tensor | None] = list(gradients)
        for index, earlier in self.waiting.items():
            now = full[index]
            full[index] = earlier if now is None else now + earlier
        self.waiting = {}
        result: list[Tensor | None] = [None] * len(full)
        if not self.is_synced:  # `set_requires_gradient_sync(False)`
            self.waiting = {i: g for i, g in enumerate(full) if g is not None}
            return result
        for dtype, indices in self.by_dtype():
            trained = [i for i in indices if self.parameters[i].requires_grad]
            if trained:
                reduced = self.reduce_some(self.mixed.reduce_dtype or dtype, trained, full)
                for index, part in zip(trained, reduced, strict=True):
                    result[index] = part
        return result

    def reduce_some(
        self, dtype: Any, indices: Sequence[int], gradients: Sequence[Tensor | None]
    ) -> Iterator[Tensor]:
        """Yield the average gradients of this rank's rows, which travel in one message."""
        sizes = [self.part_size(index) for index in indices]
        sent = zeros(self.parts, sum(sizes), dtype=dtype, device=self.device())
        start = 0
        for index, size in zip(indices, sizes, strict=True):
            gradient = gradients[index]
            if gradient is not None:
                padded = zeros(self.parts * size, dtype=dtype, device=sent.device)
                padded[: gradient.numel()] = gradient.reshape(-1).to(dtype)
                sent[:, start : start + size] = padded.reshape(self.parts, size)
            start += size
        received = empty(sent.shape[1], dtype=dtype, device=sent.device)
        reduce_scatter_tensor(
            received, sent.reshape(-1), ReduceOp.SUM, self.mesh.get_group(self.axis)
        )
        if self.axis:
            all_reduce(received, ReduceOp.SUM, self.mesh.get_group(0))
        received /= self.divisor
        start = 0
        for index, size in zip(indices, sizes, strict=True):
            parameter = self.parameters[index]
            shape = parameter._array.shape
            part = received[start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)
            yield part.to(dtype=parameter.dtype, device=parameter.device)
            start += size


def local_of(parameter: Tensor) -> Tensor:
    """Return what this rank has of a parameter before FSDP divides it."""
    return parameter._local_tensor if isinstance(parameter, DTensor) else parameter


def placed(whole: Tensor, spec: Spec | None) -> Tensor:
    """Return a gathered tensor as the part that tensor parallel has of it, if there is such."""
    return whole if spec is None else wrap_local(whole, spec)


def joined_mesh(name: str, parameter: DTensor, mesh: DeviceMesh) -> DeviceMesh:
    """Return the mesh with the axes that divide a parameter already, and those of FSDP.

    Raises: DistError: they are not other axes of one mesh, or the parameter is a sum in parts.
    """
    earlier = parameter.device_mesh
    names = (*(earlier.mesh_dim_names or ()), *(mesh.mesh_dim_names or ()))
    is_one_mesh = earlier._root is mesh._root and len(names) == earlier.ndim + mesh.ndim
    if not is_one_mesh or len(set(names)) < len(names) or any(
        placement.is_partial() for placement in parameter.placements
    ):  # fmt: skip
        raise DistError(
            "fully_shard", f"parameter {name!r} is a DTensor already",
            {"placements": parameter.placements, "its mesh": earlier, "mesh": mesh},
            "with tensor parallel: mesh = init_device_mesh(…, mesh_dim_names=('dp', 'tp')), "
            "parallelize_module(model, mesh['tp'], …), then fully_shard(model, mesh=mesh['dp'])",
        )  # fmt: skip
    return mesh._root[names]


class Gather(Function):
    """The whole parameters of a group, from the parts of this rank."""

    @staticmethod
    def forward(ctx: Any, group: ParamGroup, *locals_: Tensor) -> Any:
        """Gather them."""
        ctx.group = group
        whole = tuple(wrap(array) for array in group.gather())
        frozen = [
            tensor for tensor, parameter in zip(whole, group.parameters, strict=True)
            if not parameter.requires_grad
        ]  # fmt: skip
        ctx.mark_non_differentiable(*frozen)
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        """Average the gradients over all ranks; each one gets those of its own rows."""
        return (None, *ctx.group.reduce(gradients))


# What ops save for backward ----------------------------------------------------------------------


class SavedPart:
    """A gathered parameter, or a view of it, that is gathered again when backward needs it."""

    __slots__ = ("group", "index", "offset", "shape", "strides")

    def __init__(self, group: ParamGroup, index: int, array: Any) -> None:
        assert group.full is not None
        whole = group.full[index]
        self.group, self.index = group, index
        self.shape, self.strides = array.shape, array.strides
        backend = backends.of(whole)
        self.offset = backend.address(array) - backend.address(whole)  # in bytes

    def restore(self) -> Tensor:
        """Return the tensor."""
        if self.group.full is None:
            self.group.gather()
            for other in self.group.next_in_backward:
                other.prefetch()
        whole = self.group.gather()[self.index]
        view = backends.of(whole).as_strided(whole, self.shape, self.strides, self.offset)
        return wrap(view)


@contextmanager
def no_packing() -> Iterator[None]:
    """Do nothing."""
    yield


def packing(group: ParamGroup, outer: Any) -> saved_tensors_hooks:
    """Return hooks that do not keep the parameters of a group; others go to the `outer` hooks."""

    def pack(tensor: Tensor) -> Any:
        index = index_in(group, tensor._array)
        if index is not None:
            return SavedPart(group, index, tensor._array)
        return tensor if outer is None else outer[0](tensor)

    def unpack(packed: Any) -> Any:
        if isinstance(packed, SavedPart):
            return packed.restore()
        return packed if outer is None else outer[1](packed)

    return saved_tensors_hooks(pack, unpack)


def index_in(group: ParamGroup, array: Any) -> int | None:
    """Return which parameter of a group an array is, or is a view of."""
    memory: Any = array
    while memory is not None and group.full is not None:
        for index, whole in enumerate(group.full):
            if memory is whole:
                return index
        memory = getattr(memory, "base", None)
    return None
