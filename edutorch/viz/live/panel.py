"""A panel of the live view: more to be seen beside the graph, or to be done with it.

Each panel is a class of its own (see `PANELS` in `view.py`), with a panel of the same name in
`widgets/`. It gets the events of the steps that are sampled in full, adds its data to the message
of a step, under its name, and answers the page's commands that are meant for it. Its cost is
counted with the rest. CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .recorder import Recorder
    from .view import View

Command = dict[str, Any]
"""A message of the page: see `Command` in `widgets/protocol.d.ts`."""

PanelType = TypeVar("PanelType", bound="Panel")


class Panel:
    """The base of all panels. Each method does nothing by default."""

    name = ""
    """The key of its data in `Patch.parts` (see `widgets/protocol.d.ts`)."""

    event_types: frozenset[type] | None = None
    """The types of events that `take` is called with; None: all."""

    @classmethod
    def of(cls, view: View) -> Panel:
        """Return a new panel of a view, with what it needs of it."""
        return cls()

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

    def command(self, content: Command) -> bool:
        """Handle a message of the page, on whatever thread it comes. False: it is for another."""
        return False


class Panels(list[Panel]):
    """The panels of a view or a recorder, in the order in which events reach them.

    Attributes:
        by_type: the methods that get the events of a type, as far as any came.
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_type: dict[type, list[Callable[[Any], None]]] = {}

    def append(self, panel: Panel) -> None:
        super().append(panel)
        self.by_type.clear()

    def handlers(self, event_type: type) -> list[Callable[[Any], None]]:
        """Find out what gets the events of a type, and remember it."""
        handlers = [panel.take for panel in self if panel.wants_event(event_type)]
        self.by_type[event_type] = handlers
        return handlers

    def step_ended(self, recorder: Recorder) -> None:
        """Report the end of a step, and the losses of the idle steps before it."""
        losses = recorder.idle.losses
        for panel in self:
            if losses:
                panel.record_idle(losses)
            panel.step_ended(recorder)

    def scalars(self) -> dict[str, float]:
        """Return the points for curves of all panels."""
        return {name: value for panel in self for name, value in panel.scalars().items()}

    def command(self, content: Command) -> bool:
        """Handle a message of the page. False: it is for none of them."""
        return any(panel.command(content) for panel in self)

    def find(self, panel_class: type[PanelType]) -> PanelType:
        """Return the panel of a class.

        Raises: StopIteration: there is none.
        """
        return next(panel for panel in self if isinstance(panel, panel_class))
