"""A tensor as HTML in a notebook, and statistics along each of its axes.

Everything is computed on the tensor's device. Only counts, a few sums and at most 64 elements are
copied from a GPU, and no op is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import backends
from ...backends.numpy import Array
from ...core.tensor import LEAF, Tensor
from ...errors import EdutorchError
from ...profiler.tree import bytes_text
from ..diagnostics.messages import escape_text
from ..diagnostics.non_finite_causes import count_non_finite
from .summaries import Stats, bar_text, histogram, number_text, stored_elements, summarize

MOST_CELLS = 64
"""A tensor with more elements than this is not shown as a table."""

MOST_SLICES = 12
"""The largest number of positions described per axis."""

STYLE = """
.edutorch-tensor { --ink: #1b1f24; --pale: #59626c; --line: #d5dae0; --wrong: #b00020;
  --low: 47, 128, 200; --high: 224, 122, 16; --bar: #7a4fb5;
  color: var(--ink); font: 13px/1.5 system-ui, Helvetica, Arial, sans-serif; }
[data-jp-theme-light="false"] .edutorch-tensor { --ink: #eceff3; --pale: #a9b2bd; --line: #444c56;
  --wrong: #ff8fa3; --bar: #b99ae6; }
@media (prefers-color-scheme: dark) { body:not([data-jp-theme-light]) .edutorch-tensor {
  --ink: #eceff3; --pale: #a9b2bd; --line: #444c56; --wrong: #ff8fa3; --bar: #b99ae6; } }
.edutorch-tensor .facts { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 16px; }
.edutorch-tensor .pale { color: var(--pale); }
.edutorch-tensor .wrong { color: var(--wrong); font-weight: 700; }
.edutorch-tensor svg { vertical-align: middle; }
.edutorch-tensor rect { fill: var(--bar); }
.edutorch-tensor table { border-collapse: separate; border-spacing: 2px; margin: 4px 0;
  width: auto; }
.edutorch-tensor :is(td, th) { padding: 2px 7px; text-align: right; color: var(--ink);
  font: 12px/1.4 Menlo, Consolas, "DejaVu Sans Mono", monospace; border: 1px solid transparent; }
.edutorch-tensor th { color: var(--pale); }
.edutorch-tensor td.wrong { border: 2px dashed var(--wrong); }
"""


class NotATensorError(EdutorchError, TypeError):
    """Raised if something other than a tensor is to be shown."""


def check_tensor(function: str, tensor: object) -> Tensor:
    """Return the argument if it is a tensor.

    Raises: NotATensorError: it is something else.
    """
    if isinstance(tensor, Tensor):
        return tensor
    raise NotATensorError(
        function, f"expected a tensor, got {type(tensor).__name__}",
        hint="write torch.tensor(…) around numbers; viz.draw shows a module",
    )  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """The properties of a tensor as plain data. `stats` are those of the finite elements."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    bytes: int
    state: str
    stats: Stats | None
    nan: int = 0
    inf: int = 0
    grad_norm: float | None = None

    @property
    def headline(self) -> str:
        """Shape, dtype, device and memory in one line."""
        shape = " × ".join(map(str, self.shape)) or "scalar"
        return f"{shape}   {self.dtype}   {self.device}   {bytes_text(self.bytes)}"

    @property
    def warning(self) -> str:
        """The number of NaN and infinite elements, or "" if all are finite."""
        parts = [f"{self.nan:,} NaN"] * bool(self.nan) + [f"{self.inf:,} Inf"] * bool(self.inf)
        return f"✗ {' and '.join(parts)}" if parts else ""

    @property
    def range(self) -> str:
        """Minimum, maximum, mean and standard deviation."""
        stats = self.stats
        if stats is None or not stats.size:
            return "no finite numbers"
        if stats.size == 1:
            return f"value {number_text(stats.mean)}"
        return (
            f"{number_text(stats.min)} … {number_text(stats.max)}   "
            f"mean {number_text(stats.mean)}   std {number_text(stats.std).lstrip('+')}"
        )


def facts_of(tensor: Tensor) -> Facts:
    """Compute the properties of a tensor on its device."""
    array = stored_elements(tensor._array)
    bad = count_non_finite(array)
    nan = int((array != array).sum().item()) if bad else 0
    grad = tensor._grad
    return Facts(
        tuple(tensor.shape),
        str(tensor.dtype).removeprefix("torch."),
        str(tensor.device),
        tensor.nbytes,
        state_of(tensor),
        finite_stats(array, bad),
        nan,
        bad - nan,
        None if grad is None else summarize(grad._array).norm,
    )


def finite_stats(array: Array, bad: int) -> Stats | None:
    """Summarize the finite elements of an array, with a histogram."""
    array = stored_elements(array)
    if array.dtype.kind == "c":
        array = abs(array)
    if bad:
        array = array[backends.of(array).xp.isfinite(array)]
    if not array.size:
        return None
    stats = summarize(array, bars=True, pixels=False)
    if stats.bars or array.size < 2:
        return stats
    flat = array.ravel().astype("float32")
    bars = histogram(flat, stats.min, stats.max)
    return Stats(stats.size, stats.mean, stats.min, stats.max, stats.norm, bars=bars)


def state_of(tensor: Tensor) -> str:
    """Return the autograd state of a tensor as text."""
    if tensor._node is None:
        return "no gradient wanted"
    if tensor._node is LEAF:
        return "leaf, requires_grad"
    return f"made by {tensor._node.name()}"


# One tensor -----------------------------------------------------------------------------------


class Shown:
    """What `viz.show` returns: HTML in a notebook, text in print; `.facts` has the data."""

    def __init__(self, tensor: Tensor) -> None:
        self.facts = facts_of(tensor)
        self._cells = cells_of(tensor)

    def html(self) -> str:
        """Return self-contained HTML, in which every text is escaped."""
        facts = self.facts
        gradient = "no .grad yet"
        if facts.grad_norm is not None:
            gradient = f".grad norm {facts.grad_norm:.4g}"
        state = facts.state if facts.state == "no gradient wanted" else f"{facts.state}, {gradient}"
        row = [
            f"<b>{escape_text(facts.headline)}</b>",
            f'<span class="pale">{escape_text(facts.range)}</span>',
            bars_svg(facts.stats),
            f'<span class="pale">{escape_text(state)}</span>',
        ]
        if facts.warning:
            row.insert(1, f'<span class="wrong">{escape_text(facts.warning)}</span>')
        return (
            f'<style>{STYLE}</style><div class="edutorch-tensor"><div class="facts">'
            f"{''.join(row)}</div>{table_html(self._cells)}</div>"
        )

    def __repr__(self) -> str:
        facts = self.facts
        lines = [facts.headline, facts.range]
        if facts.stats is not None and facts.stats.bars:
            lines[1] += f"   {bar_text(facts.stats.bars)}"
        lines += [facts.warning] * bool(facts.warning)
        lines.append(facts.state)
        if facts.grad_norm is not None:
            lines[-1] += f", .grad norm {facts.grad_norm:.4g}"
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/html": self.html(), "text/plain": repr(self)}


def show(tensor: Tensor) -> Shown:
    """Show a tensor: shape, dtype, device, memory, range, histogram, NaN and gradient.

    Args:
        tensor: a tensor of any shape and dtype.

    Raises: NotATensorError: not a tensor.

    >>> print(edutorch.viz.show(tensor([[1.0, 2.0], [3.0, math.nan]])))
    2 × 2   float32   cpu   16 B
    +1.0000 … +3.0000   mean +2.0000   std 0.8165   █       █      █
    ✗ 1 NaN
    no gradient wanted
    """
    return Shown(check_tensor("viz.show", tensor))


def cells_of(tensor: Tensor) -> list[list[Any]]:
    """Return the elements of a small tensor as rows; [] for a large one."""
    array = stored_elements(tensor._array)
    if not 0 < array.size <= MOST_CELLS or array.ndim > 2:
        return []
    on_host = backends.of(array).to_numpy(array)
    return on_host.reshape(1, -1).tolist() if array.ndim < 2 else on_host.tolist()


def table_html(rows: Sequence[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """Return an HTML table with coloured cells: blue below 0, orange above, pale near 0."""
    if not rows:
        return ""
    sizes = [abs(value) for row in rows for value in row
             if isinstance(value, int | float) and math.isfinite(value)]  # fmt: skip
    peak = max(sizes, default=0) or 1
    body = "".join(f"<tr>{''.join(cell_html(value, peak) for value in row)}</tr>" for row in rows)
    top = "".join(f'<th scope="col">{escape_text(title)}</th>' for title in head)
    return f"<table>{f'<tr>{top}</tr>' if top else ''}{body}</table>"


def cell_html(value: Any, peak: float) -> str:
    """Return one cell; the opacity of its colour is its magnitude relative to `peak`."""
    if isinstance(value, bool | str | complex):
        text = f"{value:.3g}" if isinstance(value, complex) else str(value)
        return f"<td>{escape_text(text)}</td>"
    if not math.isfinite(value):
        return f'<td class="wrong">✗ {value}</td>'
    part = 0.45 * abs(value) / peak
    colour = "--low" if value < 0 else "--high"
    text = str(value) if isinstance(value, int) else f"{value:.4g}"
    return f'<td style="background:rgba(var({colour}),{part:.2f})">{text}</td>'


def bars_svg(stats: Stats | None) -> str:
    """Return a histogram as a small SVG, with an alternative text."""
    if stats is None or not stats.bars or stats.min == stats.max:
        return ""
    peak, width = max(stats.bars), 6
    bars = "".join(
        f'<rect x="{index * width}" y="{24 - 24 * count / peak:.1f}" width="{width - 1}" '
        f'height="{24 * count / peak:.1f}"/>'
        for index, count in enumerate(stats.bars) if count
    )  # fmt: skip
    alt = f"histogram from {stats.min:.4g} to {stats.max:.4g}: {', '.join(map(str, stats.bars))}"
    return (
        f'<svg width="{len(stats.bars) * width}" height="25" role="img" '
        f'aria-label="{escape_text(alt)}"><title>{escape_text(alt)}</title>{bars}</svg>'
    )


# Axis by axis ---------------------------------------------------------------------------------

COLUMNS = ("at", "mean", "std", "min", "max", "zeros", "NaN/Inf")


@dataclass(frozen=True)
class AxisRow:
    """Statistics of the elements at one position of an axis."""

    at: int
    mean: float
    std: float
    min: float
    max: float
    zeros: int
    bad: int


class Deeper:
    """What `viz.deeper` returns: `.axes` holds rows of statistics for each axis."""

    def __init__(self, tensor: Tensor) -> None:
        array = stored_elements(tensor._array)
        self.shown = Shown(tensor)
        self.sizes = tuple(array.shape)
        self.axes = [axis_rows(array, axis) for axis in range(array.ndim)]

    def html(self) -> str:
        """Return HTML with the tensor and a table per axis."""
        parts = [self.shown.html()]
        for axis, rows in enumerate(self.axes):
            body = "".join(
                f'<tr><th scope="row">{row.at}</th>'
                + "".join(f"<td>{text}</td>" for text in texts_of(row)[1:])
                + "</tr>"
                for row in rows
            )
            head = "".join(f'<th scope="col">{column}</th>' for column in COLUMNS)
            parts.append(
                f'<div class="edutorch-tensor"><span class="pale">{escape_text(self.caption(axis))}'
                f"</span><table><tr>{head}</tr>{body}</table></div>"
            )
        return "".join(parts)

    def caption(self, axis: int) -> str:
        """Return the headline of an axis."""
        size, shown = self.sizes[axis], len(self.axes[axis])
        every = "" if shown == size else f", {shown} of them"
        return f"axis {axis}, {size} position{'s' * (size != 1)}{every}"

    def __repr__(self) -> str:
        lines = [repr(self.shown)]
        for axis, rows in enumerate(self.axes):
            table = [COLUMNS, *map(texts_of, rows)]
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            lines += ["", self.caption(axis)]
            lines += ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
                      for row in table]  # fmt: skip
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/html": self.html(), "text/plain": repr(self)}


def texts_of(row: AxisRow) -> tuple[str, ...]:
    return (str(row.at), *(number_text(value) for value in (row.mean, row.std, row.min, row.max)),
            f"{row.zeros:,}", f"✗ {row.bad:,}" if row.bad else "0")  # fmt: skip


def axis_rows(array: Array, axis: int) -> list[AxisRow]:
    """Return the statistics of the positions of an axis: all, or MOST_SLICES evenly spaced ones."""
    xp = backends.of(array).xp
    if array.dtype.kind == "c":
        array = abs(array)
    size = array.shape[axis]
    count = min(size, MOST_SLICES)
    positions = [round(position * (size - 1) / max(1, count - 1)) for position in range(count)]
    rows = []
    for position in positions:
        part = stored_elements(xp.take(array, position, axis=axis))
        bad = count_non_finite(part)
        stats = finite_stats(part, bad)
        zeros = int((part == 0).sum().item())
        low, high, mean, std = (
            (stats.min, stats.max, stats.mean, stats.std) if stats else (math.nan,) * 4
        )
        rows.append(AxisRow(position, mean, std, low, high, zeros, bad))
    return rows


def deeper(tensor: Tensor) -> Deeper:
    """Show a tensor axis by axis: mean, std, range, zeros and NaN at each position.

    A dead unit is a column of zeros, a corrupt sample a row with NaN.

    Args:
        tensor: a tensor of any shape; of a long axis twelve positions are shown.

    Raises: NotATensorError: not a tensor.

    >>> rows = edutorch.viz.deeper(tensor([[0.0, 1.0], [0.0, 3.0]])).axes[1]
    >>> [(row.at, row.mean, row.zeros) for row in rows]
    [(0, 0.0, 2), (1, 2.0, 0)]
    """
    return Deeper(check_tensor("viz.deeper", tensor))


# In a notebook --------------------------------------------------------------------------------


def show_in_notebooks(shell: Any = None) -> bool:
    """Register the HTML of tensors with IPython. Return whether IPython is running.

    `%load_ext edutorch` does this, and so does importing `edutorch.viz` in a notebook.
    """
    if shell is None:
        import sys

        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return False
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type(Tensor, tensor_html)
    return True


def tensor_html(tensor: Tensor) -> str | None:
    """Return the HTML of a tensor; None if it can only be shown as text."""
    if not hasattr(tensor._array, "dtype"):
        return None
    return Shown(tensor).html()
