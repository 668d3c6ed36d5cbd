"""Device meshes: the ranks of a job as an array, with a process group along each axis.

init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))

           tp →
    dp   0  1  2  3        mesh["tp"] on rank 5: ranks 4 5 6 7
    ↓    4  5  6  7        mesh["dp"] on rank 5: ranks 1 5
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends, cuda
from ..core.tensor import Tensor
from ..errors import ValueRangeError
from ..ops import tensor
from .errors import DistError
from .process_group import (
    GroupMember,
    ProcessGroup,
    get_backend,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
)  # fmt: skip

__all__ = ["DeviceMesh", "init_device_mesh"]

ENTERED: list[DeviceMesh] = []
"""The meshes of `with mesh:` blocks, the innermost last."""


class DeviceMesh:
    """An array of ranks, with a process group along each of its axes. All ranks make it.

    Args:
        device_type: "cpu" or "cuda": where the tensors are.
        mesh: the ranks, an array or nested lists; ascending along each axis.
        mesh_dim_names: a name for each axis.
        backend_override: accepted.

    Raises: ValueError: a rank occurs twice, or there are not as many names as axes.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = distributed.device_mesh.DeviceMesh("cpu", [[0]], mesh_dim_names=("dp", "tp"))
    >>> mesh["tp"], mesh.size()
    (DeviceMesh('cpu', [0], mesh_dim_names=('tp',)), 1)
    >>> distributed.destroy_process_group()
    """

    def __init__(
        self, device_type: str, mesh: Any = None, *,
        mesh_dim_names: Sequence[str] | None = None, backend_override: Any = None,
        _init_backend: bool = True,
    ) -> None:  # fmt: skip
        if not is_initialized():
            init_process_group()
        take_own_card(device_type)
        ranks = np.array(mesh.tolist() if isinstance(mesh, Tensor) else mesh, np.int64)
        check_mesh(ranks, mesh_dim_names)
        groups = [groups_along(ranks, axis) for axis in range(ranks.ndim)] if _init_backend else []
        self._set(device_type, ranks, mesh_dim_names, groups)

    def _set(
        self, device_type: str, ranks: np.ndarray, names: Sequence[str] | None, groups: list[Any]
    ) -> DeviceMesh:
        self.device_type, self._ranks = device_type, ranks
        self._root: DeviceMesh = self  # of which this is a part
        self.mesh_dim_names = None if names is None else tuple(names)
        self._groups = groups
        position = np.argwhere(ranks == get_rank())
        self._coordinate = [int(i) for i in position[0]] if len(position) else None
        return self

    @staticmethod
    def from_group(
        group: ProcessGroup | Sequence[ProcessGroup], device_type: str, mesh: Any = None, *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:  # fmt: skip
        """Make a mesh of groups that exist already.

        Args:
            group: one group, or one for each axis of `mesh`.
            mesh: the ranks; needed with several groups.

        Raises: ValueError: they do not fit.
        """
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if mesh is None and len(groups) > 1:
            raise ValueRangeError("from_group", "Must pass mesh if passing multiple ProcessGroups")
        ranks = np.array(groups[0].ranks if mesh is None else mesh, np.int64)
        check_mesh(ranks, mesh_dim_names)
        if ranks.ndim != len(groups):
            raise ValueRangeError(
                "from_group", "there is one group for each axis of the mesh",
                {"groups": len(groups), "axes": ranks.ndim},
            )  # fmt: skip
        return object.__new__(DeviceMesh)._set(device_type, ranks, mesh_dim_names, groups)

    # What it is ---------------------------------------------------------------------------

    @property
    def mesh(self) -> Tensor:
        """The ranks as a tensor."""
        return tensor(self._ranks)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._ranks.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._ranks.ndim

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the length of one axis, or the number of all ranks."""
        return self._ranks.size if mesh_dim is None else self.shape[mesh_dim]

    def __len__(self) -> int:
        return len(self._ranks)

    def __repr__(self) -> str:
        names = "" if self.mesh_dim_names is None else f", mesh_dim_names={self.mesh_dim_names}"
        return f"DeviceMesh({self.device_type!r}, {self._ranks.tolist()}{names})"

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self.shape, self._ranks.tobytes(), self.mesh_dim_names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __deepcopy__(self, memo: Any) -> DeviceMesh:
        return self  # its groups are connections, which cannot be copied

    def __enter__(self) -> DeviceMesh:
        ENTERED.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        ENTERED.pop()

    # Of this process ----------------------------------------------------------------------

    def get_rank(self) -> int:
        """Return the global rank of this process."""
        return get_rank()

    def get_coordinate(self) -> list[int] | None:
        """Return where this process is in the mesh; None: it is not in it."""
        return self._coordinate

    def _axis(self, mesh_dim: int | str | None, what: str) -> int:
        """Return the number of an axis.

        Raises: KeyError, RuntimeError: there is no such axis, or it is not said which.
        """
        if mesh_dim is None:
            if self.ndim == 1:
                return 0
            raise DistError(
                what, f"Found the DeviceMesh have {self.ndim} dimensions. "
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                {"mesh_dim_names": self.mesh_dim_names},
            )  # fmt: skip
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(
                    f"{what}: Invalid mesh_dim_name {mesh_dim!r}: the names of this mesh are "
                    f"{self.mesh_dim_names}"
                )
            assert self.mesh_dim_names is not None
            return self.mesh_dim_names.index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise ValueRangeError(what, f"mesh_dim {mesh_dim} of a mesh with {self.ndim} axes")
        return mesh_dim % self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of this process along an axis.

        Raises: RuntimeError, KeyError: there is no such axis.
        """
        return self._groups[self._axis(mesh_dim, "get_group")]

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups of this process along all axes."""
        return list(self._groups)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the position of this process along an axis.

        Raises: RuntimeError, KeyError: there is no such axis, or the process is not in the mesh.
        """
        return self._here("get_local_rank")[self._axis(mesh_dim, "get_local_rank")]

    def _here(self, what: str) -> list[int]:
        if self._coordinate is None:
            raise DistError(
                what, "this process is not in the mesh",
                {"rank": get_rank(), "mesh": self._ranks.tolist()},
            )  # fmt: skip
        return self._coordinate

    # Parts --------------------------------------------------------------------------------

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the part of the mesh along some axes in which this process is.

        Raises: KeyError: there is no such axis.
        """
        chosen = (names,) if isinstance(names, str) else tuple(names)
        axes = [self._axis(name, "DeviceMesh[...]") for name in chosen]
        place: list[Any] = [
            slice(None) if axis in axes else position
            for axis, position in enumerate(self._here("DeviceMesh[...]"))
        ]
        order = [sorted(axes).index(axis) for axis in axes]
        ranks = self._ranks[tuple(place)].transpose(order)
        groups = [self._groups[axis] for axis in axes]
        made = object.__new__(DeviceMesh)._set(self.device_type, ranks, chosen, groups)
        made._root = self._root
        return made

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> Any:
        """Return the mesh with one axis. All ranks of the job call it."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        everyone = GroupMember.WORLD
        assert everyone is not None
        parts = sorted(set(map(tuple, everyone.engine.all_gather_object(self._flat_ranks()))))
        made = {part: new_group(part) for part in parts}
        ranks = np.array(self._flat_ranks(), np.int64)
        groups = [made[self._flat_ranks()]]
        return object.__new__(DeviceMesh)._set(self.device_type, ranks, (name,), groups)

    def _flat_ranks(self) -> tuple[int, ...]:
        return tuple(int(rank) for rank in self._ranks.reshape(-1))


def check_mesh(ranks: np.ndarray, names: Sequence[str] | None) -> None:
    """Raise ValueError for a mesh that cannot be: ranks that occur twice, too few names, …"""
    size = get_world_size()
    flat = ranks.reshape(-1)
    if len(set(flat.tolist())) != ranks.size or flat.min() < 0 or flat.max() >= size:
        raise ValueRangeError(
            "DeviceMesh", "each rank occurs once in a mesh, and is one of the job's",
            {"mesh": ranks.tolist(), "world_size": size},
        )  # fmt: skip
    if any((np.diff(ranks, axis=axis) <= 0).any() for axis in range(ranks.ndim)):
        raise ValueRangeError(
            "DeviceMesh", "the ranks have to ascend along each axis", {"mesh": ranks.tolist()}
        )
    if names is not None and (len(names) != ranks.ndim or len(set(names)) != len(names)):
        raise ValueRangeError(
            "DeviceMesh", "there is one name, and no other of its kind, for each axis of a mesh",
            {"mesh_dim_names": tuple(names), "mesh": ranks.shape},
        )  # fmt: skip


def groups_along(ranks: np.ndarray, axis: int) -> ProcessGroup | None:
    """Make the groups along one axis, and return that of this process."""
    everyone, own = GroupMember.WORLD, None
    assert everyone is not None
    for line in np.moveaxis(ranks, axis, -1).reshape(-1, ranks.shape[axis]).tolist():
        made = everyone if line == everyone.ranks else new_group(line)
        if isinstance(made, ProcessGroup):
            own = made
    return own


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:  # fmt: skip
    """Make a mesh of all ranks of the job, in their order.

    Args:
        device_type: "cpu" or "cuda", without a number.
        mesh_shape: the lengths of the axes; their product is the number of ranks.
        mesh_dim_names: a name for each axis.
        backend_override: accepted.

    Raises: ValueError, RuntimeError: the shape does not fit.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> distributed.device_mesh.init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    DeviceMesh('cpu', [0], mesh_dim_names=('dp',))
    >>> distributed.destroy_process_group()
    """
    if not is_initialized():
        init_process_group()
    shape = tuple(mesh_shape)
    size = math.prod(shape)
    if size != get_world_size():
        raise DistError(
            "init_device_mesh", "the product of mesh_shape is not the number of ranks",
            {"mesh_shape": shape, "product": size, "ranks": get_world_size()},
            f"start {size} ranks, or change the shape",
        )  # fmt: skip
    if not device_type.isalpha():
        raise DistError(
            "init_device_mesh",
            f"Device type with index is not supported but got {device_type}", hint="write 'cuda'",
        )  # fmt: skip
    ranks = np.arange(size).reshape(shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)


def default_device_type() -> str:
    """Return where the group's messages are: on GPUs where its backend is for them."""
    backend = get_backend()
    is_on_gpus = backend == "nccl" or (backend not in ("gloo", "mpi") and cuda.is_available())
    return backends.ACCELERATOR if is_on_gpus else "cpu"


def default_mesh() -> DeviceMesh:
    """Return a mesh of all ranks."""
    return init_device_mesh(default_device_type(), (get_world_size(),))


def take_own_card(device_type: str) -> None:
    """Make the card with this process's number the current one, unless the program has chosen."""
    device = backends.DEVICES.get(device_type)
    local_rank = os.environ.get("LOCAL_RANK")
    if device is None or not device.is_accelerator or local_rank is None:
        return
    if cuda.device_count() and cuda.current_device() == 0:
        cuda.set_device(int(local_rank) % cuda.device_count())


def mesh_or_entered(mesh: DeviceMesh | None) -> DeviceMesh:
    """Return a mesh, by default that of the `with` block, else one of all ranks."""
    if mesh is not None:
        return mesh
    return ENTERED[-1] if ENTERED else default_mesh()
