"""Messages about what the gauges mean, and what helps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .layer_health import Activation, Row

FAR = 1e3
"""The factor between first and last gradients that counts as vanishing or exploding."""

HUGE = 1e3
"""A gradient norm of this size."""

HEALTHY = (1e-5, 0.15)
"""Between these, the relative size of an update is healthy."""

FEW_SAMPLES = 3
"""What fewer samples show of a parameter may be chance, or its first steps."""

MANY = 0.5
"""A share of dead or saturated units that is worth a message."""

GAUGE_MESSAGES: dict[str, str] = {
    "lost": "The gradient of {names} is NaN or infinite: a smaller learning rate, or a look at "
    "where it first appears, helps.",
    "nowhere": "No gradient arrives anywhere: all are 0.",
    "vanishing": "Gradients vanish on their way to the first layers: {first:.1e} at {front}, "
    "{last:.1e} at {back}. ReLU, a better initialisation, normalisation or residual connections "
    "help.",
    "exploding": "Gradients explode: up to {largest:.1e} at {names}. A smaller learning rate, "
    "clip_grad_norm_ or normalisation helps.",
    "missing": "No gradient arrives at {names}.",
    "fast": "Each step changes the weights by {share:.0%} (about 0.1% is usual), most of all "
    "{names}: the learning rate is high.",
    "slow": "Each step changes the weights by only {share:.0e} of their size (about 1e-03 is "
    "usual), least of all {names}: either it has arrived, or the learning rate is low.",
    "relu": "{share:.0%} of the units of {names} are 0 for every example: no gradient passes them. "
    "A smaller learning rate or a leaky ReLU helps.",
    "tanh": "{share:.0%} of the results of {names} are close to -1 or 1, where little gradient "
    "passes. Smaller weights or normalisation help.",
    "sigmoid": "{share:.0%} of the results of {names} are close to 0 or 1, where little gradient "
    "passes. Smaller weights or normalisation help.",
    "fine": "Gradients reach every layer, and the updates have a healthy size.",
}
"""All messages of the gauges."""

FINE = GAUGE_MESSAGES["fine"]


def health_messages(rows: Sequence[Row], activations: Sequence[Activation]) -> list[str]:
    """Return messages, the most urgent first; one that says that all is well if it is."""
    return [
        *gradient_messages(rows),
        *update_messages(rows),
        *activation_messages(activations),
    ] or [FINE]


def gradient_messages(rows: Sequence[Row]) -> list[str]:
    # Where the weights stay finite, the update was left out, as a GradScaler does.
    lost = [row.name for row in rows if not (math.isfinite(row.norm) or math.isfinite(row.ratio))]
    if lost:
        return [GAUGE_MESSAGES["lost"].format(names=join_names(lost))]
    reached = [row for row in rows if row.norm_median > 0]
    none = [
        row.name for row in rows if row.norm_median == row.norm == 0 and row.samples >= FEW_SAMPLES
    ]
    if not reached:
        return [GAUGE_MESSAGES["nowhere"]] if none and len(none) == len(rows) else []
    sizes = [row.norm_median for row in reached]
    third = max(1, len(sizes) // 3)
    first, last = statistics.median(sizes[:third]), statistics.median(sizes[-third:])
    if len(sizes) >= 4 and first * FAR < last:
        ends = {"front": reached[0].name, "back": reached[-1].name}
        return [GAUGE_MESSAGES["vanishing"].format(first=first, last=last, **ends)]
    if max(sizes) > HUGE or (len(sizes) >= 4 and first > last * FAR):
        largest = max(reached, key=lambda row: row.norm_median)
        size, name = largest.norm_median, largest.name
        return [GAUGE_MESSAGES["exploding"].format(largest=size, names=name)]
    weights = [row.name for row in rows if row.name in none and row.weights]
    return [GAUGE_MESSAGES["missing"].format(names=join_names(none))] if weights else []


def update_messages(rows: Sequence[Row]) -> list[str]:
    known = [row for row in rows if math.isfinite(row.ratio_median) and row.norm_median > 0
             and row.samples >= FEW_SAMPLES]  # fmt: skip
    if not known:
        return []
    known.sort(key=lambda row: row.ratio_median)
    middle = statistics.median(row.ratio_median for row in known)
    still = statistics.median(min(row.ratio, row.ratio_median) for row in known)
    if still > HEALTHY[1]:  # and not only at first, when weights that began at 0 were small
        return [GAUGE_MESSAGES["fast"].format(share=middle, names=known[-1].name)]
    if 0 < middle < HEALTHY[0]:
        return [GAUGE_MESSAGES["slow"].format(share=middle, names=known[0].name)]
    return []


def activation_messages(activations: Sequence[Activation]) -> list[str]:
    messages = []
    for op in ("relu", "tanh", "sigmoid"):
        bad = [
            activation
            for activation in activations
            if activation.op == op and activation.off > MANY
        ]
        if bad:
            worst, names = (
                max(bad, key=lambda activation: activation.off),
                [activation.name for activation in bad],
            )
            messages.append(GAUGE_MESSAGES[op].format(share=worst.off, names=join_names(names)))
    return messages


def join_names(names: Sequence[str]) -> str:
    """Return some of many names: `a, b and 3 more`.

    >>> join_names(["a"]), join_names(["a", "b", "c", "d"])
    ('a', 'a, b and 2 more')
    """
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} and {len(names) - 2} more"
