"""Start and end of a run: attaches the module, finds the loaders, reports errors to callbacks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..errors import warn
from . import checkpoint as checkpoints
from .callbacks.monitor import ModelCheckpoint
from .errors import TrainError
from .fit_loop import FitLoop, evaluate
from .hooks_runner import HooksRunner
from .module import DataModule, TrainModule, has_method
from .optimizer_step import SteppingOptimizer, needs_closure, parse_optimizers
from .resumable_loader import RandomState, as_loader_list, check_loader, single_loader

__all__ = ["TrainerSetup"]


class TrainerSetup(HooksRunner):
    """The part of a `Trainer` that starts and ends a run."""

    state: str
    interrupted: bool
    should_stop: bool
    limit_val_batches: int | float | None
    num_sanity_val_steps: int
    checkpoint_callback: ModelCheckpoint | None
    _val_loaders: list[Any]

    # Beginning and ending -----------------------------------------------------------------

    @contextlib.contextmanager
    def _run_stage(
        self, model: TrainModule, datamodule: DataModule | None, stage: str
    ) -> Iterator[Any]:
        """Set up a run, and tear it down at the end of the block, also after an error.

        An interrupt ends the run without an exception; errors are reported to the callbacks and
        raised.
        """
        source = self._begin(model, datamodule, stage)
        status = "success"
        try:
            with self.anomaly_detection():
                yield source
            self.state = "finished"
        except KeyboardInterrupt as stop:
            status = self.state = "interrupted"
            self.interrupted = self.should_stop = True
            if not self.loop.pending:
                model.zero_grad()  # the gradients of an unfinished batch
            warn(
                f"{stage}: interrupted at epoch {self.loop.epoch}, batch {self.loop.batches}; "
                "trainer.save_checkpoint(path) keeps what there is"
            )
            self.call("on_exception", stop)
        except BaseException as error:
            status = self.state = "failed"
            self.call("on_exception", error)
            raise
        finally:
            for logger in self.loggers:
                logger.finalize(status)
            self.call("teardown", stage)
            if datamodule is not None and hasattr(datamodule, "teardown"):
                datamodule.teardown(stage)

    def _begin(self, model: TrainModule, datamodule: DataModule | None, stage: str) -> Any:
        """Attach a module and set everything up; return the object that provides the loaders."""
        if not isinstance(model, TrainModule):
            raise TrainError(
                stage, f"model must be a TrainModule, not {type(model).__name__}",
                hint="class Model(edutorch.train.TrainModule) with a training_step; or "
                "edutorch.train.fit(model, loss_fn, loader) for a plain nn.Module",
            )  # fmt: skip
        if self._module is not None and self._module is not model:
            self.loop = FitLoop(self)  # type: ignore[arg-type]  # another module starts at step 0
        self._module, model._trainer = model, self  # type: ignore[assignment]
        self.state, self.interrupted, self.should_stop = stage, False, False
        self.arguments.clear()
        self.precision.module(model)
        model.to(self.device_type)
        if datamodule is not None:
            if hasattr(datamodule, "prepare_data"):
                datamodule.prepare_data()
            if hasattr(datamodule, "setup"):
                datamodule.setup(stage)
        self.call("setup", stage)
        return model if datamodule is None else datamodule

    def _train_loader(self, source: Any, dataloaders: Any, datamodule: DataModule | None) -> Any:
        is_datamodule = dataloaders is not None and hasattr(dataloaders, "train_dataloader")
        if is_datamodule and datamodule is None:
            raise TrainError("fit", "give a DataModule by name", hint="fit(model, datamodule=data)")
        make = getattr(source, "train_dataloader", None)
        loader = single_loader(make() if dataloaders is None and callable(make) else dataloaders)
        if loader is None:
            raise TrainError(
                "fit", "there is nothing to train on",
                hint="fit(model, loader), or write train_dataloader(self) in the module",
            )  # fmt: skip
        check_loader(loader, "train_dataloaders")
        return loader

    def _loaders(self, source: Any, stage_name: str, dataloaders: Any) -> list[Any]:
        make = getattr(source, f"{stage_name}_dataloader", None)
        return as_loader_list(make() if dataloaders is None and callable(make) else dataloaders)

    def _check_steps(self, model: TrainModule) -> None:
        """Raise TrainError early if a required method is missing."""
        for name in ("training_step", "configure_optimizers"):
            if not has_method(model, name):
                getattr(model, name)(*(() if name.startswith("conf") else (None, 0)))
        if self._val_loaders and not has_method(model, "validation_step"):
            model.validation_step(None, 0)
        if not model.automatic_optimization:
            for name, default in (("gradient_clip_val", None), ("accumulate_grad_batches", 1)):
                if getattr(self, name) != default:
                    raise TrainError(
                        "fit", f"{name} is for automatic optimization", {name: getattr(self, name)},
                        "with automatic_optimization = False do it in training_step: "
                        "self.clip_gradients(...), or step only in each n-th batch",
                    )  # fmt: skip

    def _make_optimizers(self, model: TrainModule) -> None:
        self.optimizers, self.lr_scheduler_configs = parse_optimizers(model.configure_optimizers())
        self.closure_optimizers = {
            id(optimizer) for optimizer in self.optimizers if needs_closure(optimizer)
        }
        self.stepping_optimizers = [
            SteppingOptimizer(optimizer, self)  # type: ignore[arg-type]
            for optimizer in self.optimizers
        ]
        if len(self.optimizers) > 1 and model.automatic_optimization:
            raise TrainError(
                "fit", f"{len(self.optimizers)} optimizers: which one is to step when?",
                hint="set self.automatic_optimization = False, and call manual_backward and "
                "step each of self.optimizers() in training_step",
            )  # fmt: skip

    # Validation, test and prediction ------------------------------------------------------

    def can_validate(self) -> bool:
        """Whether there are batches for validation."""
        return bool(self._val_loaders) and self.limit_val_batches != 0

    def validate_inside_fit(self, limit: int | float | None = None) -> None:
        """Validate during training."""
        limit = limit or self.limit_val_batches
        evaluate(self, "validation", self._val_loaders, limit)  # type: ignore[arg-type]

    def _sanity_check(self) -> None:
        """Validate a few batches to find errors before training; restore the random state."""
        if not self.num_sanity_val_steps or not self.can_validate():
            return
        moment = RandomState.now(self.train_loader, self.device_type)
        self.sanity_checking = True
        try:
            self.call("on_sanity_check_start")
            batches = None if self.num_sanity_val_steps == -1 else self.num_sanity_val_steps
            if batches and isinstance(self.limit_val_batches, int):
                batches = min(batches, self.limit_val_batches)
            self.validate_inside_fit(batches)
            self.call("on_sanity_check_end")
        finally:
            self.sanity_checking = False
            moment.restore(self.train_loader, self.device_type)

    def _evaluate(
        self, stage: str, model: TrainModule | None, dataloaders: Any, ckpt_path: str | None,
        datamodule: DataModule | None,
        verbose: bool,
    ) -> tuple[list[dict[str, float]], list[Any]]:  # fmt: skip
        """Validate, test or predict outside of `fit`."""
        step = {"validate": "validation", "test": "test", "predict": "predict"}[stage]
        short = {"validate": "val"}.get(stage, stage)
        logged: list[dict[str, float]] = []
        outputs: list[Any] = []
        model = self.module if model is None else model
        with self._run_stage(model, datamodule, stage) as source:
            if ckpt_path is not None:
                model.load_state_dict(checkpoints.read(self._file_of(ckpt_path))["state_dict"])
            loaders = self._loaders(source, short, dataloaders)
            if not loaders:
                raise TrainError(
                    stage, "there are no batches", hint=f"{stage}(model, loader), or write "
                    f"{short}_dataloader(self) in the module",
                )  # fmt: skip
            if step != "predict" and not has_method(model, f"{step}_step"):
                getattr(model, f"{step}_step")(None, 0)
            limit = getattr(self, f"limit_{short}_batches")
            logged, outputs = evaluate(self, step, loaders, limit)  # type: ignore[arg-type]
        if verbose:
            for results in logged:
                self.print("  ".join(f"{name}={value:.4g}" for name, value in results.items()))
        return logged, outputs

    def _file_of(self, ckpt_path: Any) -> Any:
        """Return the path of a checkpoint, also for "best" and "last"."""
        if ckpt_path not in ("best", "last"):
            return ckpt_path
        callback = self.checkpoint_callback
        path = callback and (
            callback.best_model_path if ckpt_path == "best" else callback.last_model_path
        )
        if not path:
            raise TrainError(
                "Trainer", f"ckpt_path={ckpt_path!r}, but no such checkpoint has been saved",
                hint="ModelCheckpoint(monitor=…) keeps the best, save_last=True the last",
            )  # fmt: skip
        return path
