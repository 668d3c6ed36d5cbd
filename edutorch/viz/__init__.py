"""Pictures of the graph behind a tensor, and of a whole training run.

draw(loss)                     # how was this computed?
with live(model):              # what happens while it trains?
    ...
flame(profile)                 # where did the time go?
touch(f, a=2.0, b=3.0)         # what if an input had another value?
watch_ranks()                  # what do several processes do that train together?
walk(loss)                     # what does backward do, one node at a time?
toy("line")                    # how does an optimizer move over a loss surface?
settings.enabled = False       # what a live view changes in Python and Jupyter: nothing
"""

from typing import Any as _Any

from .history.difference import Comparison
from .draw import draw
from .render.flame_graph import Flame, flame
from .history.recording import History
from .tensors.images import attention, filters, image
from .tensors.landscape import Landscape, landscape
from .live.view import View, live
from .live.interpreter import settings
from .render.plots import Plot
from .magic import register
from .live.recorder import Recorder
from .render.graphviz import engines
from .tensors.show import Deeper, Shown, deeper, show, show_in_notebooks
from .render.static import Drawing
from .diagnostics.checks import Trouble, check, post_mortem, trouble
from .diagnostics.messages import Report
from .explore.touch import touch
from .explore.playground import toy
from .backward_walk.walk import Walk, walk

__all__ = [
    "Comparison", "Deeper", "Drawing", "Flame", "History", "Landscape", "Plot", "Recorder",
    "Report", "Shown", "Trouble", "View", "Walk", "attention", "check", "deeper",
    "draw", "engines", "filters", "flame", "image", "landscape", "live", "post_mortem",
    "settings", "show", "touch", "toy", "trouble", "walk",
    "watch_ranks",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Load what needs `edutorch.distributed`, which takes 10 ms."""
    if name == "watch_ranks":
        from .ranks.watch import watch_ranks

        return watch_ranks
    raise AttributeError(f"module 'edutorch.viz' has no attribute {name!r}", name=name)


register()  # the magic `%%live`, if this is a notebook
show_in_notebooks()  # notebooks show tensors as pictures from now on
