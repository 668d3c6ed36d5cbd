"""Averages parameters over all ranks every few steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from ....core.tensor import Tensor
from ....errors import InvalidValueError
from ....modes import no_grad
from ....ops import cat
from ...collectives import all_reduce
from ...errors import DistError
from ...process_group import ProcessGroup, group_of

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Base of what averages parameters.

    Attributes:
        step: counts the calls.
    """

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        chosen = group_of(process_group, "ModelAverager")
        if chosen is None:
            raise DistError("ModelAverager", "this rank is not in the given process group")
        self.process_group, self.step = chosen, 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, or those of groups, if it is time."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters every `period` steps, from step `warmup_steps` on.

    Raises: ValueError: `period` is not positive, or `warmup_steps` negative.

    >>> from edutorch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> PeriodicModelAverager(period=4, warmup_steps=100).step
    0
    >>> distributed.destroy_process_group()
    """

    def __init__(
        self, period: int, warmup_steps: int = 0, process_group: ProcessGroup | None = None
    ) -> None:
        super().__init__(process_group)
        for name, value, least in (("warmup_steps", warmup_steps, 0), ("period", period, 1)):
            if value < least:
                raise InvalidValueError(
                    "PeriodicModelAverager", f"Arg `{name}` must be at least {least}, got {value}"
                )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, or those of groups, if it is time."""
        since = self.step - self.warmup_steps
        if since >= 0 and since % self.period == 0:
            tensors: list[Tensor] = []
            for item in params:
                tensors += item["params"] if isinstance(item, dict) else [item]
            average(tensors, self.process_group)
        self.step += 1


def average(tensors: list[Tensor], group: ProcessGroup) -> None:
    """Replace tensors by their averages over all ranks: one message for each dtype and device."""
    with no_grad():
        for dtype, device in {(tensor.dtype, tensor.device): None for tensor in tensors}:
            same = [t for t in tensors if t.dtype is dtype and t.device == device]
            flat = cat([tensor.detach().reshape(-1) for tensor in same])
            all_reduce(flat.div_(group.size()), group=group)
            parts = flat.split([tensor.numel() for tensor in same])
            for tensor, part in zip(same, parts, strict=True):
                tensor.copy_(part.view(tensor.shape))
