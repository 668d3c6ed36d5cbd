"""The picture for a page that has lost a running view: loaded anew, or without its kernel.

Such a page knows nothing of the widget: JupyterLab shows "Loading widget" as long as the loop keeps
the kernel busy, or "model not found". So a picture lies below a view that runs for a while, and is
hidden (by its own style) where the view is.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any

from .cells import display_in_cell
from .static import Drawing

AFTER = 5.0
"""Seconds. A loop that ends before needs no other picture than that of its end."""

SENTENCE = (
    "The live view of this cell belongs to the page in which it was run: its loop still runs, "
    "or has ended with its kernel. This is step {step}. If the view does not come back, run the "
    "cell again."
)
HTML = """<style>
.edutorch-still[data-of="{key}"] {{ display: none; }}
.jp-OutputArea:not(:has([data-view="{key}"])) .edutorch-still[data-of="{key}"] {{ display: block; }}
</style>
<div class="edutorch-still" data-of="{key}"><p>{sentence}</p>
<img alt="The graph at step {step}" style="max-width: 100%" src="data:image/svg+xml;base64,{svg}">
</div>
"""


class Still:
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
        self.due = float("inf")
        if self._handle is None:
            self._handle = display_in_cell({"text/html": ""}, raw=True, display_id=True)
            work = threading.Thread(target=self._show, args=(drawing, step), daemon=True)
            work.start()

    def _show(self, drawing: Callable[[], Drawing], step: int) -> None:
        svg = base64.b64encode(drawing().svg.encode()).decode()
        sentence = SENTENCE.format(step=step)
        html = HTML.format(key=self.key, sentence=sentence, step=step, svg=svg)
        with self._lock:
            if not self._over:
                self._handle.update({"text/html": html, "text/plain": sentence}, raw=True)

    def clear(self) -> None:
        """Take it away: the loop has ended, and left a picture of its end."""
        with self._lock:
            self._over, self.due = True, float("inf")
        if self._handle is not None:
            self._handle.update({"text/html": ""}, raw=True)
