"""A step into backward at the box that a hint is about: `viz.walk`, run up to there.

The answer is run once more, until it begins a backward pass: then the graph still has all that the
walk needs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any

from ..core.tensor import Tensor
from ..events import WorkStarted, listen_backward, listening
from ..ops.creation import ones_like
from ..utils._pytree import tree_leaves
from ..viz.backward_walk.walk import Walk, WalkError
from .attempt import StudentNames, copied, outside_library
from .exercise import Exercise


class BackwardBegins(BaseException):
    """Ends the answer where it begins a backward pass; no `except Exception` catches it."""


class BackwardStart:
    """Listens for the first backward pass, and ends the answer there."""

    def __init__(self) -> None:
        self.roots: tuple[Tensor, ...] = ()
        self.gradients: tuple[Tensor, ...] = ()

    def keep_roots(self, roots: tuple[Tensor, ...]) -> None:
        self.roots = roots

    def __call__(self, event: Any) -> None:
        if isinstance(event, WorkStarted) and event.kind == "backward":
            self.gradients = event.inputs
            raise BackwardBegins


def walk_to_mark(
    exercise: type[Exercise], names: Mapping[str, Any], case: Mapping[str, Any], mark: str
) -> Walk:
    """Return a walk through the backward pass of an answer, at the marked box.

    Without a backward pass in the answer, it is the one from its result.

    Args:
        names: what the student has defined.
        mark: an op or leaf; where no gradient comes to it, the walk is at its start.

    Raises: WalkError: nothing in the answer has a gradient.
    """
    start, frame, results = BackwardStart(), sys._getframe(), ()
    try:
        with listen_backward(start.keep_roots), listening(start):
            value = outside_library(exercise.answer)(StudentNames(names), **copied(case))
        results = tuple(leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor))
    except BackwardBegins as stop:
        frame = frame_of_answer(stop.__traceback__) or frame
    except Exception:  # noqa: BLE001  (the hint says it)
        results = ()
    roots = [root for root in start.roots or results if root.grad_fn is not None]
    if not roots:
        raise WalkError(
            "check.walk", f"nothing in the answer to {exercise.id} has a gradient",
            hint="the picture shows what was computed",
        )  # fmt: skip
    gradient = start.gradients[0] if start.gradients else ones_like(roots[-1])
    walk = Walk(roots[0] if start.gradients else roots[-1], gradient, None, False, (), frame)
    with contextlib.suppress(WalkError):
        if mark:
            walk.run_to(mark)
    return walk


def frame_of_answer(traceback: TracebackType | None) -> FrameType | None:
    """Return the frame that began the backward pass: its variables name the leaves."""
    frame = None
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if not module.startswith("edutorch."):
            frame = traceback.tb_frame
        traceback = traceback.tb_next
    return frame
