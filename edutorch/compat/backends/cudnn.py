"""`torch.backends.cudnn`: switches that scripts set. They are stored, and have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled = True
benchmark = False
benchmark_limit: int | None = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return False: convolutions do not use cuDNN."""
    return False


def version() -> int | None:
    """Return None: cuDNN is not used."""
    return None


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Set the switches inside a `with` block only."""
    inside = dict(locals())
    before = {name: globals()[name] for name in inside}
    globals().update(inside)
    try:
        yield
    finally:
        globals().update(before)
