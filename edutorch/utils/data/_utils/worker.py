"""Names of `torch.utils.data._utils.worker`: see `../worker_config.py`."""

from ..worker_config import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]
