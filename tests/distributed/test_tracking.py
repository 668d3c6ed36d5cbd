"""The real MLflow and the real Optuna, which write into SQLite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edutorch import train
from tests.train.nets import Net, data, quiet

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}


def test_a_run_in_sqlite(tmp_path, monkeypatch):
    reason = "needs the extra `mlflow`: mlflow-skinny, SQLAlchemy, alembic"
    for module in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(module, reason=reason)
    monkeypatch.chdir(tmp_path)
    logger = train.MLFlowLogger("nets", tracking_uri=f"sqlite:///{tmp_path}/runs.db")
    logger.log_hyperparams({"width": 4, "layers": [8, 2]})
    quiet(max_epochs=2, logger=logger, log_every_n_steps=7).fit(Net(), data(), data(8))
    run = logger.experiment.get_run(logger.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params == {"width": "4", "layers": "[8, 2]"}
    history = logger.experiment.get_metric_history(logger.run_id, "val_loss")
    assert [point.step for point in history] == [6, 13]

    again = train.MLFlowLogger("nets", tracking_uri=logger.tracking_uri)  # the same experiment
    again.log_metrics({"loss": float("nan"), "test/accuracy": 0.5}, 3)
    again.finalize("interrupted")
    ended = again.experiment.get_run(again.run_id)
    assert (ended.info.experiment_id, ended.info.status) == (run.info.experiment_id, "KILLED")
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]


SEARCH = """
import sys
import optuna
from edutorch import train
from tests.train.nets import Net, data, quiet

class Scored(Net):
    def __init__(self, x):
        super().__init__()
        self.x = x
    def validation_step(self, batch, batch_idx):
        self.log("score", (self.x - 2) ** 2 + 1 / (1 + self.current_epoch))

def objective(trial):
    x = trial.suggest_float("x", -10, 10)
    pruning = train.OptunaPruning(trial, "score")
    trainer = quiet(max_epochs=4, callbacks=pruning, limit_train_batches=1)
    trainer.fit(Scored(x), data(), data(4))
    return float(trainer.callback_metrics["score"])

storage, most, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(
    study_name="net", storage=storage, load_if_exists=True,
    sampler=optuna.samplers.RandomSampler(seed=seed),
    pruner=optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=0),
)
ended = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
study.optimize(objective, callbacks=[optuna.study.MaxTrialsCallback(most, states=ended)])
"""


def test_a_search_prunes_goes_on_and_runs_in_two_processes(tmp_path):
    optuna = pytest.importorskip("optuna", reason="needs the extra `tune`: optuna")
    script, storage = tmp_path / "search.py", f"sqlite:///{tmp_path}/trials.db"
    script.write_text(SEARCH)

    def start(most: int, seed: int) -> subprocess.Popen:
        command = [sys.executable, str(script), storage, str(most), str(seed)]
        return subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE)

    def finish(process: subprocess.Popen) -> None:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()

    finish(start(4, 0))
    first = optuna.load_study(study_name="net", storage=storage).trials
    assert len(first) == 4
    for process in [start(12, 1), start(12, 2)]:  # both are running
        finish(process)
    study = optuna.load_study(study_name="net", storage=storage)
    states = [trial.state.name for trial in study.trials]
    assert 12 <= len(states) <= 13  # the other process may be at a trial when the last one ends
    assert study.trials[:4] == first
    assert states.count("PRUNED") >= 3 and set(states) <= {"PRUNED", "COMPLETE"}
    pruned = [trial for trial in study.trials if trial.state.name == "PRUNED"]
    assert all(1 <= len(trial.intermediate_values) < 4 for trial in pruned)
    assert len({trial.params["x"] for trial in study.trials}) == len(states)
    assert study.best_value == min(t.value for t in study.trials if t.state.name == "COMPLETE")
