"""`DTensor`: a tensor whose parts are on several ranks, used as if it were here as a whole.

A `DTensor` is its local part, with a `Spec` that says of what: the array, the gradient and the
history in the graph are those of the local part, so autograd and optimizers work on it as on any
tensor. Its shape is that of the whole; inside of `DisableTorchFunctionSubclass`, of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

from ...core.registry import REGISTRY
from ...core.shapes import Size
from ...core.subclasses import DisableTorchFunctionSubclass, is_disabled
from ...core.tensor import LEAF, Tensor
from ...core.tensor_methods import write
from ...errors import ShapeError
from ...modes import no_grad
from ...nn.parameter import Parameter
from ...ops import empty
from ..device_mesh import DeviceMesh, mesh_or_entered
from ..errors import DistError
from .placement_types import Placement, Replicate, Shard
from .redistribution import PlaceGradient, Redistribute, Spec, gradient_placements, local_shape

__all__ = ["DTensor", "DTensorParameter", "placements_of", "wrap_local"]


class DTensor(Tensor):
    """A tensor that several ranks have together; made by `distribute_tensor` or `from_local`.

    Ops on it are called by all ranks of its mesh. Each runs the op on its own parts, after the
    collectives that the placements need (`dispatch.py`).

    Attributes:
        device_mesh: the ranks.
        placements: for each axis of the mesh `Shard`, `Replicate` or `Partial`.

    Raises: DistError: an op that has no rule.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = distributed.device_mesh.init_device_mesh("cpu", (1,))
    >>> x = distributed.tensor.distribute_tensor(ones(4, 2), mesh, [distributed.tensor.Shard(0)])
    >>> x.sum().full_tensor()
    tensor(8.)
    >>> distributed.destroy_process_group()
    """

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run an op by its rule.

        Raises: DistError: there is none, or a plain tensor takes part.
        """
        from .dispatch import call

        return call(func, args, kwargs or {})

    # What it is ---------------------------------------------------------------------------

    @property
    def _spec(self) -> Spec:
        return self.__dict__["_spec"]

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh of its ranks."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """What the ranks have of it, for each axis of the mesh."""
        return self._spec.placements

    @property
    def shape(self) -> Size:
        """The shape of the whole."""
        return Size(self._array.shape if is_disabled() else self._spec.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return self.shape.numel()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        local = repr(self._local_tensor.detach())
        return (
            f"DTensor(local_tensor={local}, device_mesh={self.device_mesh}, "
            f"placements={self.placements})"
        )

    @property
    def grad(self) -> Tensor | None:
        """The gradient, placed as the tensor is (replicated, where that is `Partial`)."""
        gradient = self._grad
        if gradient is not None and gradient.__class__ is Tensor and not is_disabled():
            spec = self._spec
            wrap_local(gradient, spec._replace(placements=gradient_placements(spec.placements)))
        return gradient

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        Tensor.grad.fset(self, value)  # type: ignore[attr-defined]

    # To and from local tensors ------------------------------------------------------------

    @property
    def _local_tensor(self) -> Tensor:
        return self.as_subclass(Tensor)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the part of this rank: the same memory and history.

        Args: grad_placements: where its gradient will be; by default where the tensor is.
        """
        local, spec = self._local_tensor, self._spec
        if grad_placements is None or tuple(grad_placements) == spec.placements:
            return local
        arriving = placements_of("to_local", grad_placements, spec.mesh, len(spec.shape))
        return Redistribute.apply(local, spec, spec.placements, arriving)

    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None, *, run_check: bool = False,
        shape: Sequence[int] | None = None, stride: Any = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:  # fmt: skip
        """Make it of the parts that the ranks have. No data is sent.

        Args:
            local_tensor: the part of this rank.
            device_mesh: by default that of all ranks.
            placements: by default replicated.
            run_check: copy replicated tensors from the first rank, so that they are surely equal.
            shape: of the whole; needed where the parts differ in size.
            stride: accepted.
            grad_placements: where the gradient will be; by default where the tensor is.

        Raises: ValueError, ShapeError: placements that do not fit.

        >>> distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> x = distributed.tensor.DTensor.from_local(ones(2))
        >>> x.placements
        (Replicate(),)
        >>> distributed.destroy_process_group()
        """
        from ..collectives import broadcast

        mesh = mesh_or_entered(device_mesh)
        wanted = placements_of("from_local", placements, mesh, local_tensor.ndim)
        sizes = list(local_tensor.shape)
        for axis, placement in enumerate(wanted):
            if isinstance(placement, Shard):
                sizes[placement.dim] *= mesh.size(axis)
            elif run_check and placement.is_replicate():
                broadcast(local_tensor.detach(), group=mesh.get_group(axis), group_src=0)
        spec = Spec(mesh, wanted, tuple(sizes if shape is None else shape))
        if local_shape(spec) != tuple(local_tensor.shape):
            raise ShapeError(
                "from_local", "the local tensor is not the part of this rank",
                {"local": tuple(local_tensor.shape), "expected": local_shape(spec),
                 "shape": spec.shape, "placements": wanted, "rank": mesh.get_rank()},
                "the whole is divided as by chunk: the last parts are smaller",
            )  # fmt: skip
        if grad_placements is None:
            return wrap_local(local_tensor.view_as(local_tensor), spec)
        leaving = placements_of("from_local", grad_placements, mesh, local_tensor.ndim)
        return wrap_local(PlaceGradient.apply(local_tensor, spec, leaving), spec)

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
        *, async_op: bool = False, forward_dtype: Any = None, backward_dtype: Any = None,
    ) -> DTensor:  # fmt: skip
        """Return it with other placements. All ranks of the mesh call it.

        Args:
            device_mesh: its own.
            placements: the new ones.
            async_op: accepted; the result is complete.
            forward_dtype, backward_dtype: only None.

        Raises: DistError: another mesh.
        """
        spec = self._spec
        if device_mesh is not None and device_mesh != spec.mesh:
            raise DistError("redistribute", "Cross device mesh comm not supported yet!")
        if forward_dtype is not None or backward_dtype is not None:
            raise DistError("redistribute", "forward_dtype and backward_dtype are not supported")
        target = placements_of("redistribute", placements, spec.mesh, len(spec.shape))
        if target == spec.placements:
            return self
        arriving = gradient_placements(target)
        local = Redistribute.apply(self._local_tensor, spec, target, arriving)
        return wrap_local(local, spec._replace(placements=target))

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the whole as a plain tensor, on each rank. All ranks of the mesh call it.

        Args: grad_placements: where its gradient will be; by default replicated.
        """
        whole = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    # What is asked of the whole -----------------------------------------------------------

    def item(self) -> Any:
        return self.full_tensor().item()

    def tolist(self) -> Any:
        return self.full_tensor().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        return self.full_tensor().numpy(force=force)

    def __float__(self) -> float:
        return float(self.full_tensor())

    def __int__(self) -> int:
        return int(self.full_tensor())

    def __bool__(self) -> bool:
        return bool(self.full_tensor())

    def copy_(self, src: Tensor, non_blocking: bool = False) -> DTensor:
        """Copy the elements of another tensor of the same shape; a plain one is the whole."""
        with no_grad():
            if not isinstance(src, DTensor):
                src = as_replicated(src, self.device_mesh)
            part = src.redistribute(placements=self.placements)._local_tensor
            write(self, "copy_", part._array.astype(self._array.dtype))
        return self

    def replicated_like(self, tensor: Tensor) -> DTensor:
        """Return a tensor that all ranks have (a dropout mask) as one of the same mesh."""
        return as_replicated(tensor, self.device_mesh)

    def same_layout(self, local: Tensor) -> Tensor:
        """Return a tensor of the local shape, from `zeros_like`, with the same placements."""
        return wrap_local(local, self._spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # The local part, and the same mesh.
        if id(self) not in memo:
            local = self.detach()._local_tensor.clone()
            memo[id(self)] = wrap_local(local, self._spec)
            memo[id(self)].requires_grad_(self._node is LEAF)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise DistError(
            "pickle", "a DTensor is one part of a tensor, and its mesh belongs to this job",
            {"shape": tuple(self.shape), "placements": self.placements},
            "save it by distributed.checkpoint.save, or send x.full_tensor()",
        )  # fmt: skip


class DTensorParameter(DTensor, Parameter):
    """What `nn.Parameter(dtensor)` makes: a parameter of which each rank has a part."""

    __slots__ = ()

    def __init__(self, data: DTensor, requires_grad: bool = True) -> None:
        self.__dict__["_spec"] = data._spec
        with DisableTorchFunctionSubclass():
            Parameter.__init__(self, data, requires_grad)

    __reduce_ex__ = DTensor.__reduce_ex__

    def __repr__(self) -> str:
        return f"Parameter containing:\n{DTensor.__repr__(self)}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = Parameter(self.detach().clone(), self.requires_grad)
        return memo[id(self)]


def drawn_whole(name: str) -> Callable[..., DTensor]:
    """Make a method such as `normal_`, which draws the whole on all ranks: seed them alike."""

    def method(self: DTensor, *args: Any, **named: Any) -> DTensor:
        whole = empty(self.shape, dtype=self.dtype, device=self.device)
        getattr(whole, name)(*args, **named)
        return self.copy_(whole)

    method.__name__ = name
    method.__doc__ = f"Draw the whole by `{name}` on all ranks, and keep the own part."
    return method


def refused(name: str) -> Callable[..., DTensor]:
    """Make a method that raises: it would change the local part, and not what it belongs to."""

    def method(self: DTensor, *args: Any, **named: Any) -> DTensor:
        from .dispatch import no_rule

        raise no_rule(name, [self])

    method.__name__ = name
    method.__doc__ = f"Raise DistError: `{name}` has no rule."
    return method


DRAWN = ("normal_", "uniform_", "bernoulli_", "exponential_", "random_")
WRITING = {"zero_", "fill_", "copy_", "requires_grad_", "detach_"}
"""Methods that write in place, besides those of elementwise ops, and have a meaning here."""


def replace_methods() -> None:
    """Replace the methods that write in place and are no elementwise ops."""
    for name in [*dir(Tensor), "__setitem__"]:
        op = REGISTRY.get(name[:-1])
        is_writing = name == "__setitem__" or (name[-1] == "_" and name[0] != "_")
        if name in DRAWN:
            setattr(DTensor, name, drawn_whole(name))
        elif is_writing and name not in WRITING and not (op and op.family.broadcasts):
            setattr(DTensor, name, refused(name))


replace_methods()
DTensor._parameter_class = DTensorParameter  # type: ignore[attr-defined]


def wrap_local(local: Tensor, spec: Spec) -> Any:
    """Make a new plain tensor, in place, the part of a `DTensor`."""
    local.__class__ = DTensor
    local.__dict__["_spec"] = spec
    return local


def as_replicated(tensor: Tensor, mesh: DeviceMesh) -> DTensor:
    """Return a plain tensor that all ranks have as a `DTensor`."""
    placements = (Replicate(),) * mesh.ndim
    return wrap_local(tensor.view_as(tensor), Spec(mesh, placements, tuple(tensor.shape)))


def placements_of(
    name: str, placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int
) -> tuple[Placement, ...]:
    """Return placements with dims ≥ 0; None: replicated.

    Raises: ValueError, TypeError: not one for each axis of the mesh, or a dim that there is not.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise DistError(
            name, "`placements` must have the same length as `device_mesh.ndim`",
            {"placements": tuple(placements), "device_mesh": mesh.shape},
        )  # fmt: skip
    result = []
    for placement in placements:
        if not isinstance(placement, Placement):
            raise TypeError(f"{name}: expected Shard, Replicate or Partial, got {placement!r}")
        if isinstance(placement, Shard):
            if not -ndim <= placement.dim < ndim:
                raise DistError(name, f"{placement} of a tensor with {ndim} dims")
            placement = Shard(placement.dim % ndim)
        result.append(placement)
    return tuple(result)
