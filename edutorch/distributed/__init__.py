"""`torch.distributed`: processes that train together, on one computer or on many.

The engine is MPI (the extra `dist`) for tensors on the CPU, and NCCL for those on GPUs. Processes
are started together by `torchrun`, that is `python -m edutorch.distributed.run`.
"""

from __future__ import annotations

from .availability import (
    DebugLevel, default_pg_timeout, get_debug_level, get_default_backend_for_device,
    is_available, is_backend_available, is_gloo_available, is_mpi_available, is_nccl_available,
    is_ucc_available, is_xccl_available, set_debug_level, set_debug_level_from_env,
    supports_complex,
)  # fmt: skip
from .collectives import (
    all_gather, all_gather_into_tensor, all_reduce, all_to_all, all_to_all_single, barrier,
    broadcast, gather, monitored_barrier, reduce, reduce_scatter, reduce_scatter_tensor,
    scatter,
)  # fmt: skip
from .data_parallel.buckets import GradBucket
from .device_mesh import DeviceMesh, init_device_mesh
from .errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from .notebook import notebook_launcher
from .object_collectives import (
    all_gather_object, broadcast_object_list, gather_object, recv_object_list,
    scatter_object_list, send_object_list,
)  # fmt: skip
from .older_names import register
from .point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from .process_group import (
    Backend, GroupMember, ProcessGroup, destroy_process_group, get_backend, get_backend_config,
    get_global_rank, get_group_rank, get_node_local_rank, get_pg_count, get_process_group_ranks,
    get_rank, get_world_size, group, init_process_group, is_initialized,
    is_torchelastic_launched, new_group, new_subgroups, new_subgroups_by_enumeration,
    split_group,
)  # fmt: skip
from .reduce_op import ReduceOp
from .stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from .work import Work

__all__ = [
    "Backend", "DebugLevel", "DeviceMesh", "DistBackendError", "DistError", "DistNetworkError",
    "DistStoreError", "FileStore", "GradBucket", "GroupMember", "HashStore", "P2POp",
    "PrefixStore", "ProcessGroup", "QueueEmptyError", "ReduceOp", "Store", "TCPStore", "Work",
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list",
    "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_backend_config", "get_debug_level", "get_default_backend_for_device",
    "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_device_mesh",
    "init_process_group", "irecv", "is_available", "is_backend_available", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "notebook_launcher", "recv",
    "recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send", "send_object_list", "set_debug_level",
    "set_debug_level_from_env", "split_group", "supports_complex",
]  # fmt: skip

register(__name__)
