"""What the host counts along with a CUDA graph: random draws, and checks that are read later.

A replay runs no Python. Yet the generators of the step have moved on, and an index may have been
out of range; the host has to know of both without waiting for the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .legacy_random import LEGACY
from .numpy import Backend
from .pending_checks import CapturedChecks, checks_of

__all__ = ["HostCounts"]


class HostCounts:
    """The draws and the checks of one graph: a captured step, or a `torch.cuda.CUDAGraph`.

    Args:
        generators: those that it may draw from.
    """

    def __init__(self, backend: Backend, generators: Iterable[Any]) -> None:
        self.checks = CapturedChecks(checks_of(backend)) if backend.checks_later else None
        self.generators = list(generators)
        self.draws: list[tuple[Any, Any, Any]] = []  # generators, their sources, and the draws

    @contextmanager
    def captured(self) -> Iterator[None]:
        """Count what a capture records inside the block instead of running it."""
        self.draws = []
        with ExitStack() as stack:
            stack.callback(self.forget_unused)  # last: then it is known who has drawn
            if self.checks is not None:
                stack.enter_context(self.checks.captured())
            for generator in self.generators:
                source = generator.random
                if hasattr(source, "captured"):  # others draw on the host: the capture refuses
                    draws = stack.enter_context(source.captured())
                    self.draws.append((generator, source, draws))
            yield

    def forget_unused(self) -> None:
        """Forget the generators that the capture has not drawn from."""
        self.draws = [entry for entry in self.draws if entry[-1].blocks]

    def draws_on_host(self) -> bool:
        """Whether a generator draws on the host, in an old saved state, and no graph can."""
        return any(isinstance(generator.random, LEGACY) for generator in self.generators)

    def is_stale(self) -> bool:
        """Whether a generator draws on the host from now on: that of an old saved state."""
        return any(not hasattr(generator.random, "captured") for generator, *_ in self.draws)

    def before_replay(self) -> None:
        """Note the draws of the next replay: a new seed gets to the device before its kernels."""
        for generator, source, draws in self.draws:
            if generator.random is not source:  # `manual_seed`: the graph reads this one's memory
                source.set_state(generator.random.get_state())
                generator.random = source
            source.replayed(draws)

    def after_replay(self) -> None:
        """Note that the checks of a replay have to be read at the next wait."""
        if self.checks is not None:
            self.checks.replayed()
