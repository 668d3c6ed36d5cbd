"""What a view's buttons send while a cell runs in a browser tab.

JupyterLite gives a kernel its messages one after the other, so a click would wait for the end of
the cell. A BroadcastChannel reaches the kernel's worker at once, but Python hears it only while it
waits for the browser, which JSPI makes possible in a plain loop. The loop does so once per frame at
most, and spends at most a twentieth of its time on it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ...backends.platform import can_wait
from .throttle import Gate

FRAME = 1 / 60
"""Seconds between two waits, at least."""

SHARE = 0.05
"""The share of the time that they may take."""

KEPT = 256
"""So many commands are remembered: each also comes as a message of the kernel, later."""


class TabChannel:
    """Hears the commands of one view.

    Args:
        on_command: handles a command.

    Attributes:
        description: for the page: the channel's name, and whether somebody hears it.
    """

    def __init__(self, on_command: Callable[[dict[str, Any]], None]) -> None:
        self._on_command = on_command
        self._known: deque[str] = deque(maxlen=KEPT)
        self._due, self._heard = 0.0, False
        self._channel: Any = None
        # Nobody who does not have it from the view can guess the name.
        self.description = {"name": f"edutorch-{secrets.token_hex(16)}", "hears": can_wait()}
        if self.description["hears"]:
            self._listen()

    def _listen(self) -> None:
        from js import BroadcastChannel
        from pyodide.ffi import create_proxy

        self._channel = BroadcastChannel.new(self.description["name"])
        self._channel.onmessage = create_proxy(self._on_message)

    def _on_message(self, event: Any) -> None:
        """Handle an event of the browser; what is no command of our page is dropped."""
        data = getattr(event, "data", None)
        content = data.to_py() if hasattr(data, "to_py") else None
        if isinstance(content, dict) and isinstance(content.get("id"), str):
            self._heard = True
            self.once(content)

    def once(self, content: dict[str, Any]) -> None:
        """Handle a command, unless it has come before on the other way."""
        number = content.get("id")
        if number is not None:
            if number in self._known:
                return
            self._known.append(number)
        self._on_command(content)

    def serve(self, gate: Gate) -> None:
        """Let a loop hear the page: between two steps, and while it is held."""
        if self._channel is not None:
            gate.fetch, gate.rest, gate.sleep = self.fetch, self.rest, self.rest

    def fetch(self) -> bool:
        """Let the browser in, if it is time for it. Returns: whether a command came."""
        now = time.perf_counter()
        if now < self._due:
            return False
        self.rest(0)
        end = time.perf_counter()
        self._due = end + max(FRAME, (end - now) * (1 / SHARE - 1))
        heard, self._heard = self._heard, False
        return heard

    def rest(self, seconds: float) -> None:
        """Wait, while the browser delivers what has been sent."""
        from pyodide.ffi import run_sync

        run_sync(asyncio.sleep(seconds))
