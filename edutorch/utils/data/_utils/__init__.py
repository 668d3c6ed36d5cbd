"""The names that PyTorch code imports from `torch.utils.data._utils`."""

from . import collate, worker

__all__ = ["collate", "worker"]
