"""The provenance of a node: the user's line, the module, and the phase."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ..core.autograd.engine import Engine
from ..optim.optimizer import Optimizer

if TYPE_CHECKING:
    from .capture_context import Tracer

PHASES = {Engine.run.__code__: "backward", Optimizer.step_param.__code__: "optimizer"}
"""Code objects that tell the phase of the ops that run inside them."""


def find_provenance(tracer: Tracer) -> tuple[str, str, str]:
    """Return the user's line as "file.py:12", the path of the module, and the phase."""
    frame: Any = sys._getframe(2)
    line, module, phase = "", None, ""
    while frame is not None:
        code = frame.f_code
        own = frame.f_globals.get("__name__", "").startswith("edutorch.")
        if own:
            if not phase and code in PHASES:
                phase = PHASES[code]
            elif not phase and code.co_name in ("step", "step_param") and is_step(frame):
                phase = "optimizer"
            if code.co_name == "capture_run":
                break
        elif not line:
            line = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
        if module is None and code.co_name == "forward" and code.co_varnames[:1] == ("self",):
            module = tracer.module_names.get(id(frame.f_locals.get("self")))
        frame = frame.f_back
    return line or "?", module or "", phase or "forward"


def is_step(frame: Any) -> bool:
    return isinstance(frame.f_locals.get("self"), Optimizer)
