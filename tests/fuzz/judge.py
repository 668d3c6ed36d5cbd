"""Comparison of two outcomes with a tolerance per dtype; float64 decides which one is right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import edutorch
from edutorch.errors import EdutorchError

from .calls import Call, Dtype, Outcome, Result, resolve, run_call
from .known import RANDOM, UNIQUE_OUTPUTS, reason_different
from .open_choices import with_our_choice
from .references import corrected
from .tensors import TensorSpec, largest, numpy_dtype, smallest, values_of

TOLERANCE = {
    "float64": 1e-9, "float32": 2e-5, "float16": 6e-3, "bfloat16": 5e-2,
    "complex128": 1e-9, "complex64": 2e-5,
}  # fmt: skip
"""The largest relative difference, some 5 units in the last place of the 16-bit dtypes. A result
whose own inputs, moved by half a unit, move it by more may differ by `SLACK` times that."""

SLACK = 16.0
NUDGES = 3

COARSE: tuple[tuple[str, str, float], ...] = (
    (r"optim\.Muon", "", 5e-2),  # iterates in bfloat16
    (r"distributions\.(Beta|Binomial|Chi2|Dirichlet|FisherSnedecor|Gamma|InverseGamma|Kumaraswamy|"
     r"Multinomial|NegativeBinomial|Poisson|StudentT|Weibull|Wishart)\..*",
     "gradient|second|jvp", 1e-6),  # trigamma has 9 digits
)  # fmt: skip
"""(path, label of the result, tolerance): what PyTorch computes with few digits in float64, too."""

LACKS_KERNEL = (
    "not implemented", "not supported", "does not support", "unsupported", "nsupported",
    "not differentiable with respect", "MKL FFT error", "derivative for",
)  # fmt: skip
"""What PyTorch says where it lacks a kernel or a derivative: that edutorch has one is no fault."""

OTHER_SIGNATURE = ("invalid combination of arguments", "missing", "tuple of ints, not int",
                   "unexpected keyword", "takes", "tuple of Tensors")  # fmt: skip
"""What PyTorch says of a call in a form that only edutorch also takes."""

ABOUT_DISTRIBUTIONS = ("Expected parameter", "Expected value", "The right-most", "Value is not")
"""What PyTorch's distributions say, and ours with them, also where PyTorch fails before it."""

DTYPE_WORDS = ("dtype", "scalar type", "type ", "floating", "integral", "data type", "long tensor")
"""Words by which an error is about dtypes: edutorch takes more of them, and promotes."""


@dataclass(frozen=True)
class Finding:
    """A disagreement.

    Args:
        kind: "value", "gradient", "dtype", "refused", "unclear error", "hang", …
        detail: one line: what came out here, in PyTorch and in float64.
    """

    call: Call
    kind: str
    detail: str

    @property
    def key(self) -> tuple[str, str]:
        return self.call.path, self.kind


@dataclass
class Verdict:
    """What a call came to: whether PyTorch took it, and what is wrong."""

    is_valid: bool
    finding: Finding | None = None


def examine(call: Call, library: Any, torch: Any, announce: Any = None) -> Verdict:
    """Make a call in both libraries and compare."""
    if announce:
        announce("PyTorch")
    theirs = run_call(call, torch, is_reference=True)
    if announce:
        announce("edutorch")
    ours = run_call(call, library)
    if announce:
        announce("PyTorch")
    difference = compare(call, ours, theirs, torch)
    if difference is None or reason_different(
        call.path, *difference, tensors_of(call), words_of(call)
    ):
        return Verdict(theirs.error is None)
    return Verdict(theirs.error is None, Finding(call, *difference))


def words_of(call: Call) -> set[str]:
    """Return the names of a call's settings, the layouts of its tensors, "empty" if one is, "short"
    if an axis of one has one number or none, "outranked" if one has more axes than the first.

    A setting is also there with its value: "p=2.0", a tensor with the number of its axes: "2 axes".
    """
    is_empty = any(0 in spec.shape for spec in call.specs())
    values = [f"{key}={value}" for key, value in call.settings.items()]
    layouts = [spec.layout for spec in call.specs()]
    axes = [f"{len(spec.shape)} axes" for spec in call.specs()]
    is_short = any(min(spec.shape, default=0) < 2 for spec in call.specs())
    ranks = [len(spec.shape) for spec in call.specs()]
    is_outranked = bool(ranks) and max(ranks) > ranks[0]
    special = ["empty"] * is_empty + ["short"] * is_short + ["outranked"] * is_outranked
    return {*call.settings, *values, *layouts, *axes, *special}


def tensors_of(call: Call) -> list[np.ndarray]:
    """Return the numbers of a call's tensors as it sees them, 16-bit ones in float32."""
    views = {
        "offset": lambda x: x[1:], "sliced": lambda x: x[..., ::2], "transposed": np.transpose,
        "channels_last": lambda x: np.moveaxis(x, -1, 1) if x.ndim > 1 else x,
    }  # fmt: skip
    arrays = []
    for spec in call.specs():
        values = values_of(spec)
        values = views[spec.layout](values) if values.ndim and spec.layout in views else values
        arrays.append(values.astype("float32") if spec.dtype.endswith("float16") else values)
    return arrays


def compare(call: Call, ours: Outcome, theirs: Outcome, torch: Any) -> tuple[str, str] | None:
    """Return (kind, detail) of a disagreement, or None."""
    if ours.error is not None or theirs.error is not None:
        difference = compare_errors(call, ours, theirs)
        if difference or (ours.error is not None and theirs.error is not None):
            return difference
        if theirs.error is not None and theirs.stage == "forward":
            return None
    chosen = with_our_choice(call, ours, theirs, torch)
    if chosen is not None:
        torch, theirs = chosen, run_call(call, chosen, is_reference=True)
    judge = Judge(call, torch)
    for mine, wanted in zip(ours.results, theirs.results, strict=False):
        difference = compare_results(call, mine, wanted, judge, theirs.error is None)
        if difference:
            return difference
    if len(ours.results) != len(theirs.results) and theirs.error is None and ours.error is None:
        return "structure", f"{len(ours.results)} results here, {len(theirs.results)} in PyTorch"
    return None


def error_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"


def compare_errors(call: Call, ours: Outcome, theirs: Outcome) -> tuple[str, str] | None:
    """Compare what is refused; an error of ours that names no op is unclear."""
    mine, other = ours.error, theirs.error
    if mine is not None and not is_clear(call, mine, other):
        wanted = error_line(other) if other else "a result"
        return f"unclear error {ours.stage}", f"here {error_line(mine)}; PyTorch: {wanted}"
    if other is None and mine is not None:
        if all(0 in result.shape for result in theirs.results if result.dtype != "sequence"):
            return None  # of nothing PyTorch's kernels ask nothing
        return f"refused {ours.stage}", f"here {error_line(mine)}; PyTorch answers"
    if mine is None and other is not None and theirs.stage == "forward":
        text = str(other)
        if any(words in text for words in (*LACKS_KERNEL, *OTHER_SIGNATURE)):
            return None
        if call.mode == "out" or not any(words in text for words in DTYPE_WORDS):
            return "accepted", f"PyTorch {error_line(other)}"
    return None


def is_clear(call: Call, mine: BaseException, other: BaseException | None) -> bool:
    """Whether an error says where it comes from, or is the one that PyTorch's Python raises."""
    if isinstance(mine, EdutorchError) or (isinstance(other, type(mine)) and not str(mine)):
        return True  # an empty one is NotImplementedError, as in PyTorch's distributions
    text = str(mine)
    if isinstance(mine, TypeError) and "argument" in text:
        return True  # Python's own words about a signature
    if type(mine) is type(other) and (isinstance(mine, ValueError) or text == str(other)):
        return True
    if type(mine) is ValueError and text.startswith(ABOUT_DISTRIBUTIONS):
        return True
    return call.path.rpartition(".")[2].rstrip("_").lower() in text.lower()


def is_elementwise(path: str) -> bool:
    """Whether each number of a result comes from one number of each argument."""
    if path.startswith("distributions"):
        return False
    op = getattr(resolve(edutorch, path), "op", None)
    return op is not None and op.family.broadcasts


class Judge:
    """The same call in float64, made only when it is needed."""

    def __init__(self, call: Call, torch: Any) -> None:
        self.call, self.torch = call, corrected(call, torch)
        self.outcomes: dict[int, dict[str, Result]] = {}
        self.is_elementwise = is_elementwise(call.path)

    def result(self, label: str, nudge: int = 0) -> Result | None:
        if nudge not in self.outcomes:
            outcome = run_call(self.call.wide(nudge), self.torch, is_reference=True)
            self.outcomes[nudge] = {result.label: result for result in outcome.results}
        return self.outcomes[nudge].get(label)

    def allowed(self, right: Result, tolerance: float, unit: float) -> np.ndarray:
        """Return how far each number may be from the judge's."""
        scale = np.abs(right.value)
        moved = np.zeros(right.shape)
        with np.errstate(all="ignore"):
            for nudge in range(1, NUDGES + 1):
                other = self.result(right.label, nudge)
                if other is not None and other.shape == right.shape:
                    change = np.abs(other.value - right.value)
                    moved = np.maximum(moved, np.where(np.isnan(change), np.inf, change))
            allowed = tolerance * scale + SLACK * moved
            if not (right.label.startswith("output") and self.is_elementwise):
                finite = scale[np.isfinite(scale)]  # there may be sums of terms that cancel
                allowed += tolerance / 8 * (finite.max() if finite.size else 0)
                allowed += (16 if unit < 1e-4 else 4) * unit  # of sums of terms around 1
            return allowed


def compare_results(
    call: Call, mine: Result, wanted: Result, judge: Judge, compares_graphs: bool
) -> tuple[str, str] | None:
    """Compare one result: what it is, then its numbers."""
    path = call.path.rpartition(".")[2]
    where = "gradient" if mine.label.startswith("gradient") else (
        "second derivative" if mine.label.startswith("second") else
        "forward mode" if mine.label.startswith("jvp") else "value")  # fmt: skip
    mode = f" {call.mode}" if call.mode in ("compile", "autocast", "out", "strict") else ""
    if mine.label != wanted.label or (mine.dtype == "sequence") != (wanted.dtype == "sequence"):
        return f"structure{mode}", f"{mine.label} here, {wanted.label} in PyTorch"
    if mine.dtype != wanted.dtype:
        return f"dtype{mode}", f"{mine.label}: {mine.dtype} here, {wanted.dtype} in PyTorch"
    if mine.shape != wanted.shape:
        return f"shape{mode}", f"{mine.label}: {mine.shape} here, {wanted.shape} in PyTorch"
    unique = next((text for name, text in UNIQUE_OUTPUTS.items() if re.fullmatch(name, path)), None)
    if unique is not None and mine.label not in unique.split():
        return None
    if (
        mine.label.startswith("output")
        and compares_graphs
        and mine.requires_grad != wanted.requires_grad
    ):
        return (
            f"requires_grad{mode}",
            f"{mine.requires_grad} here, {wanted.requires_grad} in PyTorch",
        )
    if RANDOM.fullmatch(call.path) or not isinstance(mine.value, np.ndarray):
        return None
    wrong = find_wrong_value(mine, wanted, judge, no_derivative(call, mine))
    if wrong is None:
        return None
    width = " 16 bits" if mine.dtype in ("float16", "bfloat16") else ""
    return f"{where}{mode}{width}", f"{mine.label}: {wrong}"


def no_derivative(call: Call, mine: Result) -> Any:
    """Return where a derivative is by a number that is NaN: there it is a convention."""
    is_forward = mine.label.startswith("jvp1")
    specs = [spec for spec in call.specs() if spec.grad]
    leaves = [apply_view(spec) if is_forward else values_of(spec) for spec in specs]
    label = re.fullmatch(r"(gradient|second)(\d+)", mine.label)
    if label is not None:
        leaves = leaves[int(label[2]) : int(label[2]) + 1]
    elif not is_forward:
        return False
    skipped = np.zeros(mine.shape, bool)
    for values in leaves:
        if values.shape == mine.shape:
            skipped |= np.isnan(values.astype(complex))
    return skipped


def apply_view(spec: TensorSpec) -> np.ndarray:
    """Return the values of the view that a function is given."""
    values = values_of(spec)
    if not spec.shape or spec.layout == "contiguous":
        return values
    if spec.layout == "transposed":
        return values.T
    if spec.layout == "sliced":
        return values[..., ::2]
    if spec.layout == "offset":
        return values[1:]
    if spec.layout == "expanded":
        return np.broadcast_to(values, spec.shape)
    return np.moveaxis(values, -1, 1) if len(spec.shape) > 1 else values


def find_wrong_value(
    mine: Result, wanted: Result, judge: Judge, skipped: Any = False
) -> str | None:
    """Return the first number that is neither PyTorch's nor float64's, in words, or None."""
    name = mine.dtype.removeprefix("python ")
    name = {"float": "float64", "complex": "complex128"}.get(name, name)
    if name not in TOLERANCE:
        return find_wrong_integer(mine, wanted, judge)
    tolerance = max(TOLERANCE[dtype_name] for dtype_name in (name, *narrower_dtypes(judge.call)))
    tolerance = max(tolerance, coarser(judge.call, mine.label))
    base = {"complex64": "float32", "complex128": "float64"}.get(name, name)
    with np.errstate(all="ignore"):
        near = tolerance * np.abs(wanted.value) + 4 * smallest(base)
        if judge.call.path.startswith("optim."):  # parameters around 1 that were moved to 0
            near += 16 * unit_of(base)
        bad = ~agree(mine.value, wanted.value, near)
        bad &= ~np.asarray(skipped)
        if not bad.any():
            return None
        right = judge.result(mine.label)
        if right is not None and right.shape == mine.shape and isinstance(right.value, np.ndarray):
            rounded = apply_overflow(right.value, base)
            allowed = judge.allowed(right, tolerance, unit_of(base)) + 4 * smallest(base)
            allowed = np.maximum(allowed, as_inexact(wanted.value, right.value, tolerance))
            bad &= ~agree(mine.value, rounded, allowed)
            bad &= ~both_overflow(mine.value, wanted.value, right.value, base)
    if bad.any():
        bad &= ~by_convention(mine.value, wanted.value, judge)
    if not bad.any():
        return None
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    judged = right.value[index] if right is not None and right.shape == mine.shape else "nothing"
    return (f"at {index} {mine.value[index]!s} here, {wanted.value[index]!s} in PyTorch, "
            f"{judged!s} in float64 ({int(bad.sum())} of {bad.size})")  # fmt: skip


def find_wrong_integer(mine: Result, wanted: Result, judge: Judge) -> str | None:
    bad = np.asarray(mine.value != wanted.value)
    if not bad.any():
        return None
    right = judge.result(mine.label)
    if right is not None and right.shape == mine.shape and isinstance(right.value, np.ndarray):
        bad = bad & np.asarray(mine.value != right.value)
    if not bad.any():
        return None
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"at {index} {mine.value[index]!s} here, {wanted.value[index]!s} in PyTorch"


def apply_overflow(value: np.ndarray, name: str) -> np.ndarray:
    """Return numbers as a dtype keeps them that has no larger ones than its largest."""
    if np.iscomplexobj(value):
        return value
    top = largest(name)
    return np.where(np.abs(value) > top * (1 + 1e-3), np.sign(value) * np.inf, value)


def both_overflow(mine: np.ndarray, wanted: np.ndarray, right: np.ndarray, name: str) -> Any:
    """Return where a dtype has too few numbers for what float64 can say, here and in PyTorch."""
    broken = ~np.isfinite(mine)
    near = np.abs(right) > largest(name) / 8
    return broken & np.isfinite(right) & (~np.isfinite(wanted) | near)


def narrower_dtypes(call: Call) -> list[str]:
    """Return dtypes that a call may have rounded its numbers to on the way."""
    values = (*call.args, *call.settings.values())
    asked = [value.name for value in values if isinstance(value, Dtype)]
    under_autocast = ["bfloat16"] * (call.mode == "autocast")
    return [*(name for name in asked if name in TOLERANCE), *under_autocast]


def as_inexact(wanted: np.ndarray, right: np.ndarray, tolerance: float) -> float:
    """Return how far PyTorch's numbers are off, if that may be by rounding: so may ours be."""
    finite = np.isfinite(wanted) & np.isfinite(right)
    if not finite.any():
        return 0.0
    size = max(float(np.abs(right[finite]).max()), 1.0)
    return min(3 * float(np.abs(wanted - right)[finite].max()), 100 * tolerance * size)


def coarser(call: Call, label: str) -> float:
    """Return the relative error of what PyTorch computes with fewer digits in every dtype.

    And of long sums of complex64, which NumPy adds up one after the other.
    """
    if any(spec.dtype == "complex64" and spec.size > 10_000 for spec in call.specs()):
        return 1e-4
    fits = (size for name, part, size in COARSE
            if re.fullmatch(name, call.path) and re.match(part, label))  # fmt: skip
    return max(fits, default=0.0)


def unit_of(name: str) -> float:
    """Return the relative distance of neighbouring numbers of a dtype."""
    return float(ml_dtypes.finfo(numpy_dtype(name)).eps)


def by_convention(mine: np.ndarray, wanted: np.ndarray, judge: Judge) -> Any:
    """Return where the order of the steps decides: complex numbers at ∞, sums that get there."""
    leaves = [(spec.dtype, values_of(spec)) for spec in judge.call.specs() if spec.is_float]
    sizes = [np.abs(x.astype(complex)) / largest(name.replace("complex64", "float32"))
             for name, x in leaves]  # fmt: skip
    is_complex = np.iscomplexobj(mine) or any(np.iscomplexobj(x) for _, x in leaves)
    if is_complex and not all(np.isfinite(size).all() for size in sizes):
        return np.ones(mine.shape, bool)
    is_huge = any(((size > 1 / 8) & np.isfinite(size)).any() for size in sizes)
    is_sum = not judge.is_elementwise  # of which a part may leave the range
    broken, also_there = ~np.isfinite(mine), ~np.isfinite(wanted)
    return (broken & also_there | is_sum & (broken | also_there)) & is_huge


def agree(mine: np.ndarray, wanted: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return where numbers are equal, both NaN, or no farther apart than allowed."""
    if np.iscomplexobj(mine) or np.iscomplexobj(wanted):
        broken = ~np.isfinite(mine) & ~np.isfinite(wanted)
        return broken | (mine == wanted) | (np.abs(mine - wanted) <= allowed)
    both_nan = np.isnan(mine) & np.isnan(wanted)
    return both_nan | (mine == wanted) | (np.abs(mine - wanted) <= allowed)
