"""Drawings that can be clicked: `Drawing.explore`, and `touch`.

In an explored drawing a click opens or closes a group, or shows the details of a node. `touch` also
changes the inputs of a function, and shows how its values and gradients follow.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ...autograd import enable_grad, grad
from ...core.tensor import Tensor
from ...errors import missing_extra
from ...events import listening
from ...ops import ones_like, tensor
from ..draw import CallerNames
from ..graph.fold import Choice
from ..graph.model import Snapshot
from ..live.fallback_picture import ViewWithFallback
from ..live.interpreter import in_notebook
from ..live.messages import patch_of
from ..live.page import LIMIT, PageState
from ..live.panel import Panel
from ..live.recorder import Recorder
from ..render.static import Drawing, exporter
from .tensor_editor import TensorEditor, TouchError, TouchPart

if TYPE_CHECKING:
    from ..live.widget import LiveWidget


class Explorer:
    """Shows one snapshot in a page, and updates it on the page's requests.

    Attributes:
        panels: shown beside it. steps: the number that the page shows; 0 for none.
    """

    panels: Sequence[Panel] = ()
    steps = 0

    def __init__(
        self, snapshot: Snapshot, rankdir: str | None = None, choice: Choice | None = None
    ) -> None:
        self.snapshot = snapshot
        self.page_state = PageState(rankdir, choice)

    def open_page(self) -> LiveWidget:
        """Return a widget with the picture."""
        try:
            from ..live.widget import LiveWidget
        except ImportError as error:
            raise missing_extra("lab", "viz.explore", f"{error.name} is not installed") from error
        widget = self.page_state.page = LiveWidget(self.command, self.bundle)
        self.show()
        return widget

    def drawing(self) -> Drawing:
        """Return the current picture as a drawing that can be saved."""
        return Drawing(self.snapshot, self.page_state.layouts.rankdir, self.page_state.choice)

    def bundle(self) -> dict[str, Any]:
        """Return the current picture as a MIME bundle."""
        return self.drawing()._repr_mimebundle_()

    def command(self, content: dict[str, Any]) -> None:
        """Handle a message of the page."""
        if self.page_state.command(content):
            self.show()

    def show(self) -> None:
        """Send the snapshot in its current view to the page, if it has one."""
        page_state = self.page_state
        page_state.needs_update = page_state.page is not None
        while page_state.needs_update:  # a slow layout asks for a smaller one
            patch = patch_of(self.steps, "still", {}, self.panels)
            page_state.show(self.snapshot, patch, patience=LIMIT)


@exporter("widget")
def explore(drawing: Drawing) -> LiveWidget:
    """Return a drawing as a widget. See `Drawing.explore`."""
    return Explorer(drawing.whole, drawing.rankdir, drawing.choice).open_page()


class Touch(Explorer):
    """What `touch` returns: a function, its input tensors, and its graph.

    A notebook displays it. `result` is what the function returned, `gradient(name)` the gradient
    of one of the tensors, `snapshot` the graph with all statistics as plain data.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: Mapping[str, Tensor],
        names: CallerNames,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        rankdir: Literal["LR", "TB"] | None = None,
    ) -> None:
        self.function, self.leaves, self._names = function, dict(leaves), names
        self._lock = threading.RLock()
        parameters = dict(getattr(function, "named_parameters", dict)())
        self.part = TouchPart(TensorEditor({**leaves, **parameters}), ranges)
        self.panels = [self.part]
        self.result: Any = None
        super().__init__(self._compute(), rankdir)

    # What a user calls ------------------------------------------------------------------

    def set(self, name: str, value: object, index: Any = ()) -> Touch:
        """Change a tensor, or its element at `index`, and recompute the function.

        Raises: TouchError: there is no such tensor or index. Whatever the function raises;
            then the picture stays as it was, and `undo` undoes the change.
        """
        with self._lock:
            self.part.editor.set(name, value, index)
            self._recompute()
        return self

    def undo(self) -> bool:
        """Undo the last change. Return False if there is none."""
        return self._change(self.part.editor.undo)

    def redo(self) -> bool:
        """Redo the last change that was undone. Return False if there is none."""
        return self._change(self.part.editor.redo)

    def _change(self, change: Callable[[], bool]) -> bool:
        with self._lock:
            changed = change()
            if changed:
                self._recompute()
        return changed

    def value(self, name: str) -> Any:
        """Return the current elements of a tensor: a number, or nested lists."""
        return self.part.editor.array(name).tolist()

    def gradient(self, name: str) -> Any:
        """Return the gradient of a tensor in the last successful computation, or None."""
        self.part.editor.array(name)
        gradient = self.part.editor.tensors[name].grad
        return None if gradient is None else gradient.tolist()

    # Inside -----------------------------------------------------------------------------

    def _recompute(self) -> None:
        """Recompute and show the result; if the function fails, show the error in the panel."""
        self.part.error = ""
        self.part.serial += 1
        try:
            self.snapshot = self._compute()
        except Exception as error:
            self.part.error = f"{type(error).__name__}: {error}"
            raise
        # Also after an error, which the panel tells next to the old picture.
        finally:
            self.show()

    def _compute(self) -> Snapshot:
        recorder = Recorder(self._names, detailed=True)
        with enable_grad(), listening(recorder):
            result = self.function(**self.leaves)
            output = check_result(result)
            inputs = [
                tensor for tensor in self.part.editor.tensors.values() if tensor.requires_grad
            ]
            # `grad` and not `backward`: it adds to nothing that is there already.
            gradients = grad([output], inputs, [ones_like(output)], allow_unused=True)
            for leaf, gradient in zip(inputs, gradients, strict=True):
                leaf.grad = gradient
                recorder.record_leaf_gradient(leaf, gradient)
        recorder.finish_step()
        assert recorder.snapshot is not None
        self.result = result.detach()
        self.part.result, self.part.note = result_text(self.result)
        return recorder.snapshot

    def command(self, content: dict[str, Any]) -> None:
        """Handle a message of the page."""
        with self._lock:
            if content.get("type") != "touch":
                super().command(content)
            elif self.part.act(content):
                try:
                    self._recompute()
                except Exception:  # noqa: BLE001 (the user's function; the panel says it)
                    pass
            else:
                self.show()

    def _ipython_display_(self) -> None:
        if in_notebook():
            ViewWithFallback(self.page_state.page or self.open_page(), self.bundle)
        else:
            print(self)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        # For front ends other than Jupyter that show widgets, such as marimo.
        bundle: Any = self.open_page()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**self.bundle(), **data}, metadata

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={self.value(name)}" for name in self.leaves)
        return f"<touch: {values} -> {self.part.result}>"


def check_result(result: object) -> Tensor:
    if not isinstance(result, Tensor) or result.grad_fn is None:
        reason = f"got {type(result).__name__}"
        if isinstance(result, Tensor):
            reason = "it does not depend on the numbers that can be changed"
        raise TouchError(
            "viz.touch", f"the function has to return a tensor with a graph; {reason}",
            hint="compute the result from the function's arguments, with ops of edutorch",
        )  # fmt: skip
    return result


def result_text(result: Tensor) -> tuple[str, str]:
    """Return a result as a line of text, and a note about its gradients."""
    if result.numel() == 1:
        return f"{result.item():.6g}", ""
    shape = "×".join(map(str, result.shape))
    return f"a tensor of {shape}", "the gradients are those of its sum"


def touch(
    function: Callable[..., Any],
    /,
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    rankdir: Literal["LR", "TB"] | None = None,
    **leaves: Any,
) -> Touch:
    """Draw a function's graph, with a slider for each element of its inputs.

    After each change the function is recomputed with gradients, and the picture shows the new
    values and gradients. Every change can be undone.

    Args:
        function: called with the leaves by name; returns a tensor. The parameters of a module can
            be changed as well.
        ranges: the lower and upper end of a leaf's slider, by name.
        rankdir: "LR" draws from left to right, "TB" from top to bottom; by default the direction
            that suits the graph, in several rows if necessary.
        leaves: a number or a small tensor for each argument of the function.

    Raises: TouchError: there is no leaf, or no graph in what the function returns.

    >>> play = edutorch.viz.touch(lambda a, b: a * b + b, a=2.0, b=-3.0)
    >>> play.set("a", 4.0).result, play.gradient("b")
    (tensor(-15.), 5.0)
    >>> play.undo(), play.value("a")
    (True, 2.0)
    """
    if not callable(function):
        raise TouchError(
            "viz.touch", f"expected a function, got {type(function).__name__}",
            hint="viz.touch(lambda a, b: a * b, a=2.0, b=3.0)",
        )  # fmt: skip
    tensors = {name: leaf_of(name, value) for name, value in leaves.items()}
    if not tensors and not hasattr(function, "named_parameters"):
        raise TouchError(
            "viz.touch", "there is nothing to be changed",
            hint="name the arguments of the function: viz.touch(f, a=2.0, b=3.0)",
        )  # fmt: skip
    for name, bounds in (ranges or {}).items():
        check_range(name, bounds, tensors)
    model: Any = function if hasattr(function, "named_modules") else None
    return Touch(function, tensors, CallerNames(model, tensors, sys._getframe(1)), ranges, rankdir)


def leaf_of(name: str, value: object) -> Tensor:
    """Return a leaf tensor for one argument; a Python number requires a gradient."""
    if isinstance(value, int | float):
        return tensor(float(value), requires_grad=True)
    try:
        leaf = value.detach().clone() if isinstance(value, Tensor) else tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TouchError(
            "viz.touch", f"cannot make a tensor of {name} = {value!r}: {error}",
            hint="give a number, a list of numbers or a tensor",
        ) from None  # fmt: skip
    return leaf.requires_grad_() if leaf.is_floating_point() else leaf


def check_range(name: str, bounds: Any, known: Iterable[str]) -> None:
    try:
        low, high = bounds
        if name in known and float(low) < float(high):
            return
    except (TypeError, ValueError):
        pass
    raise TouchError(
        "viz.touch", f"ranges: {name!r} = {bounds!r} is not a range of one of the leaves",
        hint=f'use ranges={{"{next(iter(known), name)}": (-1.0, 1.0)}}',
    )  # fmt: skip
