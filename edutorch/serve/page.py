"""The page at `/`: the models, the picture of each one's graph, and a form to try it."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..errors import EdutorchError
from .repository import Repository, Version, reason_of
from .served import Served

FOLDER = Path(__file__).parent / "static"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""The page runs its own script and nothing else, whatever a model's metadata say."""

SHOWN = 2000
"""The most elements that the form of an input begins with."""


def show(repository: Repository) -> Response:
    """Return the page."""
    sections = []
    for name, model in sorted(repository.models.items()):
        if model.versions:
            sections.append(section(repository.find(name)))
        else:
            reason = html.escape(reason_of(model))
            sections.append(
                f"<section><h2>{html.escape(name)}</h2><p>not loaded: {reason}</p></section>"
            )
    text = (FOLDER / "page.html").read_text(encoding="utf-8")
    return Response(
        text.replace("<!-- models -->", "\n".join(sections) or "<p>There is no model yet.</p>"),
        media_type="text/html",
        headers={"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"},
    )


def section(version: Version) -> str:
    """Return the part of the page for a model."""
    name, served = html.escape(version.model), version.served
    rows = "".join(
        f"<tr><td>{role}</td><td>{html.escape(spec.name)}</td><td>{spec.datatype}</td>"
        f"<td>{list(spec.shape)}</td></tr>"
        for role, specs in (("input", served.inputs), ("output", served.outputs))
        for spec in specs
    )
    fields = "".join(
        f'<label>{html.escape(spec["name"])}<textarea data-spec="{attribute(spec)}" rows="4">'
        f"{json.dumps(example)}</textarea></label>"
        for spec, example in examples(served)
    )
    return f"""<section>
<h2>{name} <small>version {version.number}, {html.escape(served.platform)}</small></h2>
<table>{rows}</table>
<img class="graph" src="/models/{name}/graph.svg" alt="the graph of {name}">
<form data-model="{name}">{fields}<button>Run</button><pre class="result"></pre></form>
</section>"""


def attribute(value: Any) -> str:
    """Return a value as JSON that may stand in an attribute."""
    return html.escape(json.dumps(value))


def examples(served: Served) -> list[tuple[dict[str, Any], list[Any]]]:
    """Return the metadata of each input with the elements that its form begins with."""
    result = []
    arrays = served.examples()
    for spec in served.inputs:
        array = arrays[spec.name].astype("float64").round(2)
        elements = array.ravel().tolist() if array.size <= SHOWN else []
        if spec.dtype.kind in "iu":
            elements = [int(element) for element in elements]
        if spec.dtype.kind == "b":
            elements = [bool(element) for element in elements]
        result.append((spec.metadata() | {"shape": list(array.shape)}, elements))
    return result


def graph(version: Version) -> Response:
    """Return the picture of a model's graph as SVG.

    It is drawn once for each version. Where nothing can lay it out, a text says why.
    """
    drawn = getattr(version, "drawn", None)
    if drawn is None:
        drawn = draw(version.served)
        version.drawn = drawn  # type: ignore[attr-defined]
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return Response(drawn, media_type="image/svg+xml", headers=headers)


def draw(served: Served) -> str:
    """Draw a model by calling it once."""
    from .. import viz
    from ..autograd import no_grad
    from ..ops import from_numpy

    if served.drawable is None:
        return message_picture("this format has no graph to show")
    tensors = {name: from_numpy(array) for name, array in served.examples().items()}
    try:
        with no_grad():
            return viz.draw(served.drawable, *tensors.values(), names=tensors).svg
    except (EdutorchError, OSError) as error:
        return message_picture(str(error).partition("\n")[0])


def message_picture(text: str) -> str:
    """Return a picture with a line of text."""
    line = f'<text x="8" y="24" font-family="sans-serif" font-size="14">{html.escape(text)}</text>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="40">{line}</svg>'


async def script(request: Request) -> Response:
    """Return the script of the page."""
    return Response((FOLDER / "page.js").read_bytes(), media_type="text/javascript")


async def sheet(request: Request) -> Response:
    """Return the style sheet of the page."""
    return Response((FOLDER / "page.css").read_bytes(), media_type="text/css")
