"""Ranks with different numbers of batches: those that are done take part in the others' calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from ...errors import InvalidValueError, warn
from ...ops import ones, zeros
from ..collectives import all_reduce
from ..errors import DistError
from ..process_group import ProcessGroup, get_rank
from ..work import Work

__all__ = ["Join", "JoinHook", "Joinable"]

MANY = 1000
"""After so many iterations without a batch of its own, a rank warns."""


class JoinHook:
    """What a rank does once it has no more batches.

    >>> from edutorch.distributed.algorithms.join import JoinHook
    >>> JoinHook().main_hook()
    """

    def main_hook(self) -> None:
        """Take part in the collectives of one iteration of the ranks that still have batches."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once all ranks are done.

        Args: is_last_joiner: this rank is one of the last.
        """


class JoinConfig(NamedTuple):
    """What a `Joinable` has to know of the `Join` that it is in."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """Something with collectives in each iteration: a model, or an optimizer.

    It calls `Join.notify_join_context(self)` before them.
    """

    _join_config = JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what this rank does once it has no more batches.

        Args: kwargs: further arguments of `Join`, the same for all its members.
        """

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Return the device of the tensors that `Join` sends."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Return the ranks that take part."""


class Join:
    """Lets ranks have different numbers of batches: `with Join([model]): for batch in …`.

    Each iteration begins with the question how many ranks still have a batch, an `all_reduce` of 1
    by those and of 0 by the others. A rank that has none left repeats its hooks, which take part in
    the collectives of the others with zeros, until the answer is 0.

    Args:
        joinables: models and optimizers, in the order of their collectives.
        enable: False switches all of it off.
        throw_on_early_termination: raise on all ranks as soon as one has no more batches.
        kwargs: for `join_hook` of each.

    Raises:
        ValueError: there is none, or they are in different process groups.
        RuntimeError: a rank has no more batches, with `throw_on_early_termination`.

    >>> from edutorch.distributed.algorithms.join import Join
    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> with Join([model]):
    ...     model(ones(3, 2)).sum().backward()
    >>> distributed.destroy_process_group()
    """

    def __init__(
        self, joinables: Sequence[Joinable], enable: bool = True,
        throw_on_early_termination: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if not joinables:
            raise InvalidValueError(
                "Join", "The join context manager requires at least one joinable"
            )
        self._joinables, self._enable = list(joinables), enable
        self._throws = throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        groups = [joinable.join_process_group for joinable in joinables]
        if any(group is not groups[0] for group in groups):
            raise InvalidValueError(
                "Join", "Using join context manager with multiple process groups",
                {f"joinable {index}": group for index, group in enumerate(groups)},
            )  # fmt: skip
        self._group: ProcessGroup = groups[0]
        self._device = joinables[0].join_device
        for index, joinable in enumerate(joinables):
            joinable._join_config = JoinConfig(enable, self._throws, index == 0)

    def __enter__(self) -> None:
        return None

    def __exit__(self, error: type[BaseException] | None, *others: object) -> None:
        try:
            if self._enable and error is None:
                self._wait_for_others()
        finally:
            for joinable in self._joinables:
                joinable._join_config = JoinConfig()

    def _wait_for_others(self) -> None:
        iterations, is_last = 0, True
        while self._count_others():
            if self._throws:
                sum_over_ranks(ones(1, device=self._device), self._group)
                raise DistError("Join", f"Rank {get_rank(self._group)} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            is_last = False
            iterations += 1
            if iterations == MANY:
                warn(
                    f"Detected uneven input skew of greater than {MANY}: rank "
                    f"{get_rank(self._group)} has at least {MANY} fewer inputs than other ranks."
                )
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _count_others(self) -> int:
        return int(sum_over_ranks(zeros(1, device=self._device), self._group))

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Say that this rank has a batch.

        Returns: for the first member of a `Join` the `all_reduce` that counts such ranks, whose
            result has their number; None for others.

        Raises: RuntimeError: a rank has none, with `throw_on_early_termination`.
        """
        config = joinable._join_config
        if not (config.enable and config.is_first_joinable):
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = all_reduce(ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination and sum_over_ranks(zeros(1, device=device), group):
            raise DistError(
                "Join",
                "Detected at least one rank that exhausted inputs. Throwing across all ranks.",
            )
        return work


def sum_over_ranks(value: Tensor, group: ProcessGroup) -> float:
    """Return the sum of a number over all ranks.

    The call is asynchronous as that of `notify_join_context`: for MPI, the two kinds of calls are
    different collectives.
    """
    work = all_reduce(value, group=group, async_op=True)
    assert work is not None
    work.wait()
    return float(value.item())
