"""The rules: for each op, which placements of its inputs fit together along one axis of a mesh.

That all are replicated always fits, and is not listed. Most rules follow from what an op's
definition says of it anyway: that it is elementwise, a reduction, or the names of its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.op import Op
from .dispatch import RULES, Call, Candidate
from .layer_rules import LAYER_RULES
from .placement_types import Partial, Placement, Replicate, Shard
from .redistribution import Spec
from .view_rules import VIEW_RULES

__all__ = ["rule_of"]

Rule = Callable[[Call], list[Candidate]]

LINEAR = {"neg", "positive", "clone", "convert_dtype", "to_device", "contiguous", "real", "imag"}
"""Elementwise ops of one tensor for which f(a + b) = f(a) + f(b)."""

ELEMENTWISE = {"bce_forward", "bce_with_logits_forward", "complex", "polar", *LINEAR}
"""Elementwise ops besides those whose family broadcasts."""

WHOLE = {
    "cholesky",
    "det",
    "eig_forward",
    "eigh_forward",
    "inv",
    "lu_factor_forward",
    "matrix_exp",
    "median_forward",
    "pinv_forward",
    "qr_forward",
    "roll",
    "slogdet_forward",
    "solve_forward",
    "solve_triangular_forward",
    "svd_forward",
}
"""Ops that need the whole of their inputs."""

NAMED_AXES = {"linear", "mm", "bmm", "mv", "dot", "outer"}
"""Products whose rule is their `contract`."""


def rule_of(op: Op) -> Rule | None:
    """Return the rule of an op; None: it has none."""
    if op.name in RULES:
        return RULES[op.name]
    if op.family.broadcasts or op.name in ELEMENTWISE:
        return elementwise
    if op.family.reduces:
        return reduction
    if op.name in WHOLE:
        return lambda call: []
    if op.name in NAMED_AXES and op.contract is not None:
        return lambda call: product(call, op.contract.terms, op.contract.output.split())
    return None


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of some ops."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


RULES.update(VIEW_RULES | LAYER_RULES)


def shard_of(spec: Spec | None, dim: int, ndim: int) -> Placement | None:
    """Return how an operand that broadcasts is placed where `dim` of the result is divided."""
    if spec is None:
        return None
    own = dim - (ndim - len(spec.shape))
    return Shard(own) if own >= 0 and spec.shape[own] != 1 else Replicate()


def elementwise(call: Call) -> list[Candidate]:
    """Every axis may be divided; sums of terms stay sums where the op is linear."""
    ndim, name = len(call.output), call.op.name
    candidates = [
        Candidate(tuple(shard_of(spec, dim, ndim) for spec in call.inputs), Shard(dim))
        for dim in range(ndim)
        if call.output[dim] != 1
    ]
    count, placed = len(call.inputs), [spec is not None for spec in call.inputs]
    for total in (Partial(), Partial("avg")):
        terms: list[tuple[Placement | None, ...]] = []
        if (name in ("add", "sub") and all(placed)) or (name in LINEAR and count == 1):
            terms = [(total,) * count]
        elif name in ("mul", "div") and count == 2:
            terms = [(total, Replicate() if placed[1] else None)] if placed[0] else []
            if name == "mul" and placed[1]:
                terms.append((Replicate() if placed[0] else None, total))
        candidates += [Candidate(inputs, total) for inputs in terms]
    return candidates


def reduced_axes(call: Call, ndim: int) -> tuple[int, ...]:
    """Return the axes that a reduction goes over."""
    dim = call.settings.get("dim")
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return tuple(range(ndim))
    dims = dim if isinstance(dim, Sequence) else (dim,)
    return tuple(int(axis) % max(ndim, 1) for axis in dims)


def reduction(call: Call) -> list[Candidate]:
    """An axis that stays may be divided. Sums may be over divided axes: they become terms."""
    (spec,) = call.inputs
    assert spec is not None
    ndim, name = len(spec.shape), call.op.name
    axes = reduced_axes(call, ndim)
    keeps = bool(call.settings.get("keepdim"))
    candidates = []
    for dim in range(ndim):
        if dim not in axes:
            moved = dim if keeps else dim - sum(axis < dim for axis in axes)
            candidates.append(Candidate((Shard(dim),), Shard(moved)))
        elif name == "sum":
            candidates.append(Candidate((Shard(dim),), Partial()))
        elif name == "mean" and spec.shape[dim] % call.mesh_size == 0:
            candidates.append(Candidate((Shard(dim),), Partial("avg")))
    if name in ("sum", "mean"):
        candidates += [Candidate((p,), p) for p in (Partial(), Partial("avg"))]
    return candidates


@rule("softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp", "sort_forward", "cum_minmax")
def along_one_axis(call: Call) -> list[Candidate]:
    """Every other axis may be divided."""
    (spec,) = call.inputs
    assert spec is not None
    ndim = len(spec.shape)
    along = int(call.settings["dim"]) % max(ndim, 1)
    return [Candidate((Shard(dim),), Shard(dim)) for dim in range(ndim) if dim != along]


@rule("minmax_dim")
def extreme(call: Call) -> list[Candidate]:
    """As a reduction whose axis stays whole."""
    return [c for c in reduction(call) if isinstance(c.output, Shard)]


@rule("native_layer_norm", "fused_rms_norm")
def norm_of_last_axes(call: Call) -> list[Candidate]:
    """The axes in front may be divided; weight and bias are whole."""
    first, *others = call.inputs
    assert first is not None
    rest = tuple(None if spec is None else Replicate() for spec in others)
    count = len(first.shape) - int(call.settings["axes"])
    return [Candidate((Shard(dim), *rest), Shard(dim)) for dim in range(count)]


def product(call: Call, terms: Sequence[Sequence[str]], output: Sequence[str]) -> list[Candidate]:
    """Of axes with names, each may be divided wherever it occurs.

    One that the result lacks is summed over: the result is a sum of terms, and so is an input
    that is added, as a bias.
    """
    named = [
        None if spec is None else expand(term, len(spec.shape))
        for term, spec in zip(terms, call.inputs, strict=False)
    ]
    result = expand(output, len(call.output))
    candidates = []
    for axis in dict.fromkeys(name for term in named if term for name in term):
        is_summed = axis not in result
        inputs: list[Placement | None] = []
        for position, term in enumerate(named):
            if term is None:
                inputs.append(None)
            elif axis in term:
                inputs.append(Shard(term.index(axis)))
            else:
                inputs.append(Partial() if is_summed and position >= 2 else Replicate())
        candidates.append(
            Candidate(tuple(inputs), Partial() if is_summed else Shard(result.index(axis)))
        )
    added = tuple(None if term is None else Partial() for term in named[2:])
    for pair in ((Partial(), Replicate()), (Replicate(), Partial())):
        candidates.append(Candidate((*pair, *added), Partial()))
    return candidates


def expand(term: Sequence[str], ndim: int) -> list[str]:
    """Return the names of all axes: `...` stands for as many as there are, counted from behind."""
    if not term or term[0] != "...":
        return list(term)
    missing = ndim - (len(term) - 1)
    return [f"batch{missing - i}" for i in range(missing)] + list(term[1:])


@rule("matmul")
def matmul(call: Call) -> list[Candidate]:
    """A product of matrices or vectors, with axes in front that broadcast."""
    first, second = call.inputs
    assert first is not None and second is not None
    left = ["k"] if len(first.shape) == 1 else ["n", "k"]
    right = ["k"] if len(second.shape) == 1 else ["k", "m"]
    terms = []
    for spec, names in ((first, left), (second, right)):
        count = len(spec.shape) - len(names)
        front = [
            f"batch{count - i}" if spec.shape[i] != 1 else f"one{count - i}" for i in range(count)
        ]
        terms.append([*front, *names])
    rows = len(call.output) - ("n" in left) - ("m" in right)
    front = [f"batch{rows - i}" for i in range(rows)]
    output = [*front, *(name for name in ("n", "m") if name in left or name in right)]
    candidates = product(call, terms, output)
    return [c for c, keep in zip(candidates, usable(candidates, terms), strict=True) if keep]


def usable(candidates: Sequence[Candidate], terms: Sequence[Sequence[str]]) -> list[bool]:
    """Return which candidates do not divide an axis of length 1."""
    result = []
    for candidate in candidates:
        divided = [
            terms[i][p.dim] for i, p in enumerate(candidate.inputs) if isinstance(p, Shard)
        ]  # fmt: skip
        result.append(not any(name.startswith("one") for name in divided))
    return result


@rule("einsum_forward")
def einsum(call: Call) -> list[Candidate]:
    """As the equation names the axes, of one or two operands; no axis occurs twice in a term."""
    inputs, arrow, output = str(call.settings["equation"]).replace(" ", "").partition("->")
    terms = [list(term) for term in inputs.split(",")]
    is_plain = arrow and "." not in inputs and all(len(set(t)) == len(t) for t in terms)
    return product(call, terms, list(output)) if is_plain and len(terms) <= 2 else []


@rule("index_select")
def index_select(call: Call) -> list[Candidate]:
    """The indices may be divided, and the axes that are not selected from."""
    spec, *index = call.inputs
    assert spec is not None
    along = int(call.settings["dim"]) % len(spec.shape)
    whole = tuple(None if i is None else Replicate() for i in index)
    candidates = [
        Candidate((Shard(dim), *whole), Shard(dim))
        for dim in range(len(spec.shape))
        if dim != along
    ]
    if any(i is not None and i.shape for i in index):
        candidates.append(Candidate((Replicate(), Shard(0)), Shard(along)))
    return candidates


@rule("nll_loss")
def nll_loss(call: Call) -> list[Candidate]:
    """Without a mean, which divides by the number of rows that count, the batch may be divided."""
    reduction = call.settings.get("reduction")
    if reduction == "mean" or call.inputs[1] is None:
        return []
    rest = tuple(None if spec is None else Replicate() for spec in call.inputs[2:])
    output = Shard(0) if reduction == "none" else Partial()
    return [Candidate((Shard(0), Shard(0), *rest), output)]


@rule("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
def elementwise_loss(call: Call) -> list[Candidate]:
    """Every axis may be divided."""
    first, reduction = call.inputs[0], call.settings.get("reduction")
    if first is None or any(spec is None or spec.shape != first.shape for spec in call.inputs):
        return []
    candidates = []
    for dim, size in enumerate(first.shape):
        output: Placement = Shard(dim) if reduction == "none" else Partial()
        if reduction == "mean":
            if size % call.mesh_size:
                continue
            output = Partial("avg")
        candidates.append(Candidate((Shard(dim),) * len(call.inputs), output))
    return candidates


@rule("masked_fill")
def masked_fill(call: Call) -> list[Candidate]:
    """As elementwise; the mask is the last of the inputs."""
    return [c for c in elementwise(call) if isinstance(c.output, Shard)]
