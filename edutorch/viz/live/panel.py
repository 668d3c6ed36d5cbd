"""A panel of the live view: more to be seen beside the graph, or to be done with it.

Each panel is a file of its own (here, and a panel of the same name in `widgets/`). It gets the
events of the steps that are sampled in full, adds its data to the message of a step, under its
name, and answers the page's commands that are meant for it. Its cost is counted with the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recorder import Recorder


class Panel:
    """The base of all panels. Each method does nothing by default."""

    name = ""
    """The key of its data in `Patch.parts` (see `widgets/protocol.d.ts`)."""

    event_types: frozenset[type] | None = None
    """The types of events that `take` is called with; None: all."""

    def take(self, event: Any) -> None:
        """Handle an event of a step that is sampled in full."""

    def wants_event(self, event_type: type) -> bool:
        """Return True if events of a type are wanted."""
        return type(self).take is not Panel.take and (
            self.event_types is None or event_type in self.event_types
        )

    def step_ended(self, recorder: Recorder) -> None:
        """Handle the end of a step, also of one that was not sampled (`recorder.sampled`)."""

    def record_idle(self, losses: list[float]) -> None:
        """Handle the losses of the idle steps since the last end of a step, all at once."""

    def patch(self) -> Any:
        """Return what the page shall know of this step; None for nothing. It becomes JSON."""
        return None

    def scalars(self) -> dict[str, float]:
        """Return points for curves, by name; called at the end of a sampled step."""
        return {}

    def command(self, content: dict[str, Any]) -> bool:
        """Handle a message of the page, on whatever thread it comes. False: it is for another."""
        return False
