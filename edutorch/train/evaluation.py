"""Validation, test and prediction: once through the loaders, without gradients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..modes import no_grad
from ..nn import Module
from .log_buffer import LogBook
from .resumable_loader import check_loader, limited_length

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["evaluate", "evaluating"]


@contextmanager
def evaluating(module: Module) -> Iterator[None]:
    """Switch all layers to evaluation inside the block; afterwards each is what it was."""
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for each, mode in modes:
            each.training = mode


def evaluate(
    trainer: Trainer, word: str, loaders: list[Any], limit: int | float | None
) -> tuple[list[dict[str, float]], list[Any]]:
    """Run every batch of every loader through the module's step.

    Args:
        word: "validation", "test" or "predict": the step and the hooks are named so.
        limit: how many batches of each loader, or which part of it.

    Returns: for each loader what was logged, and the list of what the steps returned.
    """
    found: list[dict[str, float]] = []
    outputs: list[Any] = []
    lengths = [limited_length(loader, limit, "the limit") for loader in loaders]
    known = [length for length in lengths if length is not None]
    trainer.num_evaluation_batches = sum(known) if len(known) == len(lengths) else None
    outer, trainer.evaluating = trainer.evaluating, word
    try:
        with evaluating(trainer.module), no_grad():
            trainer.call(f"on_{word}_start")
            trainer.call(f"on_{word}_epoch_start")
            books = [LogBook() for _ in loaders] or [LogBook()]
            for number, loader in enumerate(loaders):
                with trainer.logging_into(books[number]):
                    outputs.append(run_loader(trainer, word, loader, number, limit, len(loaders)))
            with trainer.logging_into(books[-1]):
                publish = lambda: found.extend(publish_all(trainer, books))  # noqa: E731
                trainer.call(f"on_{word}_epoch_end", then=publish)
            if word == "validation":
                trainer.loop.validated()
            trainer.call(f"on_{word}_end")
    finally:
        trainer.evaluating = outer
    return found, outputs


def run_loader(
    trainer: Trainer, word: str, loader: Any, number: int, limit: Any, loaders: int
) -> list[Any]:
    """Run the batches of one loader; what a prediction returns is kept."""
    name = f"{'val' if word == 'validation' else word}_dataloaders"
    check_loader(loader, name)
    batches = itertools.islice(iter(loader), limited_length(loader, limit, f"limit_{name}"))
    outputs = []
    which = (number,) if loaders > 1 else ()
    for batch_idx, batch in enumerate(trainer.fetched(batches, name)):
        trainer.call(f"on_{word}_batch_start", batch, batch_idx, *which)
        output = trainer.step(f"{word}_step", batch, batch_idx, *which)
        trainer.call(f"on_{word}_batch_end", output, batch, batch_idx, *which)
        trainer.publish(trainer.book.step_values(), to_logger=False)
        if word == "predict":
            outputs.append(output)
    return outputs


def publish_all(trainer: Trainer, books: list[LogBook]) -> list[dict[str, float]]:
    """Make known what the loaders came to; names of several loaders get a number."""
    results = []
    for number, book in enumerate(books):
        end = f"/dataloader_idx_{number}" if len(books) > 1 else ""
        values = {f"{name}{end}": pair for name, pair in book.epoch_values().items()}
        trainer.publish(values)
        results.append({name: value for name, (_, value) in values.items()})
        book.clear()
    return results
