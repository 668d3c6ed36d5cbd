"""Connectionist temporal classification: a loss for unaligned label sequences.

A network gives the probability of each class at each of T times. The target is a shorter
sequence of labels without times. An *alignment* spreads the target over the T times: a label
may be repeated, and a class of its own, the blank, may stand between two labels (and must,
between equal ones). "cat" in six steps may be `c a a - t t` or `- c - a t -` or ….

The probability of the target is the sum over all its alignments. These are paths through the
same row of states:

    -  c  -  a  -  t  -         the labels, blanks around them: S = 2 L + 1

In each step a path stays, moves one state on, or skips a blank between two different labels.
So two tables give the sum (the forward and backward variables):

    α[t, s]   the probability of all paths from a valid start to state s at time t
    β[t, s]   the probability of all paths from state s at time t to a valid end

(α includes the emission at t, β does not). α at the last time gives the loss; α · β, divided
by the total, is the posterior probability of state s at time t, which gives the gradient.

All values are logarithms: products become sums, sums become `logaddexp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import backends, dtypes
from ....backends.numpy import Array, Namespace
from ....core.tensor import Tensor
from ....errors import DimError, DTypeError, ShapeError
from ....ops import (
    arange,
    as_tensor,
    clamp,
    exp,
    full,
    gather,
    logaddexp,
    logsumexp,
    reshape,
    scatter_add,
    stack,
    unsqueeze,
    where,
    zeros_like,
)  # fmt: skip
from ..op_decorators import ArrayOrTensor, can_read, layer
from ..padding import constant_pad
from .definitions import unwrap
from .reduction import reduce_losses

__all__ = ["ctc_loss"]

Lengths = Tensor | Sequence[int] | int
"""The length of each sample."""

LOG_ZERO = -1e30
"""The logarithm of 0, kept finite: with -∞ some differences would be NaN."""


# The recursions. They take arrays as well as tensors, so the same code computes the loss, its
# gradient and its second derivative. ---------------------------------------------------------


def shift_states(x: ArrayOrTensor, by: int) -> Any:
    """Shift along the states, and fill the free end with log 0."""
    return constant_pad(x, ((0, 0), (by, -by)), LOG_ZERO)


def add_transitions(x: ArrayOrTensor, direction: int, can_skip: Array) -> Any:
    """Add up the paths that stay, move on by one state (`direction` is ±1), and skip one."""
    total = logaddexp(x, shift_states(x, direction))
    return logaddexp(total, where(can_skip, shift_states(x, 2 * direction), LOG_ZERO))


def compute_alphas(emissions: ArrayOrTensor, can_skip: Array) -> Any:
    """α[t, n, s]; a path starts at the first blank or the first label."""
    xp = backends.of(can_skip).xp
    first = xp.arange(can_skip.shape[1]) < 2
    alpha = where(first, emissions[0], LOG_ZERO)
    table = [alpha]
    for t in range(1, emissions.shape[0]):
        alpha = emissions[t] + add_transitions(alpha, 1, can_skip)
        table.append(alpha)
    return stack(table)


def compute_betas(emissions: ArrayOrTensor, can_skip: Array, is_final: Array, times: Array) -> Any:
    """β[t, n, s]; a path ends, at its sample's last time, in one of the final states."""
    xp = backends.of(can_skip).xp
    can_skip_ahead = xp.zeros_like(can_skip)
    can_skip_ahead[:, :-2] = can_skip[:, 2:]
    end = where(is_final, zeros_like(emissions[0]), LOG_ZERO)
    beta = end
    table = [beta]
    for t in range(emissions.shape[0] - 2, -1, -1):
        beta = add_transitions(beta + emissions[t + 1], -1, can_skip_ahead)
        beta = where((times == t + 1)[:, None], end, beta)
        table.append(beta)
    return stack(table[::-1])


class Alignments:
    """The sum over all alignments of a batch, by the forward algorithm.

    Args:
        log_probs: (t, n, c), an array or a tensor.
        labels: (n, s), the class of each state.
        times, counts: (n), the lengths of each sample and its target.
    """

    def __init__(
        self, log_probs: ArrayOrTensor, labels: ArrayOrTensor, times: ArrayOrTensor,
        counts: ArrayOrTensor,
    ) -> None:  # fmt: skip
        labels, times, counts = unwrap(labels), unwrap(times), unwrap(counts)
        xp = backends.of(labels).xp
        self.log_probs, self.times = log_probs, times
        self.state_labels = xp.ascontiguousarray(
            xp.broadcast_to(labels, (log_probs.shape[0], *labels.shape))
        )
        self.emissions = gather(log_probs, 2, self.state_labels)
        self.can_skip = xp.zeros(labels.shape, "bool")  # to a state from two before it
        self.can_skip[:, 3::2] = labels[:, 3::2] != labels[:, 1:-2:2]
        state, end = xp.arange(labels.shape[1]), 2 * counts[:, None]
        self.is_final = (state == end) | (state == end - 1)
        # States of the padding of a target are unreachable, whatever their score is.
        self.emissions = where(state <= end, self.emissions, LOG_ZERO)
        self.alpha = compute_alphas(self.emissions, self.can_skip)
        now = xp.maximum(times - 1, 0)[None, :, None]
        now = xp.ascontiguousarray(xp.broadcast_to(now, (1, *labels.shape)))
        final = where(self.is_final, gather(self.alpha, 0, now)[0], LOG_ZERO)
        total = logsumexp(final, 1)
        total = where((times == 0) & (counts == 0), 0.0, total)
        self.log_likelihood = where((times == 0) & (counts > 0), LOG_ZERO, total)

    def losses(self) -> Any:
        """The negative log-likelihood of each sample; ∞ if there is no alignment."""
        return where(self.log_likelihood < LOG_ZERO / 2, float("inf"), -self.log_likelihood)

    def posteriors(self) -> Any:
        """The posterior probability of class c at time t: (t, n, c), 0 without alignments."""
        xp = backends.of(self.can_skip).xp
        beta = compute_betas(self.emissions, self.can_skip, self.is_final, self.times)
        total = where(self.log_likelihood < LOG_ZERO / 2, 0.0, self.log_likelihood)
        posterior = exp(self.alpha + beta - total[:, None])
        inside = xp.arange(posterior.shape[0])[:, None] < self.times
        posterior = where(inside[:, :, None], posterior, 0.0)
        return scatter_add(zeros_like(self.log_probs), 2, self.state_labels, posterior)

    def gradients(self) -> Any:
        """The gradient of each loss by log_probs: probabilities minus posteriors."""
        xp = backends.of(self.can_skip).xp
        inside = xp.arange(self.log_probs.shape[0])[:, None] < self.times
        probs = where(inside[:, :, None], exp(self.log_probs), 0.0)
        return where((self.log_likelihood < LOG_ZERO / 2)[:, None], 0.0, probs) - self.posteriors()


# The loss ------------------------------------------------------------------------------------


@layer(dtypes="f", public="ctc_loss")
def ctc_loss_forward(
    xp: Namespace, input: Array, labels: ArrayOrTensor, times: ArrayOrTensor, counts: ArrayOrTensor
) -> Array:
    """Minus the log-probability of each target: y = -log Σ α over the last states."""
    if input.dtype.itemsize < 4:
        raise DTypeError(
            "ctc_loss", "not implemented for 16-bit floats",
            {"log_probs": dtypes.of(input.dtype)}, "use log_probs.float()",
        )  # fmt: skip
    return Alignments(input, labels, times, counts).losses()


# The derivative by log p of class c at time t is minus its posterior. As the p of a time sum to 1,
# p itself may be added, which the gradient of log_softmax cancels; this is done as in PyTorch.
ctc_loss_forward.vjp(
    input=lambda g, input, labels, times, counts: (
        g[:, None] * Alignments(input, labels, times, counts).gradients()
    ),
    latex=r"g\,(p_{tc} - \textstyle\sum_{s:\,l_s=c} \alpha_{ts}\,\beta_{ts} / \sum\alpha)",
)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths,
    blank: int = 0, reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """CTC loss: minus the log-probability of a label sequence, over all its alignments.

    The gradient assumes log_probs whose exponentials sum to 1 at each time, as a log_softmax
    gives: exp(log_probs) - posteriors, as in PyTorch. A target without an alignment has the
    loss ∞ and a gradient of 0 (NaN in PyTorch).

    Args:
        log_probs: (t, n, c) or (t, c), the result of a log_softmax.
        targets: (n, l), padded with anything, or all targets concatenated.
        input_lengths, target_lengths: (n), tensors or tuples.
        blank: the index of the blank class.
        reduction: "mean" (each loss divided by its target's length first), "sum", "none".
        zero_infinity: replace infinite losses, of targets too long for their input, by 0.

    Raises: ShapeError, DTypeError: lengths or labels do not fit. DimError: a label within its
        target's length is out of range (PyTorch reads beyond `log_probs` there).

    Paper: Graves et al., Connectionist temporal classification, 2006.

    >>> steps = zeros(2, 1, 3).log_softmax(2)
    >>> nn.functional.ctc_loss(steps, tensor([[1]]), (2,), (1,)).exp()  # aa, a-, -a of 9
    tensor(3.)
    """
    batched = log_probs.ndim == 3
    if log_probs.ndim not in (2, 3):
        raise ShapeError(
            "ctc_loss", "expected log_probs (t n c) or (t c)",
            {"log_probs": tuple(log_probs.shape)},
        )  # fmt: skip
    steps = log_probs if batched else unsqueeze(log_probs, 1)
    times = check_lengths("input_lengths", input_lengths, steps.shape[1], steps.shape[0])
    max_length = targets.shape[-1] if targets.ndim == 2 else targets.numel()
    counts = check_lengths("target_lengths", target_lengths, steps.shape[1], max_length)
    if not 0 <= blank < steps.shape[2]:
        raise DimError("ctc_loss", "blank must be in label range", {"blank": blank})
    rows = target_rows(targets, counts)
    check_labels(rows, counts, log_probs)
    labels = insert_blanks(rows, blank, steps.shape[2])
    lengths = [as_tensor(values, device=log_probs.device) for values in (times, counts)]
    losses = ctc_loss_forward(steps, labels, *lengths)
    if zero_infinity:
        losses = where(losses == float("inf"), 0.0, losses)
    if reduction == "mean":
        losses = losses / clamp(lengths[1], min=1).to(losses.dtype)
    losses = reduce_losses(losses, reduction)
    return losses if batched or reduction != "none" else losses[0]


def check_lengths(name: str, lengths: Lengths, batch: int, maximum: int) -> list[int]:
    """Return the lengths as a list of integers, one for each sample.

    Raises: ShapeError, DTypeError: a wrong number, a value out of range, or not integers.
    """
    if isinstance(lengths, Tensor):
        if lengths.dtype.category != 1:
            raise DTypeError("ctc_loss", f"{name} must be integral", {name: lengths.dtype})
        lengths = reshape(lengths, (-1,)).tolist()
    values: list[int] = [lengths] if isinstance(lengths, int) else list(lengths)  # type: ignore[arg-type]
    if len(values) != batch:
        raise ShapeError(
            "ctc_loss", f"{name} must be of size batch_size",
            {name: (len(values),), "batch_size": batch},
        )  # fmt: skip
    if any(not 0 <= value <= maximum for value in values):
        raise ShapeError(
            "ctc_loss",
            f"Expected {name} to have value at most {maximum}, but got value {max(values)}",
        )
    return values


def target_rows(targets: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the targets as rows (n, l), padded with arbitrary labels.

    Raises: ShapeError, DTypeError: the targets do not fit their lengths, or are not integers.
    """
    if targets.dtype not in (dtypes.int64, dtypes.int32):
        raise DTypeError(
            "ctc_loss", "targets must be integral", {"targets": targets.dtype}, "use targets.long()"
        )
    targets, width = targets.long(), max(counts, default=0)
    if targets.ndim == 2:
        if targets.shape[0] != len(counts):
            raise ShapeError(
                "ctc_loss", "expected a row of targets for each sample",
                {"targets": tuple(targets.shape), "batch_size": len(counts)},
            )  # fmt: skip
        return targets[:, :width]
    if targets.numel() != sum(counts):
        raise ShapeError(
            "ctc_loss", "targets that follow each other must be as many as all target_lengths",
            {"targets": tuple(targets.shape), "target_lengths": sum(counts)},
        )  # fmt: skip
    if not targets.numel():
        return reshape(targets, (1, 0)).expand(len(counts), 0)
    starts = as_tensor([sum(counts[:i]) for i in range(len(counts))], device=targets.device)
    positions = unsqueeze(starts, 1) + arange(width, device=targets.device)
    return reshape(targets, (-1,))[clamp(positions, max=targets.numel() - 1)]


def check_labels(rows: Tensor, counts: Sequence[int], log_probs: Tensor) -> None:
    """Raise DimError unless all labels within the lengths of their targets are classes."""
    if not can_read(rows) or not rows.numel():
        return
    labels, classes = rows._array, log_probs.shape[-1]
    if labels.min() >= 0 and labels.max() < classes:
        return
    for row, count in zip(labels.tolist(), counts, strict=True):
        for label in row[:count]:
            if not 0 <= label < classes:
                hint = f"the classes are 0 to {classes - 1}, one for each column of `log_probs`"
                raise DimError(
                    "ctc_loss", f"Target {label} is out of bounds.",
                    {"log_probs": tuple(log_probs.shape)}, hint,
                )  # fmt: skip


def insert_blanks(rows: Tensor, blank: int, classes: int) -> Tensor:
    """Insert blanks around the labels: (n, l) → (n, 2 l + 1); padding may be anything."""
    labels = clamp(rows, 0, classes - 1)
    y = full((rows.shape[0], 2 * rows.shape[1] + 1), blank, dtype=dtypes.int64, device=rows.device)
    y[:, 1::2] = labels
    return y
