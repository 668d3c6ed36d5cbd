"""CUDA graphs: work on a card that is captured once, and replayed without Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .. import backends
from ..autograd import Function, grad
from ..backends.host_counts import HostCounts
from ..backends.simulated_capture import CaptureError
from ..core.tensor import Tensor
from ..errors import InvalidValueError, ShapeError
from ..ops import empty_like
from ..utils._pytree import tree_flatten, tree_unflatten
from .devices import card_index, is_initialized
from .driver import driver
from .random import generators_on
from .streams import Stream, current_stream, stream

__all__ = [
    "CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing",
    "make_graphed_callables",
]  # fmt: skip

MODES = ("global", "thread_local", "relaxed")
_numbers = itertools.count(1)
_users: dict[tuple[int, int], int] = {}  # how many graphs use a pool


def graph_pool_handle() -> tuple[int, int]:
    """Return a name for a pool of memory that several graphs share."""
    return (0, next(_numbers))


def is_current_stream_capturing() -> bool:
    """Return True while work on the current stream is captured as a graph."""
    if not is_initialized():
        return False
    return current_stream().is_capturing()


class CUDAGraph:
    """Work on a card that is captured once, and replayed on the same memory.

    While it is captured nothing is computed and nothing is drawn. `replay` computes, and draws on
    from the card's generators as the same calls would outside of a graph. New inputs are copied
    into the tensors that were the inputs of the capture (`x.copy_(new)`), and results are read from
    the tensors that were its results.

    Args:
        keep_graph: accepted, without effect: the graph can be replayed at once.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph: Any = None
        self._driver: Any = None
        self._stream: Stream | None = None
        self._pool: tuple[int, int] | None = None
        self._counts: HostCounts | None = None

    def capture_begin(
        self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global"
    ) -> None:
        """Begin to capture what is done on the current stream, which is not the default one.

        Args:
            pool: the name of the pool for its memory (`graph_pool_handle()`, or another graph's
                `pool()`), by default one of its own.
            capture_error_mode: accepted: in all modes memory may be allocated.

        Raises: CaptureError (a RuntimeError): on the default stream, or it was captured before.
        """
        if capture_error_mode not in MODES:
            raise InvalidValueError(
                "CUDAGraph",
                f"unknown capture_error_mode {capture_error_mode!r}",
                hint=f"one of {', '.join(MODES)}",
            )
        if self._graph is not None or self._stream is not None:
            raise CaptureError(
                "CUDAGraph", "This CUDAGraph instance already owns a captured graph.",
                hint="call reset() first, or make another one",
            )  # fmt: skip
        here = current_stream()
        if here.cuda_stream == 0:
            raise CaptureError(
                "CUDAGraph", "CUDA graphs must be captured on a non-default stream",
                hint="with torch.cuda.graph(g): takes one; or with torch.cuda.stream(Stream()):",
            )  # fmt: skip
        self._pool = graph_pool_handle() if pool is None else tuple(pool)
        _users[self._pool] = _users.get(self._pool, 0) + 1
        backend = backend_of(here)
        self._counts = HostCounts(backend, generators_on(backend))
        self._counting = self._counts.captured()
        self._counting.__enter__()
        here.synchronize()  # seeds and offsets are on the card: their copies are no part of it
        self._stream, self._driver = here, here._driver
        try:
            here._driver.begin_capture(here._handle, self._pool)
        except BaseException:
            self._stream = None
            self._counting.__exit__(None, None, None)
            raise

    def capture_end(self) -> None:
        """End the capture. Raises: CaptureError (a RuntimeError): none was begun, or it failed."""
        here, self._stream = self._stream, None
        if here is None:
            raise CaptureError("CUDAGraph", "capture_end() without capture_begin()")
        try:
            self._graph = self._driver.end_capture(here._handle)
        finally:
            self._counting.__exit__(None, None, None)

    def instantiate(self) -> None:
        """Make it ready to replay: it is, since `capture_end`."""
        self._ready()

    def replay(self) -> None:
        """Do the captured work, on the current stream.

        Raises: CaptureError (a RuntimeError): nothing was captured, or it draws from a generator
            whose numbers come from the host since (`set_state` of an old one).
        """
        captured, counts = self._ready(), self._counts
        assert counts is not None
        if counts.is_stale():
            raise CaptureError(
                "CUDAGraph", "it draws from a generator that has got the state of an old one",
                hint="seed it (manual_seed), or capture the graph again",
            )  # fmt: skip
        counts.before_replay()
        captured.launch()
        counts.after_replay()

    def _ready(self) -> Any:
        if self._graph is None:
            raise CaptureError(
                "CUDAGraph", "Called CUDAGraph::replay without a preceding successful capture.",
                hint="with torch.cuda.graph(g): captures",
            )  # fmt: skip
        return self._graph

    def reset(self) -> None:
        """Forget the captured work; the tensors stay."""
        self._graph = self._counts = None
        pool, self._pool = self._pool, None
        if pool is not None:
            _users[pool] -= 1
            if not _users[pool]:
                del _users[pool]
                self._driver.drop_pool(pool)

    def pool(self) -> tuple[int, int]:
        """Return the name of its pool of memory, for another graph.

        Raises: CaptureError (a RuntimeError): nothing was captured.
        """
        if self._pool is None:
            raise CaptureError("CUDAGraph", "Called CUDAGraph::pool() without a preceding capture.")
        return self._pool

    def __del__(self) -> None:
        if self._pool is not None:
            self.reset()


def backend_of(stream: Stream) -> backends.Backend:
    """Return the card that a stream is of."""
    return backends.get(backends.ACCELERATOR, stream.device_index)


class graph:
    """Captures what runs inside a `with` block.

    Args:
        cuda_graph: the graph to capture into.
        pool: the name of its pool of memory, by default one of its own.
        stream: to capture on, by default one that all captures share.
        capture_error_mode: accepted: in all modes memory may be allocated.
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self, cuda_graph: CUDAGraph, pool: tuple[int, int] | None = None,
        stream: Stream | None = None, capture_error_mode: str = "global",
    ) -> None:  # fmt: skip
        index = card_index(None)
        kept = graph.default_capture_stream
        if stream is None:
            if kept is None or kept.device_index != index or not is_known(kept):
                kept = graph.default_capture_stream = Stream()
            stream = kept
        self.cuda_graph, self.pool, self.capture_stream = cuda_graph, pool, stream
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        index = self.capture_stream.device_index
        driver().synchronize(index)
        driver().release_cached(index)
        self._context = stream(self.capture_stream)
        self._context.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._context.__exit__()
            raise

    def __exit__(self, error_type: Any, error: BaseException | None, trace: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        except Exception:
            if error is None:  # else the error inside the block says why, and goes on
                raise
        finally:
            self._context.__exit__()
        if error is not None:
            self.cuda_graph.reset()


def is_known(stream: Stream) -> bool:
    """Return True if a stream is of the cards that are in use now."""
    return stream._driver is driver()


# Functions as graphs ------------------------------------------------------------------------------


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:  # fmt: skip
    """Return functions or modules whose forward and backward passes are replayed graphs.

    Args:
        callables: a function or module, or several, in the order in which they are called.
        sample_args: tensors like those they will be called with; for several, a tuple for each.
        num_warmup_iters: how often they run before they are captured.
        allow_unused_input: whether an input may have no gradient.
        pool: the name of the pool of memory of all graphs.
    """
    if not isinstance(callables, tuple):
        several: tuple[Any, ...] = (callables,)
        samples: tuple[Any, ...] = (sample_args,)
    else:
        several, samples = callables, sample_args
    pool = graph_pool_handle() if pool is None else pool
    made = [
        graphed(function, tuple(args), num_warmup_iters, allow_unused_input, pool)
        for function, args in zip(several, samples, strict=True)
    ]
    return tuple(made) if isinstance(callables, tuple) else made[0]


class Captured:
    """The forward and the backward pass of a function, captured.

    Args:
        function: it, or a module.
        args: tensors that are its inputs in the graphs.
    """

    def __init__(self, function: Any, args: tuple[Any, ...], allow_unused: bool) -> None:
        self.function, self.allow_unused = function, allow_unused
        self.inputs, _ = tree_flatten(args)
        self.args = args
        self.parameters = list(function.parameters()) if hasattr(function, "parameters") else []
        self.forward, self.backward = CUDAGraph(), CUDAGraph()

    def leaves(self) -> list[Tensor]:
        """Return the tensors that a gradient is computed for."""
        return [tensor for tensor in [*self.inputs, *self.parameters] if tensor.requires_grad]

    def gradients(self, outputs: list[Tensor], seeds: list[Tensor]) -> tuple[Any, ...]:
        """Return the gradients of the leaves."""
        leaves = self.leaves()
        if not leaves or not seeds:
            return ()
        wanted = [output for output in outputs if output.requires_grad]
        return grad(wanted, leaves, seeds, allow_unused=self.allow_unused)

    def warm_up(self, count: int) -> None:
        """Run a few times: kernels are compiled, and memory is allocated."""
        with stream(Stream()):
            for _ in range(count):
                outputs, _ = tree_flatten(self.function(*self.args))
                seeds = [empty_like(output) for output in outputs if output.requires_grad]
                self.gradients(outputs, seeds)
        driver().synchronize(card_index(None))

    def capture(self, pool: tuple[int, int]) -> None:
        """Capture both passes."""
        with graph(self.forward, pool):
            result = self.function(*self.args)
        outputs, self.structure = tree_flatten(result)
        self.seeds = [empty_like(output) for output in outputs if output.requires_grad]
        with graph(self.backward, pool):
            gradients = self.gradients(outputs, self.seeds)
        remaining = iter(gradients)
        # Aligned with the inputs and parameters: None for those without a gradient.
        self.results = [
            next(remaining, None) if tensor.requires_grad else None
            for tensor in [*self.inputs, *self.parameters]
        ]
        self.outputs = [output.detach() for output in outputs]
        self.differentiable = [output.requires_grad for output in outputs]


def graphed(
    function: Any, args: tuple[Any, ...], warmup: int, allow_unused: bool, pool: tuple[int, int]
) -> Any:
    """Capture a function, and return one that replays it."""
    captured = Captured(function, args, allow_unused)
    captured.warm_up(warmup)
    captured.capture(pool)
    replayed = replaying(captured)
    if not hasattr(function, "forward"):
        return replayed
    original, is_training = function.forward, function.training

    def forward(*user_args: Any) -> Any:
        # The graph was captured in one of the two modes, and does not know of the other.
        same = function.training == is_training
        return replayed(*user_args) if same else original(*user_args)

    function.forward = forward
    return function


def check_inputs(captured: list[Tensor], inputs: list[Any]) -> None:
    """Refuse inputs that a graph cannot be replayed with: its sizes are those of the capture.

    Raises: InvalidValueError: there are more or fewer. ShapeError: one has another shape.
    """
    shapes = {"captured": [tuple(x.shape) for x in captured]}
    if len(inputs) != len(captured):
        raise InvalidValueError(
            "make_graphed_callables",
            f"the graph was captured with {len(captured)} inputs, and is called with {len(inputs)}",
            shapes, "pass the same arguments as in sample_args",
        )  # fmt: skip
    for one, other in zip(captured, inputs, strict=True):
        wanted, shape = tuple(one.shape), tuple(other.shape)
        if wanted != shape:
            raise ShapeError(
                "make_graphed_callables",
                f"the graph was captured for the shape {wanted}, not {shape}",
                shapes, "capture another one with sample_args of this shape, or pad the batch",
            )  # fmt: skip


def replaying(captured: Captured) -> Callable[..., Any]:
    """Return a function that copies its arguments in, replays, and returns the results."""

    class Graphed(Function):
        """A function whose passes are replayed."""

        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> Any:
            for static, new in zip(captured.inputs, inputs, strict=False):
                if static.data_ptr() != new.data_ptr():
                    static.detach().copy_(new.detach())
            captured.forward.replay()
            unused = [
                out for out, has in zip(captured.outputs, captured.differentiable, strict=True)
                if not has
            ]  # fmt: skip
            ctx.mark_non_differentiable(*unused)
            return tuple(output.detach() for output in captured.outputs)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            wanted = itertools.compress(grads, captured.differentiable)
            for static, new in zip(captured.seeds, wanted, strict=True):
                static.copy_(new)
            captured.backward.replay()
            # Copies: the next replay writes there, while these may be kept as `.grad`.
            return tuple(None if g is None else g.clone() for g in captured.results)

    def run(*args: Any) -> Any:
        inputs, _ = tree_flatten(args)
        check_inputs(captured.inputs, inputs)
        outputs = Graphed.apply(*inputs, *captured.parameters)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return tree_unflatten(list(outputs), captured.structure)

    return run
