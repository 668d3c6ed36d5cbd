"""A run in one file: `view.export("run.html")` keeps the page, with a scrubber through its steps.

The file holds the code of `widgets/`, each picture once and each step's values, as JSON that the
page reads as data. Its policy lets nothing else run and nothing be fetched, so it can be mailed,
opened from a disk and put on any site. "run.svg" is a moving picture instead,
without a script, so that it plays in any README: what never changes is drawn once, of what changes
each frame has a group of its own, and a style sheet shows one group after the other. With reduced
motion, or without animation, the last frame is shown.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ...errors import EdutorchError, missing_extra
from ..graph.model import Graph, Snapshot
from ..live.messages import Curve, pack_values, patch_of, texts_of, thumbs_of
from ..live.page import PageState
from ..render.dot import constant_text, flow_text, grad_text, value_text
from ..render.graphviz import folder
from ..render.legend import draw_legend
from ..render.static import Drawing, exporter, format_writer, polish_svg, write_file
from ..render.style import (
    ACCENT,
    ALARM,
    FLOW_COLOURS,
    INK,
    NEUTRAL,
    PAGE,
    PALE_INK,
    WORDS,
    legend_keys,
    line_width,
    size_class,
)
from ..render.svg import MONO, SVG, element
from ..tensors.summaries import Stats
from .recording import Moment, evenly_spaced, finite_or_none

if TYPE_CHECKING:
    from ..live.view import View

PAGES = 400
"""How many steps, in equal strides, are written into a page by default."""

TABLE_ROWS = 60


class ExportError(EdutorchError, ValueError):
    """A run cannot be written as requested."""


def export(view: View, path: str | os.PathLike[str], frames: int | None = None) -> Path:
    """Write a run as one file. See `View.export`."""
    path = Path(path)
    if frames is not None and frames < 1:
        raise ExportError(
            "viz.export", f"frames must be at least 1, got {frames}",
            hint="leave it out, or say how many steps the file shall hold at most",
        )  # fmt: skip
    contents = {
        ".html": lambda: run_page(view, frames or PAGES).encode(),
        ".svg": lambda: animated_svg(*run_of(view, frames or FRAMES)).encode(),
    }
    write = format_writer("export", path, contents)
    view.drawing()  # raises an error where nothing has been recorded
    write_file(path, write())
    return path


def run_of(view: View, frames: int) -> tuple[list[Moment], PageState]:
    """Return the steps to be shown; where no step has ended, what there is of the first one."""
    history, page_state = view.history, view._page_state
    if not history.moments:
        history.add(view.step, view.drawing().whole)
    return evenly_spaced(history.moments, frames), page_state


def run_page(view: View, frames: int) -> str:
    """Return the page of a run as HTML."""
    moments, page_state = run_of(view, frames)
    pictures = Pictures(page_state)
    data = {
        "frames": [frame_of(moment, moments, pictures, view.curves) for moment in moments],
        "curves": {name: curve.points() for name, curve in view.curves.items()},
    }
    span = f"steps {moments[0].step} to {moments[-1].step}, {len(moments)} of them kept"
    table = Drawing(moments[-1].snapshot, page_state.layouts.rankdir, page_state.choice).table(
        TABLE_ROWS
    )
    return page({**data, "pictures": pictures.pictures}, "A run, step by step", span, table)


@exporter(".html")
def drawing_page(drawing: Drawing) -> bytes:
    """Return the page of a drawing: zoom, arrow keys, and what is known of each node."""
    pictures = Pictures(PageState(drawing.rankdir, drawing.choice))
    patch = {**patch_of(0, "still", {}), **text_fields(drawing.snapshot, 0)}
    frame = {
        "picture": pictures.index_of(drawing.whole.graph),
        "patch": patch,
        "numbers": base64.b64encode(pack_values(drawing.snapshot)).decode(),
    }
    data = {"frames": [frame], "curves": {}, "pictures": pictures.pictures}
    return page(data, "A graph", repr(drawing).strip("<>"), drawing.table(TABLE_ROWS)).encode()


class Pictures:
    """The picture of each structure, laid out once. The folds are those of the page now."""

    def __init__(self, page_state: PageState) -> None:
        self.page_state = page_state
        self.pictures: list[dict[str, Any]] = []
        self._indices: dict[str, int] = {}

    def index_of(self, graph: Graph) -> int:
        """Return the index of a whole graph's picture in `pictures`."""
        index = self._indices.get(graph.structure)
        if index is None:
            visible = self.page_state.plan(graph).graph
            svg = self.page_state.layouts.svg(visible, None)
            assert svg is not None, "without a limit it waits"
            index = self._indices[graph.structure] = len(self.pictures)
            self.pictures.append(visible.to_picture(svg))
        return index


def frame_of(
    moment: Moment, moments: Sequence[Moment], pictures: Pictures, curves: Mapping[str, Curve]
) -> dict[str, Any]:
    """Return one step as the page gets it from a running loop."""
    whole = moment.snapshot
    snapshot = pictures.page_state.plan(whole.graph).pick(whole)
    history = {
        "at": moment.step, "first": moments[0].step, "last": moments[-1].step,
        "count": len(moments), "loss": finite_or_none(moment.loss), "compare": None,
    }  # fmt: skip
    patch = {**patch_of(moment.step, "finished", curves), **text_fields(snapshot, moment.step)}
    return {
        "picture": pictures.index_of(moment.graph),
        "patch": {**patch, "parts": {"history": history} if len(moments) > 1 else {}},
        "numbers": base64.b64encode(pack_values(snapshot)).decode(),
    }


def text_fields(snapshot: Snapshot, step: int) -> dict[str, Any]:
    """Return the fields of a patch that its values cannot express."""
    return {**texts_of(snapshot), **thumbs_of(snapshot, step), "layouts": 1}


# The page -----------------------------------------------------------------------------------


def code() -> str:
    """Return the widget's script with the player of recordings, as one plain script."""
    try:
        from ..live.widget import script
    except ImportError as error:
        raise missing_extra("lab", "viz.export", f"{error.name} is not installed") from error
    text = (folder() / "replay.js").read_text(encoding="utf-8")
    text = re.sub(r"^import .*\n|^export ", "", text, flags=re.MULTILINE)
    view = script().replace("export default {", "const live = {")
    return f'"use strict";\n(() => {{\n{view}\n{text}\nopenRecording(document);\n}})();'


def style_sheet() -> str:
    from ..live.widget import style

    return style()


def digest(text: str) -> str:
    """Return a text's hash, by which a policy admits it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page(data: dict[str, Any], heading: str, about: str, table: str) -> str:
    """Return a whole page that shows a recording, with a policy that blocks everything else.

    Whatever a name holds, it cannot end the element it stands in: in the data each `<` is
    written as a code.
    """
    script, style = code(), style_sheet()
    content = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    heading, about, table = (escape(text) for text in (heading, about, table))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{heading} · edutorch</title>\n<style>{style}</style></head>\n"
        f'<body class="edutorch-page">\n<header><h1>{heading}</h1>\n<p class="about">{about}</p>'
        "</header>\n"
        '<main id="edutorch-view"></main>\n'
        f"<noscript><pre>{table}</pre></noscript>\n"
        f'<script type="application/json" id="edutorch-data">{content}</script>\n'
        f"<script>{script}</script>\n</body></html>\n"
    )


# The moving picture ---------------------------------------------------------------------

FRAMES = 60
"""The default number of frames."""


SECONDS = 0.2
"""The duration of one frame."""


HOLD = 1.6
"""Seconds for which the last frame stays before the animation restarts."""


STRIP = 66.0
"""Height of the strip below the picture: the step, the loss, and its curve."""


MARGIN = 12.0


EDGES = (
    ".edge path{stroke:currentColor;stroke-width:inherit}"
    ".edge polygon{stroke:currentColor;fill:currentColor;stroke-width:1}"
)


def animated_svg(moments: Sequence[Moment], page_state: PageState) -> str:
    """Return the steps as one SVG that plays in a loop."""
    scenes = [Scene(index, run, page_state) for index, run in enumerate(split_runs(moments))]
    width = max(420.0, *(scene.width for scene in scenes)) + 2 * MARGIN
    height = max(scene.height for scene in scenes)
    root = ElementTree.Element(f"{{{SVG}}}svg", {
        "role": "img", "width": f"{width:g}", "style": "max-width:100%;height:auto",
    })  # fmt: skip
    first, last = moments[0].step, moments[-1].step
    element(root, "title", f"A run from step {first} to step {last}, {len(moments)} frames")
    rules = ElementTree.SubElement(root, f"{{{SVG}}}style")
    element(root, "rect", width="100%", height="100%", rx=8, fill=PAGE)
    clock = Clock(len(moments))
    sheet = [EDGES, clock.base()]
    start = 0
    for scene in scenes:
        left, top = (width - scene.width) / 2, MARGIN + (height - scene.height) / 2
        sheet += scene.draw(root, start, clock, left, top)
        start += len(scene.snapshots)
    Strip(root, moments, width, MARGIN + height).draw(clock)
    end = draw_legend(root, keys_of(scenes), width, MARGIN + height + STRIP) + MARGIN
    root.set("viewBox", f"0 0 {width:g} {end:g}")
    rules.text = "\n".join(sheet)
    return ElementTree.tostring(root, encoding="unicode")


def keys_of(scenes: Sequence[Scene]) -> list[str]:
    """Return the keys of the legend: everything visible in any frame."""
    keys = {
        key
        for scene in scenes
        for key in legend_keys(
            scene.graph.nodes, scene.graph.edges, any(snapshot.bad for snapshot in scene.snapshots)
        )
    }
    return [key for key in WORDS if key in keys]


def split_runs(moments: Sequence[Moment]) -> list[list[Moment]]:
    """Split the steps into runs with the same graph structure."""
    groups = itertools.groupby(moments, lambda moment: moment.graph.structure)
    return [list(group) for _, group in groups]


class Clock:
    """The timing of the frames, in percent of one loop, as CSS rules."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seconds = count * SECONDS + HOLD

    def percent(self, frame: int) -> float:
        """Return when a frame begins; the frame after the last is the end of the loop."""
        return 100.0 if frame >= self.count else 100 * frame * SECONDS / self.seconds

    def base(self) -> str:
        """Return the rules that show the groups of the frames one after the other."""
        if self.count == 1:
            return ""
        gone = f"{self.percent(1):.4f}%"
        rules = [
            ".frame{visibility:hidden}.frame.last{visibility:visible}",
            f"@keyframes frame{{0%{{visibility:visible}}{gone},100%{{visibility:hidden}}}}",
            "@keyframes last{0%{visibility:hidden}"
            f"{self.percent(self.count - 1):.4f}%,100%{{visibility:visible}}}}",
            "@media (prefers-reduced-motion:no-preference){",
            f".frame{{animation:frame {self.seconds:g}s step-end infinite both}}",
            f".frame.last{{animation:last {self.seconds:g}s step-end infinite both}}",
        ]
        rules += [
            f".f{frame}{{animation-delay:{frame * SECONDS - self.seconds:.2f}s}}"
            for frame in range(1, self.count - 1)
        ]
        return "\n".join([*rules, "}"])

    def frame(self, number: int) -> str:
        """Return the CSS classes of a group that belongs to one frame."""
        return "frame last" if number == self.count - 1 else f"frame f{number}"

    def rule(self, name: str, selector: str, states: Sequence[tuple[int, str]]) -> str:
        """Return the rules of an element whose style changes at some frames.

        Args:
            states: (first frame, properties), the first from frame 0.
        """
        last = states[-1][1]
        if len(states) == 1:
            return f"{selector}{{{last}}}"
        steps = "".join(f"{self.percent(frame):.4f}%{{{text}}}" for frame, text in states)
        return (
            f"{selector}{{{last}}}\n@keyframes {name}{{{steps}100%{{{last}}}}}\n"
            "@media (prefers-reduced-motion:no-preference)"
            f"{{{selector}{{animation:{name} {self.seconds:g}s step-end infinite both}}}}"
        )


class Scene:
    """The frames that share one layout."""

    def __init__(self, number: int, moments: Sequence[Moment], page_state: PageState) -> None:
        self.number = number
        plan = page_state.plan(moments[0].graph)
        self.graph: Graph = plan.graph
        self.snapshots: list[Snapshot] = [plan.pick(moment.snapshot) for moment in moments]
        svg = page_state.layouts.styled_svg(self.graph)
        notice = 'id="n0"' not in svg
        self.svg = ElementTree.fromstring(svg if notice else polish_svg(svg, self.graph))
        box = [float(part) for part in self.svg.get("viewBox", "0 0 100 100").split()]
        self.width, self.height = box[2], box[3]
        self.groups = {
            group.get("id", ""): group for group in self.svg.iter(f"{{{SVG}}}g") if group.get("id")
        }

    def draw(self, root: Element, start: int, clock: Clock, left: float, top: float) -> list[str]:
        """Add the picture and its frames to `root`; return its CSS rules."""
        holder = element(root, "g", class_=f"s{self.number}")
        holder.set("transform", f"translate({left:g},{top:g})")
        inner = next(iter(self.svg.findall(f"{{{SVG}}}g")), self.svg)
        transform = inner.get("transform", "")
        rules = [self._visibility(start, clock)]
        changing = self._texts()
        rules += self._edges(start, clock)
        for group in self.groups.values():
            group.attrib.pop("id", None)  # two scenes would have the same ids
        holder.append(inner)
        layers = [element(holder, "g", class_=clock.frame(start + index), transform=transform)
                  for index in range(len(self.snapshots))]  # fmt: skip
        for template, texts in changing:
            for layer, text in zip(layers, texts, strict=True):
                copy = deepcopy(template)
                copy.text = text
                layer.append(copy)
        return rules

    def _visibility(self, start: int, clock: Clock) -> str:
        end = start + len(self.snapshots)
        if (start, end) == (0, clock.count):
            return ""
        states = [(0, "visibility:hidden")] if start else []
        states.append((start, "visibility:visible"))
        if end < clock.count:
            states.append((end, "visibility:hidden"))
        return clock.rule(f"scene{self.number}", f".s{self.number}", states)

    def _texts(self) -> list[tuple[Any, list[str]]]:
        """Write the constant texts; return the changing ones, with the text of each frame."""
        changing: list[tuple[Any, list[str]]] = []
        for index, node in enumerate(self.graph.nodes):
            lines = self.groups[node.id].findall(f"{{{SVG}}}text") if node.id in self.groups else []
            constant = node.kind == "constant"  # it has a single line, its number
            fields = (("values", constant_text if constant else value_text), ("grads", grad_text))
            for line, (field, write) in zip(lines[0 if constant else 2 :], fields, strict=False):
                texts = [write(getattr(snapshot, field)[index]) for snapshot in self.snapshots]
                self._place(self.groups[node.id], line, texts, changing)
        for index, edge in enumerate(self.graph.edges):
            group = self.groups.get(edge.id)
            line = group.find(f"{{{SVG}}}text") if group is not None else None
            if group is not None and line is not None and edge.kind != "cut":
                texts = [flow_text(snapshot.flows[index]) for snapshot in self.snapshots]
                self._place(group, line, texts, changing)
        return changing

    def _place(self, group: Element, line: Any, texts: list[str], changing: list[Any]) -> None:
        line.text = texts[-1]
        line.set("fill", INK)
        if len(set(texts)) > 1:
            group.remove(line)
            changing.append((line, texts))

    def _edges(self, start: int, clock: Clock) -> list[str]:
        """Return the rules of the arrows: colour and width of each frame."""
        rules = []
        for index, edge in enumerate(self.graph.edges):
            group = self.groups.get(edge.id)
            if group is None:
                continue
            name = f"s{self.number}{edge.id}"
            group.set("class", f"edge {name}")
            styles = [edge_style(snapshot.flows[index]) for snapshot in self.snapshots]
            states = [(0, styles[0])]
            for frame, style in enumerate(styles):
                if style != states[-1][1]:
                    states.append((start + frame, style))
            rules.append(clock.rule(name, f".{name}", states))
        return rules


def edge_style(flow: Stats | None) -> str:
    """Return the style of an arrow, as in `dot.flow_style`."""
    if flow is None:
        return f"color:{NEUTRAL};stroke-width:1"
    if flow.bad:
        return f"color:{ALARM};stroke-width:4"
    return f"color:{FLOW_COLOURS[size_class(flow.norm)]};stroke-width:{line_width(flow.norm):.1f}"


class Strip:
    """The strip below the picture: the step, its loss, and its point on the loss curve."""

    def __init__(self, root: Element, moments: Sequence[Moment], width: float, top: float) -> None:
        self.root, self.moments = root, moments
        self.left, self.right = MARGIN + 120, width - MARGIN - 6
        self.top, self.bottom = top + 14, top + STRIP - 8
        self.middle = MARGIN + 2

    def draw(self, clock: Clock) -> None:
        """Add the strip, with a group for each frame."""
        points = [self._point(index) for index in range(len(self.moments))]
        line = "".join(
            f"{'M' if not index or points[index - 1][1] is None else 'L'}{x:.1f},{y:.1f}"
            for index, (x, y) in enumerate(points)
            if y is not None
        )
        axis = f"M{self.left:g},{self.bottom:g}H{self.right:g}"
        element(self.root, "path", d=axis, stroke=NEUTRAL, fill="none")
        if line:
            element(self.root, "path", d=line, stroke=ACCENT, fill="none", stroke_width=1.6,
                    stroke_linejoin="round")  # fmt: skip
        for index, (moment, (x, y)) in enumerate(zip(self.moments, points, strict=True)):
            group = element(self.root, "g", class_=clock.frame(index))
            style = {"font-family": MONO, "x": f"{self.middle:g}"}
            label = element(group, "text", f"step {moment.step}", y=self.top + 14, fill=INK,
                            font_size=15, font_weight="bold")  # fmt: skip
            label.attrib.update(style)
            if moment.loss is not None:
                text = element(group, "text", f"loss {moment.loss:.4g}", y=self.top + 32,
                               fill=PALE_INK, font_size=11)  # fmt: skip
                text.attrib.update(style)
            element(group, "circle", cx=f"{x:.1f}", cy=f"{self.bottom if y is None else y:.1f}",
                    r=4, fill=ACCENT, stroke=PAGE, stroke_width=1.5)  # fmt: skip

    def _point(self, number: int) -> tuple[float, float | None]:
        """Return the coordinates of a step; None for the height if its loss is not finite."""
        steps = [moment.step for moment in self.moments]
        losses = [moment.loss for moment in self.moments
                  if moment.loss is not None and math.isfinite(moment.loss)]  # fmt: skip
        x = self.left + (self.right - self.left) * (steps[number] - steps[0]) / max(
            1, steps[-1] - steps[0]
        )
        loss = self.moments[number].loss
        if loss is None or not math.isfinite(loss):
            return x, None
        low, high = min(losses), max(losses)
        share = (loss - low) / (high - low) if high > low else 0.5
        return x, self.bottom - 4 - share * (self.bottom - self.top - 4)
