"""Grades a class on the workers of a Dask cluster: `--engine dask --scheduler tcp://…`.

The scheduler of `distributed` hands out the shards, and a shard whose worker is lost to another
worker. Students' files and teachers' exercises go to the workers as text; results come back, and
each shard's count once.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from ..errors import EdutorchError, missing_extra
from .engines import LocalEngine, Plan, Shard, versions
from .results import StudentResult

CONNECT_SECONDS = 30.0

SHARDS_AHEAD = 2
"""Shards that are with the cluster, for each thread of its workers: their files take memory."""

Graded = tuple[list[StudentResult], dict[str, bool | None]]


class EngineError(EdutorchError, RuntimeError):
    """A cluster cannot be reached, or has not graded; it is no fault of the students'."""


def grade_shard(plan: Plan, shard: Shard, expected: dict[str, Any]) -> Graded:
    """Grade one shard, on a worker; return the results, and which walls stood.

    Raises: EngineError: the worker has other versions installed than `expected`.
    """
    refuse_other_versions(expected, versions())
    with contextlib.closing(LocalEngine(plan)) as engine:
        return list(engine.grade([shard])), engine.walls


def refuse_other_versions(expected: dict[str, Any], own: dict[str, Any]) -> None:
    """Raise EngineError unless both have the same versions."""
    other = [name for name in expected if own.get(name) != expected[name]]
    if other:
        raise EngineError(
            "grade", f"a worker has another version of {', '.join(other)}",
            {name: f"{own.get(name)}, and {expected[name]} here" for name in other},
            "install the same on all machines: results would depend on the machine",
        )  # fmt: skip


class DaskEngine:
    """Grades on the workers of a cluster, a shard on each of their threads.

    Args:
        scheduler: the address of the scheduler, as "tcp://10.0.0.1:8786".

    Raises: MissingExtraError: distributed is not installed; EngineError: nothing answers at the
        address, or it has no worker.
    """

    def __init__(self, plan: Plan, scheduler: str) -> None:
        try:
            import distributed
        except ImportError as error:
            raise missing_extra(
                "classroom-dask", "--engine dask", "distributed is not installed"
            ) from error
        self.plan = plan._replace(workers=plan.workers or 1)
        self.walls: dict[str, bool | None] = {}
        try:
            self.client = distributed.Client(
                scheduler, timeout=CONNECT_SECONDS, set_as_default=False
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise EngineError(
                "grade", f"no scheduler answers at {scheduler!r} ({error})",
                hint="start `dask scheduler` and some `dask worker`; it prints its address",
            ) from error  # fmt: skip
        try:
            self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            self.client.close()
            raise EngineError(
                "grade", f"the scheduler at {scheduler!r} has no worker",
                hint=f"start one: dask worker {scheduler}",
            ) from None  # fmt: skip

    def grade(self, shards: Sequence[Shard]) -> Iterator[StudentResult]:
        """Yield the results of all students, shard by shard as they are ready."""
        from distributed import as_completed

        threads = sum(self.client.nthreads().values()) or 1
        left, waiting = iter(shards), dict[str, Shard]()
        completed = as_completed(loop=self.client.loop)
        for _ in range(threads * SHARDS_AHEAD):
            self.submit_next(left, waiting, completed)
        for future in completed:
            # A shard that was graded again after all: it counts once.
            if (shard := waiting.pop(future.key, None)) is None:
                continue
            results, walls = self.result_of(future, shard)
            future.release()
            self.submit_next(left, waiting, completed)
            for name, stands in walls.items():
                self.walls[name] = weaker(self.walls.get(name, stands), stands)
            yield from results

    def submit_next(self, left: Iterator[Shard], waiting: dict[str, Shard], completed: Any) -> None:
        """Send the next shard to the cluster, if there is one."""
        for shard in left:
            key = f"edutorch-{os.getpid()}-{id(self):x}-{shard.number}"
            waiting[key] = shard
            with warnings.catch_warnings():
                # To scatter files beforehand, as it advises, would lose them with their worker.
                warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
                future = self.client.submit(
                    grade_shard, self.plan, shard.with_content(), versions(), key=key, pure=False
                )
            completed.add(future)
            return

    def result_of(self, future: Any, shard: Shard) -> Graded:
        """Return what a worker has sent for a shard.

        Raises: EngineError: several workers were lost with it, or the scheduler; or a worker lacks
            something.
        """
        from distributed import KilledWorker

        names = ", ".join(list(shard.students)[:5])
        try:
            return future.result()
        except EdutorchError:  # such as a wall that is missing there
            raise
        except KilledWorker:
            raise EngineError(
                "grade", f"several workers were lost with shard {shard.number} ({names}, …)",
                hint="see their logs; `--resume` goes on with who is not graded yet",
            ) from None  # fmt: skip
        except CancelledError:
            raise EngineError(
                "grade", "the connection to the scheduler was lost",
                hint="`--resume` goes on with who is not graded yet",
            ) from None  # fmt: skip
        except Exception as error:
            raise EngineError(
                "grade", f"a worker could not grade shard {shard.number} ({names}, …): {error}",
                hint="edutorch with the extras classroom and classroom-dask is needed on each",
            ) from error  # fmt: skip

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(TimeoutError):
            self.client.close()  # the cluster forgets the shards that are under way


def weaker(first: bool | None, second: bool | None) -> bool | None:
    """Return whether a wall stood on both machines.

    >>> from edutorch.classroom.dask_engine import weaker
    >>> weaker(True, None), weaker(True, False)
    (None, False)
    """
    return False if False in (first, second) else None if None in (first, second) else True
