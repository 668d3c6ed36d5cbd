"""An interactive drawing: a click opens or closes a group, or shows the details of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import missing_extra
from ..graph.fold import Choice
from ..graph.model import Snapshot
from ..live.messages import patch_of
from ..live.page import LIMIT, PageState
from ..render.static import Drawing

if TYPE_CHECKING:
    from ..live.widget import LiveWidget


class Explorer:
    """Shows one snapshot in a page, and updates it on the page's requests."""

    def __init__(
        self, snapshot: Snapshot, rankdir: str | None = None, choice: Choice | None = None
    ) -> None:
        self.snapshot = snapshot
        self.page_state = PageState(rankdir, choice)

    def open_page(self) -> LiveWidget:
        """Return a widget with the picture."""
        try:
            from ..live.widget import LiveWidget
        except ImportError as error:
            raise missing_extra("lab", "viz.explore", f"{error.name} is not installed") from error
        widget = self.page_state.page = LiveWidget(self.command, self.bundle)
        self.show()
        return widget

    def drawing(self) -> Drawing:
        """Return the current picture as a drawing that can be saved."""
        return Drawing(self.snapshot, self.page_state.layouts.rankdir, self.page_state.choice)

    def bundle(self) -> dict[str, Any]:
        """Return the current picture as a MIME bundle."""
        return self.drawing()._repr_mimebundle_()

    def command(self, content: dict[str, Any]) -> None:
        """Handle a message of the page."""
        if self.page_state.command(content):
            self.show()

    def show(self) -> None:
        """Send the snapshot in its current view to the page."""
        self.page_state.needs_update = True
        while self.page_state.needs_update:  # a slow layout asks for a smaller one
            self.page_state.show(self.snapshot, patch_of(0, "still", {}), patience=LIMIT)
