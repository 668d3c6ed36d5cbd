"""Where the random generators stand: kept, and gone back to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import backends
from ..backends.device import backend_for
from ..core.tensor import Tensor
from .random import default_generator


def get_rng_state() -> Tensor:
    """Return where the CPU's generator stands, as a tensor of bytes.

    >>> state = get_rng_state(); first = rand(2)
    >>> set_rng_state(state); equal(first, rand(2))
    True
    """
    return default_generator(backends.CPU).get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Let the CPU's generator go on from a state that `get_rng_state` returned.

    Raises: TypeError: not a tensor of bytes.

    >>> set_rng_state(get_rng_state())
    """
    default_generator(backends.CPU).set_state(new_state)


@contextmanager
def fork_rng(
    devices: Sequence[Any] | None = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str = "cuda",
) -> Iterator[None]:  # fmt: skip
    """Draw random numbers inside `with` as if none had been drawn, seen from behind it.

    Args:
        devices: those to keep besides the CPU.
        enabled: False to do nothing, so that one line serves both.

    >>> state = get_rng_state()
    >>> with edutorch.random.fork_rng():
    ...     _ = rand(2)
    >>> equal(state, get_rng_state())
    True
    """
    chosen = [backends.CPU, *map(backend_for, devices or ())] if enabled else []
    generators = [default_generator(backend) for backend in chosen]
    states = [generator.get_state() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
