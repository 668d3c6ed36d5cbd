"""A new panel needs two lines in Python, and a step takes nine files to the page."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edutorch
from edutorch import nn, optim, viz
from edutorch.events import Stepped
from edutorch.viz.live import view as view_module
from edutorch.viz.live.panel import Panel, Panels
from edutorch.viz.live.sampler import State

LIVE = Path(view_module.__file__).parent
ROOT = LIVE.parents[2]


class Page:
    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []

    def show(self, picture: Any, patch: dict[str, Any], numbers: bytes, curves: Any) -> None:
        self.patches.append(patch)


def step_of(model: nn.Module) -> Callable[[], None]:
    optimizer = optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        model(edutorch.ones(4, 3)).square().mean().backward()
        optimizer.step()

    return step


def test_the_panel_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(   class Updates.*?)```", recipe, re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {"Panel": Panel, "Stepped": Stepped}
    exec(re.sub(r"^   ", "", code[1], flags=re.MULTILINE), names)
    monkeypatch.setattr(view_module, "PANELS", (*view_module.PANELS, names["Updates"]))
    model = nn.Linear(3, 1)
    step, view = step_of(model), viz.live(model)
    page = view._page_state.page = Page()
    with view:
        step()
        step()
    count = view.parts.find(names["Updates"]).count
    assert count  # the second step is sampled too, if the first one took little time
    assert page.patches[-1]["parts"]["updates"] == {"count": count}


def test_a_panel_that_comes_later_gets_events_too() -> None:
    class Counter(Panel):
        def __init__(self) -> None:
            self.events: list[type] = []

        def take(self, event: Any) -> None:
            self.events.append(type(event))

    step, view = step_of(nn.Linear(3, 1)), viz.live()
    with view:
        step()
        counter = Counter()
        view.parts.append(counter)
        view._sampler.enter(State.FULL)
        step()
    assert Stepped in counter.events
    with pytest.raises(StopIteration):
        Panels().find(Counter)


def test_a_step_takes_the_files_that_the_readme_draws() -> None:
    text = (LIVE / "README.md").read_text(encoding="utf-8")
    way = set(re.findall(r"^[^-]*?\b(\d)  (\w+\.py)", text, re.MULTILINE))
    beside = set(re.findall(r"^- `(\w+\.py)`|^  `(\w+\.py)`", text, re.MULTILINE))
    drawn, asked = {name for _, name in way}, {one or other for one, other in beside}
    assert sorted({number for number, _ in way}) == list("123456789")
    assert len(drawn) == 9
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    step, view = step_of(model), viz.live(model)
    view._page_state.page = Page()
    ran: dict[State, set[str]] = {}

    def note(frame: Any, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if path.parent == LIVE:
            ran.setdefault(state, set()).add(path.name)

    with view:
        sampler = view._sampler
        for index in range(12):
            sampler.throttle._next = sampler.idle.until = 0.0  # a message may be sent
            sampler._full_due = float("inf")
            if 5 < index < 8:
                sampler.choose(look=True, full=False)
            if index > 7:
                sampler.enter(State.IDLE)
                sampler.idle.until = float("inf")
            sampler.follow()
            # A listener leaves first, and the end of other idle steps is looked at.
            state = State.FULL if sampler.state is State.IDLE and index < 10 else sampler.state
            sys.setprofile(note)
            step()
            sys.setprofile(None)
    assert ran[State.FULL] | ran[State.LIGHT] <= drawn | asked
    assert ran[State.LIGHT] >= {"light_sampler.py", "step_trace.py"}
    assert ran[State.IDLE] == {"sampler.py"}
    assert {path.name for path in LIVE.glob("*.py")} == drawn | asked | {"__init__.py"}
