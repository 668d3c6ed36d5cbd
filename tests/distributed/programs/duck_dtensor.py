"""A tensor in parts, with the interface of PyTorch's DTensor: enough for checkpoints."""

import torch
import torch.distributed as dist


class Placement:
    def __init__(self, dim=None):
        self.dim = dim

    def is_shard(self):
        return self.dim is not None

    def is_replicate(self):
        return self.dim is None

    def is_partial(self):
        return False


class Mesh:
    """Ranks in a box: rank r is at the r-th place, row by row."""

    def __init__(self, *shape):
        self.shape = shape

    def size(self, axis):
        return self.shape[axis]

    def get_coordinate(self):
        rank, place = dist.get_rank(), []
        for size in reversed(self.shape):
            rank, at = divmod(rank, size)
            place.insert(0, at)
        return place


class Sharded:
    """Each rank holds the part of `whole` that its placements say."""

    def __init__(self, whole, mesh, dims):
        self.device_mesh, self.placements = mesh, [Placement(dim) for dim in dims]
        self.shape, self.dtype = whole.shape, whole.dtype
        part = whole
        for axis, dim in enumerate(dims):
            if dim is not None:
                size = -(-part.shape[dim] // mesh.size(axis))
                start = min(size * mesh.get_coordinate()[axis], part.shape[dim])
                part = part.narrow(dim, start, min(size, part.shape[dim] - start))
        self.local = part.clone()

    def to_local(self):
        return self.local

    def element_size(self):
        return self.local.element_size()
