"""Saving and restoring the state of the random generators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import backends
from ..backends.device import backend_for
from ..core.tensor import Tensor
from .random import default_generator


def get_rng_state() -> Tensor:
    """Return the state of the CPU's generator as a tensor of bytes.

    >>> state = get_rng_state(); first = rand(2)
    >>> set_rng_state(state); equal(first, rand(2))
    True
    """
    return default_generator(backends.CPU).get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restore the CPU's generator to a state that `get_rng_state` returned.

    Raises: TypeError: not a tensor of bytes.

    >>> set_rng_state(get_rng_state())
    """
    default_generator(backends.CPU).set_state(new_state)


@contextmanager
def fork_rng(
    devices: Sequence[Any] | None = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str = "cuda",
) -> Iterator[None]:  # fmt: skip
    """Restore the state of the generators after the `with` block.

    Args:
        devices: those to restore besides the CPU.
        enabled: False to do nothing.

    >>> state = get_rng_state()
    >>> with edutorch.random.fork_rng():
    ...     _ = rand(2)
    >>> equal(state, get_rng_state())
    True
    """
    saved_backends = [backends.CPU, *map(backend_for, devices or ())] if enabled else []
    generators = [default_generator(backend) for backend in saved_backends]
    states = [generator.get_state() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
