"""Why an op, or the rule of its derivative, makes a NaN or an infinity out of finite values.

For each op that can: what to count in its operands, and what to do about it. Only called once
something bad has been found, so it may take its time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ..tensors.summaries import stored_elements

Cause = tuple[str, str]
"""What happened, and what to do about it."""

NAMES = ("input", "other")


DELIBERATE_OPS = {
    "masked_fill", "where", "full", "fill", "clone", "nan_to_num", "masked_scatter", "triu", "tril",
    "index_fill", "copy",
}  # fmt: skip
"""Ops that write given values."""

DELIBERATE: Cause = (
    "it was told to put it there, and the loss depends on it",
    "softmax makes 0 of -Inf, but a sum, a mean or a norm does not",
)


def count_non_finite(array: Array) -> int:
    """Count the elements that are NaN or infinite, without copying an array to the host."""
    usual = array.__class__ is np.ndarray and array.dtype.char in "fd"
    if usual and math.isfinite(np.vdot(array, array)):  # the fastest test for the many small arrays
        return 0
    array = stored_elements(array)
    if not backends.is_array(array):
        return int(isinstance(array, float) and not math.isfinite(array))
    if array.dtype.kind in "biu" or not array.size:
        return 0
    xp = backends.of(array).xp
    with np.errstate(all="ignore"):
        # One pass over the memory; a finite sum means that all terms are finite.
        large = array.dtype.kind == "f" and array.dtype.itemsize >= 4
        if large and math.isfinite(array.sum().item()):
            return 0
        return int(array.size - xp.isfinite(array).sum().item())


def has_nan(array: Array) -> bool:
    """Return True if there is a NaN (and not only infinities)."""
    array = stored_elements(array)
    return bool((array != array).any().item())


def count_true(test: Array) -> int:
    return int(test.sum().item()) if hasattr(test, "sum") else int(bool(test))


def places_text(count: int) -> str:
    """Return how often, as text: "at 1 place", "at 3 places"."""
    return f"at {count:,} place{'s' * (count != 1)}"


def describe_operand(name: str, array: Array) -> str:
    """Describe an operand in a row: shape, range, and how many bad values are in it."""
    if not hasattr(array, "shape"):
        return f"{name} = {array:g}" if isinstance(array, int | float) else f"{name} = {array}"
    array = stored_elements(array)
    shape = "×".join(map(str, array.shape)) or "scalar"
    if not array.size:
        return f"{name} ({shape}) is empty"
    if array.dtype.kind in "bc":
        return f"{name} ({shape} {array.dtype})"
    xp, bad = backends.of(array).xp, count_non_finite(array)
    if bad:
        good = xp.isfinite(array)
        if bad == array.size:
            return f"{name} ({shape}): all {bad:,} are NaN or Inf"
        array = array[good]
    low, high = float(array.min().item()), float(array.max().item())
    text = f"{name} ({shape}): from {low:.4g} to {high:.4g}"
    return f"{text}, and {bad:,} NaN or Inf" if bad else text


# Forward --------------------------------------------------------------------------------------


def domain_cause(limit: float, what: str, advice: str, at: str = "") -> Callable[..., Cause | None]:
    """Return a function that finds the cause for an op whose domain ends at `limit`."""

    def find(values: Mapping[str, Any], y: Array) -> Cause | None:
        x = values["input"]
        edge, under = count_true(x == limit), count_true(x < limit)
        if edge and at:
            return f"{what} of {at} {places_text(edge)}", advice
        if under:
            return f"{what} of a number below {limit:g} {places_text(under)}", advice
        return None

    return find


def unit_range_cause(what: str) -> Callable[..., Cause | None]:
    def find(values: Mapping[str, Any], y: Array) -> Cause | None:
        outside = count_true(abs(values["input"]) > 1)
        advice = "clamp it, x.clamp(-1 + 1e-6, 1 - 1e-6)"
        return (
            (f"{what} of a number outside of -1 … 1 {places_text(outside)}", advice)
            if outside
            else None
        )

    return find


def division_cause(values: Mapping[str, Any], y: Array) -> Cause | None:
    x, z = values["input"], values["other"]
    advice = (
        "add a small number to the divisor, x / (z + 1e-8), or leave out what has nothing in it"
    )
    both, only = count_true((x == 0) & (z == 0)), count_true((x != 0) & (z == 0))
    if both or only:
        parts = [f"0/0 {places_text(both)}"] * bool(both)
        parts += [f"a number divided by 0 {places_text(only)}"] * bool(only)
        return " and ".join(parts), advice
    return general_cause(values, y)


def exp_cause(values: Mapping[str, Any], y: Array) -> Cause | None:
    x = values.get("input")
    if y.dtype.kind != "f" or (x is not None and not hasattr(x, "max")):
        return None
    edge = math.log(float(np.finfo(y.dtype).max)) if y.dtype.itemsize > 1 else 0
    excess = f"more than {edge:.1f}, where"
    if x is not None:
        excess = f"{float(x.max().item()):.4g}, and above {edge:.1f}"
    return (
        f"exp of {excess} the result leaves the range of {y.dtype}",
        "subtract the largest number first, or use softmax, logsumexp or softplus, which do",
    )


def power_cause(values: Mapping[str, Any], y: Array) -> Cause | None:
    x, z = values.get("input", 1), values.get("exponent", values.get("other", 1))
    zero = count_true((x == 0) & (z < 0))
    if zero:
        return f"0 to a negative power {places_text(zero)}", "add a small number to the base"
    negative = count_true((x < 0) & (z != (z // 1)))
    if negative:
        return (
            f"a negative number to a power that is no integer {places_text(negative)}",
            "take the root of the size, x.abs() ** p",
        )
    return general_cause(values, y)


def softmax_cause(values: Mapping[str, Any], y: Array) -> Cause | None:
    x = values["input"]
    if count_true(x == -math.inf):
        return (
            "softmax of a row in which all is -Inf: everything is masked there",
            "leave at least one place of each row unmasked",
        )
    return None


def variance_cause(values: Mapping[str, Any], y: Array) -> Cause | None:
    size = getattr(values["input"], "size", 1) // max(1, y.size)
    if size <= 1:
        return (
            f"the spread of {size} number{'s' * (size != 1)} is not defined",
            "use more than one number, or correction=0",
        )
    return None


def mean_cause(values: Mapping[str, Any], y: Array) -> Cause | None:
    if not getattr(values["input"], "size", 1):
        return "the mean of no numbers", "leave empty batches out"
    return general_cause(values, y)


def general_cause(values: Mapping[str, Any], y: Array) -> Cause | None:
    """Find Inf - Inf, 0 · Inf, and results beyond the range of their dtype."""
    arrays = [value for value in values.values() if hasattr(value, "dtype")]
    if sum(count_non_finite(array) for array in arrays):
        what = "Inf - Inf, 0 · Inf or Inf / Inf"
        return f"{what} is NaN, and infinities came in", "look where they were made"
    floats = [array for array in arrays if array.dtype.kind == "f" and array.size]
    if not floats:
        return None
    largest = max(float(abs(float_).max().item()) for float_ in floats)
    return (
        f"the result leaves the range of {y.dtype} (largest operand {largest:.3g})",
        "keep numbers small: normalise the data, a smaller learning rate, clip_grad_norm_",
    )


ABOVE_ZERO = "clamp it, x.clamp(min=1e-8), or use log_softmax in place of log(softmax(x))"
FORWARD_CAUSES: dict[str, Callable[..., Cause | None]] = {
    "log": domain_cause(0, "log", ABOVE_ZERO, "0"),
    "log2": domain_cause(0, "log2", ABOVE_ZERO, "0"),
    "log10": domain_cause(0, "log10", ABOVE_ZERO, "0"),
    "log1p": domain_cause(-1, "log1p", ABOVE_ZERO, "-1"),
    "sqrt": domain_cause(0, "sqrt", "clamp it, x.clamp(min=0)"),
    "rsqrt": domain_cause(0, "rsqrt", "add a small number, rsqrt(x + 1e-8)", "0"),
    "reciprocal": domain_cause(0, "1/x", "add a small number to x", "0"),
    "acosh": domain_cause(1, "acosh", "clamp it, x.clamp(min=1)"),
    "acos": unit_range_cause("acos"), "asin": unit_range_cause("asin"),
    "atanh": unit_range_cause("atanh"),
    "div": division_cause, "exp": exp_cause, "expm1": exp_cause, "exp2": exp_cause,
    "sinh": exp_cause, "cosh": exp_cause, "pow": power_cause,
    "softmax": softmax_cause, "log_softmax": softmax_cause,
    "std": variance_cause, "var": variance_cause, "mean": mean_cause,
}  # fmt: skip


def cause_of(name: str, values: Mapping[str, Any], y: Array) -> Cause:
    """Return why op `name` made the bad `y` out of `values` (arrays and numbers by name)."""
    values = {key: stored_elements(value) for key, value in values.items()}
    cause = None
    if name in FORWARD_CAUSES:
        try:
            cause = FORWARD_CAUSES[name](values, y)
        except (KeyError, TypeError, ValueError, AttributeError):
            cause = None  # called in a way that the table does not know
    if cause is None and name in DELIBERATE_OPS:
        return DELIBERATE
    return cause or general_cause(values, y) or ("its operands were good", "look at its operands")


# Backward -------------------------------------------------------------------------------------

BACKWARD_CAUSES: dict[str, tuple[str, Callable[[Mapping[str, Any]], Any], str]] = {
    "sqrt": ("the slope of sqrt at 0 is infinite", lambda v: v["y"] == 0,
             "Add a small number below the root: (x + 1e-8).sqrt()."),
    "log": ("the slope of log at 0 is infinite", lambda v: v["input"] == 0,
            "Clamp before the logarithm: x.clamp(min=1e-8).log()."),
    "div": ("the slope of x / z at z = 0 is infinite", lambda v: v["other"] == 0,
            "Add a small number to the divisor: x / (z + 1e-8)."),
    "reciprocal": ("the slope of 1/x at 0 is infinite", lambda v: v["y"] * 0 != 0,
                   "Add a small number: 1 / (x + 1e-8)."),
    "rsqrt": ("the slope of 1/√x at 0 is infinite", lambda v: v["y"] * 0 != 0,
              "Add a small number: (x + 1e-8).rsqrt()."),
    "pow": ("the slope of a power below 1 at 0 is infinite", lambda v: v["input"] == 0,
            "Add a small number to the base: (x + 1e-8) ** p."),
    "acos": ("the slope of acos at ±1 is infinite", lambda v: abs(v["input"]) == 1,
             "Clamp it: x.clamp(-1 + 1e-6, 1 - 1e-6)."),
    "asin": ("the slope of asin at ±1 is infinite", lambda v: abs(v["input"]) == 1,
             "Clamp it: x.clamp(-1 + 1e-6, 1 - 1e-6)."),
    "std": ("the slope of std where all numbers are equal is 0/0", lambda v: v["y"] == 0,
            "Use the variance, or add a small number below the root."),
    "vector_norm": ("the slope of the norm of 0 is not defined", lambda v: v["y"] == 0,
                    "Add a small number below the root: (x * x).sum().add(1e-8).sqrt()."),
    "exp": ("exp of a large number is infinite, and so is its slope", lambda v: v["y"] * 0 != 0,
            "Subtract the largest number first, or use softmax, logsumexp or softplus."),
}  # fmt: skip


def cause_in_backward(name: str, values: Mapping[str, Any], g: Array) -> Cause:
    """Return why the rule of op `name` made a bad gradient out of the good `g`."""
    g, steep = stored_elements(g), BACKWARD_CAUSES.get(name)
    if steep is not None:
        try:
            at = steep[1](values)
            occurrences = count_true(at)
        except (KeyError, TypeError, ValueError):
            # What the rule had saved is no longer there.
            return f"{steep[0]}, or the gradient leaves the range of its type", steep[2]
        if occurrences:
            words = f"{steep[0]} ({places_text(occurrences)})"
            if getattr(at, "shape", None) == g.shape and count_true((g == 0) & at):
                words += ", and 0 · Inf is NaN: torch.where() and masks do not protect a gradient"
            return words, steep[2]
    return (
        "it leaves the range of its type; " + describe_operand("the gradient that came in", g),
        "Keep numbers small: a smaller learning rate, clip_grad_norm_, a GradScaler for float16.",
    )
