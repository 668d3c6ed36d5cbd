"""The loss landscape around a model's parameters, along two directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ... import backends
from ...autograd import no_grad
from ...core.tensor import Tensor
from ...nn import Module
from ...utils.process import defer_interrupts
from ..render.plots import RISING, NotAPictureError, NotAPictureTypeError, Plot, new_figure
from ..render.style import ALARM

Direction = list[Any]
"""An array for each parameter."""

MOST_POINTS = 10_000


class Landscape(Plot):
    """What `viz.landscape` returns: a contour map.

    Attributes:
        losses: (steps, steps) array; the first axis is that of `ys`.
        xs, ys: the coordinates along the two directions.
        path: (points, 2) array of a trajectory, None without one.
        explained: the share of the trajectory's variance that lies in the plane, from 0 to 1.
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
        finite = np.where(np.isfinite(self.losses), self.losses, np.inf)
        row, column = np.unravel_index(np.nanargmin(finite), self.losses.shape)
        text = (
            f"loss landscape, from {good.min():.4g} to {good.max():.4g}, lowest at "
            f"({self.xs[column]:.2g}, {self.ys[row]:.2g}) from the trained point"
        )
        bad = self.losses.size - good.size
        text += f", {bad} points NaN or Inf" if bad else ""
        if self.explained is not None:
            text += f", {100 * self.explained:.0f}% of the way of the training lies in it"
        return text

    def _figure(self) -> Any:
        figure = new_figure("viz.landscape", figsize=(5.6, 4.4), layout="constrained")
        axes = figure.add_subplot()
        # A single infinity would flatten all other colours.
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

    The directions are random, with each filter normalized to the norm of the model's own filter.
    With a trajectory they are its two principal components, and the trajectory is drawn as well.
    The parameters are restored exactly, also after an interrupt, and no gradient is changed. The
    model runs in `eval` mode, so that its output is deterministic.

    Args:
        model: the model whose parameters are the centre.
        loss_fn: called with the model's output and the targets.
        data: (inputs, targets), or several such pairs; the loss is their mean.
        trajectory: copies of `model.state_dict()` at several moments of a training.
        span: the distance from the centre, in units of the directions.
        steps: the number of points along each direction.
        seed: the seed of the random directions.

    Raises: NotAPictureError: no parameters, no data, or a trajectory of another model.

    Paper: Visualizing the Loss Landscape of Neural Nets, arxiv.org/abs/1712.09913

    >>> line = nn.Linear(1, 1)
    >>> x = tensor([[1.0], [2.0]])
    >>> found = edutorch.viz.landscape(line, nn.functional.mse_loss, (x, 3 * x), steps=5)
    >>> found.losses.shape
    (5, 5)
    """
    parameters = check_arguments(model, span, steps)
    batches = pairs_of(data)
    first, second, path, explained = directions(model, parameters, trajectory, seed)
    (left, right), (low, high) = (-span, span), (-span, span)
    if path is not None:
        (left, right), (low, high) = (padded_range(path[:, axis], span) for axis in (0, 1))
    xs, ys = np.linspace(left, right, steps), np.linspace(low, high, steps)
    losses = np.full((steps, steps), math.nan)
    with ParameterMover(model, parameters) as mover, no_grad():
        for row, b in enumerate(ys):
            for column, a in enumerate(xs):
                mover.move(first, float(a), second, float(b))
                losses[row, column] = mean_loss(model, loss_fn, batches)
    return Landscape(losses, xs, ys, path, explained)


def check_arguments(model: Module, span: float, steps: int) -> list[Any]:
    """Check the arguments and return the parameters of the model.

    Raises: NotAPictureError: it has none, or the map would have too few or too many points.
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
    """Return the batches (inputs, targets): one pair of tensors, or an iterable of pairs."""
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], Tensor):
        return [(data[0], data[1])]
    if isinstance(data, Iterable) and not isinstance(data, Tensor):
        batches = [tuple(batch) for batch in data]
        if batches and all(len(batch) == 2 for batch in batches):
            return batches  # type: ignore[return-value]
    raise NotAPictureError(
        "viz.landscape", "`data` must be (inputs, targets), or batches of these",
        hint="viz.landscape(model, loss_fn, (x, y)), or a DataLoader of a few batches",
    )  # fmt: skip


def mean_loss(model: Module, loss_fn: Callable[..., Any], batches: list[tuple[Any, Any]]) -> float:
    """Return the mean loss of the batches with the current parameters."""
    with np.errstate(all="ignore"):
        losses = [float(loss_fn(model(inputs), targets)) for inputs, targets in batches]
    return sum(losses) / len(losses)


class ParameterMover:
    """Changes a model's parameters inside its block, and restores the original arrays after it."""

    def __init__(self, model: Module, parameters: list[Any]) -> None:
        self.model, self.parameters = model, parameters

    def __enter__(self) -> ParameterMover:
        self.arrays = [parameter._array for parameter in self.parameters]
        # `eval` keeps batch norm's averages, but a module of the user may write to its buffers.
        self.buffers = [(buffer, buffer._array.copy()) for buffer in self.model.buffers()]
        self.flags = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        return self

    def move(self, first: Direction, a: float, second: Direction, b: float) -> None:
        """Set the parameters to a point of the map, computed from the originals."""
        rows = zip(self.parameters, self.arrays, first, second, strict=True)
        for parameter, array, along_first, along_second in rows:
            # From the originals each time: added up, rounding would move the centre.
            parameter._array = (array + a * along_first + b * along_second).astype(array.dtype)

    def __exit__(self, *exception: object) -> None:
        with defer_interrupts():
            for parameter, array in zip(self.parameters, self.arrays, strict=True):
                parameter._array = array
            for buffer, array in self.buffers:
                buffer._array[...] = array
            for module, flag in self.flags:
                module.training = flag


# Directions -----------------------------------------------------------------------------------


def directions(
    model: Module, parameters: list[Any], trajectory: Sequence[Any] | None, seed: int
) -> tuple[Direction, Direction, np.ndarray | None, float | None]:
    """Return two directions, the trajectory in their plane, and the share that it explains."""
    if trajectory is None:
        generator = np.random.default_rng(seed)
        return random_like(parameters, generator), random_like(parameters, generator), None, None
    points = [point_of(model, state) for state in trajectory]
    if len(points) < 3:
        raise NotAPictureError(
            "viz.landscape", f"a trajectory needs 3 moments or more, got {len(points)}",
            hint="each epoch: states.append({k: v.clone() for k, v in model.state_dict().items()})",
        )  # fmt: skip
    here = np.concatenate([flat_host_array(parameter).ravel() for parameter in parameters])
    moves = np.stack(points) - here
    # PCA of few points in many dimensions: the Gram matrix has the same eigenvalues and is small.
    values, vectors = np.linalg.eigh(moves @ moves.T)
    total = float(np.clip(values, 0, None).sum())
    if not values[-1] > 0:
        raise NotAPictureError("viz.landscape", "the parameters never moved on this trajectory")
    mains = []
    for column in (-1, -2):
        # An eigenvector of the Gram matrix, back in the space of the parameters.
        main = vectors[:, column] @ moves
        # A straight trajectory has no second direction: zero instead of noise.
        size = float(np.linalg.norm(main))
        mains.append(main / size if size > 1e-12 * np.sqrt(values[-1]) else np.zeros_like(main))
    path = np.stack([moves @ main for main in mains], axis=1)
    explained = float(np.clip(values[-2:], 0, None).sum()) / total
    return split_like(mains[0], parameters), split_like(mains[1], parameters), path, explained


def random_like(parameters: list[Any], generator: np.random.Generator) -> Direction:
    """Return a random direction, with each filter normalized to the norm of the model's filter.

    Parameters with one axis, such as biases, do not move: their effect would dominate.
    """
    direction = []
    for parameter in parameters:
        array, dtype = parameter._array, parameter._array.dtype
        backend = backends.of(array)
        if array.ndim < 2:
            direction.append(backend.xp.zeros_like(array))
            continue
        own = flat_host_array(parameter).reshape(array.shape[0], -1)
        noise = generator.standard_normal(own.shape)
        lengths = np.linalg.norm(noise, axis=1, keepdims=True)
        # Else a layer with small weights would be thrown far away, as the paper explains.
        noise *= np.linalg.norm(own, axis=1, keepdims=True) / np.maximum(lengths, 1e-12)
        direction.append(backend.from_numpy(noise.reshape(array.shape).astype(dtype)))
    return direction


def point_of(model: Module, state: Any) -> np.ndarray:
    """Return the parameters of a state_dict (or a list of tensors) as one flat vector."""
    parameters = dict(model.named_parameters())
    tensors = [state.get(name) for name in parameters] if hasattr(state, "get") else list(state)
    shapes = [tuple(parameter.shape) for parameter in parameters.values()]
    if len(tensors) != len(shapes) or any(
        tensor is None or tuple(tensor.shape) != shape
        for tensor, shape in zip(tensors, shapes, strict=True)
    ):
        raise NotAPictureError(
            "viz.landscape", "the trajectory is of another model",
            hint="take it from this model: {k: v.clone() for k, v in model.state_dict().items()}",
        )  # fmt: skip
    return np.concatenate([flat_host_array(tensor).ravel() for tensor in tensors])


def flat_host_array(tensor: Tensor) -> np.ndarray:
    return backends.of(tensor._array).to_numpy(tensor._array).astype("float64")


def split_like(vector: np.ndarray, parameters: list[Any]) -> Direction:
    """Split a flat vector into arrays with the shapes of the parameters."""
    arrays, start = [], 0
    for parameter in parameters:
        array = parameter._array
        part = vector[start : start + array.size].reshape(array.shape).astype(array.dtype)
        arrays.append(backends.of(array).from_numpy(part))
        start += array.size
    return arrays


def padded_range(values: np.ndarray, span: float) -> tuple[float, float]:
    """Return the range of an axis that shows a path with a margin."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    margin = 0.25 * span * (high - low) or span
    return low - margin, high + margin
