"""Validation, test and prediction: one pass over the loaders, without gradients."""

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

__all__ = ["evaluate", "evaluation_mode"]


@contextmanager
def evaluation_mode(module: Module) -> Iterator[None]:
    """Switch all submodules to evaluation mode inside the block, and restore their modes."""
    modes = [(child, child.training) for child in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for child, mode in modes:
            child.training = mode


def evaluate(
    trainer: Trainer, stage_name: str, loaders: list[Any], limit: int | float | None
) -> tuple[list[dict[str, float]], list[Any]]:
    """Run every batch of every loader through the module's step.

    Args:
        stage_name: "validation", "test" or "predict", the prefix of the step and the hooks.
        limit: the number of batches of each loader, or the share of them.

    Returns: for each loader the logged values, and the list of what the steps returned.
    """
    results: list[dict[str, float]] = []
    outputs: list[Any] = []
    lengths = [limited_length(loader, limit, "the limit") for loader in loaders]
    known = [length for length in lengths if length is not None]
    trainer.num_evaluation_batches = sum(known) if len(known) == len(lengths) else None
    outer, trainer.evaluating = trainer.evaluating, stage_name
    try:
        with evaluation_mode(trainer.module), no_grad():
            trainer.call(f"on_{stage_name}_start")
            trainer.call(f"on_{stage_name}_epoch_start")
            books = [LogBook() for _ in loaders] or [LogBook()]
            for index, loader in enumerate(loaders):
                with trainer.logging_into(books[index]):
                    outputs.append(
                        run_loader(trainer, stage_name, loader, index, limit, len(loaders))
                    )
            with trainer.logging_into(books[-1]):
                publish = lambda: results.extend(publish_all(trainer, books))  # noqa: E731
                trainer.call(f"on_{stage_name}_epoch_end", then=publish)
            if stage_name == "validation":
                trainer.loop.mark_validated()
            trainer.call(f"on_{stage_name}_end")
    finally:
        trainer.evaluating = outer
    return results, outputs


def run_loader(
    trainer: Trainer, stage_name: str, loader: Any, index: int, limit: Any, loaders: int
) -> list[Any]:
    """Run the batches of one loader; return the outputs of predictions."""
    name = f"{'val' if stage_name == 'validation' else stage_name}_dataloaders"
    check_loader(loader, name)
    batches = itertools.islice(iter(loader), limited_length(loader, limit, f"limit_{name}"))
    outputs = []
    loader_idx = (index,) if loaders > 1 else ()
    for batch_idx, batch in enumerate(trainer.fetch_batches(batches, name)):
        trainer.call(f"on_{stage_name}_batch_start", batch, batch_idx, *loader_idx)
        output = trainer.step(f"{stage_name}_step", batch, batch_idx, *loader_idx)
        trainer.call(f"on_{stage_name}_batch_end", output, batch, batch_idx, *loader_idx)
        trainer.publish(trainer.book.step_values(), to_logger=False)
        if stage_name == "predict":
            outputs.append(output)
    return outputs


def publish_all(trainer: Trainer, books: list[LogBook]) -> list[dict[str, float]]:
    """Publish the epoch values of the loaders; with several loaders, names get an index."""
    results = []
    for index, book in enumerate(books):
        suffix = f"/dataloader_idx_{index}" if len(books) > 1 else ""
        values = {f"{name}{suffix}": pair for name, pair in book.epoch_values().items()}
        trainer.publish(values)
        results.append({name: value for name, (_, value) in values.items()})
        book.clear()
    return results
