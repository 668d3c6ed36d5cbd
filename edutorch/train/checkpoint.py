"""Everything that a training needs to go on exactly as if it had never stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from ..serialization import load
from .errors import TrainError
from .metrics.base import Metric
from .random_state import RandomState

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["dump", "read", "restore"]

FORMAT = 1
"""Counts up when older versions could not go on from what this one writes."""


def dump(trainer: Trainer, weights_only: bool = False) -> dict[str, Any]:
    """Return a checkpoint: plain data and tensors.

    Args:
        weights_only: leave out what only continuing needs.
    """
    module, loop = trainer.module, trainer.loop
    checkpoint: dict[str, Any] = {
        "trainer_format": FORMAT,
        "epoch": loop.epoch,
        "global_step": loop.global_step,
        "state_dict": module.state_dict(),
        "hyper_parameters": dict(module.hparams),
    }
    if not weights_only:
        scaler = trainer.precision.scaler
        checkpoint |= {
            "optimizer_states": [optimizer.state_dict() for optimizer in trainer.optimizers],
            "lr_schedulers": [
                lr_scheduler_config.scheduler.state_dict()
                for lr_scheduler_config in trainer.lr_scheduler_configs
            ],
            "callbacks": {key: each.state_dict() for key, each in named(trainer.callbacks)},
            "loop": loop.state_dict(),
            "random": RandomState.now(trainer.train_loader, trainer.device_type).parts,
            "scaler": None if scaler is None else scaler.state_dict(),
            "logged": trainer.train_book.state_dict(),
            "values": dict(trainer.values),
            "metrics": {name: each.state() for name, each in metrics_of(module)},
            "logged_metrics": logged_metrics(trainer),
            "gradients": gradients_of(trainer),
            "accumulate_grad_batches": trainer.accumulate_grad_batches,
        }
    for callback in trainer.callbacks:
        callback.on_save_checkpoint(trainer, module, checkpoint)
    module.on_save_checkpoint(checkpoint)
    return checkpoint


def read(path: Any) -> dict[str, Any]:
    """Load a checkpoint from a file.

    Raises: TrainError: the file holds something else.
    """
    checkpoint = load(path)
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise TrainError(
            "fit", f"{os.fspath(path)!r} holds no checkpoint of a Trainer",
            hint="a state_dict alone is loaded with module.load_state_dict(edutorch.load(path))",
        )  # fmt: skip
    return checkpoint


def restore(trainer: Trainer, checkpoint: dict[str, Any]) -> None:
    """Put everything back: callbacks first, because they may add schedulers of their own.

    Raises: TrainError: the checkpoint has weights alone, or another number of optimizers.
    """
    if "loop" not in checkpoint:
        raise TrainError(
            "fit", "the checkpoint has weights alone; training cannot go on from it",
            hint="load them with Module.load_from_checkpoint(path) and begin anew",
        )  # fmt: skip
    if checkpoint.get("trainer_format") != FORMAT:
        raise TrainError(
            "fit", "the checkpoint was made by another version of the Trainer",
            {"in the checkpoint": checkpoint.get("trainer_format"), "here": FORMAT},
            "load the weights alone with Module.load_from_checkpoint(path)",
        )  # fmt: skip
    module = trainer.module
    module.on_load_checkpoint(checkpoint)
    module.load_state_dict(checkpoint["state_dict"])
    for key, callback in named(trainer.callbacks):
        if key in checkpoint["callbacks"]:
            callback.load_state_dict(checkpoint["callbacks"][key])
        callback.on_load_checkpoint(trainer, module, checkpoint)
    load_each("optimizers", trainer.optimizers, checkpoint["optimizer_states"])
    for optimizer in trainer.optimizers:  # a scheduler may step next, and the optimizer has
        optimizer._opt_called = checkpoint["global_step"] > 0  # type: ignore[attr-defined]
    schedulers = [
        lr_scheduler_config.scheduler for lr_scheduler_config in trainer.lr_scheduler_configs
    ]
    load_each("lr_schedulers", schedulers, checkpoint["lr_schedulers"])
    if trainer.precision.scaler is not None and checkpoint["scaler"]:
        trainer.precision.scaler.load_state_dict(checkpoint["scaler"])
    trainer.train_book.load_state_dict(checkpoint["logged"])
    trainer.values.update(checkpoint["values"])
    for name, metric in metrics_of(module):
        if name in checkpoint["metrics"]:
            metric.load_state(checkpoint["metrics"][name])
    for logged_as, name in checkpoint["logged_metrics"].items():
        trainer.train_book.metrics[logged_as] = dict(metrics_of(module))[name]
    for name, parameter in module.named_parameters():
        if name in checkpoint["gradients"]:
            parameter.grad = checkpoint["gradients"][name].to(parameter.device)
    trainer.accumulate_grad_batches = checkpoint["accumulate_grad_batches"]
    now = RandomState(checkpoint["random"])
    now.restore(trainer.train_loader, trainer.device_type)
    trainer.loop.load_state_dict(checkpoint["loop"], now)


def load_each(what: str, own: list[Any], saved: list[dict[str, Any]]) -> None:
    if len(own) != len(saved):
        raise TrainError(
            "fit", f"the checkpoint was made with another number of {what}",
            {"in the checkpoint": len(saved), "here": len(own)},
            "return the same from configure_optimizers as when it was saved",
        )  # fmt: skip
    for each, state in zip(own, saved, strict=True):
        each.load_state_dict(state)


def named(callbacks: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield callbacks by the names under which they are saved; those of one kind are numbered."""
    count: dict[str, int] = {}
    for callback in callbacks:
        key = callback.state_key
        count[key] = count.get(key, 0) + 1
        yield (key if count[key] == 1 else f"{key}#{count[key]}"), callback


def metrics_of(module: Any) -> Iterator[tuple[str, Metric]]:
    """Yield the metrics that are parts of a module, by path."""
    return ((name, each) for name, each in module.named_modules() if isinstance(each, Metric))


def logged_metrics(trainer: Trainer) -> dict[str, str]:
    """Return under which name each metric was logged in this epoch, and its path in the module."""
    paths = {id(each): name for name, each in metrics_of(trainer.module)}
    logged = trainer.train_book.metrics.items()
    return {name: paths[id(each)] for name, each in logged if id(each) in paths}


def gradients_of(trainer: Trainer) -> dict[str, Tensor]:
    """Return the gradients of a step that waits for further batches.

    In manual optimization nobody knows whether it does, so they are kept.
    """
    if not trainer.loop.pending and trainer.module.automatic_optimization:
        return {}
    found = trainer.module.named_parameters()
    return {name: each.grad.detach() for name, each in found if each.grad is not None}
