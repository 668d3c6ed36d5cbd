"""`torch.jit.trace`."""

from __future__ import annotations

from typing import Any

from .script_module import RecursiveScriptModule


class TracerWarning(Warning):
    """A trace may be wrong for other inputs."""


class TracingCheckError(Exception):
    """A trace does not compute what the function computes."""


class TracedModule(RecursiveScriptModule):
    """A traced module."""


def trace(func: Any, example_inputs: Any = None, *others: Any, **settings: Any) -> Any:
    return func
