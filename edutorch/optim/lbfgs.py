"""L-BFGS: a quasi-Newton method with an inverse Hessian from the last steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..core.tensor import Tensor
from ..modes import enable_grad, no_grad
from ..ops import cat, zeros_like
from ..utils.process import is_interrupt_pending
from .optimizer import Optimizer
from .update_rule import as_real, check_lr

__all__ = ["LBFGS", "Point", "strong_wolfe"]


class LBFGS(Optimizer):
    r"""Limited-memory BFGS: θ ← θ + t · d with the quasi-Newton direction d = -H⁻¹ · g.

    The inverse Hessian H⁻¹ is never computed: its product with g follows from the last steps s
    and the changes y of the gradient (two-loop recursion). Each `step` makes up to `max_iter`
    iterations, and evaluates the loss many times: it needs a closure, and a deterministic loss.

    Args:
        params: the parameters to train, in a single group.
        lr: the step length t (with a line search: its first trial).
        max_iter: the largest number of iterations per `step`.
        max_eval: the largest number of evaluations per `step`; max_iter · 5 / 4 by default.
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when the parameters or the loss change less.
        history_size: the number of past steps to keep.
        line_search_fn: None, or "strong_wolfe".

    Paper: Liu and Nocedal, On the limited memory BFGS method for large scale
    optimization, 1989.

    Raises: ValueError: a setting is invalid, or there are groups.

    >>> x = tensor([3.0, -4.0], requires_grad=True)
    >>> optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (x - 1).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    29.0
    >>> x.isclose(tensor(1.0), atol=1e-4)
    tensor([True, True])
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1, max_iter: int = 20,
        max_eval: int | None = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Make up to `max_iter` iterations, and return the loss before the first one.

        Args:
            closure: computes the loss again and its gradients; its result is returned.
        """
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"Expected exactly one param_group, but got {len(self.param_groups)}"
            )
        group = self.param_groups[0]
        evaluate = enable_grad()(closure)
        state = self.state[group["params"][0]]  # of all parameters together
        for key in ("func_evals", "n_iter"):
            state.setdefault(key, 0)
        initial_loss = evaluate()
        state["func_evals"] += 1
        loss, grad = float(initial_loss), self.gather_flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return initial_loss
        max_evals = state["func_evals"] - 1 + group["max_eval"]
        for moves_left in range(group["max_iter"] - 1, -1, -1):
            self.update_direction(state, group, grad)
            state["prev_flat_grad"], state["prev_loss"] = grad, loss
            t = float(group["lr"])
            if state["n_iter"] == 1:
                # No curvature is known yet: a first step of length 1 in the 1-norm at most.
                t *= min(1.0, 1.0 / float(grad.abs().sum()))
            state["t"], d = t, state["d"]
            if (slope := float(grad.dot(d))) > -group["tolerance_change"]:
                break
            start = Point(0.0, loss, grad, slope)
            loss, grad = self.move_along(state, group, evaluate, start, max_evals, moves_left)
            if (
                moves_left == 0
                or state["func_evals"] >= max_evals
                or self.has_converged(state, grad, loss)
            ):
                break
            if is_interrupt_pending():  # Ctrl-C was pressed: stop between two iterations
                break
        return initial_loss

    def update_direction(self, state: dict[str, Any], group: dict[str, Any], grad: Tensor) -> None:
        """Compute the next direction, -H⁻¹ · g, into the state (two-loop recursion)."""
        state["n_iter"] += 1
        if state["n_iter"] == 1:
            state.update(d=-grad, old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return
        ys, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = grad - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = y.dot(s)
        if curvature > 1e-10:  # keeps the inverse Hessian positive definite
            if len(ys) == group["history_size"]:
                for history in (ys, steps, ro):
                    history.pop(0)
            ys.append(y)
            steps.append(s)
            ro.append(1.0 / curvature)
            state["H_diag"] = curvature / y.dot(y)
        al = state.setdefault("al", [None] * group["history_size"])
        # Backwards through the history, then forwards: the product with H⁻¹, without a matrix.
        d = -grad
        for i in reversed(range(len(ys))):
            al[i] = steps[i].dot(d) * ro[i]
            d -= al[i] * ys[i]
        d *= state["H_diag"]
        for i in range(len(ys)):
            d += (al[i] - ys[i].dot(d) * ro[i]) * steps[i]
        state["d"] = d

    def move_along(
        self, state: dict[str, Any], group: dict[str, Any], evaluate: Callable[[], Any],
        start: Point, max_evals: int, moves_left: int,
    ) -> tuple[float, Tensor]:  # fmt: skip
        """Move along the direction, and return the new loss and gradient."""
        d, line_search = state["d"], group["line_search_fn"]
        if line_search is None:
            self.add_to_params(state["t"], d)
            if moves_left == 0:  # the last iteration: the loss is not needed any more
                return start.loss, start.gradient
            state["func_evals"] += 1
            return float(evaluate()), self.gather_flat_grad()
        if line_search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        params = group["params"]
        saved = [param.clone() for param in params]

        def evaluate_at(t: float) -> Point:
            self.add_to_params(t, d)
            loss, gradient = float(evaluate()), self.gather_flat_grad()
            for param, original in zip(params, saved, strict=True):
                param.copy_(original)
            return Point(t, loss, gradient, float(gradient.dot(d)))

        point, evaluations = strong_wolfe(
            evaluate_at,
            start,
            state["t"],
            float(d.abs().max()),
            max_ls=max_evals - state["func_evals"],
        )
        state["func_evals"] += evaluations
        state["t"] = point.t
        self.add_to_params(point.t, d)
        return point.loss, point.gradient

    def has_converged(self, state: dict[str, Any], grad: Tensor, loss: float) -> bool:
        """Whether gradient, step or change of the loss is below its tolerance."""
        group = self.param_groups[0]
        tolerance = group["tolerance_change"]
        return bool(
            grad.abs().max() <= group["tolerance_grad"]
            or (state["d"] * state["t"]).abs().max() <= tolerance
            or abs(loss - state["prev_loss"]) < tolerance
        )

    def gather_flat_grad(self) -> Tensor:
        """Return all gradients as one concatenated vector."""
        params = self.param_groups[0]["params"]
        grads = [zeros_like(param) if param.grad is None else param.grad for param in params]
        return cat([as_real(grad.detach()).reshape(-1) for grad in grads])

    def add_to_params(self, t: float, direction: Tensor) -> None:
        """Add t · direction to the parameters."""
        offset = 0
        for param in self.param_groups[0]["params"]:
            values = as_real(param)
            part = direction[offset : offset + values.numel()]
            values.add_(part.reshape(values.shape), alpha=t)
            offset += values.numel()


C1, C2 = 1e-4, 0.9  # c₁ and c₂


class Point(NamedTuple):
    """A trial of the line search: step, loss, gradient, and slope along d."""

    t: float
    loss: float
    gradient: Any
    slope: float


Evaluate = Callable[[float], Point]


def strong_wolfe(
    evaluate: Evaluate, start: Point, t: float, size: float, tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[Point, int]:  # fmt: skip
    """Return an acceptable point, and the number of evaluations.

    First two points are searched that bracket an acceptable one; then the bracket is narrowed
    until one of its ends is acceptable (zoom).

    Args:
        evaluate: evaluates the function at a step.
        start: the point where t = 0.
        t: the first step to try.
        size: the largest element of the direction.
        tolerance_change: the smallest width of the bracket, times size.
        max_ls: the largest number of further evaluations.

    Paper: Nocedal and Wright, Numerical optimization, 2006, section 3.5.

    >>> parabola = lambda t: Point(t, (t - 3) ** 2, None, 2 * (t - 3))
    >>> point, evaluations = strong_wolfe(parabola, parabola(0.0), t=8.0, size=1.0)
    >>> point.t, evaluations
    (3.0, 2)
    """
    ends, evaluations = bracket(evaluate, start, t, max_ls)
    done = len(ends) == 1
    low = 0 if ends[0].loss <= ends[-1].loss else 1
    is_close = False
    while (
        not done and evaluations < max_ls and abs(ends[1].t - ends[0].t) * size >= tolerance_change
    ):
        t, is_close = next_trial(ends[0], ends[1], is_close)
        point = evaluate(t)
        evaluations += 1
        high = 1 - low
        if not has_decreased(point, start) or point.loss >= ends[low].loss:
            ends[high] = point
            low = 0 if ends[0].loss <= ends[1].loss else 1
            continue
        done = is_flat(point, start)
        if not done and point.slope * (ends[high].t - ends[low].t) >= 0:
            ends[high] = ends[low]
        ends[low] = point
    return ends[low], evaluations + 1


def bracket(evaluate: Evaluate, start: Point, t: float, max_ls: int) -> tuple[list[Point], int]:
    """Extrapolate until two points bracket an acceptable one; return them and the iterations.

    A point that is acceptable itself is returned alone.
    """
    previous, point, count = start, evaluate(t), 0
    while count < max_ls:
        if not has_decreased(point, start) or (count > 1 and point.loss >= previous.loss):
            return [previous, point], count
        if is_flat(point, start):
            return [point], count
        if point.slope >= 0:
            return [previous, point], count
        t = cubic_interpolate(
            previous, point, point.t + 0.01 * (point.t - previous.t), point.t * 10
        )
        previous, point = point, evaluate(t)
        count += 1
    return [start, point], count


def has_decreased(point: Point, start: Point) -> bool:
    """Whether the sufficient decrease (Armijo) condition holds; a loss of NaN passes."""
    return not point.loss > start.loss + C1 * point.t * start.slope


def is_flat(point: Point, start: Point) -> bool:
    """Whether the strong curvature condition holds."""
    return abs(point.slope) <= -C2 * start.slope


def next_trial(one: Point, two: Point, was_close: bool) -> tuple[float, bool]:
    """Return the next trial between two points, and whether it is close to one of them.

    If it is close a second time in a row, it is moved to a tenth of the bracket's width from there.
    """
    left, right = sorted((one.t, two.t))
    t = cubic_interpolate(one, two, left, right)
    tenth = 0.1 * (right - left)
    if not min(right - t, t - left) < tenth:
        return t, False
    if not was_close and left < t < right:
        return t, True
    return (right - tenth if abs(t - right) < abs(t - left) else left + tenth), False


def cubic_interpolate(one: Point, two: Point, low: float, high: float) -> float:
    """Return the minimizer, within bounds, of the cubic through two points and their slopes."""
    if one.t > two.t:
        one, two = two, one
    d1 = one.slope + two.slope - 3 * (one.loss - two.loss) / (one.t - two.t)
    d2_squared = d1 * d1 - one.slope * two.slope
    if not d2_squared >= 0:
        return (low + high) / 2
    d2 = math.sqrt(d2_squared)
    denominator, numerator = two.slope - one.slope + 2 * d2, two.slope + d2 - d1
    if denominator == 0:  # a straight line has its minimum at a bound
        return (low + high) / 2 if numerator == 0 else high if numerator < 0 else low
    t = two.t - (two.t - one.t) * (numerator / denominator)
    return min(max(t, low), high)
