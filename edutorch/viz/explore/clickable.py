"""A drawing to be clicked: groups open and close, a node tells all that is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import missing_extra
from ..graph.fold import Choice
from ..graph.model import Snapshot
from ..live.layout_queue import LIMIT
from ..live.messages import patch_of
from ..live.page import Stage
from ..render.static import Drawing

if TYPE_CHECKING:
    from ..live.widget import LiveWidget


class Explorer:
    """Shows one snapshot in a page, and shows it again as the page asks for it."""

    def __init__(
        self, snapshot: Snapshot, rankdir: str | None = None, choice: Choice | None = None
    ) -> None:
        self.snapshot = snapshot
        self.stage = Stage(rankdir, choice)

    def open_page(self) -> LiveWidget:
        """Make the widget, with the picture in it."""
        try:
            from ..live.widget import LiveWidget
        except ImportError as error:
            raise missing_extra("lab", "viz.explore", f"{error.name} is not installed") from error
        widget = self.stage.page = LiveWidget(self.command, self.bundle)
        self.show()
        return widget

    def drawing(self) -> Drawing:
        """Return the picture as it is now, to be saved."""
        return Drawing(self.snapshot, self.stage.layouts.rankdir, self.stage.choice)

    def bundle(self) -> dict[str, Any]:
        """Return the picture as it is now, as a notebook is given it."""
        return self.drawing()._repr_mimebundle_()

    def command(self, content: dict[str, Any]) -> None:
        """Take a message of the page."""
        if self.stage.command(content):
            self.show()

    def show(self) -> None:
        """Send the snapshot as it is to be seen now."""
        self.stage.asked = True
        while self.stage.asked:  # a slow layout asks for a smaller one
            self.stage.show(self.snapshot, patch_of(0, "still", {}), patience=LIMIT)
