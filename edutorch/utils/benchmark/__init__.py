"""`torch.utils.benchmark`: measured times, with their spread, and tables of them.

timer = benchmark.Timer("x @ x", globals={"x": x}, label="matmul", description="float32")
print(timer.blocked_autorange())
"""

from __future__ import annotations

from .compare import Colorize, Compare
from .measurement import Measurement, TaskSpec, select_unit, trim_sigfig, unit_to_english
from .timer import Language, Timer, timer

__all__ = [
    "Colorize", "Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit", "timer",
    "trim_sigfig", "unit_to_english",
]  # fmt: skip
