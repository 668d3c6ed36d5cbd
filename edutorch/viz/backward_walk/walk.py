"""`walk(loss)`: step through backward, one node at a time."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

from ...core.autograd.backward import initial_gradients, run_backward
from ...core.autograd.graph import Node, edge_of, reachable
from ...core.tensor import Tensor
from ...errors import EdutorchError, missing_extra
from ...nn import Module
from ..draw import CallerNames
from ..graph.fold import Choice
from ..graph.graph_reader import collect_vertices, leaf_key, root_key
from ..graph.model import TIED, GraphNode, Snapshot, arrange, enclosing_paths, qualified_name
from ..graph.names import variables
from ..live.fallback_picture import ViewWithFallback
from ..live.interpreter import display_in_cell
from ..live.messages import patch_of
from ..live.page import LIMIT, PageState
from ..live.panel import Panel
from ..live.view import in_notebook
from ..render.static import Drawing
from ..tensors.summaries import summarize
from .backward_steps import BackwardStep, GradientSummary, step_data, table_of
from .stepping import PictureIndex, Reporter, Stepper, key_of


class WalkError(EdutorchError, ValueError):
    """A walk was asked for something that it cannot do."""


def walk(
    loss: Tensor,
    gradient: Tensor | None = None,
    model: Module | None = None,
    retain_graph: bool = False,
    open: str | Iterable[str] = (),
) -> Walk:
    """Run `loss.backward()` one node at a time, and see what each does.

    In a notebook, the walk is a picture with buttons; elsewhere, `print(walk.next())`.

    It is the real backward: the engine waits before each node, on a thread of its own, and at
    the end each leaf's `.grad` is written. Until then nothing has changed: a walk that is
    dropped half-way leaves the graph whole and every `.grad` as it was. (Once the first `.grad`
    is written, the others follow.) Another walk or `loss.backward(retain_graph=True)` may run
    meanwhile; a `loss.backward()` that frees the graph makes the next step fail with an error.

    Args:
        loss: where backward begins.
        gradient: as for `loss.backward`: required unless `loss` has one element.
        model: parameters are named as in this model; otherwise as in the caller's.
        retain_graph: keep the graph, so that it can be walked again.
        open: groups to show open: paths of modules, as "layers.0".

    Raises: WalkError: `loss` is no tensor. GradientError, ShapeError: as for `loss.backward`.

    >>> a, b = tensor(2.0, requires_grad=True), tensor(3.0, requires_grad=True)
    >>> for station in edutorch.viz.walk(a * b):
    ...     print(station)
    1  mul
       g = 1   (from the start)
       → a: g·b = 1·3 = 3
       → b: g·a = 1·2 = 2
    2  a
       arrived: 3   (from mul)
       a.grad = 3
    3  b
       arrived: 2   (from mul)
       b.grad = 2
    """
    if not isinstance(loss, Tensor):
        raise WalkError(
            "viz.walk", f"expected a tensor, got {type(loss).__name__}",
            hint="compute something first: loss = f(x); viz.walk(loss)",
        )  # fmt: skip
    groups = (open,) if isinstance(open, str) else tuple(open)
    return Walk(loss, gradient, model, retain_graph, groups, sys._getframe(1))


class Walk:
    """What `walk` returns: a backward pass that can be advanced step by step.

    `for station in walk` takes one step after the other. `station` is the current step (None
    before the first), `stations` all that have been done, `table()` the same as a table.
    """

    def __init__(
        self,
        loss: Tensor,
        gradient: Tensor | None,
        model: Module | None,
        retain_graph: bool,
        groups: tuple[str, ...],
        frame: FrameType,
    ) -> None:
        (self._gradient,) = initial_gradients("viz.walk", [loss], gradient)
        self._loss, self.retain_graph = loss, retain_graph
        names = CallerNames(model, {}, frame)
        vertices = collect_vertices(loss, names)
        for _, value in variables(frame):
            vertex = vertices.get(root_key(value)) if isinstance(value, Tensor) else None
            if vertex is not None and vertex.value is None:
                vertex.value = summarize(value._array)
        names.frame = None
        self.whole = arrange(vertices, [root_key(loss)], names.classes)
        self.chart = PictureIndex.from_vertices(vertices, self.whole)
        self._lock = threading.RLock()
        self._view = WalkView(self, groups)
        self.position = 0
        self.finished = False  # by `finish`: the buttons are no longer needed
        self._begin()

    def _begin(self) -> None:
        """Start the engine; it stops before its first node."""
        loss, gradient, retain = self._loss, self._gradient, self.retain_graph
        steps = reachable([edge_of(loss)])
        leaves = [step for step in steps if isinstance(step, Tensor)]
        held = {leaf_key(leaf): GradientSummary.from_array(leaf._grad._array)
                for leaf in leaves if leaf._grad is not None}  # fmt: skip
        self._expected = len(steps)

        def work() -> None:
            run_backward([loss], [gradient], True, False)
            for step in () if retain else reachable([edge_of(loss)]):
                if isinstance(step, Node) and step.holds:
                    step.saved = None

        self._stepper = Stepper()
        reporter = Reporter(self._stepper, self.chart, edge_of(loss), held)
        self._finalizer = weakref.finalize(self, self._stepper.abandon)
        self._finalizer.atexit = False  # the thread is a daemon: it ends with the program
        self._stepper.start(work, reporter)
        self.position = 0

    # Current state --------------------------------------------------------------------------

    @property
    def stations(self) -> list[BackwardStep]:
        """All steps that the engine has done so far."""
        return list(self._stepper.stations)

    @property
    def station(self) -> BackwardStep | None:
        """The step that is shown; None before the first."""
        return self._stepper.stations[self.position - 1] if self.position else None

    @property
    def over(self) -> bool:
        """Whether the engine has done all there is."""
        done = self._stepper.stations
        return self._stepper.over or bool(done and done[-1].upcoming is None)

    @property
    def upcoming(self) -> str | None:
        """The name of what comes next; None at the end."""
        if self.position == len(self._stepper.stations) and self.over:
            return None
        if self.position < len(self._stepper.stations):
            return self._stepper.stations[self.position].name
        station = self.station
        at = self.root if station is None else station.upcoming
        return None if at is None else self.chart.names[at]

    @property
    def root(self) -> int:
        """The box of `loss`, by its index in the graph."""
        return self.chart.box_of[key_of(edge_of(self._loss))]

    def __len__(self) -> int:
        """Return how many steps there are, or will be if a gradient reaches every node."""
        return len(self._stepper.stations) if self.over else self._expected

    # Moving ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[BackwardStep]:
        """Take one step after the other, from here to the end."""
        while (station := self._forward()) is not None:
            self._view.show()
            yield station

    def next(self) -> BackwardStep:
        """Take one step: the engine runs one node, or writes one leaf's `.grad`.

        At the end, it stays at the last one. What backward raises is raised here.
        """
        self._forward()
        self._view.show()
        station = self.station
        assert station is not None
        return station

    def back(self) -> BackwardStep | None:
        """Look at the step before. The engine stays where it is: accumulated gradients stay."""
        with self._lock:
            self.position = max(0, self.position - 1)
        self._view.show()
        return self.station

    def run_to(self, target: Tensor | Node | str | list[int]) -> BackwardStep:
        """Run until the gradient has reached a node.

        Args:
            target: a tensor, its `grad_fn`, or text: a name in the picture (a variable, an op,
                a parameter as "layers.0.weight"), a box's id ("n3"), or the path of a module.

        Raises: WalkError: there is no such thing in the graph, or no gradient reaches it.
        """
        wanted = self._find(target)
        with self._lock:
            while (station := self._forward()) is not None:
                if station.node in wanted:
                    break
            else:
                recorded = [station for station in self._stepper.stations if station.node in wanted]
                if not recorded:
                    raise WalkError("Walk.run_to", f"no gradient reaches {describe_target(target)}")
                station = recorded[0]
                self.position = station.number
        self._view.show()
        return station

    def finish(self) -> BackwardStep:
        """Run to the end. In a notebook, the picture then replaces the buttons."""
        self.run_to_end()
        self.finished = True
        self._view.leave_picture()
        station = self.station
        assert station is not None
        return station

    def run_to_end(self) -> None:
        """Run to the end; the buttons stay, for looking back."""
        while self._forward() is not None:
            pass
        self._view.show()

    def restart(self) -> None:
        """Begin again. After the end, this is a second backward: it adds to each `.grad`.

        Raises: WalkError: the walk is over, and the graph was not retained.
        """
        with self._lock:
            if self.over and not self.retain_graph:
                raise WalkError(
                    "Walk.restart", "the graph was freed at the end of the walk",
                    hint="viz.walk(loss, retain_graph=True) keeps it; back() still looks back",
                )  # fmt: skip
            self._finalizer()
            self.finished = False
            self._begin()
        self._view.show()

    def _forward(self) -> BackwardStep | None:
        """Go one step on, without updating the page; None at the end."""
        if threading.current_thread() is self._stepper.thread:
            raise WalkError("Walk.next", "a hook cannot move the walk that it is called from")
        with self._lock:
            if self.position == len(self._stepper.stations):
                self._stepper.advance(self.position + 1)
                if self.position == len(self._stepper.stations):
                    return None
            self.position += 1
            return self.station

    def _find(self, target: Tensor | Node | str | list[int]) -> set[int]:
        """Return the boxes that `target` means, by index in the whole graph."""
        nodes = self.whole.graph.nodes
        if isinstance(target, list):  # of indices: what is inside of a box on the screen
            boxes = set(target)
        elif isinstance(target, Node | Tensor):
            key = root_key(target) if isinstance(target, Tensor) else key_of(target)
            box = self.chart.box_of.get(key)
            boxes = set() if box is None else {box}
        else:
            text = str(target)
            candidates = [
                {index for index, node in enumerate(nodes) if text in names(node)}
                for names in (
                    lambda node: (node.id,),
                    lambda node: (node.variable, *paths_of(node)),
                    lambda node: (self.chart.names[int(node.id[1:])],),
                    lambda node: (node.label, *node.label.split(TIED)),
                    lambda node: enclosing_paths(node.module),
                )
            ]
            boxes = next((indices for indices in candidates if indices and text), set())
        boxes = {index for index in boxes if nodes[index].differentiable}
        if not boxes:
            names = ", ".join(dict.fromkeys(self.chart.names))
            raise WalkError(
                "Walk.run_to", f"the gradient does not go to {describe_target(target)}",
                {"names": names[:300]}, "give a tensor, or one of these names",
            )  # fmt: skip
        return boxes

    # Showing --------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The graph, with the gradients that have flowed up to the current step."""
        grads, flows = list(self.whole.grads), [None] * len(self.whole.flows)
        start = GradientSummary.from_array(self._gradient._array)
        if self.whole.graph.nodes[self.root].kind != "leaf":
            grads[self.root] = start.stats
        for station in self._stepper.stations[: self.position]:
            reached = station.after if station.kind == "leaf" else station.incoming
            grads[station.node] = None if reached is None else reached.stats
            for flow in station.flows:
                if flow.edge >= 0:
                    flows[flow.edge] = flow.gradient.stats  # type: ignore[call-overload]
                if not flow.into and flow.total is not None:
                    grads[flow.target] = flow.total.stats
        return replace(self.whole, grads=tuple(grads), flows=tuple(flows))

    def drawing(self) -> Drawing:
        """Return the picture as it is now, without buttons."""
        return Drawing(
            self.snapshot, self._view.page_state.layouts.rankdir, self._view.page_state.choice
        )

    def table(self) -> str:
        """Return all steps so far as a table, at most 96 characters wide."""
        return table_of(self._stepper.stations)

    def __repr__(self) -> str:
        station, upcoming = self.station, self.upcoming
        first = f"walk through backward, {self.position} of {len(self)} steps"
        last = "that was all" if upcoming is None else f"next: {upcoming}"
        return "\n".join(filter(None, (first, str(station) if station else "", last)))

    def _ipython_display_(self) -> None:
        if in_notebook():
            self._view.display(self)
        else:
            print(self)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        # For front ends that show widgets without Jupyter, such as marimo.
        if self.finished:
            return self._view.bundle()
        return self._view.open_page(self)._repr_mimebundle_(**options)


def paths_of(node: GraphNode) -> list[str]:
    """Return the module's path with the name: of a tied parameter, with each of its names."""
    path = qualified_name(node.module, node.label)
    return [path, *path.split(TIED)]


def describe_target(target: Tensor | Node | str | list[int]) -> str:
    if isinstance(target, Tensor):
        return f"this tensor of shape {tuple(target.shape)}"
    return repr(target)


# In a page ------------------------------------------------------------------------------

BETWEEN_MESSAGES = 1 / 25
"""Minimum seconds between two messages to a page."""


class WalkView(Panel):
    """Shows a walk; its data are `Walk` in the protocol.

    It does not keep the walk alive, unless a page shows it: a walk that is no longer reachable
    ends its thread.
    """

    name = "walk"

    def __init__(self, walk: Walk, groups: tuple[str, ...]) -> None:
        choice = Choice()
        for group in groups:
            choice = choice.open(group)
        self.page_state = PageState(choice=choice)
        self.message = ""
        self._walk = weakref.ref(walk)
        self._kept: Walk | None = None
        self._displays: list[ViewWithFallback] = []
        self._sent = 0.0
        self._showing = threading.Lock()

    @property
    def walk(self) -> Walk:
        """The walk, which exists as long as anybody calls this."""
        walk = self._walk()
        assert walk is not None
        return walk

    def display(self, walk: Walk) -> None:
        """Show the walk in the notebook: with buttons, unless it has been finished."""
        if walk.finished:
            display_in_cell(self.bundle(), raw=True)
            return
        self._displays.append(ViewWithFallback(self.open_page(walk), self.bundle))

    def open_page(self, walk: Walk) -> Any:
        """Return the widget of a walk, the same each time."""
        try:
            from ..live.widget import LiveWidget
        except ImportError as error:
            raise missing_extra("lab", "viz.walk", f"{error.name} is not installed") from error
        if self.page_state.page is None:
            self._kept = walk
            self.page_state.page = LiveWidget(self.answer)
            self.show()
        return self.page_state.page

    def leave_picture(self) -> None:
        """Replace the buttons by the picture: it stays when the kernel is gone."""
        page: Any = self.page_state.page
        self.page_state.page = self._kept = None
        while self._displays:
            self._displays.pop().end(self.bundle(), self.walk.table())
        if page is not None:
            page.close()

    def bundle(self) -> dict[str, Any]:
        """Return the picture and the table in each form that a notebook may know."""
        mime_bundle = self.walk.drawing()._repr_mimebundle_()
        mime_bundle["text/plain"] = f"{self.walk.table()}\n\n{mime_bundle['text/plain']}"
        return mime_bundle

    def show(self) -> None:
        """Send the page the current state."""
        if self.page_state.page is None:
            return
        with self._showing:
            time.sleep(max(0.0, self._sent + BETWEEN_MESSAGES - time.monotonic()))
            self.page_state.needs_update = True
            while self.page_state.needs_update:  # after a slow layout a smaller one is needed
                patch = patch_of(self.walk.position, "still", {}, [self])
                self.page_state.show(self.walk.snapshot, patch, patience=LIMIT)
            self._sent = time.monotonic()

    def answer(self, content: dict[str, Any]) -> None:
        """Handle a message of the page, on whatever thread it comes."""
        if content.get("type") != "walk":
            if self.page_state.command(content):
                self.show()
            return
        self.message = ""
        try:
            self.go(str(content.get("go")), str(content.get("node", "")))
        except Exception as error:  # noqa: BLE001  (shown where the button was pressed)
            self.message = f"{type(error).__name__}: {error}"
            self.show()

    def go(self, where: str, node: str) -> None:
        """Do what a button requests; `node` is a box on the screen."""
        walk = self.walk
        if where == "next":
            walk.next()
        elif where == "back":
            walk.back()
        elif where == "end":
            walk.run_to_end()
        elif where == "to":
            inside = [index for index, id in self.visible_ids().items() if id == node]
            walk.run_to(inside)

    def visible_ids(self) -> dict[int, str]:
        """Return the id of the box on the screen in which each node of the whole graph is."""
        return self.page_state.plan(self.walk.whole.graph).ids

    def patch(self) -> dict[str, Any]:
        """Return the position of the walk, and the mark of each box and arrow."""
        walk, seen = self.walk, self.visible_ids()
        station = walk.station
        marks = {seen[station.node]: "done" for station in walk.stations[: walk.position]}
        for number in station.waiting if station else (walk.root,):
            marks[seen[number]] = "waiting"
        to: list[str] = []
        if station is not None:
            marks[seen[station.node]] = "here"
            to = sorted({seen[flow.target] for flow in station.flows})
        return {
            "position": walk.position,
            "total": len(walk),
            "marks": marks,
            "to": to,
            "station": None if station is None else step_data(station),
            "upcoming": walk.upcoming or "",
            "message": self.message,
        }
