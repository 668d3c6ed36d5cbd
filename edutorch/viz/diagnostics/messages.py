"""What `check`, `trouble` and `post_mortem` say: their messages, and the report that holds them.

Each kind of trouble has one sentence, and one that says what to do. All the texts are here, so that
they can be read, tested and translated in one place.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from ...errors import MissingExtraError
from ..graph.fold import Choice
from ..graph.model import Snapshot
from ..render.graphviz import LayoutError
from ..render.static import Drawing

MESSAGES: dict[str, tuple[str, str]] = {
    # Values that are not finite
    "nan": (
        "The first {what} is made by {op}: {cause}.",
        "Keep the operand away from there: {advice}.",
    ),
    "nan-data": (
        "{name} comes in with {count} bad numbers (NaN or Inf) in it.",
        "Clean the data before training: torch.isfinite(x) finds the rows, "
        "torch.nan_to_num(x) replaces the numbers.",
    ),
    "nan-parameter": (
        "{name} holds {count} bad numbers (NaN or Inf): an update has put them there, so the "
        "gradient was bad before.",
        "Begin again with fresh parameters, a smaller learning rate or clip_grad_norm_; "
        "viz.check(model, batch) names the op whose gradient goes bad.",
    ),
    "nan-gradient": (
        "The first {what} in a gradient is made by the rule of {op}: {cause}.",
        "{advice}",
    ),
    "bad-grad": (
        "{names} holds {count} bad numbers (NaN or Inf): {cause}.",
        "{advice}",
    ),
    "nan-loss": (
        "The loss became {loss}, and the ops behind it have kept nothing that says why.",
        "Run viz.check(model, batch) on this batch: it watches each op.",
    ),
    # The chain from the loss to the parameters
    "no-graph": (
        "Nothing that this was computed from wants a gradient, so backward() cannot run.",
        "Compute it from a model's parameters, or from a tensor with requires_grad=True, "
        "outside no_grad().",
    ),
    "cut": (
        "{names} get no gradient: the chain is cut by {how}.",
        "{advice}",
    ),
    "never-called": (
        "{names} get no gradient: {module} never ran.",
        "Call the layer in forward(), or delete it.",
    ),
    "unused": (
        "{names} get no gradient: the loss does not depend on them.",
        "Use what the layer computes on the way to the loss, or freeze it with "
        "requires_grad_(False).",
    ),
    "unregistered": (
        "{names} are no parameters of {model}: {holder} is {thing}, which parameters() does not "
        "look into, so no optimizer changes them.",
        "{advice}",
    ),
    "double-backward": (
        "{count} ops were recorded during backward (create_graph=True): they keep the whole "
        "graph alive until the second gradient is taken.",
        "Leave create_graph=True out, unless a gradient of the gradient is wanted.",
    ),
    # Training loops
    "zero-gradient": (
        "{names} had a gradient of exactly 0 in all of the last {steps} looks: nothing is learned "
        "there.",
        "Look at the units behind it: dead ReLUs (a smaller learning rate, LeakyReLU), saturated "
        "sigmoids (normalised inputs), or a mask that hides all.",
    ),
    "loss-constant": (
        "The loss has been exactly {loss} for {steps} steps.",
        "Is the learning rate above 0, and does the optimizer hold this model's parameters? "
        "Write SGD(model.parameters(), lr=0.1), for example.",
    ),
    "not-optimized": (
        "{names} get gradients, but no optimizer changes them.",
        "Give them to the optimizer: SGD(model.parameters(), …), or call add_param_group.",
    ),
    "no-zero-grad": (
        "The gradients of earlier steps are still there and are added to: {name}.grad was not "
        "cleared between the last {steps} steps that were looked at.",
        "Call optimizer.zero_grad() before backward().",
    ),
    "eval-mode": (
        "{model} is trained in eval mode: {layers} behave as in a test.",
        "Call model.train() before the training loop, and model.eval() before testing.",
    ),
    "double-softmax": (
        "{second} is given what {first} computed, though it expects plain scores (logits).",
        "Leave {first} out: {second} does it itself.",
    ),
    "probabilities-to-nll": (
        "nll_loss is given probabilities (from {first}), though it expects their logarithms.",
        "Use log_softmax instead, or give the scores to cross_entropy.",
    ),
    "exploding": (
        "The loss grows with each step, from {first} to {last} in {steps} steps.",
        "The steps are too long: divide the learning rate{rate} by 10, or clip the gradients with "
        "nn.utils.clip_grad_norm_.",
    ),
    # Memory
    "history": (
        "The graph grows from step to step: {count} ops of earlier steps are behind {op}.",
        "Add numbers, not graphs: total += loss.item(), or loss.detach(); a state that is carried "
        "on: h = h.detach().",
    ),
    "kept-graphs": (
        "{count} {graphs} of earlier computations, with {size}, kept alive by {holder}.",
        "{advice}",
    ),
    "stale": (
        "{op} kept `{name}` for backward, and it was changed afterwards: backward() will fail.",
        "Run backward() before the parameters are changed; a loss summed over steps keeps old "
        "graphs alive: total += loss.item().",
    ),
    # Errors
    "error": (
        "{op} failed: {message}",
        "{hint}",
    ),
    "stopped": (
        "{error} was raised by your own code, not by an op: {message}",
        "Look at the line that raised it; the picture shows what had run until then.",
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One trouble: `says` is what is wrong and `do` what to do about it, a sentence each.

    `line` is that of the user's code, `details` are rows of text below (the operands), `order`
    is that of the node in the recorded graph, 0 where there is none, and `subject` distinguishes
    findings of one kind.
    """

    kind: str
    says: str
    do: str
    line: str = ""
    details: tuple[str, ...] = ()
    order: int = 0
    subject: str = ""
    step: int = 0

    def with_step(self, step: int) -> Finding:
        """Return the same finding, made at a step."""
        return replace(self, step=step)

    def __str__(self) -> str:
        rows = [f"  {row}" for row in self.details]
        where = [f"  at {self.line}"] if self.line else []
        return "\n".join([f"✗ {self.says}", *where, *rows, f"  → {self.do}"])


def finding(
    kind: str,
    line: str = "",
    details: tuple[str, ...] = (),
    order: int = 0,
    subject: str = "",
    **words: Any,
) -> Finding:
    """Make a finding: the sentences of its kind, with `words` put in.

    >>> print(finding("never-called", names="`head.weight`", module="head"))
    ✗ `head.weight` get no gradient: head never ran.
      → Call the layer in forward(), or delete it.
    """
    says, do = (text.format(**words) for text in MESSAGES[kind])
    return Finding(kind, says, do, line, details, order, subject or says)


def join_names(names: list[str], most: int = 3) -> str:
    """Return names in a row: `a`, `b` and 4 more.

    >>> join_names(["a", "b", "c", "d", "e"])
    '`a`, `b`, `c` and 2 more'
    """
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


ALL_WELL = "No trouble found."


STYLE = (
    "border-left:4px solid {colour};padding:6px 12px;margin:6px 0;"
    "font:14px/1.45 Helvetica,Arial,sans-serif;max-width:60em"
)


CODE = "font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px;white-space:pre-wrap"


class Report:
    """The findings in words; a notebook shows the picture below.

    Attributes:
        findings: one per trouble, each with `.kind`, `.says`, `.do`, `.line` and `.details`.
        snapshot: the graph as plain data, None where there is none.
    """

    def __init__(self, snapshot: Snapshot | None, findings: tuple[Finding, ...] = ()) -> None:
        self.snapshot, self.findings = snapshot, findings

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    @property
    def kinds(self) -> list[str]:
        """The kinds of the findings, as in `messages.py`."""
        return [finding.kind for finding in self.findings]

    @property
    def drawing(self) -> Drawing:
        """The picture of the graph, with the group of the failed op open."""
        if self.snapshot is None:
            raise ValueError("viz: this report is of no single graph, so there is no picture")
        return Drawing(self.snapshot, choice=self._choice())

    def _choice(self) -> Choice:
        choice = Choice()
        assert self.snapshot is not None
        for node in self.snapshot.graph.nodes:
            if node.kind == "failed" and node.module:
                choice = choice.open(node.module)
        return choice

    def html(self) -> str:
        """Return the findings, and the picture as an image, as HTML."""
        parts = [self._html_of(finding) for finding in self.findings]
        if not parts:
            style = STYLE.format(colour="#1B7F4B")
            parts = [f'<div style="{style}"><b>✓ {ALL_WELL}</b></div>']
        picture = self._image()
        return '<div role="group" aria-label="trouble">' + "".join(parts) + picture + "</div>"

    def _html_of(self, finding: Finding) -> str:
        rows = "\n".join(([finding.line] if finding.line else []) + list(finding.details))
        code = f'<div style="{CODE}">{escape_text(rows)}</div>' if rows else ""
        return (
            f'<div style="{STYLE.format(colour="#B00020")}">'
            f"<b>✗ {escape_text(finding.says)}</b>{code}"
            f"<div>→ {escape_text(finding.do)}</div></div>"
        )

    def _image(self) -> str:
        if self.snapshot is None:
            return ""
        try:
            image = base64.b64encode(self.drawing.svg.encode()).decode()
        except (LayoutError, MissingExtraError):
            return ""
        alt = escape_text("; ".join(finding.says for finding in self.findings) or ALL_WELL)
        return (f'<img style="max-width:100%;background:#ffffff" alt="The graph. {alt}" '
                f'src="data:image/svg+xml;base64,{image}">')  # fmt: skip

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the report in each form that a notebook may know."""
        text = str(self)
        if self.snapshot is not None:
            text += f"\n\n{self.drawing.table(100)}"
        return {"text/html": self.html(), "text/plain": text}

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.findings)) or f"✓ {ALL_WELL}"

    __repr__ = __str__


def escape_text(text: str) -> str:
    """Return text fit for HTML: escaped, and without unprintable characters."""
    return escape("".join(char if char.isprintable() or char == "\n" else "�" for char in text))
