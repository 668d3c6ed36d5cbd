"""The class `profile`, which steps of a loop it records, and named ranges of a program."""

from __future__ import annotations

import functools
import inspect
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

from .. import cuda
from ..errors import ArgumentError, EdutorchError, warn
from ..events import WorkEnded, WorkStarted, emit
from ..modes import current
from . import chrome_trace, recording
from .key_averages import EventList, events
from .recording import Recording, RecordingOptions, cost_per_span
from .tree import Frame, Span, build_tree, format_tree, walk


class record_function:
    """Names a range of the program in profiles: a context manager or a decorator.

    Without an active profile it does nothing.

    Args:
        name: the name of the row.
        args: text in parentheses after the name.

    Raises: TypeError: the name is not a string.

    >>> with profiler.profile() as prof, profiler.record_function("my part"):
    ...     y = ones(3) + 1
    >>> [event.name for event in prof.events()]
    ['my part', 'add']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise ArgumentError(
                "record_function",
                f"argument `name` must be text, got {type(name).__name__}",
                hint="write `with record_function('forward'):`",
            )
        self.name, self.args = name, args
        self._open: list[str | None] = []

    def __enter__(self) -> record_function:
        if current().listeners:
            label = self.name if self.args is None else f"{self.name} ({self.args})"
            emit(WorkStarted("range", label))
            self._open.append(label)
        else:
            self._open.append(None)
        return self

    def __exit__(self, *exception: object) -> None:
        label = self._open.pop()
        if label is not None:
            emit(WorkEnded("range", label))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate `function`: each call is one range."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waited(*args: Any, **kwargs: Any) -> Any:
                with record_function(self.name, self.args):
                    return await function(*args, **kwargs)

            return waited

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapped


class ProfilerActivity(Enum):
    """The devices whose time is measured."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """The action of a profile in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ScheduleError(EdutorchError, AssertionError, ValueError):
    """The arguments of a schedule, or the activities of a profile, are invalid."""


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Return a schedule: skip some steps, then repeatedly wait, warm up and record.

    Args:
        wait: steps of each cycle without profiling.
        warmup: steps in which the profile runs and its results are discarded.
        active: steps that are recorded; after the last one the trace is ready.
        repeat: the number of cycles; 0 for no limit.
        skip_first: steps before the first cycle.
        skip_first_wait: if not 0, the first cycle does not wait.

    Raises: AssertionError (a ValueError too): an argument is negative, or `active` is 0.

    >>> plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ScheduleError(
            "schedule",
            "active must be at least 1 and the other numbers at least 0",
            {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat,
             "skip_first": skip_first},
            "schedule(wait=1, warmup=1, active=3) records three steps out of five",
        )  # fmt: skip
    if warmup == 0:
        warn("schedule: without a warmup, the first recorded step is slower than the others")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ScheduleError("schedule", "a step cannot be negative", {"step": step})
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step >= repeat * length:
            return ProfilerAction.NONE
        position = step % length
        if position < wait:
            return ProfilerAction.NONE
        if position < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if position == length - 1 else ProfilerAction.RECORD

    return action


def always(step: int) -> ProfilerAction:
    """Record every step: the default schedule."""
    return ProfilerAction.RECORD


RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class ProfileError(EdutorchError, AssertionError, RuntimeError):
    """A profile has no results yet, or its methods are called in the wrong order."""


class MemoryUse(NamedTuple):
    """Bytes of arrays that were allocated during the recording (see `memory.py`)."""

    made: int
    freed: int
    peak: int
    saved: int
    history: list[tuple[int, int]]


class Overhead(NamedTuple):
    """The overhead of the profiler.

    `events` is the number of events; `seconds` the time that it took to handle them, which is
    excluded from all times; `per_span` the time that recording adds to each span, as measured on
    this machine just now: an upper bound of the error of the times.
    """

    events: int
    seconds: float
    per_span: float


class profile:
    """Measures the time and the memory of a program.

    It records every op, module, node of backward, optimizer step and `record_function` in the
    thread that entered it. Its own time is measured at each event and excluded from all times.
    What remains in them: a profiled op takes the general code path instead of its generated one.
    On a busy two-core machine an op on one element took 1 microsecond without a profile and was
    reported with 20 to 25; times above a millisecond are accurate. A span adds 4 to 5
    microseconds to the program, most of which are excluded; `overhead()` measures both.

    Args:
        activities: `ProfilerActivity.CPU`, and `CUDA` for the time of a GPU. By default all
            that are available.
        schedule: which steps are recorded (see `schedule`); then call `step()` in the loop.
        on_trace_ready: called with the profile after each recorded cycle.
        record_shapes: record the shapes of inputs.
        profile_memory: count bytes allocated and freed (see `profiler/memory.py`).
        with_stack: record the user's stack for each op.
        with_flops: estimate FLOPs from shapes (see `profiler/recording.py`).
        acc_events: keep earlier cycles too, instead of only the last one.
        with_modules, experimental_config, execution_trace_observer, use_cuda,
            custom_trace_id_callback, post_processing_timeout_s: accepted, without effect:
            modules are always recorded.

    Raises: AssertionError: `activities` is empty.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> with profiler.profile() as prof:
    ...     y = net(ones(3, 2))
    >>> [row.key for row in prof.key_averages()][:3]
    ['nn.Module: Sequential', 'nn.Module: 0 (Linear)', 'linear']
    """

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False,
        with_flops: bool = False, with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False,
        use_cuda: bool | None = None, custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        self.activities = set(supported_activities() if activities is None else activities)
        if not self.activities:
            raise ScheduleError(
                "profile", "no activities to measure", {"activities": "[]"},
                "activities=[ProfilerActivity.CPU]",
            )  # fmt: skip
        self.schedule = schedule or always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.acc_events = with_stack, with_flops, acc_events
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._metadata: dict[str, Any] = {}
        self._running = False
        self._recording: Recording | None = None
        self._step_name: str | None = None
        self._done: list[Recording] = []

    # Start, step and stop ---------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the first step of the schedule.

        Raises: AssertionError: it is running.
        """
        if self._running:
            raise ProfileError("profile.start", "it is running", hint="call stop() first")
        self._running = True
        self._transition(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """Stop recording. Open spans end now."""
        if not self._running:
            return
        self._running = False
        self._end_step()
        if self.current_action in RECORDING:
            self._finish()
            self._call_trace_ready()
        self._discard()

    def step(self) -> None:
        """Mark the end of a step of the training loop, and the beginning of the next one."""
        if not self._running:
            return
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._transition(before, self.current_action)
        self._begin_step()

    def _transition(self, before: ProfilerAction, after: ProfilerAction) -> None:
        continues = before is ProfilerAction.RECORD and after in RECORDING
        if before in RECORDING and not continues:
            if before is ProfilerAction.RECORD:
                warn(f"profile.step: the schedule goes from RECORD to {after.name}: not saved")
            self._finish()
            if before is ProfilerAction.RECORD_AND_SAVE:
                self._call_trace_ready()
        if after is ProfilerAction.NONE:
            self._discard()
        elif not continues and not (before is after is ProfilerAction.WARMUP):
            self._discard()
            self._begin()

    def _begin(self) -> None:
        options = RecordingOptions(
            self.record_shapes, self.profile_memory, self.with_stack, self.with_flops
        )  # fmt: skip
        wants_device = ProfilerActivity.CUDA in self.activities
        self._recording = Recording(options, recording.device_clock() if wants_device else None)
        self._recording.start()

    def _discard(self) -> None:
        if self._recording is not None:
            self._recording.stop()
            self._recording = None

    def _finish(self) -> None:
        recording = self._recording
        self._discard()
        if recording is not None:
            self._done = [*self._done, recording] if self.acc_events else [recording]

    def _call_trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _begin_step(self) -> None:
        if self._recording is not None:
            self._recording.resume()
            if self.record_steps:
                self._step_name = f"ProfilerStep#{self.step_num}"
                self._recording.begin("step", self._step_name)

    def _end_step(self) -> None:
        if self._recording is not None and self._step_name is not None:
            self._recording.end(self._step_name)
        self._step_name = None

    # Results ----------------------------------------------------------------------------

    def _finished_recordings(self, function: str) -> list[Recording]:
        if not self._done:
            message = "it has not finished" if self._running else "nothing was recorded"
            hint = "ask after the `with` block, or after stop()"
            raise ProfileError(f"profile.{function}", message, hint=hint)
        return self._done

    @property
    def spans(self) -> list[Span]:
        """The outermost spans, in the order in which they began."""
        roots = [
            span for recording in self._finished_recordings("spans") for span in recording.roots
        ]
        return sorted(roots, key=lambda span: span.start)

    def _start_time(self) -> int:
        return self._done[0].began

    def events(self) -> EventList:
        """Return every call, in the order in which they began.

        Raises: AssertionError: nothing has been recorded.
        """
        self._finished_recordings("events")
        function_events = events(self.spans, self._start_time())
        return EventList(
            function_events,
            with_memory=self.profile_memory,
            with_flops=self.with_flops,
            with_stack=self.with_stack,
            with_device=any(e.device_time_total for e in function_events),
            total_us=sum(event.self_cpu_time_total for event in function_events),
        )

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return one row per name; print it with `.table(sort_by="self_cpu_time_total")`.

        Args:
            group_by_input_shape: one row per name and shapes (needs `record_shapes`).
            group_by_stack_n: one row per name and last n lines (needs `with_stack`).

        Raises: AssertionError: nothing has been recorded.
        """
        self._finished_recordings("key_averages")
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> Any:
        """Return the sum of all calls as one row named 'Total'."""
        return self.events().total_average()

    def memory(self) -> MemoryUse:
        """Return the bytes allocated, freed, at most in use at once, and saved for backward.

        Raises: AssertionError: `profile_memory` is False.
        """
        memories = [
            recording.memory
            for recording in self._finished_recordings("memory")
            if recording.memory is not None
        ]
        if not memories:
            raise ProfileError(
                "profile.memory", "memory was not recorded", hint="profile(profile_memory=True)"
            )
        return MemoryUse(
            sum(memory.made for memory in memories),
            sum(memory.freed for memory in memories),
            max(memory.peak for memory in memories),
            sum(span.kept for span in walk(self.spans)),
            [change for memory in memories for change in memory.history],
        )

    def overhead(self) -> Overhead:
        """Return the overhead of the profiler."""
        recordings = self._finished_recordings("overhead")
        seconds = sum(recording.overhead_ns for recording in recordings) / 1e9
        return Overhead(sum(recording.events for recording in recordings), seconds, cost_per_span())

    def tree(self) -> Frame:
        """Return all spans as a tree: modules, the ops in them, backward, optimizer."""
        return build_tree(self.spans)

    def text(self, limit: int = 60) -> str:
        """Return the tree as text of at most `limit` lines."""
        return format_tree(self.tree(), limit)

    # Files ------------------------------------------------------------------------------

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a timeline for chrome://tracing or Perfetto, compressed if `path` ends in .gz."""
        recordings = self._finished_recordings("export_chrome_trace")
        history = self.memory().history if self.profile_memory else []
        about = {
            "record_shapes": int(self.record_shapes), "profile_memory": int(self.profile_memory),
            "with_stack": int(self.with_stack), "with_flops": int(self.with_flops),
            **self._metadata,
        }  # fmt: skip
        origin = self._start_time()
        trace = chrome_trace.build_trace(self.spans, origin, history, about)
        for recorded in recordings:
            trace["traceEvents"] += chrome_trace.message_events(recorded.messages, origin)
        chrome_trace.write_trace(path, trace)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write "outermost;…;innermost microseconds" per call; needs `with_stack`.

        Raises: AssertionError: nothing was recorded, or no stacks.
        """
        self._finished_recordings("export_stacks")
        if not self.with_stack:
            raise ProfileError(
                "profile.export_stacks", "stacks were not recorded", hint="profile(with_stack=True)"
            )
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a string to the metadata of the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON, to the metadata of the trace."""
        import json

        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    # Display ----------------------------------------------------------------------------

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the flame graph for a notebook, and the tree as text."""
        if not self._done:
            return {"text/plain": repr(self)}
        # viz is a higher layer: it is accessed through the public package, and only here.
        return sys.modules["edutorch"].viz.flame(self)._repr_mimebundle_()

    def __repr__(self) -> str:
        if not self._done:
            return f"<profile, {'running' if self._running else 'nothing recorded'}>"
        spans = walk(self.spans)
        total = sum(span.duration for span in self.spans) / 1e6
        return f"<profile of {len(spans)} spans, {total:.3f} ms>"


def kineto_available() -> bool:
    """Return True: times are measured, here without the library Kineto.

    >>> profiler.kineto_available()
    True
    """
    return True


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that can be measured on this machine.

    >>> profiler.ProfilerActivity.CPU in profiler.supported_activities()
    True
    """
    activities = {ProfilerActivity.CPU}
    return activities | {ProfilerActivity.CUDA} if cuda.is_available() else activities


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """Return a function for `on_trace_ready` that writes each trace into a folder.

    Args:
        dir_name: the folder; it is created if it does not exist.
        worker_name: the prefix of the files; by default the host name and the process id.
        use_gzip: compress the files.
        use_python_export: accepted for compatibility.
    """

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = "pt.trace.json.gz" if use_gzip else "pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.{ending}"))

    return handler
