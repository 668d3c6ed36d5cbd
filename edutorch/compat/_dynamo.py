"""`torch._dynamo`, as far as programs use it: `reset`, `config` and `explain`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from edutorch.compilation.compiled_function import config
from edutorch.compiler import allow_in_graph, disable, is_compiling, list_backends, reset

__all__ = [
    "allow_in_graph",
    "config",
    "disable",
    "explain",
    "is_compiling",
    "list_backends",
    "reset",
]


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Return a function that runs `f` once and returns a summary of its graph.

    >>> summary = edutorch._dynamo.explain(lambda x: (x * 2).relu())(ones(2))
    >>> summary.graph_count, summary.op_count, summary.break_reasons
    (1, 2, [])
    """

    def explained(*args: Any, **kwargs: Any) -> Any:
        from edutorch.fx import GraphModule, capture

        captured = capture(f, *args, **kwargs)
        calls = [node for node in captured.graph.nodes if node.op == "call_function"]
        return SimpleNamespace(
            graphs=[GraphModule({}, captured.graph)], graph_count=1, op_count=len(calls),
            graph_break_count=len(captured.reasons), break_reasons=captured.reasons,
            ops_per_graph=[[node.target for node in calls]],
        )  # fmt: skip

    return explained(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else explained
