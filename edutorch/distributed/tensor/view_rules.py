"""The rules of ops that move elements: their axes stay divided, where the op keeps them whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .dispatch import Call, Candidate
from .placement_types import Partial, Placement, Shard

__all__ = ["VIEW_RULES"]

Pairs = Iterable[tuple[int, int]]


def moving(pairs: Callable[[Call], Pairs]) -> Callable[[Call], list[Candidate]]:
    """Make a rule of pairs of axes, of the input and the result. Terms of sums stay such."""

    def rule(call: Call) -> list[Candidate]:
        candidates = [Candidate((Shard(old),), Shard(new)) for old, new in pairs(call)]
        totals: list[Placement] = [Partial(), Partial("avg"), Partial("max"), Partial("min")]
        return candidates + [Candidate((p,), p) for p in totals]

    return rule


def complex_view(call: Call) -> list[Candidate]:
    """All axes but that of the two parts. The parts of a sum are the sums of the parts."""
    ndim = min(len(shape_in(call)), len(call.output))
    shards = [Candidate((Shard(dim),), Shard(dim)) for dim in range(ndim)]
    return shards + [Candidate((p,), p) for p in (Partial(), Partial("avg"))]


def shape_in(call: Call) -> tuple[int, ...]:
    spec = call.inputs[0]
    assert spec is not None
    return spec.shape


def transposed(call: Call) -> Pairs:
    """Two axes change places."""
    ndim = len(shape_in(call))
    axes = list(range(ndim))
    a, b = (int(call.settings[name]) % max(ndim, 1) for name in ("dim0", "dim1"))
    if ndim:
        axes[a], axes[b] = axes[b], axes[a]
    return [(old, new) for new, old in enumerate(axes)]


def turned(call: Call) -> Pairs:
    """`t`: rows and columns change places, where there are both."""
    ndim = len(shape_in(call))
    return [(dim, ndim - 1 - dim) for dim in range(ndim)]


def permuted(call: Call) -> Pairs:
    """The axes in another order."""
    ndim = len(shape_in(call))
    return [(int(old) % ndim, new) for new, old in enumerate(call.settings["dims"])]


def reshaped(call: Call) -> Pairs:
    """Axes that stay, and the first of several that are joined or divided."""
    return groups(shape_in(call), call.output, call.mesh_size)


def groups(before: Sequence[int], after: Sequence[int], parts: int) -> Pairs:
    """Return the axes of two shapes that begin together and are divided by `parts` alike."""
    pairs = []
    i = j = 0
    while i < len(before) and j < len(after):
        first, second = i, j
        sizes = [before[i], after[j]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1] and i + 1 < len(before):
                i += 1
                sizes[0] *= before[i]
            elif j + 1 < len(after):
                j += 1
                sizes[1] *= after[j]
            else:
                return pairs
        is_same = (first, second) == (i, j)
        if is_same or (before[first] % parts == 0 and after[second] % parts == 0):
            pairs.append((first, second))
        i, j = i + 1, j + 1
    return pairs


def expanded(call: Call) -> Pairs:
    """The axes that are not repeated."""
    before, after = shape_in(call), call.output
    missing = len(after) - len(before)
    return [(d, d + missing) for d in range(len(before)) if before[d] == after[d + missing]]


def unsqueezed(call: Call) -> Pairs:
    """One axis more."""
    ndim = len(call.output)
    new = int(call.settings["dim"]) % ndim
    return [(dim, dim + (dim >= new)) for dim in range(ndim - 1)]


def squeezed(call: Call) -> Pairs:
    """Some axes of length 1 less."""
    before = shape_in(call)
    kept = [dim for dim, size in enumerate(before) if size != 1]
    if len(call.output) != len(kept):  # only some of them: axes of length 1 stay
        dim = call.settings["dim"]
        gone = {int(d) % len(before) for d in (dim if isinstance(dim, Sequence) else (dim,))}
        kept = [d for d, size in enumerate(before) if size != 1 or d not in gone]
    return [(old, new) for new, old in enumerate(kept) if before[old] != 1]


def kept_but_dim(call: Call) -> Pairs:
    """All axes but `dim`."""
    ndim = len(shape_in(call))
    along = int(call.settings["dim"]) % ndim
    return [(dim, dim) for dim in range(ndim) if dim != along]


def selected(call: Call) -> Pairs:
    """All axes but `dim`, which vanishes."""
    ndim = len(shape_in(call))
    along = int(call.settings["dim"]) % ndim
    return [(dim, dim - (dim > along)) for dim in range(ndim) if dim != along]


def indexed(call: Call) -> Pairs:
    """Axes that an index of numbers, slices, None and `...` leaves whole."""
    before, index = shape_in(call), call.settings["index"]
    entries = list(index) if isinstance(index, tuple) else [index]
    if any(not (e is None or e is Ellipsis or isinstance(e, int | slice)) for e in entries):
        return []
    used = sum(e is not None and e is not Ellipsis for e in entries)
    if Ellipsis not in entries:
        entries.append(Ellipsis)
    at = entries.index(Ellipsis)
    entries[at : at + 1] = [slice(None)] * (len(before) - used)
    pairs, old, new = [], 0, 0
    for entry in entries:
        if entry is None:
            new += 1
        elif isinstance(entry, slice):
            if entry.indices(before[old]) == (0, before[old], 1):
                pairs.append((old, new))
            old, new = old + 1, new + 1
        else:
            old += 1
    return pairs


def joined(call: Call) -> list[Candidate]:
    """`cat`: all axes but that along which the tensors are joined."""
    ndim, count = len(call.output), len(call.inputs)
    along = int(call.settings["dim"]) % ndim
    shards = [Candidate((Shard(d),) * count, Shard(d)) for d in range(ndim) if d != along]
    return [*shards, Candidate((Partial(),) * count, Partial())]


def stacked(call: Call) -> list[Candidate]:
    """`stack`: all axes."""
    ndim, count = len(call.output), len(call.inputs)
    new = int(call.settings["dim"]) % ndim
    shards = [
        Candidate((Shard(d),) * count, Shard(d + (d >= new))) for d in range(ndim - 1)
    ]  # fmt: skip
    return [*shards, Candidate((Partial(),) * count, Partial())]


VIEW_RULES = {
    "transpose": moving(transposed), "permute": moving(permuted), "view": moving(reshaped),
    "reshape": moving(reshaped), "expand": moving(expanded), "unsqueeze": moving(unsqueezed),
    "squeeze": moving(squeezed), "split": moving(kept_but_dim), "narrow": moving(kept_but_dim),
    "select": moving(selected), "unbind": moving(selected), "getitem": moving(indexed),
    "t": moving(turned), "split_with_sizes": moving(kept_but_dim),
    "view_as_complex": complex_view, "view_as_real": complex_view,
    "flip": moving(lambda call: []), "cat": joined, "stack": stacked,
}  # fmt: skip
