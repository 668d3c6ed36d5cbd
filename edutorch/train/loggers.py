"""Loggers: write logged values to a CSV file, to TensorBoard's event files, or to MLflow."""

from __future__ import annotations

import csv
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from ..errors import missing_extra
from ..utils.atomic_files import name_file_in_errors

__all__ = ["CSVLogger", "Logger", "MLFlowLogger", "TensorBoardLogger"]


class Logger:
    """Receives values by name, with the step at which they were logged."""

    @property
    def log_dir(self) -> str | None:
        """The folder into which it writes, or None."""
        return None

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Log the values of one step."""

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        """Log the settings of the whole run."""

    def save(self) -> None:
        """Write everything logged so far."""

    def finalize(self, status: str) -> None:
        """Write the rest; `status` is "success", "failed" or "interrupted"."""
        self.save()


class FolderLogger(Logger):
    """Writes into save_dir/name/version_N, with the next unused number N."""

    def __init__(
        self, save_dir: str | os.PathLike[str] = ".", name: str = "train_logs",
        version: int | str | None = None,
    ) -> None:  # fmt: skip
        self.save_dir, self.name = os.fspath(save_dir), name
        self._version = version

    @property
    def version(self) -> int | str:
        """The number of this run, or its given name."""
        if self._version is None:
            folder = Path(self.save_dir, self.name)
            paths = folder.glob("version_*")
            matches = [re.fullmatch(r"version_(\d+)", path.name) for path in paths]
            self._version = max((int(match[1]) for match in matches if match), default=-1) + 1
        return self._version

    @property
    def log_dir(self) -> str:
        """The folder of this run."""
        last = self.version if isinstance(self.version, str) else f"version_{self.version}"
        return str(Path(self.save_dir, self.name, last))


class CSVLogger(FolderLogger):
    """Writes `metrics.csv`, a row for each logged step, and `hparams.json`.

    Args:
        save_dir, name, version: the folder save_dir/name/version_N; N is the next free number.
        flush_logs_every_n_steps: the number of logged steps between two writes of the file.
    """

    def __init__(
        self, save_dir: str | os.PathLike[str] = ".", name: str = "train_logs",
        version: int | str | None = None, flush_logs_every_n_steps: int = 100,
    ) -> None:  # fmt: skip
        super().__init__(save_dir, name, version)
        self.every = flush_logs_every_n_steps
        self.rows: list[dict[str, Any]] = []
        self._unsaved = 0

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add a row, or extend the row of the same step."""
        row = {**metrics, "step": len(self.rows) if step is None else step}
        last = self.rows[-1] if self.rows else {"step": None}
        if last["step"] == row["step"]:
            last.update(row)
        else:
            self.rows.append(row)
        self._unsaved += 1
        if self._unsaved >= self.every:
            self.save()

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        """Write the settings."""
        os.makedirs(self.log_dir, exist_ok=True)
        text = json.dumps(params, indent=2, default=repr)
        path = Path(self.log_dir, "hparams.json")
        with name_file_in_errors(path):
            path.write_text(text + "\n", encoding="utf-8")

    def save(self) -> None:
        """Write all rows, with a column for every name that was ever logged."""
        self._unsaved = 0
        if not self.rows:
            return
        os.makedirs(self.log_dir, exist_ok=True)
        names = dict.fromkeys(["epoch", "step", *(name for row in self.rows for name in row)])
        path = Path(self.log_dir, "metrics.csv")
        with name_file_in_errors(path), open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(names))
            writer.writeheader()
            writer.writerows(self.rows)


class TensorBoardLogger(FolderLogger):
    """Writes event files for TensorBoard. Needs the extra `logging`.

    Args:
        save_dir, name, version: the folder save_dir/name/version_N; N is the next free number.
        settings: passed to `utils.tensorboard.SummaryWriter`.
    """

    def __init__(
        self, save_dir: str | os.PathLike[str] = ".", name: str = "train_logs",
        version: int | str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(save_dir, name, version)
        self._settings = settings
        self._writer: Any = None

    @property
    def experiment(self) -> Any:
        """The SummaryWriter, for images and other data."""
        if self._writer is None:
            from ..utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(self.log_dir, **self._settings)
        return self._writer

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add a point to the curve of each name."""
        for name, value in metrics.items():
            self.experiment.add_scalar(name, value, step)

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        """Write the settings as text."""
        text = json.dumps(params, indent=2, default=repr)
        self.experiment.add_text("hparams", f"    {text}".replace("\n", "\n    "))

    def save(self) -> None:
        """Write everything logged so far."""
        if self._writer is not None:
            self._writer.flush()

    def finalize(self, status: str) -> None:
        """Write the rest and close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


RUN_STATES = {"success": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
"""What MLflow calls the end of a run."""


class MLFlowLogger(Logger):
    """Writes a run of MLflow, into a database or to a server. Needs the extra `mlflow`.

    Args:
        experiment_name: the experiment; it is made if need be.
        run_name: the name of the run; by default MLflow invents one.
        tracking_uri: `sqlite:///FILE`, or `http://…` of a server; by default
            $MLFLOW_TRACKING_URI, else `sqlite:///mlflow.db`.
        tags: of the run.
        run_id: a run to go on with.

    Raises (at the first value): MissingExtraError: MLflow is not installed, or cannot write there.
    """

    def __init__(
        self, experiment_name: str = "train_logs", run_name: str | None = None,
        tracking_uri: str | None = None, tags: dict[str, Any] | None = None,
        run_id: str | None = None,
    ) -> None:  # fmt: skip
        default = os.environ.get("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
        self.experiment_name, self.tracking_uri = experiment_name, tracking_uri or default
        self._run_name, self._tags, self._run_id = run_name, tags, run_id
        self._client: Any = None

    @property
    def experiment(self) -> Any:
        """The MlflowClient, for all else that MLflow can do."""
        if self._client is None:
            try:
                from mlflow import MlflowClient

                self._client = MlflowClient(self.tracking_uri)
            except ImportError as error:
                reason = str(error).partition("\n")[0]
                raise missing_extra("mlflow", "train.MLFlowLogger", reason) from None
        return self._client

    @property
    def run_id(self) -> str:
        """The run, which begins at the first value."""
        if self._run_id is None:
            name = self.experiment_name
            known = self.experiment.get_experiment_by_name(name)
            number = known.experiment_id if known else self.experiment.create_experiment(name)
            run = self.experiment.create_run(number, run_name=self._run_name, tags=self._tags)
            self._run_id = run.info.run_id
        return self._run_id

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add a point to the curve of each name, in one message."""
        client, run_id = self.experiment, self.run_id
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        points = [Metric(name, float(value), now, step or 0) for name, value in metrics.items()]
        client.log_batch(run_id, metrics=points)

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        """Write the settings as texts."""
        client, run_id = self.experiment, self.run_id
        from mlflow.entities import Param

        client.log_batch(run_id, params=[Param(name, str(value)) for name, value in params.items()])

    def finalize(self, status: str) -> None:
        """End the run as finished, failed or killed."""
        if self._run_id is not None:
            self.experiment.set_terminated(self._run_id, RUN_STATES[status])
