"""Checkpoints of a trainer, from which training resumes exactly where it was saved."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from ..serialization import load
from .errors import TrainError
from .metrics.base import Metric
from .resumable_loader import RandomState

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["dump", "read", "restore"]

FORMAT = 1
"""The version of the format, increased when older versions cannot read it."""


def dump(trainer: Trainer, weights_only: bool = False) -> dict[str, Any]:
    """Return a checkpoint: plain data and tensors.

    Args:
        weights_only: leave out what is only needed to resume training.
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
            "callbacks": {
                key: callback.state_dict() for key, callback in named_callbacks(trainer.callbacks)
            },
            "loop": loop.state_dict(),
            "random": RandomState.now(trainer.train_loader, trainer.device_type).parts,
            "scaler": None if scaler is None else scaler.state_dict(),
            "logged": trainer.train_book.state_dict(),
            "values": dict(trainer.values),
            "metrics": {name: metric.state() for name, metric in metrics_of(module)},
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
    """Restore everything: callbacks first, because they may add schedulers of their own.

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
    for key, callback in named_callbacks(trainer.callbacks):
        if key in checkpoint["callbacks"]:
            callback.load_state_dict(checkpoint["callbacks"][key])
        callback.on_load_checkpoint(trainer, module, checkpoint)
    load_states("optimizers", trainer.optimizers, checkpoint["optimizer_states"])
    for optimizer in trainer.optimizers:
        # Otherwise a scheduler that steps next would warn that the optimizer has not stepped.
        optimizer._opt_called = checkpoint["global_step"] > 0  # type: ignore[attr-defined]
    schedulers = [
        lr_scheduler_config.scheduler for lr_scheduler_config in trainer.lr_scheduler_configs
    ]
    load_states("lr_schedulers", schedulers, checkpoint["lr_schedulers"])
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


def load_states(name: str, targets: list[Any], saved: list[dict[str, Any]]) -> None:
    if len(targets) != len(saved):
        raise TrainError(
            "fit", f"the checkpoint was made with another number of {name}",
            {"in the checkpoint": len(saved), "here": len(targets)},
            "return the same from configure_optimizers as when it was saved",
        )  # fmt: skip
    for target, state in zip(targets, saved, strict=True):
        target.load_state_dict(state)


def named_callbacks(callbacks: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield callbacks with the keys of their states; equal keys are numbered."""
    count: dict[str, int] = {}
    for callback in callbacks:
        key = callback.state_key
        count[key] = count.get(key, 0) + 1
        yield (key if count[key] == 1 else f"{key}#{count[key]}"), callback


def metrics_of(module: Any) -> Iterator[tuple[str, Metric]]:
    """Yield the metrics among the submodules of a module, with their paths."""
    return ((name, child) for name, child in module.named_modules() if isinstance(child, Metric))


def logged_metrics(trainer: Trainer) -> dict[str, str]:
    """Return the path in the module of each metric logged in this epoch, by logged name."""
    paths = {id(metric): name for name, metric in metrics_of(trainer.module)}
    logged = trainer.train_book.metrics.items()
    return {name: paths[id(metric)] for name, metric in logged if id(metric) in paths}


def gradients_of(trainer: Trainer) -> dict[str, Tensor]:
    """Return the gradients of a step that waits for further batches.

    In manual optimization the trainer does not know whether it does, so they are always saved.
    """
    if not trainer.loop.pending and trainer.module.automatic_optimization:
        return {}
    parameters = trainer.module.named_parameters()
    return {
        name: parameter.grad.detach()
        for name, parameter in parameters
        if parameter.grad is not None
    }
