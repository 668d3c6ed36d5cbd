"""Programs as their authors write them: depth and topology as published, widths tiny.

Each file has `main(steps, watch)`: it trains for so many steps inside `with watch(model, …)`, where
the caller says how the loop is watched. One step takes well under a second.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unwatched(*models: object) -> Iterator[None]:
    """Stand in for `viz.live` where nobody watches."""
    yield
