"""Computations as graphs that can be captured, read, transformed, drawn and run.

captured = fx.capture(step, x)       # the ops that really ran, with shapes
traced = fx.symbolic_trace(model)    # the calls that would run, as torch.fx shows them
"""

from __future__ import annotations

# What libraries ask of `torch.fx.experimental` lies in `compat/fx/`.
__path__.append(__path__[0].removesuffix("fx") + "compat/fx")

from . import passes
from .capture import capture
from .graph import Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, map_aggregate, map_arg
from .proxy import Proxy, TraceError
from .subgraph_rewriter import replace_pattern
from ._symbolic_trace import Tracer, has_side_effect, symbolic_trace, wrap

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "TraceError", "Tracer", "Transformer",
    "capture", "has_side_effect", "map_aggregate", "map_arg", "passes", "replace_pattern",
    "symbolic_trace", "wrap",
]  # fmt: skip
