"""The older interface of `edutorch.profiler`: one block, no schedule."""

from __future__ import annotations

import os
from typing import Any

from .. import backends
from ..events import ModuleEntered, ModuleLeft, WorkEnded, WorkStarted
from ..modes import listening
from ..profiler.key_averages import EventList, FunctionEvent, FunctionEventAvg
from ..profiler.profile import ProfilerActivity, record_function
from ..profiler.profile import profile as Profile
from ..profiler.recording import span_name

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "profile",
    "record_function",
]  # fmt: skip


class profile:
    """Profile one block. `edutorch.profiler.profile` can do more.

    Args:
        enabled: whether to profile.
        use_cuda: whether to measure the GPU too (or `use_device="cuda"`).
        use_cpu, use_kineto, with_modules, experimental_config, acc_events,
            custom_trace_id_callback, post_processing_timeout_s: accepted, without effect.

    >>> with autograd.profiler.profile() as prof:
    ...     y = ones(2) * 2
    >>> [event.name for event in prof.function_events]
    ['mul']
    """

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_modules: bool = False, use_kineto: bool = False,
        use_cpu: bool = True, experimental_config: Any = None, acc_events: bool = False,
        custom_trace_id_callback: Any = None, post_processing_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        self.enabled = enabled
        activities = [ProfilerActivity.CPU]
        if use_cuda or use_device == backends.ACCELERATOR:
            activities.append(ProfilerActivity.CUDA)
        self._profile = Profile(
            activities=activities, record_shapes=record_shapes, with_flops=with_flops,
            profile_memory=profile_memory, with_stack=with_stack,
        )  # fmt: skip

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        self._profile.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._profile.stop()

    @property
    def function_events(self) -> EventList:
        """Every call, in the order in which they began."""
        return self._profile.events()

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of all self times in microseconds."""
        return self.function_events.self_cpu_time_total

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:  # fmt: skip
        """Return one row per name (see `edutorch.profiler.profile`)."""
        return self._profile.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all calls as one row."""
        return self._profile.total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return every call as a table (see `EventList.table`)."""
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a timeline for chrome://tracing or Perfetto."""
        self._profile.export_chrome_trace(path)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write one line of stack per call."""
        self._profile.export_stacks(path, metric)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self._profile._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        return repr(self._profile)


class emit_nvtx(listening):
    """Emit NVTX ranges of ops, modules and steps for NVIDIA Nsight.

    Args:
        enabled: whether to emit ranges.
        record_shapes: accepted, without effect.

    Raises: DeviceError: there is no GPU.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        enabled = enabled and not backends.simulated_cards()  # nobody listens there
        nvtx = backends.get(backends.ACCELERATOR).xp.cuda.nvtx if enabled else None

        def mark(event: Any) -> None:
            if nvtx is None:
                return
            if isinstance(event, WorkStarted):
                nvtx.RangePush(span_name(event))
            elif isinstance(event, ModuleEntered):
                nvtx.RangePush(f"nn.Module: {type(event.module).__name__}")
            elif isinstance(event, WorkEnded | ModuleLeft):
                nvtx.RangePop()

        super().__init__(mark)


class emit_itt(listening):
    """Accepted for programs written for Intel VTune; it has no effect here."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        super().__init__(lambda event: None)
