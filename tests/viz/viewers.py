"""Views as a script opens them, and as a kernel does: there, a page is sent what is seen."""

import sys
from collections.abc import Callable

from edutorch import viz


class Page:
    """A page that takes all it is sent: with one, a view looks as rarely as in a kernel."""

    def show(self, picture, patch, numbers, curves):
        pass


def in_a_script(*models):
    return viz.View(models, sys._getframe(1), None, False, None)


def in_a_kernel(*models):
    view = viz.View(models, sys._getframe(1), None, False, None)
    view._page_state.page = Page()
    return view


PLACES: dict[str, Callable[..., viz.View]] = {"script": in_a_script, "kernel": in_a_kernel}
