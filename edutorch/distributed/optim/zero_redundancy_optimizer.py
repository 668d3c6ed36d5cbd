"""`ZeroRedundancyOptimizer`: the state of an optimizer, divided among the ranks.

Each parameter belongs to one rank. It keeps the state of its own parameters only, and updates only
these; afterwards each rank broadcasts its parameters to all others. So a step needs the time and
the memory of 1/n of the optimizer, and n messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import NotHereError
from ...modes import no_grad
from ...ops import cat
from ...optim.optimizer import Optimizer
from ...utils._pytree import tree_map
from ..algorithms.join import Join, Joinable, JoinHook
from ..collectives import broadcast
from ..errors import DistError
from ..object_collectives import gather_object
from ..process_group import ProcessGroup, group_of

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Divides the work and the state of an optimizer among the ranks.

    Gradients are the same on all ranks, as `DistributedDataParallel` leaves them. A large parameter
    comes first, and each goes to the rank that has least so far. All ranks have all settings in
    `param_groups`, so schedulers work as ever.

    Args:
        params: parameters or groups, the same on all ranks.
        optimizer_class: the optimizer, for example `optim.Adam`.
        process_group: by default all ranks.
        parameters_as_bucket_view: keep the parameters of a rank in memory that lies together, which
            travels in one message.
        overlap_with_ddp: not supported.
        defaults: settings of the optimizer.

    Raises:
        ValueError: there are no parameters, or no process group.
        RuntimeError: this rank is not in the group.
        NotImplementedError: `overlap_with_ddp`.

    Paper: Rajbhandari et al. 2020, ZeRO: Memory Optimizations Toward Training Trillion Parameter
    Models (its first stage).

    >>> from edutorch.distributed.optim import ZeroRedundancyOptimizer
    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> x = tensor([2.0], requires_grad=True)
    >>> optimizer = ZeroRedundancyOptimizer([x], optim.SGD, lr=0.5)
    >>> (x ** 2).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.], requires_grad=True)
    >>> distributed.destroy_process_group()
    """

    def __init__(
        self, params: Iterable[Any], optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None, parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        name = "ZeroRedundancyOptimizer"
        if overlap_with_ddp:
            raise NotHereError(
                name, "overlap_with_ddp is not supported",
                hint="leave it out: the parameters are sent after each step",
            )  # fmt: skip
        group = group_of(process_group, name)
        if group is None:
            raise DistError(name, "this rank is not in the given process group")
        self.process_group, self.rank, self.world_size = group, group.rank(), group.size()
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self.loads = [0] * self.world_size  # how many elements each rank has
        self.shares: list[list[list[Tensor]]] = []  # per group and rank: the parameters
        self.buckets: list[tuple[int, Tensor]] = []  # the memory that a rank sends
        self.consolidated: list[dict[int, Any]] | None = None
        self.optim: Optimizer | None = None
        super().__init__(params, defaults)
        groups = [self._share_of(index) for index in range(len(self.param_groups))]
        self.optim = optimizer_class(groups, **defaults)  # type: ignore[arg-type]
        self._copy_settings(self.optim.param_groups, self.param_groups)
        self._build_buckets()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, on all ranks."""
        super().add_param_group(param_group)
        share: list[list[Tensor]] = [[] for _ in range(self.world_size)]
        for param in sorted(self.param_groups[-1]["params"], key=lambda p: -p.numel()):
            rank = self.loads.index(min(self.loads))
            share[rank].append(param)
            self.loads[rank] += param.numel()
        self.shares.append(share)
        if self.optim is not None:
            self.optim.add_param_group(self._share_of(len(self.shares) - 1))
            self._copy_settings(self.optim.param_groups, self.param_groups)
            self._build_buckets()

    def _share_of(self, index: int) -> dict[str, Any]:
        return {**self.param_groups[index], "params": self.shares[index][self.rank]}

    @staticmethod
    def _copy_settings(source: Sequence[Any], target: Sequence[Any]) -> None:
        for before, after in zip(source, target, strict=True):
            after.update({key: value for key, value in before.items() if key != "params"})

    def _build_buckets(self) -> None:
        """List what each rank sends: its parameters, or memory that has many of them."""
        owned: defaultdict[Any, list[Tensor]] = defaultdict(list)
        for share in self.shares:
            for rank, params in enumerate(share):
                for param in params:
                    owned[rank, param.device, param.dtype].append(param)
        self.buckets = []
        for (rank, _, _), params in owned.items():
            if not self.parameters_as_bucket_view:
                self.buckets += [(rank, param) for param in params]
                continue
            memory = cat([param.detach().reshape(-1) for param in params])
            start = 0
            for param in params:
                end = start + param.numel()
                param.data = memory[start:end].view(param.shape)
                start = end
            self.buckets.append((rank, memory))

    # Stepping -------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update the parameters of this rank, and receive those of all others.

        Args: closure, kwargs: for the optimizer.
        """
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        return self.step_and_send(closure, **kwargs)

    def step_and_send(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Make a step without asking how many ranks still have batches."""
        assert self.optim is not None
        self._copy_settings(self.param_groups, self.optim.param_groups)
        arguments = () if closure is None else (closure,)
        loss = self.optim.step(*arguments, **kwargs)
        self._copy_settings(self.optim.param_groups, self.param_groups)
        with no_grad():
            works = [
                broadcast(memory.detach(), group=self.process_group, group_src=rank, async_op=True)
                for rank, memory in self.buckets
                if memory.numel()
            ]
            for work in works:
                assert work is not None
                work.wait()
        return loss

    # State ----------------------------------------------------------------------------

    def _numbers(self, rank: int) -> list[int]:
        """Return the places among all parameters of those of a rank, in its optimizer's order."""
        order = [param for group in self.param_groups for param in group["params"]]
        number = {id(param): position for position, param in enumerate(order)}
        return [number[id(param)] for share in self.shares for param in share[rank]]

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the states of all ranks on one of them, for `state_dict`. All ranks call it.

        Args: to: a rank of the group.
        """
        assert self.optim is not None
        self._copy_settings(self.param_groups, self.optim.param_groups)
        state = self.optim.state_dict()["state"]
        mine = tree_map(lambda v: v.cpu() if isinstance(v, Tensor) else v, state)
        states: list[Any] | None = [None] * self.world_size if self.rank == to else None
        gather_object(mine, states, group=self.process_group, group_dst=to)
        self.consolidated = states

    def state_dict(self) -> dict[str, Any]:
        """Return settings and state of all parameters, as the optimizer alone would.

        Raises: RuntimeError: `consolidate_state_dict` has not collected them here.
        """
        if self.consolidated is None:
            raise DistError(
                "ZeroRedundancyOptimizer",
                "Optimizer state has not been consolidated on this rank",
                {"rank": self.rank},
                f"Please call `consolidate_state_dict(to={self.rank})` on all ranks beforehand if "
                "you meant to save the global state",
            )
        whole = super().state_dict()
        whole["state"] = {
            number: state[position]
            for rank, state in enumerate(self.consolidated)
            for position, number in enumerate(self._numbers(rank))
            if position in state
        }
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore settings and state of all parameters; each rank keeps its own part.

        Raises: ValueError: the groups are of other sizes.
        """
        assert self.optim is not None
        super().load_state_dict({**state_dict, "state": {}})
        local = self.optim.state_dict()
        self._copy_settings(self.param_groups, local["param_groups"])
        numbered = state_dict["state"]
        local["state"] = {
            position: numbered[number]
            for position, number in enumerate(self._numbers(self.rank))
            if number in numbered
        }
        self.optim.load_state_dict(local)
        self.consolidated = None

    # Uneven inputs --------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what this rank does once it has no more batches: it goes on with its part.

        Its gradients are those that `DistributedDataParallel` has averaged, in the same `Join`.
        """
        return StepHook(self)

    @property
    def join_device(self) -> Any:
        """Return the device of the first parameter."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """Return the ranks among which the state is divided."""
        return self.process_group


class StepHook(JoinHook):
    """Steps, once this rank has no more batches, in each iteration of the others."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self.zero = zero

    def main_hook(self) -> None:
        """Make a step."""
        self.zero.step_and_send()
