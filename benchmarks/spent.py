"""Where the time of a step goes: shown for each workload that misses its goal."""

from __future__ import annotations

from . import report
from .workloads import Workload, same

ROWS, STEPS = 8, 5


def spent(workload: Workload) -> str:
    """Profile some of our steps, and return the ops that take most of the time themselves."""
    import edutorch
    from edutorch.profiler import profile

    step = workload.build(edutorch, same)
    for _ in range(3):
        step()
    with profile() as profiler:
        for _ in range(STEPS):
            step()
    averages = sorted(
        profiler.key_averages(), key=lambda key_average: -key_average.self_cpu_time_total
    )
    total = sum(average.self_cpu_time_total for average in averages)
    rows = [
        [
            f"`{average.key}`",
            f"{average.count / STEPS:.0f}",
            f"{average.self_cpu_time_total / STEPS:.0f}",
            f"{average.self_cpu_time_total / total:.0%}",
        ]
        for average in averages[:ROWS]
    ]
    head = ["of a step, watched", "calls", "µs", "share"]
    return f"{workload.name} misses its goal:\n\n{report.table(head, rows)}"
