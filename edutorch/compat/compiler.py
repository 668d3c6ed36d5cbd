"""`torch.compile` and `torch.compiler`: functions that are captured once and then replayed.

What runs lives in `compiling/`; it is loaded when something is compiled.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
]  # fmt: skip

T = TypeVar("T")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return the function or module compiled: captured at its first call, replayed after it.

    The first call runs as it is written, and every op in it is noted; backward and optimizer
    steps inside belong to it. The next calls run the graph that was made of these ops. It
    is used only while everything it took for granted holds (shapes, types, modes, settings,
    global names); else the function is captured again. Where it looks at numbers
    (`if loss > 1`, `loss.item()`) it runs as it is written, and a warning says where. Without
    `model` it is a decorator.

    Of a compiled function, `code` is the text that runs, `explain()` says what was fused and why,
    and `timed(*args)` calls it and says how long each step takes.

    Args:
        fullgraph: raise instead of running a function as it is written.
        dynamic: accepted; each shape gets a version of its own, up to 8 versions.
        backend: "inductor" (our own, also called "edutorch"), "jax" (XLA, extra `jax`), "eager"
            (op by op, to compare), or a function of (graph_module, example_inputs) that returns
            a function of tensors.
        mode: accepted: "default", "reduce-overhead", "max-autotune".
        options: accepted.
        disable: return `model` itself.

    Raises: TypeError: `model` cannot be called. RuntimeError: there is no such backend or mode;
        with fullgraph, when it is called: it cannot be captured whole.

    >>> step = compile(lambda x: (x * 2).relu().sum())
    >>> step(tensor([1.0, -1.0])), step(tensor([3.0, -1.0]))
    (tensor(2.), tensor(6.))
    """
    from edutorch.compilation.frontend import compile as compile_it

    return compile_it(
        model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
        disable=disable,
    )  # fmt: skip


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function out of graphs: whatever calls it runs as it is written. A decorator too.

    >>> @compiler.disable
    ... def careful(x): return x + 1
    >>> careful(tensor(1.0))
    tensor(2.)
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)

    @functools.wraps(fn)
    def kept_out(*args: Any, **kwargs: Any) -> Any:
        tracer = _tracer()
        if tracer is not None:
            tracer.poison(
                f"{getattr(fn, '__name__', 'it')} is disabled ({reason or 'by the user'})"
            )
        return fn(*args, **kwargs)

    return kept_out


def _tracer() -> Any:
    """Return what captures in this thread, without loading anything for the question."""
    watching = sys.modules.get("edutorch.fx.capture_patches")
    return None if watching is None else watching.current_tracer()


def allow_in_graph(fn: T) -> T:
    """Return the function unchanged: every op in it enters the graph anyway."""
    return fn


def assume_constant_result(fn: T) -> T:
    """Return the function unchanged."""
    return fn


def is_compiling() -> bool:
    """Say whether the code that asks is being captured.

    >>> compiler.is_compiling()
    False
    """
    return _tracer() is not None


def is_dynamo_compiling() -> bool:
    """Say whether the code that asks is being captured."""
    return _tracer() is not None


def is_exporting() -> bool:
    """Say whether the code that asks is being exported: never."""
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return the names of the backends that `compile` knows.

    >>> compiler.list_backends()
    ['edutorch', 'inductor', 'jax']
    """
    from edutorch.compilation.backends import BACKENDS

    return [backend for backend in BACKENDS if not exclude_tags or "eager" not in backend]


def reset() -> None:
    """Forget every graph that was captured: all compiled functions begin anew.

    >>> compiler.reset()
    """
    compiled = sys.modules.get("edutorch.compilation.compiled_function")
    if compiled is not None:
        compiled.reset()


def cudagraph_mark_step_begin() -> None:
    """Say that a new step begins, for recorded CUDA graphs: there are none."""
