"""`torch.compile` and `torch.compiler`: functions that are captured once and then replayed.

The implementation is in `compilation/`; it is imported when something is compiled.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
]  # fmt: skip

T = TypeVar("T")


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return the compiled function or module: captured at its first call, replayed after it.

    The first call runs eagerly, and every op in it is recorded, including backward and optimizer
    steps. The next calls run the compiled graph of these ops. It is guarded by everything that it
    depends on (shapes, dtypes, modes, settings, globals); if a guard fails, the function is
    captured again. A function that reads values (`if loss > 1`, `loss.item()`) runs eagerly, and
    a warning names the line. Without `model`, this is a decorator.

    A compiled function has `code`, the generated source, `explain()`, which says what was fused
    and why, and `timed(*args)`, which calls it and measures each step.

    Args:
        fullgraph: raise an error instead of running a function eagerly.
        dynamic: accepted for compatibility; each shape gets its own version, up to 8 versions.
        backend: "inductor" (our own, also called "edutorch"), "jax" (XLA, extra `jax`), "eager"
            (op by op, to compare), or a function of (graph_module, example_inputs) that returns
            a function of tensors.
        mode: accepted for compatibility: "default", "reduce-overhead", "max-autotune".
        options: accepted for compatibility.
        disable: return `model` itself.

    Raises: TypeError: `model` is not callable. RuntimeError: an unknown backend or mode; with
        fullgraph, when it is called: it cannot be captured completely.

    >>> step = compile(lambda x: (x * 2).relu().sum())
    >>> step(tensor([1.0, -1.0])), step(tensor([3.0, -1.0]))
    (tensor(2.), tensor(6.))
    """
    from edutorch.compilation.compiled_function import compile as compile_it

    return compile_it(
        model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
        disable=disable,
    )  # fmt: skip


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """Exclude a function from compilation: functions that call it run eagerly. Also a decorator.

    >>> @compiler.disable
    ... def careful(x): return x + 1
    >>> careful(tensor(1.0))
    tensor(2.)
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)

    @functools.wraps(fn)
    def call_eagerly(*args: Any, **kwargs: Any) -> Any:
        tracer = _tracer()
        if tracer is not None:  # what is being captured calls this: it cannot be replayed
            tracer.poison(
                f"{getattr(fn, '__name__', 'it')} is disabled ({reason or 'by the user'})"
            )
        return fn(*args, **kwargs)

    return call_eagerly


def _tracer() -> Any:
    """Return the tracer of a capture in this thread, without importing anything."""
    patches = sys.modules.get("edutorch.fx.capture_patches")
    return None if patches is None else patches.current_tracer()


def allow_in_graph(fn: T) -> T:
    """Return the function unchanged: all its ops are captured anyway."""
    return fn


def assume_constant_result(fn: T) -> T:
    """Return the function unchanged."""
    return fn


def is_compiling() -> bool:
    """Return True during a capture.

    >>> compiler.is_compiling()
    False
    """
    return _tracer() is not None


def is_dynamo_compiling() -> bool:
    """Return True during a capture."""
    return _tracer() is not None


def is_exporting() -> bool:
    """Return False: there is no export here."""
    return False


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Return the names of the backends of `compile`.

    >>> compiler.list_backends()
    ['edutorch', 'inductor', 'jax']
    """
    from edutorch.compilation.pipeline import BACKENDS

    return [backend for backend in BACKENDS if not exclude_tags or "eager" not in backend]


def reset() -> None:
    """Discard all captured graphs: compiled functions are captured again.

    >>> compiler.reset()
    """
    compiled = sys.modules.get("edutorch.compilation.compiled_function")
    if compiled is not None:
        compiled.reset()


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no CUDA graphs here."""
