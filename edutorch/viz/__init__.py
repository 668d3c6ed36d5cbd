"""Pictures of what happens inside: of one tensor's graph, or of a whole training run.

draw(loss)                     # how was this computed?
with live(model):              # what happens while it trains?
    ...
flame(profile)                 # where did the time go?
"""

from .draw import draw
from .flame import Flame, flame
from .live import View, live
from .recorder import Recorder
from .render import engines
from .static import Drawing

__all__ = ["Drawing", "Flame", "Recorder", "View", "draw", "engines", "flame", "live"]
