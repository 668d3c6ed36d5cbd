"""From a captured graph to a function of arrays: passes, then a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor, wrap
from ..errors import EdutorchError, warn
from ..fx import Graph, GraphModule
from ..fx.interpreter import run_on_arrays
from ..fx.passes import standard

__all__ = ["BACKENDS", "BackendError", "graph_compiler"]

Run = Callable[[list[Any]], list[Any]]


class BackendError(EdutorchError, RuntimeError):
    """There is no such backend, mode or option."""


def edutorch_backend(graph: Graph) -> Run:
    """Generate kernels and straight-line code; if that fails, warn, and run op by op."""
    from .pipeline import lower

    try:
        return lower(graph)
    except Exception as error:  # noqa: BLE001  (the graph is right, only slower)
        warn(f"compile: no code can be generated ({type(error).__name__}: {error}); ops run singly")
        return run_on_arrays(graph)


def jax_backend(graph: Graph) -> Run:
    """Compile the graph by XLA."""
    from .xla import lower_jax

    return lower_jax(graph)


BACKENDS: dict[str, Callable[[Graph], Run]] = {
    "edutorch": edutorch_backend,
    "inductor": edutorch_backend,
    "eager": run_on_arrays,
    "aot_eager": run_on_arrays,
    "jax": jax_backend,
}
"""The backends by name: each turns a graph into a function of arrays."""

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def graph_compiler(settings: dict[str, Any]) -> Callable[[Graph], Run]:
    """Return the function that compiles a captured graph to a function of arrays.

    Raises: BackendError: the backend or the mode is unknown.
    """
    backend, mode = settings.get("backend", "inductor"), settings.get("mode")
    if mode is not None and settings.get("options") is not None:
        raise BackendError(
            "compile",
            "Either mode or options can be specified, but both can't be specified at the same time",
        )
    if mode not in MODES:
        known = ", ".join(str(mode) for mode in MODES[1:])
        raise BackendError("compile", f"Unrecognized mode={mode}, should be one of: {known}")
    if isinstance(backend, str):
        if backend not in BACKENDS:
            raise BackendError(
                "compile", f"Invalid backend: {backend!r}",
                hint=f"the backends are {', '.join(BACKENDS)}; or give a function of "
                "(graph_module, example_inputs)",
            )  # fmt: skip
        return lambda graph: BACKENDS[backend](standard(graph))
    if not callable(backend):
        raise BackendError(
            "compile", f"`backend` must be a name or a function, got {type(backend).__name__}"
        )
    return lambda graph: compile_by_user_backend(backend, standard(graph))


class CapturedModule(GraphModule):
    """A captured graph as a module: its inputs and outputs are tensors, its ops see arrays."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph op by op, as it is now."""
        arrays = [
            argument._array if isinstance(argument, Tensor) else argument for argument in args
        ]
        return tuple(
            wrap(result) if hasattr(result, "dtype") else result
            for result in run_on_arrays(self.graph)(arrays)
        )


def compile_by_user_backend(backend: Callable[..., Any], graph: Graph) -> Run:
    """Compile by the user's backend: `backend(graph_module, example_inputs)`."""
    module = CapturedModule({}, graph)
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    examples = [example_input(node) for node in inputs]
    compiled = backend(module, examples)
    if not callable(compiled):
        raise BackendError(
            "compile", f"the backend returned a {type(compiled).__name__}, not a function"
        )

    def run(arrays: list[Any]) -> list[Any]:
        inputs_ = [wrap(array) if hasattr(array, "dtype") else array for array in arrays]
        results = compiled(*inputs_)
        results = results if isinstance(results, tuple | list) else (results,)
        return [result._array if isinstance(result, Tensor) else result for result in results]

    return run


def example_input(node: Any) -> Any:
    """Return an example of an input: zeros of its shape and dtype."""
    import numpy as np

    if node.meta.get("number"):
        return 0.0
    return wrap(np.zeros(node.meta["shape"], node.meta["dtype"]))
