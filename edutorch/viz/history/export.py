"""A run in one file: `view.export("run.html")` keeps the page, with a scrubber through its steps.

The file holds the code of `widgets/`, each picture once and each step's values, as JSON that the
page reads as data. Its policy lets nothing else run and nothing be fetched, so it can be mailed,
opened from a disk and put on any site. `animated_svg.py` writes the same as a moving SVG.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import EdutorchError, missing_extra
from ..graph.model import Graph, Snapshot
from ..live.messages import Curve, pack_values, patch_of, texts_of, thumbs_of
from ..live.page import PageState
from ..render.animated_svg import FRAMES, animated_svg
from ..render.graphviz import folder
from ..render.static import Drawing, format_writer, write_file
from .recording import Moment, evenly_spaced, finite_or_none

if TYPE_CHECKING:
    from .history_panel import HistoryMixin

PAGES = 400
"""How many steps, in equal strides, are written into a page by default."""

TABLE_ROWS = 60


class ExportError(EdutorchError, ValueError):
    """A run cannot be written as requested."""


def export(view: HistoryMixin, path: str | os.PathLike[str], frames: int | None = None) -> Path:
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


def run_of(view: HistoryMixin, frames: int) -> tuple[list[Moment], PageState]:
    """Return the steps to be shown; where no step has ended, what there is of the first one."""
    history, page_state = view.history, view._page_state
    if not history.moments:
        history.add(view.step, view.drawing().whole)
    return evenly_spaced(history.moments, frames), page_state


def run_page(view: HistoryMixin, frames: int) -> str:
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


def drawing_page(drawing: Drawing) -> str:
    """Return the page of a drawing: zoom, arrow keys, and what is known of each node."""
    pictures = Pictures(PageState(drawing.rankdir, drawing.choice))
    patch = {**patch_of(0, "still", {}), **text_fields(drawing.snapshot, 0)}
    frame = {
        "picture": pictures.index_of(drawing.whole.graph),
        "patch": patch,
        "numbers": base64.b64encode(pack_values(drawing.snapshot)).decode(),
    }
    data = {"frames": [frame], "curves": {}, "pictures": pictures.pictures}
    return page(data, "A graph", repr(drawing).strip("<>"), drawing.table(TABLE_ROWS))


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
