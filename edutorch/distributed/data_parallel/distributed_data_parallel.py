"""`DistributedDataParallel`: a model that is trained by several processes alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, ref

from ...core.autograd.graph import reachable
from ...core.tensor import Tensor
from ...errors import InvalidValueError, NotHereError
from ...events import listen_backward
from ...modes import current
from ...nn.modules.module import Module
from ...utils._pytree import tree_leaves, tree_map
from ..algorithms.join import Join, Joinable
from ..collectives import broadcast
from ..errors import DistError
from ..process_group import ProcessGroup, group_of
from .agreement import check_same_model
from .buckets import GradBucket
from .early import EarlyGradients
from .joining import DDPJoinHook, agree
from .reducer import Reducer

__all__ = ["DistributedDataParallel"]

MEGABYTE = 1024 * 1024


class DistributedDataParallel(Module, Joinable):
    """Averages the gradients of a model over all ranks during backward.

        g = 1/n · Σ over ranks r of g_r

    All ranks begin with the parameters and buffers of rank 0. After `backward()` each `.grad` is
    the average, the same bits on all ranks, so all make the same step.

    Args:
        module: the model; it has the same parameters on all ranks.
        device_ids, output_device: the GPU of this process: a list of one.
        dim: accepted.
        broadcast_buffers: before each forward, the buffers of rank 0 are copied to all others.
        init_sync: compare and copy the parameters now.
        process_group: by default all ranks.
        bucket_cap_mb: megabytes of gradients that travel together.
        find_unused_parameters: some parameters may get no gradient; they are found in each forward.
        check_reduction: accepted.
        gradient_as_bucket_view: `.grad` is the memory that travels, which saves a copy.
        static_graph: the same parameters are used in each pass: what is unused is found once.
        delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision, device_mesh,
        skip_all_reduce_unused_params: accepted at their defaults.

    Raises:
        ValueError: there is no process group.
        DistBackendError: a parameter differs between the ranks; it is named.

    Paper: Li et al. 2020, PyTorch Distributed: Experiences on Accelerating Data Parallel Training.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> model(ones(3, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[3., 3.]])
    >>> distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
        dim: int = 0, broadcast_buffers: bool = True, init_sync: bool = True,
        process_group: Any = None, bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False, **others: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        check_options(others, device_ids)
        group = group_of(process_group, "DistributedDataParallel")
        if group is None:
            raise InvalidValueError(
                "DistributedDataParallel", "this process is not in the given process group"
            )
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = device_ids, output_device
        self.process_group: ProcessGroup = group
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.require_backward_grad_sync = True
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.names, parameters = named_parameters(module)
        if init_sync:
            self.copy_from_first_rank()
        capacity = 25 if bucket_cap_mb is None else bucket_cap_mb
        self.reducer = Reducer(parameters, group, capacity * MEGABYTE, gradient_as_bucket_view)
        self.reducer.asks_who_uses = find_unused_parameters or static_graph
        self.divide_by_initial_world_size = True
        self.index = {parameter: position for position, parameter in enumerate(parameters)}
        self.early = EarlyGradients(self.reducer, self.index)
        self.static_unused: list[int] | None = None
        for position, parameter in enumerate(parameters):
            parameter.register_post_accumulate_grad_hook(
                lambda _, position=position: self.reducer.mark_ready(position)
            )

    def copy_from_first_rank(self) -> None:
        """Compare all parameters and buffers between the ranks, and copy those of rank 0."""
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        check_same_model(self.process_group, named)
        for _, tensor in named:
            broadcast(tensor.detach(), group=self.process_group, group_src=0)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the model, and expect a backward pass if gradients are recorded."""
        is_averaged = current().grad and self.require_backward_grad_sync
        if is_averaged:
            self.check_last_pass()
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        if self._join_config.enable:
            agree(self, has_batch=True, averages=is_averaged)
        elif self.copies_buffers:
            self.copy_buffers(0)
        if self.device_ids:  # as PyTorch: the batch may still be on the CPU
            inputs, kwargs = tree_map(self.on_own_device, (inputs, kwargs))
        output = self.module(*inputs, **kwargs)
        if is_averaged:
            self.reducer.prepare(self.unused_in(output))
            listen_once(self.early)
        return output

    @property
    def copies_buffers(self) -> bool:
        """Whether buffers are copied before this forward."""
        return self.broadcast_buffers and self.require_backward_grad_sync and self.training

    def copy_buffers(self, source: int) -> None:
        """Copy the buffers of one rank of the group to all others."""
        for buffer in self.module.buffers():
            broadcast(buffer, group=self.process_group, group_src=source)

    def on_own_device(self, value: Any) -> Any:
        """Return a tensor on the device of this process; other values unchanged."""
        return value.to(self.device_ids[0]) if isinstance(value, Tensor) else value  # type: ignore[index]

    def unused_in(self, output: Any) -> list[int]:
        """Return the parameters that no gradient will reach from the tensors of `output`."""
        if self.static_graph and self.static_unused is not None:
            return self.static_unused
        if not (self.find_unused_parameters or self.static_graph):
            return []
        roots = [leaf._node for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
        used = set(reachable([root for root in roots if root is not None]))
        unused = [place for parameter, place in self.index.items() if parameter not in used]
        self.static_unused = unused
        return unused

    def check_last_pass(self) -> None:
        """Raise DistError if gradients of the last pass have not come."""
        pending = self.reducer.pending()
        if not pending or not self.reducer.ready:
            return
        names = [self.names[index] for index in pending]
        raise DistError(
            "DistributedDataParallel",
            "Expected to have finished reduction in the prior iteration before starting a new one. "
            "Some parameters were not used in producing loss",
            {"without a gradient": ", ".join(names[:10]) + (" …" if len(names) > 10 else "")},
            "pass find_unused_parameters=True, or use all outputs of forward in the loss",
        )

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Add up gradients on each rank alone; the first backward outside averages the sums."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        self.reducer.is_active = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:  # fmt: skip
        """Let ranks have different numbers of batches: `with model.join(): for batch in …`.

        Args:
            divide_by_initial_world_size: gradients are averaged over all ranks, those without a
                batch having zeros; False: over the ranks with a batch.
            enable: False switches it off.
            throw_on_early_termination: raise on all ranks as soon as one has no more batches.
        """
        return Join(
            [self], enable, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )  # fmt: skip

    def join_hook(self, **kwargs: Any) -> DDPJoinHook:
        """Return what this rank does once it has no more batches."""
        return DDPJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """Return the device of the first parameter."""
        return self.reducer.parameters[0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """Return the ranks that train the model."""
        return self.process_group

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Let `hook(state, bucket)` send the buckets, and return a future of the average.

        Raises: DistError: there is one already.
        """
        if self.reducer.hook is not None:
            raise DistError(
                "register_comm_hook",
                "register_comm_hook or register_builtin_comm_hook can only be called once",
            )
        if not callable(hook):
            raise TypeError("register_comm_hook: Communication hook must be callable.")
        self.reducer.hook = (hook, state)


_LISTENED: WeakKeyDictionary[EarlyGradients, bool] = WeakKeyDictionary()


def listen_once(early: EarlyGradients) -> None:
    """Tell a model's `EarlyGradients` of each backward pass from now on, as long as it lives."""
    if not early.is_worthwhile or early in _LISTENED:
        return
    _LISTENED[early] = True
    known = ref(early)

    def begin(roots: tuple[Any, ...]) -> None:
        model = known()
        if model is not None:
            model.begin(roots)

    listen_backward(begin).__enter__()


def named_parameters(module: Module) -> tuple[list[str], list[Tensor]]:
    """Return the names of the parameters that need a gradient, and these.

    Raises: DistError: there are none.
    """
    named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not named:
        raise DistError(
            "DistributedDataParallel",
            "DistributedDataParallel is not needed when a module doesn't have any parameters "
            "that require a gradient.",
        )
    return [name for name, _ in named], [parameter for _, parameter in named]


def check_options(others: dict[str, Any], device_ids: Sequence[Any] | None) -> None:
    """Raise for options that do not exist, or that are set and do nothing here."""
    known = {
        "delay_all_reduce_named_params", "param_to_hook_all_reduce", "mixed_precision",
        "device_mesh", "skip_all_reduce_unused_params",
    }  # fmt: skip
    for name, value in others.items():
        if name not in known:
            raise TypeError(f"DistributedDataParallel: unexpected argument {name!r}")
        if value:
            raise NotHereError(
                "DistributedDataParallel", f"{name} is not supported", hint="leave it out"
            )
    if device_ids is not None and len(device_ids) > 1:
        raise InvalidValueError(
            "DistributedDataParallel", "device_ids can only be None or contain a single element.",
            {"device_ids": list(device_ids)}, "each process has one device",
        )  # fmt: skip
