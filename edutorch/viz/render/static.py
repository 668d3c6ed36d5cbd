"""The static picture of a graph: SVG, PNG, PDF and a text table.

It needs no kernel and no widget, so that it stays in a saved notebook and shows on GitHub, in
nbconvert and in mail; a screen reader can read it.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ...errors import EdutorchError, MissingExtraError
from ...utils.atomic_files import name_file_in_errors
from ..graph.fold import Choice, Plan, find_group_keys, make_plan
from ..graph.model import Graph, GraphNode, Snapshot
from ..live.messages import Curve
from ..tensors.summaries import Stats, magnitude_text, number_text
from ..tensors.thumbnails import draw as draw_thumbnail
from ..tensors.thumbnails import drawn_style
from .arrangement import (
    Arrangement,
    candidate_arrangements,
    chosen_direction,
    fit_page,
    fit_plan,
    fold_further,
    is_automatic,
)
from .dot import (
    BASELINE,
    LINE_HEIGHT,
    MARGIN_Y,
    constant_text,
    dot_text,
    grad_text,
    name_text,
    printable,
    shape_text,
    value_text,
)
from .graphviz import LayoutError, render
from .legend import EDGE, NARROWEST, Footer, draw_footer, draw_mark, with_note
from .style import PAGE, PALE_INK, legend_keys
from .svg import MONO, SVG, element, iter_elements, pdf_of, png_of

PAGE_WIDTH = 600.0  # in points
CLEAR = 4.0  # margin around a thumbnail in its box
LINE_LOOKS = ({"font-weight": "bold"}, {"fill": PALE_INK})

MOST_BYTES = 150_000
"""If the SVG is larger, the graph is folded further, to keep saved notebooks small."""

SHOWN_ROWS = 200
"""The largest number of rows of a table in a notebook."""


Exporter = TypeVar("Exporter", bound=Callable[["Drawing"], Any])


class FormatError(EdutorchError, ValueError):
    """Raised if a file name has no suffix of a known format."""


class Drawing:
    """A picture of a graph. A notebook displays it; `save` writes it to a file.

    `.snapshot` is the visible graph as plain data, `.whole` the graph before folding, `.dot` the
    input of Graphviz, `.svg` the picture.
    """

    def __init__(
        self,
        whole: Snapshot,
        rankdir: str | None = None,
        choice: Choice | None = None,
        *,
        curves: Mapping[str, Curve] | None = None,
        caption: str = "",
    ) -> None:
        """Prepare the picture of a snapshot.

        Args:
            curves: loss curves below the graph, one small chart for each name, as in a live view.
            caption: a line below the graph, such as the step and what may be missing.
        """
        self.whole, self.rankdir = whole, rankdir
        self.curves, self.caption = dict(curves or {}), with_note(caption)
        self.choice = choice or Choice()
        plan, self.choice = fit_plan(whole.graph, rankdir, self.choice, self._boxes)
        self._show(plan)

    def _show(self, plan: Plan) -> None:
        """Set the visible part of the whole graph."""
        self.snapshot = snapshot = plan.pick(self.whole)
        text_of = functools.partial(dot_text, snapshot)
        candidate, *_ = candidate_arrangements(snapshot.graph, self.rankdir, text_of)
        self.dot = text_of(candidate.arrangement)
        self._svg: str | None = None
        self._fits = True

    def _boxes(self, visible: Plan, arrangement: Arrangement) -> str:
        """Return the visible graph as DOT text, which has the sizes of the boxes."""
        return dot_text(visible.pick(self.whole), arrangement)

    @property
    def svg(self) -> str:
        """The picture as SVG text, laid out on first access."""
        if self._svg is None:
            self._svg = self._lay_out()
            # Only groups that nobody has opened by hand are closed again.
            while not self._is_small_enough() and is_automatic(self.choice):
                further = fold_further(self.choice, len(self.snapshot.graph.nodes))
                if further is None:
                    break
                self.choice = further
                self._show(make_plan(self.whole.graph, further))
                self._svg = self._lay_out()
        return self._svg

    def _is_small_enough(self) -> bool:
        """Whether the picture fits on a page, unless a direction is given, and into a notebook."""
        fits = self._fits or chosen_direction(self.rankdir) is not None
        return fits and len(self._svg or "") <= MOST_BYTES

    def _lay_out(self) -> str:
        snapshot = self.snapshot
        fitted = fit_page(
            snapshot.graph,
            self.rankdir,
            functools.partial(dot_text, snapshot),
            lambda text: render(text).decode(),
        )
        self._fits = fitted.fits
        self.dot = dot_text(snapshot, fitted.arrangement)
        root = polish_tree(fitted.svg, snapshot.graph)
        draw_thumbnails(root, snapshot)
        graph = snapshot.graph
        drawn = map(drawn_style, graph.nodes, snapshot.values)
        keys = legend_keys(graph.nodes, graph.edges, bool(snapshot.bad), "weights" in drawn)
        add_footer(root, Footer(keys, self.caption, self.curves))
        return ElementTree.tostring(root, encoding="unicode")

    def open(self, *groups: str) -> Drawing:
        """Return the drawing with more groups open, given as paths of modules such as "layers.0".

        Raises: UnknownGroupError: there is no such group.
        """
        return self._turn(groups, Choice.open)

    def close(self, *groups: str) -> Drawing:
        """Return the drawing with groups closed, given as paths of modules such as "layers.0".

        Raises: UnknownGroupError: there is no such group.
        """
        return self._turn(groups, Choice.close)

    def _turn(self, groups: Iterable[str], turn: Callable[[Choice, str], Choice]) -> Drawing:
        """Return the same picture with another choice of open groups."""
        choice = self.choice
        for group in groups:
            for key in find_group_keys(self.whole.graph, group, self.choice):
                choice = turn(choice, key)
        return Drawing(self.whole, self.rankdir, choice, curves=self.curves, caption=self.caption)

    def explore(self) -> Any:
        """Return the drawing as a widget: click on a group to open it, on its title to close it.

        A widget needs a running kernel; display the drawing too, to keep it in a saved notebook.
        """
        return EXPORTERS["widget"](self)

    def png(self) -> bytes:
        """Return the picture as PNG, at most 2,000 pixels wide or high.

        Without Pillow, Graphviz draws it: histograms as text, no legend, no curves.
        """
        try:
            # Our own painter first: Graphviz knows neither thumbnails nor the legend.
            return png_of(self.svg)
        except ImportError:
            text_of = functools.partial(dot_text, self.snapshot)
            first, *_ = candidate_arrangements(self.snapshot.graph, self.rankdir, text_of)
            return render(text_of(first.arrangement, self.caption, drawn=False), "png")

    def pdf(self) -> bytes:
        """Return the picture as PDF. Needs matplotlib."""
        return pdf_of(self.svg)

    def table(self, limit: int | None = None) -> str:
        """Return the nodes as a text table, one line per box.

        Args:
            limit: the largest number of boxes; a last line counts the others.
        """
        snapshot = self.snapshot
        sources: dict[str, list[str]] = {}
        for edge in snapshot.graph.edges:
            sources.setdefault(edge.target, []).append(edge.source)
        rows = [("node", "module", "shape", "value", "gradient", "from")]
        rows_of_nodes = zip(snapshot.graph.nodes, snapshot.values, snapshot.grads, strict=True)
        for node, value, grad in itertools.islice(rows_of_nodes, limit):
            rows.append(
                (
                    f"{node.id} {name_text(node)}",
                    printable(node.module) if node.module else "",
                    shape_text(node),
                    table_value(node, value),
                    grad_text(grad).removeprefix("grad").strip() if node.differentiable else "",
                    " ".join(sources.get(node.id, [])),
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        left = len(snapshot.graph.nodes) - len(rows) + 1
        return "\n".join([*lines, f"… and {left} more"] if left else lines)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture atomically to `path`, in the format of its suffix.

        An HTML page can be zoomed and walked through, and is self-contained.

        Raises: FormatError: the name does not end in .svg, .png, .pdf, .dot or .html.
        """
        path = Path(path)
        contents = {
            suffix: functools.partial(export, self)
            for suffix, export in EXPORTERS.items()
            if suffix.startswith(".")
        }
        write_file(path, format_writer("save", path, contents)())
        return path

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the picture in every format that a notebook may support.

        Without Graphviz this is only the table.
        """
        bundle: dict[str, Any] = {"text/plain": self.table(SHOWN_ROWS)}
        try:
            bundle["image/svg+xml"] = self.svg
            bundle["image/png"] = self.png()
        except (LayoutError, MissingExtraError) as error:
            if "image/svg+xml" not in bundle:
                bundle["text/plain"] += f"\n\n{error}"
        return bundle

    def __repr__(self) -> str:
        graph = self.snapshot.graph
        return f"<Drawing of {len(graph.nodes)} nodes and {len(graph.edges)} edges>"


EXPORTERS: dict[str, Callable[[Drawing], Any]] = {
    ".svg": lambda drawing: drawing.svg.encode(),
    ".png": Drawing.png,
    ".pdf": Drawing.pdf,
    ".dot": lambda drawing: drawing.dot.encode(),
}
"""What a drawing can become: the bytes of a file by its suffix, and a "widget"."""


def exporter(suffix: str) -> Callable[[Exporter], Exporter]:
    """Register a function that makes something of a drawing.

    So a drawing needs none of the files that know drawings.
    """

    def register(export: Exporter) -> Exporter:
        EXPORTERS[suffix] = export
        return export

    return register


def format_writer(
    where: str, path: Path, contents: Mapping[str, Callable[[], bytes]]
) -> Callable[[], bytes]:
    """Return the entry of `contents` for the suffix of a path.

    Raises: FormatError: there is none.
    """
    write = contents.get(path.suffix.lower())
    if write is None:
        *others, last = contents
        endings = f"{', '.join(others)} or {last}" if others else last
        raise FormatError(
            where,
            f"cannot tell the format of {path.name!r}",
            hint=f"use a name that ends in {endings}",
        )
    return write


def write_file(path: Path, content: bytes) -> None:
    """Write a temporary file beside the target and rename it: no partial file is ever visible."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with name_file_in_errors(path), os.fdopen(handle, "wb") as file:
            file.write(content)
        # `mkstemp` makes files that nobody else can read.
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def table_value(node: GraphNode, value: Stats | None) -> str:
    if node.kind == "constant":
        return constant_text(value)
    return value_text(value).removeprefix("value ").strip()


# The SVG -------------------------------------------------------------------------------------


def polish_svg(svg: str, graph: Graph) -> str:
    """Set fonts, marks and accessible titles in Graphviz's SVG; return it as text."""
    return ElementTree.tostring(polish_tree(svg, graph), encoding="unicode")


def polish_tree(svg: str, graph: Graph) -> Any:
    """Set fonts, marks and accessible titles in Graphviz's SVG; return it as a tree.

    An XML library parses and escapes all text.
    """
    root = ElementTree.fromstring(svg)
    root.set("role", "img")
    root.set("style", "max-width:100%;height:auto")
    root.set("aria-label", f"graph of {len(graph.nodes)} nodes and {len(graph.edges)} edges")
    groups = {group.get("id"): group for group in iter_elements(root, "g")}
    for text in iter_elements(root, "text"):
        # Graphviz writes the one font that it measured with; a reader may have another.
        text.set("font-family", MONO)
    for node in graph.nodes:
        group = groups[node.id]
        _set_title(group, _description(node))
        _, top, right, _ = box_of(group)
        for index, text in enumerate(group.findall(f"{{{SVG}}}text")):
            if node.kind != "constant":
                text.set("y", f"{top + MARGIN_Y + LINE_HEIGHT * (index + 0.5) + BASELINE:.2f}")
                text.attrib.update(LINE_LOOKS[index] if index < len(LINE_LOOKS) else {})
        for index, mark in enumerate(node.marks, 1):
            draw_mark(group, mark, right - 12 * index, top + 3)
    names = {node.id: printable(node.label) for node in graph.nodes}
    for edge in graph.edges:
        title = f"{names[edge.source]} to {names[edge.target]}, as {printable(edge.input)}"
        _set_title(groups[edge.id], title)
    return root


def box_of(group: Element) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a node, inside its border if that is double."""
    shapes = (shape.get("points") or shape.get("d") for shape in group)
    text = next(filter(None, shapes), "0 0")
    coordinates = list(map(float, re.findall(r"-?\d+(?:\.\d+)?", text)))
    across, down = coordinates[::2], coordinates[1::2]
    return min(across), min(down), max(across), max(down)


def draw_thumbnails(root: Element, snapshot: Snapshot) -> None:
    """Draw thumbnails of the tensors into their boxes, and add the statistics to the titles."""
    groups = {group.get("id"): group for group in iter_elements(root, "g")}
    for node, value, grad in zip(
        snapshot.graph.nodes, snapshot.values, snapshot.grads, strict=True
    ):
        group = groups[node.id]
        _set_title(group, "\n".join((_description(node), *statistics(value, grad))))
        lines = group.findall(f"{{{SVG}}}text")
        left, _, right, bottom = box_of(group)
        top = float(lines[-1].get("y", bottom)) + CLEAR if lines else bottom
        box = (left + 2 * CLEAR, top, right - 2 * CLEAR, bottom - CLEAR)
        if node.kind != "constant":
            draw_thumbnail(group, node, value, box)


def statistics(value: Stats | None, grad: Stats | None) -> list[str]:
    """Return the statistics of a tensor and its gradient that are not in its box, as lines."""
    lines = []
    if value is not None and value.size > 1 and not value.bad:
        lines.append(
            f"mean {number_text(value.mean)}, std {magnitude_text(value.std)}, "
            f"from {number_text(value.min)} to {number_text(value.max)}, "
            f"norm {magnitude_text(value.norm)}"
        )
    if grad is not None and grad.size > 1 and not grad.bad:
        lines.append(f"gradient: norm {magnitude_text(grad.norm)}, mean {number_text(grad.mean)}")
    return lines


def add_footer(root: Element, footer: Footer) -> None:
    """Add a white background and the footer below the picture."""
    _, _, width, height = (float(part) for part in root.get("viewBox", "0 0 100 100").split())
    full = max(width, NARROWEST)
    left = (width - full) / 2
    holder = element(root, "g", transform=f"translate({left:.2f},0)")
    end = draw_footer(holder, footer, full, height + 4) + EDGE
    root.set("viewBox", f"{left:.2f} 0 {full:.2f} {end:.2f}")
    page = element(root, "rect", x=f"{left:.2f}", y="0", width=f"{full:.2f}",
                   height=f"{end:.2f}", rx="6", fill=PAGE)  # fmt: skip
    # First in the file is drawn first: behind all else.
    root.remove(page)
    root.insert(0, page)
    root.set("width", f"{full:.2f}pt")
    root.set("height", f"{end:.2f}pt")
    if full > PAGE_WIDTH:
        # JupyterLab shows it as an image and would crop it: without a size of its own it is
        # scaled to the width of the page.
        del root.attrib["width"], root.attrib["height"]


def _description(node: GraphNode) -> str:
    where = f" in {printable(node.module)}" if node.module else ""
    marks = "".join(f", {mark}" for mark in node.marks)
    grey = "" if node.differentiable or node.kind == "constant" else ", no gradient"
    return f"{node.kind} {printable(node.label)}{where}, {shape_text(node)}{marks}{grey}"


def _set_title(group: ElementTree.Element, title: str) -> None:
    heading = group.find(f"{{{SVG}}}title")
    if heading is not None:
        heading.text = title
