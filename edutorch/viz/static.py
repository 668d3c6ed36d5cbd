"""The picture that stays in the saved notebook: SVG, PNG and a table of text.

It needs no kernel and no widget, so it shows on GitHub, in nbconvert, in a mail,
and a screen reader can read it.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ..errors import EdutorchError, MissingExtraError
from .dot import dot_text, grad_text, name_text, shape_text, shown, value_text
from .fold import Choice, folded
from .graph import Graph, GraphNode, Snapshot
from .messages import Curve
from .render import LayoutError, render

SVG = "http://www.w3.org/2000/svg"
NAME_FONT = {"font-family": "Helvetica,Arial,sans-serif", "font-weight": "bold"}
SHAPE_FONT = {"font-family": "Helvetica,Arial,sans-serif", "fill": "#4B5563"}
NUMBER_FONT = {"font-family": "Menlo,Consolas,DejaVu Sans Mono,monospace"}
PAGE_WIDTH = 600.0  # in points
LINE_FONTS = (NAME_FONT, SHAPE_FONT, NUMBER_FONT, NUMBER_FONT)

CAPTION = (
    "number and width of an arrow: norm of the gradient that flows back (- blue, dashed; + orange)"
)


SHOWN_ROWS = 200
"""A notebook is not filled with a longer table."""


class FormatError(EdutorchError, ValueError):
    """A picture was to be saved under a name that does not say a known format."""


class Drawing:
    """A picture of a graph. A notebook shows it; `save` writes it to a file.

    `.snapshot` holds what is to be seen as plain data, `.whole` the same before anything was
    folded, `.dot` the text that Graphviz was given, `.svg` the picture.
    """

    def __init__(
        self,
        whole: Snapshot,
        rankdir: str = "LR",
        choice: Choice | None = None,
        *,
        curves: Mapping[str, Curve] | None = None,
        caption: str = "",
    ) -> None:
        """Make the picture of a snapshot.

        Args:
            curves: drawn below the graph, one small chart for each name, as a live view has them.
            caption: a line below the graph: which step it is, what may be missing in it.
        """
        self.whole, self.rankdir = whole, rankdir
        self.curves, self.caption = dict(curves or {}), caption
        self.choice = choice or Choice()
        self.snapshot = snapshot = folded(whole, self.choice)
        backward_ran = any(flow is not None for flow in snapshot.flows)
        self.dot = dot_text(snapshot, rankdir, CAPTION if backward_ran else "")
        self._svg: str | None = None

    @property
    def svg(self) -> str:
        """The picture as SVG text, laid out when it is first asked for."""
        if self._svg is None:
            self._svg = polish(render(self.dot).decode(), self.snapshot.graph)
        return self._svg

    def open(self, *groups: str) -> Drawing:
        """Return the drawing with more groups open; `table()` shows their names."""
        choice = self.choice
        for group in groups:
            choice = choice.open(group)
        return self._with(choice)

    def close(self, *groups: str) -> Drawing:
        """Return the drawing with these groups closed: paths of modules, as "layers.0"."""
        choice = self.choice
        for group in groups:
            choice = choice.close(group)
        return self._with(choice)

    def _with(self, choice: Choice) -> Drawing:
        """Return the same picture with other groups open."""
        return Drawing(
            self.whole, self.rankdir, choice, curves=self.curves, caption=self.caption
        )

    def explore(self) -> Any:
        """Return the drawing as a widget: click on a group to open it, on its title to close it.

        A widget needs a running kernel. So let the drawing itself be in the notebook, too.
        """
        from .explore import Explorer

        return Explorer(self.whole, self.rankdir, self.choice).open_page()

    def png(self) -> bytes:
        """Return the picture as PNG, at twice the size of the SVG, on white."""
        return render(self.dot, "png")

    def table(self, limit: int | None = None) -> str:
        """Return the same facts as a table of text, one line per box.

        Args:
            limit: write so many boxes at most, and how many more there are.
        """
        snapshot = self.snapshot
        sources: dict[str, list[str]] = {}
        for edge in snapshot.graph.edges:
            sources.setdefault(edge.target, []).append(edge.source)
        rows = [("node", "module", "shape", "value", "gradient", "from")]
        numbers = zip(snapshot.graph.nodes, snapshot.values, snapshot.grads, strict=True)
        for node, value, grad in itertools.islice(numbers, limit):
            rows.append(
                (
                    f"{node.id} {name_text(node)}",
                    shown(node.module) if node.module else "",
                    shape_text(node),
                    value_text(value).removeprefix("value ").strip(),
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
        """Write the picture to `path`, whole or not at all; its ending says the format.

        A page (.html) can be zoomed and walked through, and needs nothing else.

        Raises: FormatError: the name does not end in .svg, .png, .dot or .html.
        """
        path = Path(path)
        contents = {
            ".svg": lambda: self.svg.encode(),
            ".png": self.png,
            ".dot": self.dot.encode,
            ".html": self._page,
        }
        write_whole(path, checked_format("save", path, contents)())
        return path

    def _page(self) -> bytes:
        from .export import drawing_page

        return drawing_page(self).encode()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Give a notebook each form it may know; without Graphviz only the table."""
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


def checked_format(
    where: str, path: Path, contents: Mapping[str, Callable[[], bytes]]
) -> Callable[[], bytes]:
    """Return what writes the format that a name's ending says.

    Raises: FormatError: it is none of `contents`.
    """
    write = contents.get(path.suffix.lower())
    if write is None:
        *most, last = contents
        endings = f"{', '.join(most)} or {last}" if most else last
        raise FormatError(
            where,
            f"cannot tell the format of {path.name!r}",
            hint=f"use a name that ends in {endings}",
        )
    return write


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the target and rename: nobody ever sees half a file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def polish(svg: str, graph: Graph) -> str:
    """Give Graphviz's SVG readable fonts, and each box a title to read aloud.

    Text stays text: an XML library reads and writes it, nothing is pasted.
    """
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(svg)
    root.set("role", "img")
    root.set("style", "max-width:100%;height:auto")  # no wider than the page
    if float(root.get("width", "0pt").removesuffix("pt")) > PAGE_WIDTH:
        # As an image, which is how JupyterLab shows it, it would be cut off: without a
        # size of its own it takes the width of the page.
        del root.attrib["width"], root.attrib["height"]
    root.set("aria-label", f"graph of {len(graph.nodes)} nodes and {len(graph.edges)} edges")
    groups = {group.get("id"): group for group in root.iter(f"{{{SVG}}}g")}
    for text in root.iter(f"{{{SVG}}}text"):
        text.attrib.update(NUMBER_FONT)
    for node in graph.nodes:
        group = groups[node.id]
        _entitle(group, _description(node))
        for text, font in zip(group.findall(f"{{{SVG}}}text"), LINE_FONTS, strict=False):
            text.attrib.update(font)
    names = {node.id: shown(node.label) for node in graph.nodes}
    for edge in graph.edges:
        title = f"{names[edge.source]} to {names[edge.target]}, as {shown(edge.input)}"
        _entitle(groups[edge.id], title)
    return ElementTree.tostring(root, encoding="unicode")


def _description(node: GraphNode) -> str:
    where = f" in {shown(node.module)}" if node.module else ""
    return f"{node.kind} {shown(node.label)}{where}, {shape_text(node)}"


def _entitle(group: ElementTree.Element, title: str) -> None:
    heading = group.find(f"{{{SVG}}}title")
    if heading is not None:
        heading.text = title
