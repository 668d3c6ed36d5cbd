"""Derivatives: run backward, write your own rules, switch recording on and off (see README.md)."""

from __future__ import annotations

from ..core.autograd import Node
from ..core.backward import backward, grad
from ..core.tensor import Tensor
from ..modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from . import anomaly, forward_ad, function, functional, graph
from .anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from .check import gradcheck, gradgradcheck
from .function import Function

Variable = Tensor  # its name in old code

__all__ = [
    "Function",
    "Node",
    "Variable",
    "anomaly",
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
