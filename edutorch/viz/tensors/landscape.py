"""The loss around a point in the space of all parameters, seen in two directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ... import backends
from ...autograd import no_grad
from ...core.tensor import Tensor
from ...nn import Module
from ...utils.deferred_interrupts import uninterrupted
from ..render.plots import RISING, NotAPictureError, NotAPictureTypeError, Plot, new_figure
from ..render.style import ALARM

Direction = list[Any]
"""An array for each parameter."""

MOST_POINTS = 10_000


class Landscape(Plot):
    """What `viz.landscape` returns: a contour map.

    Attributes:
        losses: (steps, steps) array; the first axis is that of `ys`.
        xs, ys: how far along the two directions.
        path: (points, 2) array of a trajectory, None without one.
        explained: how much of the trajectory lies in the map, from 0 to 1.
    """

    def __init__(
        self,
        losses: np.ndarray,
        xs: np.ndarray,
        ys: np.ndarray,
        path: np.ndarray | None = None,
        explained: float | None = None,
    ) -> None:
        self.losses, self.xs, self.ys = losses, xs, ys
        self.path, self.explained = path, explained
        super().__init__(self._figure(), self._words())

    def _words(self) -> str:
        good = self.losses[np.isfinite(self.losses)]
        if not good.size:
            return "a loss landscape without any finite loss"
        at = np.unravel_index(np.nanargmin(np.where(np.isfinite(self.losses), self.losses, np.inf)),
                              self.losses.shape)  # fmt: skip
        text = (f"loss landscape, from {good.min():.4g} to {good.max():.4g}, lowest at "
                f"({self.xs[at[1]]:.2g}, {self.ys[at[0]]:.2g}) from the trained point")  # fmt: skip
        bad = self.losses.size - good.size
        text += f", {bad} points NaN or Inf" if bad else ""
        if self.explained is not None:
            text += f", {100 * self.explained:.0f}% of the way of the training lies in it"
        return text

    def _figure(self) -> Any:
        figure = new_figure("viz.landscape", figsize=(5.6, 4.4), layout="constrained")
        axes = figure.add_subplot()
        heights = np.where(np.isfinite(self.losses), self.losses, np.nan)
        if np.isfinite(heights).any() and np.nanmin(heights) > 0:
            drawn = axes.contourf(self.xs, self.ys, np.log10(heights), 20, cmap=RISING)
            figure.colorbar(drawn, label="log10 of the loss")
        elif np.isfinite(heights).any():
            drawn = axes.contourf(self.xs, self.ys, heights, 20, cmap=RISING)
            figure.colorbar(drawn, label="loss")
        bad_y, bad_x = np.nonzero(~np.isfinite(self.losses))
        axes.plot(self.xs[bad_x], self.ys[bad_y], "x", color=ALARM, markersize=4)
        if self.path is not None:
            axes.plot(*self.path.T, color="white", linewidth=3)
            axes.plot(*self.path.T, ".-", color="black", linewidth=1.4)
            axes.plot(*self.path[0], "o", color="white", markeredgecolor="black", label="start")
        axes.plot(0, 0, "*", color="white", markeredgecolor="black", markersize=14, label="here")
        axes.legend(loc="upper right", fontsize=8)
        axes.set_xlabel("first direction")
        axes.set_ylabel("second direction")
        return figure


def landscape(
    model: Module,
    loss_fn: Callable[..., Any],
    data: Any,
    *,
    trajectory: Sequence[Any] | None = None,
    span: float = 1.0,
    steps: int = 21,
    seed: int = 0,
) -> Landscape:
    """Draw the loss around the parameters of a model, in two directions.

        L(a, b) = loss(θ + a · d₁ + b · d₂)

    The directions are random, each filter scaled to the length of the model's own, so that a
    steep map is steep because the loss is. With a trajectory they are its two main axes, and it
    is drawn in. The parameters are put back exactly, also after an interrupt, and no gradient
    is touched. The model is asked as in a test (`eval`), so that it answers the same each time.

    Args:
        model: around whose parameters.
        loss_fn: called with the model's output and the targets.
        data: (inputs, targets), or several such pairs; the loss is their mean.
        trajectory: `model.state_dict()` (a copy of it) at several moments of a training.
        span: how far to go, in units of the directions.
        steps: so many points along each.
        seed: of the random directions.

    Raises: NotAPictureError: no parameters, no data, or a trajectory of another model.

    Paper: Visualizing the Loss Landscape of Neural Nets, arxiv.org/abs/1712.09913

    >>> line = nn.Linear(1, 1)
    >>> x = tensor([[1.0], [2.0]])
    >>> found = edutorch.viz.tensors.landscape(line, nn.functional.mse_loss, (x, 3 * x), steps=5)
    >>> found.losses.shape
    (5, 5)
    """
    parameters = checked(model, span, steps)
    batches = pairs_of(data)
    first, second, path, explained = directions(model, parameters, trajectory, seed)
    (left, right), (low, high) = (-span, span), (-span, span)
    if path is not None:
        (left, right), (low, high) = (around(path[:, axis], span) for axis in (0, 1))
    xs, ys = np.linspace(left, right, steps), np.linspace(low, high, steps)
    losses = np.full((steps, steps), math.nan)
    with At(model, parameters) as place, no_grad():
        for row, b in enumerate(ys):
            for column, a in enumerate(xs):
                place.move(first, float(a), second, float(b))
                losses[row, column] = mean_loss(model, loss_fn, batches)
    return Landscape(losses, xs, ys, path, explained)


def checked(model: Any, span: float, steps: int) -> list[Any]:
    """Return the parameters of a model.

    Raises: NotAPictureError: it has none, or the map would have no or too many points.
    """
    if not hasattr(model, "parameters"):
        raise NotAPictureTypeError(
            "viz.landscape", f"expected a module, got {type(model).__name__}",
            hint="viz.landscape(model, loss_fn, (x, y))",
        )  # fmt: skip
    parameters = list(model.parameters())
    if not parameters:
        raise NotAPictureError("viz.landscape", "the model has no parameters")
    if not span > 0 or steps < 3 or steps * steps > MOST_POINTS:
        raise NotAPictureError(
            "viz.landscape", f"span must be above 0 and steps from 3 to 100, got {span} and {steps}"
        )
    return parameters


def pairs_of(data: Any) -> list[tuple[Any, Any]]:
    """Return the batches: one pair of tensors, or whatever yields pairs."""
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], Tensor):
        return [(data[0], data[1])]
    if isinstance(data, Iterable) and not isinstance(data, Tensor):
        found = [tuple(each) for each in data]
        if found and all(len(each) == 2 for each in found):
            return found  # type: ignore[return-value]
    raise NotAPictureError(
        "viz.landscape", "`data` must be (inputs, targets), or batches of these",
        hint="viz.landscape(model, loss_fn, (x, y)), or a DataLoader of a few batches",
    )  # fmt: skip


def mean_loss(model: Any, loss_fn: Callable[..., Any], batches: list[tuple[Any, Any]]) -> float:
    """Return the loss at the place where the model stands."""
    with np.errstate(all="ignore"):
        found = [float(loss_fn(model(inputs), targets)) for inputs, targets in batches]
    return sum(found) / len(found)


class At:
    """Moves a model's parameters, and puts the very same arrays back at the end."""

    def __init__(self, model: Any, parameters: list[Any]) -> None:
        self.model, self.parameters = model, parameters

    def __enter__(self) -> At:
        self.arrays = [parameter._array for parameter in self.parameters]
        self.buffers = [(buffer, buffer._array.copy()) for buffer in self.model.buffers()]
        self.flags = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        return self

    def move(self, first: Direction, a: float, second: Direction, b: float) -> None:
        """Go to a point of the map: with arrays of our own, so that nothing is rounded twice."""
        each = zip(self.parameters, self.arrays, first, second, strict=True)
        for parameter, array, one, other in each:
            parameter._array = (array + a * one + b * other).astype(array.dtype)

    def __exit__(self, *exception: object) -> None:
        with uninterrupted():
            for parameter, array in zip(self.parameters, self.arrays, strict=True):
                parameter._array = array
            for buffer, array in self.buffers:
                buffer._array[...] = array
            for module, flag in self.flags:
                module.training = flag


# Directions -----------------------------------------------------------------------------------


def directions(
    model: Any, parameters: list[Any], trajectory: Sequence[Any] | None, seed: int
) -> tuple[Direction, Direction, np.ndarray | None, float | None]:
    """Return two directions, the path in them, and how much of it they show."""
    if trajectory is None:
        generator = np.random.default_rng(seed)
        return random_like(parameters, generator), random_like(parameters, generator), None, None
    points = [point_of(model, each) for each in trajectory]
    if len(points) < 3:
        raise NotAPictureError(
            "viz.landscape", f"a trajectory needs 3 moments or more, got {len(points)}",
            hint="each epoch: states.append({k: v.clone() for k, v in model.state_dict().items()})",
        )  # fmt: skip
    here = np.concatenate([host(parameter).ravel() for parameter in parameters])
    moves = np.stack(points) - here
    # The main axes of few points in a space of many dimensions: the small matrix of products.
    values, vectors = np.linalg.eigh(moves @ moves.T)
    total = float(np.clip(values, 0, None).sum())
    if not values[-1] > 0:
        raise NotAPictureError("viz.landscape", "the parameters never moved on this trajectory")
    mains = []
    for number in (-1, -2):
        main = vectors[:, number] @ moves
        size = float(np.linalg.norm(main))
        mains.append(main / size if size > 1e-12 * np.sqrt(values[-1]) else np.zeros_like(main))
    path = np.stack([moves @ main for main in mains], axis=1)
    explained = float(np.clip(values[-2:], 0, None).sum()) / total
    return split(mains[0], parameters), split(mains[1], parameters), path, explained


def random_like(parameters: list[Any], generator: np.random.Generator) -> Direction:
    """Return random numbers in which each filter is as long as the model's own.

    Biases and the like stay where they are: they would drown the rest.
    """
    found = []
    for parameter in parameters:
        array, kind = parameter._array, parameter._array.dtype
        backend = backends.of(array)
        if array.ndim < 2:
            found.append(backend.xp.zeros_like(array))
            continue
        own = host(parameter).reshape(array.shape[0], -1)
        made = generator.standard_normal(own.shape)
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
        made *= np.linalg.norm(own, axis=1, keepdims=True) / np.maximum(lengths, 1e-12)
        found.append(backend.from_numpy(made.reshape(array.shape).astype(kind)))
    return found


def point_of(model: Any, state: Any) -> np.ndarray:
    """Return the parameters of a state_dict (or a list of tensors) as one long vector."""
    named = dict(model.named_parameters())
    tensors = [state.get(name) for name in named] if hasattr(state, "get") else list(state)
    shapes = [tuple(each.shape) for each in named.values()]
    if len(tensors) != len(shapes) or any(
        tensor is None or tuple(tensor.shape) != shape
        for tensor, shape in zip(tensors, shapes, strict=True)
    ):
        raise NotAPictureError(
            "viz.landscape", "the trajectory is of another model",
            hint="take it from this model: {k: v.clone() for k, v in model.state_dict().items()}",
        )  # fmt: skip
    return np.concatenate([host(tensor).ravel() for tensor in tensors])


def host(tensor: Any) -> np.ndarray:
    return backends.of(tensor._array).to_numpy(tensor._array).astype("float64")


def split(vector: np.ndarray, parameters: list[Any]) -> Direction:
    """Cut a long vector into arrays like the parameters."""
    found, start = [], 0
    for parameter in parameters:
        array = parameter._array
        part = vector[start : start + array.size].reshape(array.shape).astype(array.dtype)
        found.append(backends.of(array).from_numpy(part))
        start += array.size
    return found


def around(values: np.ndarray, span: float) -> tuple[float, float]:
    """Return from where to where to go, so that a path is to be seen with room around it."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    room = 0.25 * span * (high - low) or span
    return low - room, high + room
