"""Sequences against each other: the edit distance, and the frames of a recognised token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...core.composed import wrap_functions as _guard
from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeValueError
from ...ops import tensor

__all__ = ["TokenSpan", "edit_distance", "forced_align", "merge_tokens"]


def edit_distance(seq1: Sequence[Any], seq2: Sequence[Any]) -> int:
    """How many insertions, deletions and substitutions turn one sequence into the other.

    Divided by the length of the reference it is the error rate: of words, of characters.

    >>> audio.functional.edit_distance("kitten", "sitting")
    3
    """
    # Row i, column j: the distance between the first i and the first j elements.
    row = list(range(len(seq2) + 1))
    for i, a in enumerate(seq1, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(seq2, 1):
            changed = diagonal + (a != b)
            diagonal = row[j]
            row[j] = min(changed, row[j] + 1, row[j - 1] + 1)
    return row[-1]


def forced_align(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
) -> tuple[Tensor, Tensor]:
    """The most probable way to say the given tokens: a token, or blank, for each frame.

    It is Viterbi's algorithm on the states of CTC: the tokens with a blank before, between and
    behind. From frame to frame one stays in a state, or goes to the next one, or leaves out a blank
    between two different tokens.

    Args:
        log_probs: the logarithms of the probabilities, (1, frames, tokens).
        targets: the tokens, without blanks, (1, length).
        input_lengths, target_lengths: the valid lengths, (1); by default all.
        blank: the number of the blank token.

    Returns: the token of each frame, (1, frames), and its log probability.

    Raises: ValueError: a batch of more than 1, tokens that are blank or unknown, or too few frames.

    >>> probs = tensor([[[0.1, 0.9, 0.0], [0.8, 0.2, 0.0], [0.1, 0.1, 0.8]]])
    >>> audio.functional.forced_align((probs + 1e-6).log(), tensor([[1, 2]]))[0]
    tensor([[1, 0, 2]])
    """
    rows = {
        "log_probs (1 frames tokens)": tuple(log_probs.shape),
        "targets (1 length)": tuple(targets.shape),
    }
    if log_probs.ndim != 3 or targets.ndim != 2 or log_probs.shape[0] != 1 or targets.shape[0] != 1:
        raise ShapeValueError("forced_align", "only a batch of one is supported", rows)
    frames = log_probs.shape[1] if input_lengths is None else int(input_lengths[0])
    length = targets.shape[1] if target_lengths is None else int(target_lengths[0])
    tokens = targets[0, :length].tolist()
    if blank in tokens:
        raise InvalidValueError(
            "forced_align", f"targets Tensor shouldn't contain blank index. Found {tokens}.", rows
        )
    if any(not 0 <= token < log_probs.shape[2] for token in tokens):
        raise InvalidValueError(
            "forced_align", "targets values must be less than the CTC dimension", rows
        )
    repeats = sum(a == b for a, b in pairwise(tokens))
    if frames < length + repeats or not frames:
        raise InvalidValueError(
            "forced_align", f"{length} tokens need {max(length + repeats, 1)} frames, a blank "
            f"between equal ones included; there are {frames}", rows,
        )  # fmt: skip
    scores = log_probs[0, :frames].tolist()
    path = _best_path(scores, [blank, *(state for token in tokens for state in (token, blank))])
    chosen = [scores[t][token] for t, token in enumerate(path)]
    device = log_probs.device
    return (
        tensor([path], dtype=targets.dtype, device=device),
        tensor([chosen], dtype=log_probs.dtype, device=device),
    )


def _best_path(scores: list[list[float]], states: list[int]) -> list[int]:
    """Return the token of each frame on the most probable way through the states."""
    nowhere = float("-inf")
    best = [scores[0][state] if s < 2 else nowhere for s, state in enumerate(states)]
    came_from: list[list[int]] = []
    for frame in scores[1:]:
        steps, sums = [], []
        for s, state in enumerate(states):
            sources = [s]
            if s >= 1:
                sources.append(s - 1)
            if s >= 2 and s % 2 and state != states[s - 2]:
                sources.append(s - 2)
            source = max(sources, key=lambda source: best[source])
            steps.append(source)
            sums.append(best[source] + frame[state])
        came_from.append(steps)
        best = sums
    s = max(range(max(len(states) - 2, 0), len(states)), key=lambda s: best[s])
    path = [s]
    for steps in reversed(came_from):
        s = steps[s]
        path.append(s)
    return [states[s] for s in reversed(path)]


@dataclass
class TokenSpan:
    """The frames of one recognised token, as `merge_tokens` returns it.

    >>> len(audio.functional.TokenSpan(token=3, start=2, end=5, score=0.9))
    3
    """

    token: int
    """The token."""
    start: int
    """Its first frame."""
    end: int
    """The frame after its last one."""
    score: float
    """The mean score of its frames."""

    def __len__(self) -> int:
        """Return the number of frames."""
        return self.end - self.start


def merge_tokens(tokens: Tensor, scores: Tensor, blank: int = 0) -> list[TokenSpan]:
    """Merge the frames of a token into one span, and leave blanks out.

    Args:
        tokens: the token of each frame, (frames).
        scores: its score, (frames).

    Raises: ValueError: not 1D, or of different lengths.

    >>> audio.functional.merge_tokens(tensor([0, 2, 2, 0]), tensor([0.5, 1.0, 0.5, 0.5]))
    [TokenSpan(token=2, start=1, end=3, score=0.75)]
    """
    rows = {"tokens": tuple(tokens.shape), "scores": tuple(scores.shape)}
    if tokens.ndim != 1 or scores.ndim != 1:
        raise ShapeValueError("merge_tokens", "`tokens` and `scores` must be 1D Tensor.", rows)
    if len(tokens) != len(scores):
        raise ShapeValueError(
            "merge_tokens", "`tokens` and `scores` must be the same length.", rows
        )
    path, values = tokens.tolist(), scores.tolist()
    changes = [t for t in range(len(path)) if t == 0 or path[t] != path[t - 1]]
    return [
        TokenSpan(path[start], start, end, sum(values[start:end]) / (end - start))
        for start, end in zip(changes, [*changes[1:], len(path)], strict=True)
        if path[start] != blank
    ]


_guard(globals())
