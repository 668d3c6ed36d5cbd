"""Pictures of what happens inside: of one tensor's graph, or of a whole training run.

draw(loss)                     # how was this computed?
with live(model):              # what happens while it trains?
    ...
"""

from .draw import draw
from .live import View, live
from .recorder import Recorder
from .render import engines
from .static import Drawing

__all__ = ["Drawing", "Recorder", "View", "draw", "engines", "live"]
