"""The error of checkpoints that several ranks write and read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...serialization import CheckpointError

__all__ = ["CheckpointException", "mismatch_error"]


class CheckpointException(CheckpointError):
    """A checkpoint could not be saved or loaded; the message names the rank.

    Attributes:
        failures: what went wrong on each rank, by its number.
    """

    failures: Mapping[int, str]


def failure_of_ranks(what: str, failures: Mapping[int, str]) -> CheckpointException:
    """Return the error that all ranks raise when some of them have failed."""
    first = min(failures)
    same = [str(rank) for rank in failures if failures[rank] == failures[first]]
    ranks = f"rank {same[0]}" if len(same) == 1 else f"ranks {', '.join(same)}"
    error = CheckpointException(what, f"{ranks}: {failures[first]}")
    error.failures = dict(failures)
    return error


def mismatch_error(
    name: str, missing: Iterable[str], unexpected: Iterable[str], shapes: Iterable[str]
) -> CheckpointException:
    """Return the error for a checkpoint of another model.

    Args:
        name: the checkpoint.
        missing: keys that the program asks for, and the checkpoint has not.
        unexpected: keys that only the checkpoint has.
        shapes: lines about keys whose shapes differ.
    """
    listed = {"missing": missing, "unexpected": unexpected, "shapes": shapes}
    return CheckpointException(
        "load", f"{name} is the checkpoint of another model",
        {what: shorten_list(list(values)) for what, values in listed.items() if values},
        "build the model as it was then, or pass DefaultLoadPlanner(allow_partial_load=True)",
    )  # fmt: skip


def shorten_list(values: list[str], most: int = 8) -> str:
    """Return the first of some texts, and how many there are more."""
    more = f", and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(values[:most]) + more
