"""The warm-up: a model is called before it is served, and one that fails is never served."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import EdutorchError
from .errors import ModelError
from .served import FREE_SIZES, Arrays, Served, check_outputs

TOLERANCE = 1e-3
"""Of the largest output: a product of more rows is summed in another order."""


def warm_up(served: Served) -> tuple[Served, bool]:
    """Call a model, and return it with True if requests may share a call.

    They may if each row of the result depends on its own row alone. A softmax along the wrong axis,
    which would mix strangers, is found here.

    Raises: ModelError: a call fails, or the result is not what the metadata say.
    """
    served = find_free_size(served)
    fewest, most = served.row_limits() or (1, 1)
    parts = min(3, most // fewest)
    if not served.batching or parts < 2:
        return served, False
    together = served.examples(rows=parts * fewest)
    alone = [
        {name: array[part * fewest : (part + 1) * fewest] for name, array in together.items()}
        for part in range(parts)
    ]
    try:
        whole = run(served, together)
        rows = [run(served, arrays) for arrays in alone]
    except EdutorchError:
        return served, False  # it says that it takes other numbers of rows, and takes one
    return served, all(
        agrees(array, np.concatenate([row[name] for row in rows])) for name, array in whole.items()
    )


def find_free_size(served: Served) -> Served:
    """Call a model with one row, and return it with the first free size that works."""
    has_free_axes = any(-1 in spec.shape[1:] for spec in served.inputs)
    sizes = [served.free_size]
    if has_free_axes:
        sizes += [size for size, _ in FREE_SIZES]
    failure: Exception | None = None
    for size in sizes:
        attempt = replace(served, free_size=size)
        try:
            run(attempt, attempt.examples())
        except Exception as error:  # noqa: BLE001  (a model may raise anything)
            failure = failure or error
        else:
            return attempt
    raise ModelError("serve", f"the warm-up failed: {failure}") from failure


def run(served: Served, arrays: Arrays) -> Arrays:
    results = served.call(arrays)
    check_outputs(served, results)
    return results


def agrees(whole: np.ndarray, rows: np.ndarray) -> bool:
    """Return True if rows that were computed together and alone are the same, but for rounding."""
    if whole.shape != rows.shape:
        return False
    if whole.dtype.kind in "biu":
        return bool((whole == rows).all())
    a, b = whole.astype(np.float64), rows.astype(np.float64)
    scale = np.max(np.abs(a), initial=1.0, where=np.isfinite(a))
    return bool(np.allclose(a, b, rtol=0, atol=TOLERANCE * scale, equal_nan=True))
