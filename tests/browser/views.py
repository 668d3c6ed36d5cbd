"""Everything that a page may show, made without a notebook: for tests that look at all of it."""

from __future__ import annotations

import time
from typing import Any

import edutorch
from edutorch import nn, optim
from edutorch.nn import functional as F
from edutorch.viz import draw, live, touch, toy, walk
from edutorch.viz.explore.touch import Explorer
from edutorch.viz.live.page import LIMIT

STEPS = 40


def two_layers() -> Any:
    """A drawing in which a group is open and one is closed."""
    edutorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    loss = model(edutorch.ones(2, 3)).mean()
    picture = draw(loss, model, open="0")
    return Explorer(picture.whole, "LR", picture.choice)


def function() -> Any:
    """A function whose inputs can be changed, with an error to be read."""
    play = touch(lambda w, x: (w * x).tanh(), w=0.5, x=edutorch.tensor([1.0, -2.0]))
    play.part.error = "ValueError: something to be read in the colour of errors"
    return play


class Net(nn.Module):
    """A net with something to be said about each of its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 8), nn.Linear(8, 1)
        self.forgotten = nn.Linear(2, 2)  # no gradient will ever come here

    def forward(self, x: Any) -> Any:
        return self.second(F.relu(self.first(x)))


class Loop:
    """A training loop that has run for a while, and what its view shows then.

    Args:
        state: "running" or "paused", as the page is told.
        looks: a page's messages after that.
    """

    def __init__(self, state: str, *looks: dict[str, Any], breaks: bool = False) -> None:
        edutorch.manual_seed(0)
        self.net, self.breaks = Net(), breaks
        self.view = live(self.net)
        self.page_state = self.view._page_state
        self.state, self.looks = state, looks

    def show(self) -> None:
        """Run the loop; the page must be there."""
        optimizer = optim.SGD(self.net.parameters(), lr=0.1)
        x = edutorch.randn(16, 2)
        self.view.__enter__()
        try:
            for step in range(STEPS):
                optimizer.zero_grad()
                loss = (self.net(x) - x[:, :1] * x[:, 1:]).square().mean()
                if self.breaks and step > 1:
                    loss = loss + (loss.detach() * -1).log()
                loss.backward()
                optimizer.step()
                self.view.log(accuracy=step / STEPS)
                time.sleep(0.01)
        finally:
            self.view._sampler.__exit__(None, None, None)
        self.view._gate.paused = self.state == "paused"
        self.send()
        for look in self.looks:
            self.command(look)

    def command(self, content: dict[str, Any]) -> None:
        self.view._command(content)
        self.send()

    def send(self) -> None:
        # As in a pause, but without waiting: the page's clicks come from this thread.
        self.view._state = "paused" if self.view._gate.paused else "running"
        self.view._send(patience=LIMIT)


def running() -> Any:
    return Loop("running")


def paused() -> Any:
    return Loop("paused")


def broken() -> Any:
    return Loop("running", breaks=True)


def looking_back() -> Any:
    loop = Loop("running", {"type": "goto", "step": 5}, {"type": "compare", "step": 1})
    loop.view.history.every = 1  # else it depends on the time which steps are kept, and compared
    return loop


def closed() -> Any:
    return Loop("running", {"type": "close_all"})


class Walking:
    """A walk through backward that has come to a node in its middle."""

    def __init__(self) -> None:
        x = edutorch.tensor(3.0, requires_grad=True)
        w = edutorch.tensor(-2.0, requires_grad=True)
        y = x * w
        self.walk = walk((y + x**2).tanh() + y * 0.1)
        self.page_state, self.command = self.walk._view.page_state, self.walk._view.answer

    def show(self) -> None:
        for _ in range(3):
            self.walk.next()
        self.walk._view.show()


VIEWS = {
    "explore": two_layers,
    "touch": function,
    "toy": toy,
    "running": running,
    "paused": paused,
    "trouble": broken,
    "history": looking_back,
    "closed": closed,
    "walk": Walking,
}
"""By name, how to make what is shown: it has a stage, `show` and `command`."""

PANELS = {
    "running": ("gauges", "history", "trouble"),
    "paused": ("gauges", "history", "touch", "trouble"),
    "trouble": ("trouble",),
    "history": ("history",),
    "walk": ("walk",),
    "touch": ("touch",),
    "toy": ("toy",),
}
"""What must be seen in each."""
