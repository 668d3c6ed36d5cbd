"""Runs in MLflow and trials of Optuna, by stand-ins: tests/distributed/ has the real ones."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from edutorch import train
from edutorch.errors import MissingExtraError
from tests.train.nets import Net, data, quiet


@pytest.fixture
def mlflow(monkeypatch):
    """A stand-in of MLflow, which writes down what it is told."""
    told: list[tuple] = []

    class MlflowClient:
        def __init__(self, tracking_uri):
            told.append(("client", tracking_uri))

        def get_experiment_by_name(self, name):
            return None

        def create_experiment(self, name):
            told.append(("experiment", name))
            return "7"

        def create_run(self, experiment_id, run_name=None, tags=None):
            told.append(("run", experiment_id, run_name, tags))
            return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        def log_batch(self, run_id, metrics=(), params=()):
            told.append(("batch", run_id, [*metrics, *params]))

        def set_terminated(self, run_id, status):
            told.append(("end", run_id, status))

    module, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    module.MlflowClient = MlflowClient
    entities.Metric = lambda key, value, timestamp, step: (key, value, step)
    entities.Param = lambda key, value: (key, value)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return told


def test_a_run_of_mlflow(mlflow):
    logger = train.MLFlowLogger("nets", "first", "sqlite:///x.db", {"by": "me"})
    assert mlflow == []  # nothing before the first value
    quiet(max_epochs=1, logger=logger, log_every_n_steps=7).fit(Net(), data(), data(8))
    head, batches, end = mlflow[:3], mlflow[3:-1], mlflow[-1]
    assert head == [
        ("client", "sqlite:///x.db"), ("experiment", "nets"), ("run", "7", "first", {"by": "me"}),
    ]  # fmt: skip
    assert end == ("end", "r1", "FINISHED")
    points = {(name, step) for _, _, values in batches for name, _, step in values}
    assert {("loss_step", 6), ("val_loss", 6)} <= points


def test_a_run_that_fails_is_marked(mlflow):
    class Broken(Net):
        def validation_step(self, batch, batch_idx):
            raise ArithmeticError

    logger = train.MLFlowLogger()
    logger.log_hyperparams({"width": 4})
    assert mlflow[-1] == ("batch", "r1", [("width", "4")])
    with pytest.raises(ArithmeticError):
        quiet(max_epochs=1, logger=logger).fit(Broken(), data(), data(8))
    assert mlflow[-1] == ("end", "r1", "FAILED")


def test_where_mlflow_writes(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert train.MLFlowLogger().tracking_uri == "sqlite:///mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert train.MLFlowLogger().tracking_uri == "http://127.0.0.1:1"
    assert train.MLFlowLogger(tracking_uri="sqlite:///a").tracking_uri == "sqlite:///a"


def test_without_mlflow(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r'MLFlowLogger.*\n.*"edutorch\[mlflow\]"'):
        train.MLFlowLogger().log_metrics({"loss": 1.0}, 0)


class Trial:
    """A stand-in for a trial, pruned at a step."""

    def __init__(self, last):
        self.last, self.reports = last, []

    def report(self, value, step):
        self.reports.append((round(float(value), 3), step))

    def should_prune(self):
        return len(self.reports) > self.last


class Scored(Net):
    def validation_step(self, batch, batch_idx):
        self.log("score", 1.0 / (1 + self.current_epoch))


def test_a_trial_hears_each_epoch():
    """And nothing of the sanity check before the training."""
    trial = Trial(last=9)
    pruning = train.OptunaPruning(trial, "score")
    quiet(max_epochs=3, callbacks=pruning, num_sanity_val_steps=1).fit(Scored(), data(), data(4))
    assert trial.reports == [(1.0, 0), (0.5, 1), (0.333, 2)]


def test_a_trial_without_a_validation_hears_the_training():
    trial = Trial(last=9)
    quiet(max_epochs=2, callbacks=train.OptunaPruning(trial, "loss")).fit(Net(), data())
    assert [step for _, step in trial.reports] == [0, 1]


def test_a_pruned_trial_ends_the_training(monkeypatch):
    optuna = ModuleType("optuna")
    optuna.TrialPruned = type("TrialPruned", (Exception,), {})
    monkeypatch.setitem(sys.modules, "optuna", optuna)
    trainer = quiet(max_epochs=9, callbacks=train.OptunaPruning(Trial(last=1), "score"))
    with pytest.raises(optuna.TrialPruned, match=r"score=0\.5 in epoch 1: others were better"):
        trainer.fit(Scored(), data(), data(4))


def test_a_value_that_was_never_logged():
    trainer = quiet(max_epochs=1, callbacks=train.OptunaPruning(Trial(last=9), "skore"))
    with pytest.raises(train.MonitorError, match=r"OptunaPruning.*skore"):
        trainer.fit(Scored(), data(), data(4))


def test_without_optuna(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    trainer = quiet(max_epochs=1, callbacks=train.OptunaPruning(Trial(last=0), "score"))
    with pytest.raises(MissingExtraError, match=r'OptunaPruning.*\n.*"edutorch\[tune\]"'):
        trainer.fit(Scored(), data(), data(4))
