"""The picture for a page that has lost a view: reloaded, or without its kernel.

Such a page knows nothing of the widget: JupyterLab shows "Loading widget" as long as the loop keeps
the kernel busy, or "model not found". So a picture is put below a view, and is hidden (by its own
style) where the view is. Below a running loop it appears after a while, below all else at once.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any

from ...errors import EdutorchError
from ...utils.process import BackgroundWorker
from ..render.static import Drawing
from .interpreter import display_in_cell

AFTER = 5.0
"""Seconds. A loop that ends before needs no other picture than that of its end."""

drawer = BackgroundWorker("edutorch-still")
"""Draws such pictures, one after the other: malloc keeps for each thread what drawing has taken."""

SENTENCE = (
    "The live view of this cell belongs to the page in which it was run: its loop still runs, "
    "or has ended with its kernel. This is step {step}. If the view does not come back, run the "
    "cell again."
)
AT_REST = (
    "This view belongs to the page in which its cell was run, and to its kernel. This is the "
    "picture of when the cell ran: run it again to use it."
)
HTML = """<style>
.edutorch-still[data-of="{key}"] {{ display: none; }}
.jp-OutputArea:not(:has([data-view="{key}"])) .edutorch-still[data-of="{key}"] {{ display: block; }}
</style>
<div class="edutorch-still" data-of="{key}"><p>{sentence}</p>
{picture}
</div>
"""
PICTURE = '<img alt="{alt}" style="max-width: 100%" src="data:{type};base64,{image}">'


def html_of(key: str, sentence: str, bundle: dict[str, Any], alt: str = "") -> str:
    """Return the picture of a bundle as HTML that is visible only where the view `key` is not."""
    type = next((type for type in ("image/svg+xml", "image/png") if type in bundle), "")
    image = bundle.get(type, b"")
    content = base64.b64encode(image.encode() if isinstance(image, str) else image).decode()
    picture = PICTURE.format(alt=alt, type=type, image=content) if type else ""
    return HTML.format(key=key, sentence=sentence, picture=picture)


class ViewWithFallback:
    """A view that is no loop, with a picture below it for a page that has lost the view.

    Args:
        bundle_of: makes the picture, as a notebook is given it. It is drawn beside the cell.
    """

    def __init__(self, page: Any, bundle_of: Callable[[], dict[str, Any]]) -> None:
        self.key = page.key
        self._lock = threading.Lock()
        self._over = False
        bundle = page._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, None)
        self._view = display_in_cell(data, raw=True, metadata=metadata, display_id=True)
        self._below = display_in_cell(self._bundle({}), raw=True, display_id=True)
        drawer.submit(lambda: self._draw(bundle_of))

    def _bundle(self, picture: dict[str, Any]) -> dict[str, Any]:
        html = html_of(self.key, AT_REST, picture, "The picture of when the cell ran")
        return {"text/html": html, "text/plain": AT_REST}

    def _draw(self, bundle_of: Callable[[], dict[str, Any]]) -> None:
        try:
            bundle = self._bundle(bundle_of())
        except EdutorchError:  # nothing can draw it here: the text stays
            return
        with self._lock:
            if not self._over:
                self._below.update(bundle, raw=True)

    def end(self, bundle: dict[str, Any], text: str) -> None:
        """Leave a picture in the place of the view, and a text below it."""
        with self._lock:
            self._over = True
        self._view.update(bundle, raw=True)
        self._below.update({"text/plain": text}, raw=True)


class FallbackPicture:
    """Leaves one picture below a view, once it has run for a while.

    Args:
        key: of the view: the page's element has it as `data-view`.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.due = time.monotonic() + AFTER
        self._lock = threading.Lock()
        self._over = False
        self._handle: Any = None

    def offer(self, drawing: Callable[[], Drawing], step: int) -> None:
        """Show a picture if it is time for it. It is drawn beside the loop."""
        if time.monotonic() < self.due:
            return
        # Once: the picture of a later step would make the notebook larger and say no more.
        self.due = float("inf")
        if self._handle is None:
            self._handle = display_in_cell({"text/html": ""}, raw=True, display_id=True)
            drawer.submit(lambda: self._show(drawing, step))

    def _show(self, drawing: Callable[[], Drawing], step: int) -> None:
        sentence = SENTENCE.format(step=step)
        bundle = {"image/svg+xml": drawing().svg}
        html = html_of(self.key, sentence, bundle, f"The graph at step {step}")
        with self._lock:
            if not self._over:
                self._handle.update({"text/html": html, "text/plain": sentence}, raw=True)

    def end(self, bundle: dict[str, Any]) -> bool:
        """Replace it by what stays: the loop has ended, and an output cannot be removed.

        Returns: whether there was a picture.
        """
        with self._lock:
            self._over, self.due = True, float("inf")
        if self._handle is not None:
            self._handle.update(bundle, raw=True)
        return self._handle is not None
