"""A part of the live view: something more to be seen beside the graph, or to be done with it.

Each part is a file of its own (here, and a panel of the same name in `widgets/`). It hears the
events of the steps that are looked at, adds what it has found to the message of a step, under its
name, and answers the page's commands that are meant for it. What it costs is counted with the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recorder import Recorder


class Panel:
    """The base of all parts. Each method does nothing unless a part says otherwise."""

    name = ""
    """The key of its data in `Patch.parts` (see `widgets/protocol.d.ts`)."""

    hears: frozenset[type] | None = None
    """The kinds of events that `take` is called with; None: all."""

    def take(self, event: Any) -> None:
        """Hear an event of a step that is looked at."""

    def takes(self, kind: type) -> bool:
        """Say whether events of a kind are wanted."""
        return type(self).take is not Panel.take and (self.hears is None or kind in self.hears)

    def step_ended(self, recorder: Recorder) -> None:
        """Hear that a step has ended, also one that was not looked at (`recorder.sampled`)."""

    def rested(self, losses: list[float]) -> None:
        """Hear of the losses of the steps since the last that ended: too many to tell of each."""

    def patch(self) -> Any:
        """Return what the page shall know of this step; None for nothing. It becomes JSON."""
        return None

    def scalars(self) -> dict[str, float]:
        """Return points for curves, by name; asked for at the end of a step that is looked at."""
        return {}

    def command(self, content: dict[str, Any]) -> bool:
        """Take a message of the page, on whatever thread it comes. False: it is for another."""
        return False
