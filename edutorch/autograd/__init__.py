"""Automatic differentiation: backward, custom functions, gradient modes (see README.md)."""

from __future__ import annotations

from typing import Any as _Any

# `Variable`, which old code imports, is in `compat/autograd/`.
__path__.append(__path__[0].removesuffix("autograd") + "compat/autograd")

from ..core.autograd.graph import Node
from ..core.autograd.backward import backward, grad
from ..modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from . import anomaly_mode, forward_ad, function, functional, graph
from .anomaly_mode import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from .gradcheck import gradcheck, gradgradcheck
from .function import Function
from .variable import Variable

anomaly = anomaly_mode

__all__ = [
    "Function",
    "Node",
    "Variable",
    "anomaly",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def __getattr__(name: str) -> _Any:
    """Load `autograd.profiler` at its first access."""
    if name == "profiler":
        from importlib import import_module

        return import_module(".profiler", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
