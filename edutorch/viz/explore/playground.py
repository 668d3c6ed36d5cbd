"""An interactive fit: a few points, a model with two parameters, and its loss surface.

Dragging a point changes the loss surface and the optimizer's next step.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...autograd import enable_grad, no_grad
from ...core.tensor import Tensor
from ...errors import EdutorchError, missing_extra
from ...events import listening
from ...nn import functional
from ...ops import Generator, tensor
from ...optim import SGD, Optimizer
from ..graph.model import Snapshot
from ..graph.names import Names
from ..live.fallback_picture import ViewWithFallback
from ..live.interpreter import in_notebook
from ..live.panel import Panel
from ..live.recorder import Recorder
from ..render.plots import RISING, Plot, new_figure
from .tensor_editor import number_or_text
from .touch import Explorer

Kind = Literal["line", "moons"]
Optimizers = Callable[[list[Tensor]], Optimizer]

GRID = 41
BANDS = 10
FLAT = 1e-9
"""The least relative height of the surface: contour levels need to increase."""
MOST_POINTS = 200
LONGEST_PATH = 500
MOST_UNDO = 500
PLANE = 3.0
"""The plot of the points shows both axes from -PLANE to PLANE."""
REACH, FARTHEST = 3.0, 30.0
"""The surface is drawn from -REACH to REACH in both parameters, or as far as the path goes, but
not beyond FARTHEST."""


class ToyError(EdutorchError, ValueError):
    """Raised for invalid settings of the playground, or an invalid move."""


@dataclass(frozen=True)
class Moment:
    """The state that undo restores."""

    points: np.ndarray
    parameters: np.ndarray
    path: tuple[tuple[float, float], ...]
    state: dict[str, Any]
    steps: int
    drag: int = 0


class Toy(Explorer):
    """What `toy` returns. A notebook displays it; each button is a method as well."""

    def __init__(self, kind: Kind, points: np.ndarray, optimizer: Optimizers) -> None:
        self.kind, self._first, self._optimizers = kind, points.copy(), optimizer
        self.names = ("w", "b") if kind == "line" else ("w1", "w2")
        self.part = ToyPart(self)
        self.panels = [self.part]
        self._displays: list[ViewWithFallback] = []
        self.finished = False  # whether `finish` has replaced it by a picture
        self.past: list[Moment] = []
        self.future: list[Moment] = []
        self._lock = threading.RLock()
        self._begin()
        super().__init__(self._compute())

    def _begin(self) -> None:
        self.points = self._first.copy()
        start = [-1.5, 1.5] if self.kind == "line" else [-1.5, -1.0]
        self.parameters = [tensor(value, requires_grad=True) for value in start]
        self.optimizer = self._optimizers(self.parameters)
        self.path: list[tuple[float, float]] = [self.at]
        self.steps = 0

    @property
    def at(self) -> tuple[float, float]:
        """The current values of the two parameters."""
        return self.parameters[0].item(), self.parameters[1].item()

    def step(self, times: int = 1) -> Toy:
        """Run one or several steps of the optimizer."""
        with self._lock:
            for _ in range(times):
                self._remember()
                self._compute()
                self.optimizer.step()
                self.steps += 1
                self.path = [*self.path, self.at][-LONGEST_PATH:]
            return self._refresh()

    def drag(self, index: int, x: float, y: float, drag: int = 0) -> Toy:
        """Move a point.

        Args:
            index: the index of the point.
            drag: moves with the same number, not 0, are undone together.

        Raises: ToyError: there is no such point, or a coordinate is not finite.
        """
        if not 0 <= index < len(self.points) or not np.isfinite([x, y]).all():
            raise ToyError(
                "toy.drag", f"cannot move point {index} to ({x}, {y})",
                hint=f"there are points 0 to {len(self.points) - 1}, at finite places",
            )  # fmt: skip
        with self._lock:
            self._remember(drag)
            # A copy: the moments of undo still hold the old array.
            self.points = self.points.copy()
            self.points[index, :2] = x, y
            return self._refresh()

    def move(self, first: float, second: float) -> Toy:
        """Restart the optimizer at these two parameters."""
        if not np.isfinite([first, second]).all():
            raise ToyError("toy.move", f"the parameters have to be finite: {first}, {second}")
        with self._lock:
            self._remember()
            self._place((first, second))
            self.path, self.optimizer = [self.at], self._optimizers(self.parameters)
            return self._refresh()

    def reset(self) -> Toy:
        """Restore the initial points, parameters and optimizer."""
        with self._lock:
            self._remember()
            self._begin()
            return self._refresh()

    def undo(self) -> bool:
        """Undo the last step, drag, move or reset. Return False if there is none."""
        return self._restore_from(self.past, self.future)

    def redo(self) -> bool:
        """Redo what was undone last. Return False if there is nothing."""
        return self._restore_from(self.future, self.past)

    def _moment(self, drag: int = 0) -> Moment:
        # Deep, since `step` writes into the buffers of the optimizer.
        state = copy.deepcopy(self.optimizer.state_dict())
        here = np.array(self.at)
        return Moment(self.points, here, tuple(self.path), state, self.steps, drag)

    def _remember(self, drag: int = 0) -> None:
        # A drag sends dozens of moves; all of them are one undo.
        if drag and self.past and self.past[-1].drag == drag:
            return
        self.past.append(self._moment(drag))
        del self.past[:-MOST_UNDO]
        self.future.clear()

    def _restore_from(self, here: list[Moment], there: list[Moment]) -> bool:
        with self._lock:
            if not here:
                return False
            there.append(self._moment())
            moment = here.pop()
            self.points, self.path, self.steps = moment.points, list(moment.path), moment.steps
            self._place(moment.parameters)
            # A new optimizer: momentum that came later must not stay in the old one.
            self.optimizer = self._optimizers(self.parameters)
            self.optimizer.load_state_dict(moment.state)
            self._refresh()
            return True

    def _place(self, where: Iterable[float]) -> None:
        with no_grad():
            for parameter, value in zip(self.parameters, where, strict=True):
                parameter.copy_(tensor(float(value)))

    def _refresh(self) -> Toy:
        self.snapshot = self._compute()
        self.show()
        return self

    def loss_of(
        self, first: Tensor, second: Tensor, data: dict[str, Tensor] | None = None
    ) -> Tensor:
        """Return the loss; parameters of shape (n, 1) give n losses at once."""
        data = data or self.data()
        x, y = data["x"], data["y"]
        if self.kind == "line":
            return ((first * x + second - y) ** 2).mean(-1)
        score = first * x + second * y
        return (functional.softplus(score) - data["side"] * score).mean(-1)

    def data(self) -> dict[str, Tensor]:
        """Return the columns of the points by name."""
        columns = zip(("x", "y", "side"), self.points.T, strict=False)
        return {name: tensor(column.tolist()) for name, column in columns}

    def _compute(self) -> Snapshot:
        """Record the loss with its gradients, which stay on the parameters for the optimizer."""
        names = Names()
        for name, parameter in zip(self.names, self.parameters, strict=True):
            names.name(parameter, name)
            # The picture shows one backward, not a sum of several.
            parameter.grad = None
        data = self.data()
        for name, column in data.items():
            names.name(column, name)
        recorder = Recorder(names)
        with enable_grad(), listening(recorder):
            first, second = self.parameters
            loss = self.loss_of(first, second, data)
            loss.backward()
        recorder.finish()
        assert recorder.snapshot is not None
        self.loss = loss.item()
        return recorder.snapshot

    def next_step(self) -> tuple[float, float]:
        """Return the parameters after the optimizer's next step, without taking it."""
        with self._lock:
            here, state = self.at, copy.deepcopy(self.optimizer.state_dict())
            self.optimizer.step()
            there = self.at
            self._place(here)
            self.optimizer = self._optimizers(self.parameters)
            self.optimizer.load_state_dict(state)
            return there

    def surface(self) -> tuple[tuple[float, float, float, float], np.ndarray]:
        """Return the ranges of both parameters (low, high, low, high) and the loss on a grid."""
        # A diverging path would shrink the surface to a dot.
        near = [point for point in (*self.path, self.next_step()) if np.abs(point).max() < FARTHEST]
        box = []
        for values in zip((0.0, 0.0), *near, strict=True):
            box += [min(-REACH, 1.1 * min(values)), max(REACH, 1.1 * max(values))]
        first, second = np.meshgrid(*axes(box))
        with no_grad():
            # One row for each point of the grid: all losses come from one call.
            rows = [tensor(grid.reshape(-1, 1).astype("float32")) for grid in (first, second)]
            heights = self.loss_of(rows[0], rows[1])
        return (box[0], box[1], box[2], box[3]), heights.numpy().reshape(GRID, GRID)

    def command(self, content: dict[str, Any]) -> None:
        """Handle a message of the page."""
        with self._lock:
            if content.get("type") != "toy":
                super().command(content)
                return
            self.part.error = ""
            try:
                self.part.act(content)
            except (ToyError, TypeError, ValueError) as error:
                self.part.error = str(error)
                self.show()

    def picture(self) -> Plot:
        """Return a plot of the points and the loss surface."""
        with self._lock:
            return Plot(figure_of(self), repr(self)[1:-1])

    def bundle(self) -> dict[str, Any]:
        """Return the plot as a MIME bundle."""
        return self.picture()._repr_mimebundle_()

    def finish(self) -> Toy:
        """Replace the widget by a picture, which a saved notebook keeps."""
        self.finished = True
        page, self.page_state.page = self.page_state.page, None
        while self._displays:
            self._displays.pop().end(self.bundle(), repr(self))
        if page is not None:
            page.close()
        return self

    def _ipython_display_(self) -> None:
        from IPython.display import display

        if not in_notebook():
            print(self)
        elif self.finished:
            display(self.bundle(), raw=True)
        else:
            page = self.page_state.page or self.open_page()
            self._displays.append(ViewWithFallback(page, self.bundle))

    def _repr_mimebundle_(self, **options: Any) -> Any:
        # For front ends other than Jupyter that show widgets, such as marimo.
        return self.open_page()._repr_mimebundle_(**options)

    def __repr__(self) -> str:
        first, second = zip(self.names, self.at, strict=True)
        where = f"{first[0]} {first[1]:.4g}, {second[0]} {second[1]:.4g}"
        return f"<toy {self.kind}: step {self.steps}, {where}, loss {self.loss:.4g}>"


class ToyPart(Panel):
    """The panel of the page: the state of a playground, and the actions on it."""

    name = "toy"

    def __init__(self, toy: Toy) -> None:
        self.toy, self.error = toy, ""

    def patch(self) -> Any:
        toy = self.toy
        box, heights = toy.surface()
        return {
            "kind": toy.kind,
            "points": np.round(toy.points, 4).tolist(),
            "names": list(toy.names),
            "at": json_point(toy.at),
            "next": json_point(toy.next_step()),
            "path": [json_point(point) for point in toy.path],
            "box": list(box),
            "bands": contour_bands(box, heights),
            "loss": number_or_text(toy.loss),
            "steps": toy.steps,
            "undo": len(toy.past),
            "redo": len(toy.future),
            "error": self.error,
        }

    def act(self, content: dict[str, Any]) -> None:
        """Run an action of the page."""
        toy, action = self.toy, content.get("act")
        if action in ("step", "undo", "redo", "reset"):
            getattr(toy, action)()
            return
        x, y = (float(value) for value in content.get("place", ()))
        if action == "drag":
            toy.drag(int(content.get("index", -1)), x, y, int(content.get("drag") or 0))
        elif action == "move":
            toy.move(x, y)


def json_point(point: tuple[float, float]) -> list[float | str]:
    return [number_or_text(round(value, 5)) for value in point]


def axes(box: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    return np.linspace(box[0], box[1], GRID), np.linspace(box[2], box[3], GRID)


def levels_of(low: float, high: float) -> np.ndarray:
    """Return the contour levels, which are denser where the loss is low."""
    # Contours need increasing levels, even if the surface is flat.
    rise = max(high - low, FLAT * max(1.0, abs(low)))
    return low + rise * np.linspace(0, 1, BANDS + 1) ** 2.5


def contour_bands(
    box: tuple[float, float, float, float], heights: np.ndarray
) -> list[list[list[float]]]:
    """Return the rings around each band of the loss, low to high, each as x, y, x, y, …"""
    try:
        from contourpy import FillType, contour_generator
    except ImportError as error:
        raise missing_extra("lab", "viz.toy", f"{error.name} is not installed") from error
    heights = np.nan_to_num(heights.astype(float), nan=1e30, posinf=1e30)
    levels = levels_of(float(heights.min()), float(heights.max()))
    xs, ys = axes(box)
    generator = contour_generator(xs, ys, heights, fill_type=FillType.OuterOffset)
    polygons = []
    for below, above in itertools.pairwise(levels):
        rings = []
        for points, offsets in zip(*generator.filled(below, above), strict=True):
            for start, end in itertools.pairwise(offsets):
                rings.append(np.round(points[start:end], 3).ravel().tolist())
        polygons.append(rings)
    return polygons


def figure_of(toy: Toy) -> Any:
    """Return a matplotlib figure: the points with the fit, and the surface with the path."""
    figure = new_figure("viz.toy", figsize=(8, 3.6), layout="constrained")
    plane, hills = figure.subplots(1, 2)
    (first, second), (x, y) = toy.at, toy.points.T[:2]
    across = np.array([-PLANE, PLANE])
    if toy.kind == "line":
        plane.plot(x, y, "o", color="#4C72B0")
        plane.plot(across, first * across + second, color="black")
    else:
        for side, marker, colour in ((0, "o", "#4C72B0"), (1, "s", "#DD8452")):
            mask = toy.points[:, 2] == side
            plane.plot(x[mask], y[mask], marker, color=colour, label=f"class {side}")
        length = max(float(np.hypot(first, second)), 1e-12)
        plane.plot(-second / length * 2 * across, first / length * 2 * across, color="black")
        plane.legend(loc="upper right", fontsize=8)
    plane.set(xlim=across, ylim=across, xlabel="x", ylabel="y")
    box, heights = toy.surface()
    finite = heights[np.isfinite(heights)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    levels = levels_of(float(low), float(high))
    heights = np.where(np.isfinite(heights), heights, np.nan)
    contours = hills.contourf(*axes(box), heights, levels, cmap=RISING)
    figure.colorbar(contours, label="loss", format="%.3g")
    hills.plot(*np.array(toy.path).T, ".-", color="black", markerfacecolor="white", linewidth=1.4)
    hills.plot(*toy.at, "*", color="white", markeredgecolor="black", markersize=14)
    hills.set(xlim=box[:2], ylim=box[2:], xlabel=toy.names[0], ylabel=toy.names[1])
    return figure


def line_points(count: int, generator: Generator) -> np.ndarray:
    """Return noisy points around the line y = 0.8 x + 0.5."""
    x = np.linspace(-2, 2, count)
    noise = noise_of(count, generator)
    return np.stack([x, 0.8 * x + 0.5 + 0.25 * noise], axis=1)


def moon_points(count: int, generator: Generator) -> np.ndarray:
    """Return two interleaved half circles, with their class as third column."""
    half = count // 2
    upper, lower = np.linspace(0, np.pi, half), np.linspace(0, np.pi, count - half)
    x = np.concatenate([np.cos(upper) - 0.5, 0.5 - np.cos(lower)])
    y = np.concatenate([np.sin(upper) - 0.25, 0.25 - np.sin(lower)])
    noise = noise_of(2 * count, generator).reshape(2, count) * 0.08
    side = np.concatenate([np.zeros(half), np.ones(count - half)])
    return np.stack([1.4 * x + noise[0], 1.4 * y + noise[1], side], axis=1)


def noise_of(count: int, generator: Generator) -> np.ndarray:
    from ...ops import randn

    return randn(count, generator=generator).numpy().astype(float)


def toy(
    kind: Kind = "line",
    points: Any = None,
    optimizer: Optimizers | None = None,
    count: int = 16,
    seed: int = 0,
) -> Toy:
    """Show an interactive fit: drag its points, and watch the loss surface and the next step.

    Args:
        kind: "line" fits y = w·x + b by the mean squared error; "moons" separates two classes
            by the sign of w1·x + w2·y, with the logistic loss.
        points: rows of x, y (of moons also the class, 0 or 1); random by default.
        optimizer: returns an optimizer for the two parameters; SGD with lr 0.1 by default. An
            example is `lambda parameters: Adam(parameters, lr=0.3)`.
        count: the number of random points.
        seed: the seed of the random points.

    Raises: ToyError: there is no such kind, or the points have another shape.

    >>> play = edutorch.viz.toy("line", points=[[-1, -1], [0, 0], [1, 1]])
    >>> play.step(100).loss < 1e-6
    True
    >>> play.drag(2, 1.0, 3.0).undo(), play.steps
    (True, 100)
    """
    if kind not in ("line", "moons"):
        raise ToyError("viz.toy", f"unknown kind {kind!r}", hint="use 'line' or 'moons'")
    if not 2 <= count <= MOST_POINTS:
        raise ToyError("viz.toy", f"count must be from 2 to {MOST_POINTS}, got {count}")
    if points is None:
        make_points = line_points if kind == "line" else moon_points
        points = make_points(count, Generator().manual_seed(seed))
    columns = 2 if kind == "line" else 3
    rows = np.array(points.tolist() if isinstance(points, Tensor) else points, float)
    fits = rows.ndim == 2 and rows.shape[1] == columns and 2 <= len(rows) <= MOST_POINTS
    if not fits or not np.isfinite(rows).all():
        raise ToyError(
            "viz.toy", f"the points of {kind!r} are 2 to {MOST_POINTS} rows of {columns} "
            f"finite numbers, got the shape {rows.shape}",
            hint="rows are x, y" + (", class 0 or 1" if columns == 3 else ""),
        )  # fmt: skip
    return Toy(kind, rows, optimizer or (lambda parameters: SGD(parameters, lr=0.1)))
