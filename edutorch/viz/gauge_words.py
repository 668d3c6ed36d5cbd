"""Says in plain words what the gauges mean, and what helps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .gauges import Activation, Row

FAR = 1e3
"""First and last layers whose gradients differ by this factor."""

HUGE = 1e3
"""A gradient norm of this size."""

HEALTHY = (1e-5, 3e-2)
"""Between these, the size of an update beside its weights is nothing to worry about."""

MANY = 0.5
"""A share of dead or saturated units that is worth a word."""

FINE = "Gradients reach every layer, and the updates have a healthy size."


def words_of(rows: Sequence[Row], activations: Sequence[Activation]) -> list[str]:
    """Return sentences, the most urgent first; one that says that all is well if it is."""
    return [*gradient_words(rows), *update_words(rows), *activation_words(activations)] or [FINE]


def gradient_words(rows: Sequence[Row]) -> list[str]:
    lost = [row.name for row in rows if not math.isfinite(row.norm)]
    if lost:
        return [f"The gradient of {listed(lost)} is NaN or infinite: a smaller learning rate, or "
                "a look at where it first appears, helps."]  # fmt: skip
    sizes = [row.norm_median for row in rows if row.norm_median > 0]
    if not sizes and rows:
        return ["No gradient arrives anywhere: all are 0."]
    if not sizes:
        return []
    third = max(1, len(sizes) // 3)
    first, last = statistics.median(sizes[:third]), statistics.median(sizes[-third:])
    if len(sizes) >= 4 and first * FAR < last:
        return [f"Gradients vanish on their way to the first layers: {first:.1e} there, {last:.1e} "
                "at the end. ReLU, a better initialisation, normalisation or residual connections "
                "help."]  # fmt: skip
    if max(sizes, default=0.0) > HUGE or (len(sizes) >= 4 and first > last * FAR):
        return [f"Gradients explode: up to {max(sizes):.1e}. A smaller learning rate, "
                "clip_grad_norm_ or normalisation helps."]  # fmt: skip
    none = [row.name for row in rows if row.norm_median == 0]
    return [f"No gradient arrives at {listed(none)}."] if none else []


def update_words(rows: Sequence[Row]) -> list[str]:
    known = [row for row in rows if math.isfinite(row.ratio_median) and row.norm_median > 0]
    if not known:
        return []
    middle = statistics.median(row.ratio_median for row in known)
    if middle > HEALTHY[1]:
        return [f"Each step changes the weights by {middle:.0%} (about 0.1% is usual): the "
                "learning rate is high."]  # fmt: skip
    if 0 < middle < HEALTHY[0]:
        return [f"Each step changes the weights by only {middle:.0e} of their size (about 1e-03 is "
                "usual): either it has arrived, or the learning rate is low."]  # fmt: skip
    return []


def activation_words(activations: Sequence[Activation]) -> list[str]:
    found = []
    for kind, sentence in (
        ("relu", "of the units of {} are 0 for every example: no gradient passes them. A smaller "
                 "learning rate or a leaky ReLU helps."),
        ("tanh", "of the results of {} are close to -1 or 1, where little gradient passes. Smaller "
                 "weights or normalisation help."),
        ("sigmoid", "of the results of {} are close to 0 or 1, where little gradient passes. "
                    "Smaller weights or normalisation help."),
    ):  # fmt: skip
        bad = [each for each in activations if each.kind == kind and each.off > MANY]
        if bad:
            worst = max(bad, key=lambda each: each.off)
            found.append(f"{worst.off:.0%} " + sentence.format(listed([each.name for each in bad])))
    return found


def listed(names: Sequence[str]) -> str:
    """Name some of many: `a, b and 3 more`.

    >>> listed(["a"]), listed(["a", "b", "c", "d"])
    ('a', 'a, b and 2 more')
    """
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} and {len(names) - 2} more"
