"""Each callback and logger, and what they leave behind."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from datetime import timedelta

import pytest

import edutorch as torch
from edutorch import optim, train
from tests.train.nets import Net, data, quiet


class Told(Net):
    """Logs a list of values, one for each validation."""

    def __init__(self, values):
        super().__init__()
        self.values = values

    def validation_step(self, batch, batch_idx):
        self.log("score", self.values[self.current_epoch])


def stopped(values, **settings):
    stopping = train.EarlyStopping("score", **settings)
    trainer = quiet(max_epochs=len(values), callbacks=stopping, limit_train_batches=1)
    trainer.fit(Told(values), data(), data(4))
    return trainer.current_epoch, stopping


@pytest.mark.parametrize(
    ("values", "settings", "epochs"),
    [
        ([3, 2, 2, 2, 2, 2], {"patience": 2}, 4),
        ([3, 2, 1.95, 1.9, 1, 0], {"patience": 2, "min_delta": 0.2}, 4),
        ([1, 2, 3, 3, 3, 3], {"mode": "max", "patience": 1}, 4),
        ([3, 2, 1, 0, 0, 0], {"stopping_threshold": 1.5}, 3),
        ([1, 9, 99, 1, 1, 1], {"divergence_threshold": 50}, 3),
        ([3, float("nan"), 1, 1, 1, 1], {}, 2),
        ([3, float("nan"), 2, 1, 0.5, 0.2], {"check_finite": False}, 6),
    ],
)
def test_early_stopping(values, settings, epochs):
    stopped_at, stopping = stopped(values, **settings)
    assert stopped_at == epochs
    assert bool(stopping.reason) == (epochs < len(values))


def test_early_stopping_goes_on_waiting(tmp_path):
    values = [3, 2, 2, 2, 2, 2]
    trainer = quiet(max_epochs=3, callbacks=train.EarlyStopping("score"), limit_train_batches=1)
    trainer.fit(Told(values), data(), data(4))
    trainer.save_checkpoint(tmp_path / "three.ckpt")
    later = quiet(max_epochs=6, callbacks=train.EarlyStopping("score"), limit_train_batches=1)
    later.fit(Told(values), data(), data(4), ckpt_path=tmp_path / "three.ckpt")
    assert later.current_epoch == 5


def test_a_minimum_comes_before_stopping():
    trainer = quiet(
        max_epochs=9, min_epochs=5, callbacks=train.EarlyStopping("score", patience=1),
        limit_train_batches=1,
    )  # fmt: skip
    trainer.fit(Told([1] * 9), data(), data(4))
    assert trainer.current_epoch == 5


def saved(tmp_path, values, **settings):
    keeper = train.ModelCheckpoint(tmp_path, **settings)
    trainer = quiet(
        max_epochs=len(values), callbacks=keeper, enable_checkpointing=True, limit_train_batches=2
    )
    trainer.fit(Told(values), data(), data(4))
    return keeper, sorted(path.name for path in tmp_path.iterdir())


def test_the_best_checkpoints_are_kept(tmp_path):
    keeper, files = saved(
        tmp_path, [5, 3, 4, 1, 2], monitor="score", save_top_k=2, filename="{epoch}-{score:.1f}"
    )
    assert files == ["epoch=3-score=1.0.ckpt", "epoch=4-score=2.0.ckpt"]
    assert keeper.best_model_path.endswith(files[0]) and keeper.best_model_score == 1
    assert Told.load_from_checkpoint(keeper.best_model_path, values=[]).values == []


def test_the_last_checkpoint_is_kept(tmp_path):
    keeper, files = saved(tmp_path, [1, 2, 3], monitor="score", save_last=True)
    assert files == ["epoch=0-step=2.ckpt", "last.ckpt"]
    assert torch.load(keeper.last_model_path)["global_step"] == 6


@pytest.mark.parametrize(
    ("every", "epochs"), [(1, [0, 1, 2, 3, 4]), (2, [1, 3]), (3, [2]), (6, [])]
)
def test_some_epochs_are_kept(tmp_path, every, epochs):
    settings = {"save_top_k": -1, "every_n_epochs": every, "filename": "{epoch}"}
    _, files = saved(tmp_path, [1] * 5, monitor="score", **settings)
    assert files == [f"epoch={epoch}.ckpt" for epoch in epochs]


def test_all_and_none_are_kept(tmp_path):
    assert len(saved(tmp_path / "all", [1, 2, 3], save_top_k=-1)[1]) == 3
    (tmp_path / "none").mkdir()
    assert saved(tmp_path / "none", [1, 2, 3], save_top_k=0)[1] == []


def test_checkpoints_every_so_many_steps(tmp_path):
    keeper = train.ModelCheckpoint(
        tmp_path, "{step:03d}", save_top_k=-1, every_n_train_steps=4, auto_insert_metric_name=False
    )
    trainer = quiet(max_steps=10, callbacks=keeper, enable_checkpointing=True)
    trainer.fit(Net(), data())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["004.ckpt", "008.ckpt", "010.ckpt"]
    resumed = quiet(max_steps=11)
    resumed.fit(Net(), data(), ckpt_path=tmp_path / "008.ckpt")
    assert resumed.global_step == 11


def test_best_and_last_are_names(tmp_path):
    keeper = train.ModelCheckpoint(tmp_path, monitor="score", save_last=True)
    trainer = quiet(max_epochs=3, callbacks=keeper, enable_checkpointing=True)
    net = Told([1, 2, 3])
    trainer.fit(net, data(), data(4))
    now = net.net[0].weight.tolist()
    trainer.predict(net, data(4), ckpt_path="best")
    assert net.net[0].weight.tolist() != now
    trainer.predict(net, data(4), ckpt_path="last")
    assert net.net[0].weight.tolist() == now
    with pytest.raises(train.TrainError, match="no such checkpoint has been saved"):
        quiet().predict(net, data(4), ckpt_path="best")


def test_the_rates_are_logged(tmp_path):
    class Halving(Net):
        def configure_optimizers(self):
            optimizer = optim.SGD(self.parameters(), lr=0.8, momentum=0.9)
            return [optimizer], [optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

    monitor = train.LearningRateMonitor("epoch", log_momentum=True)
    logger = train.CSVLogger(tmp_path)
    quiet(max_epochs=3, callbacks=monitor, logger=logger).fit(Halving(), data())
    assert monitor.lrs == {"lr-SGD": [0.8, 0.4, 0.2], "lr-SGD-momentum": [0.9, 0.9, 0.9]}
    with open(f"{logger.log_dir}/metrics.csv") as file:
        rates = [row["lr-SGD"] for row in csv.DictReader(file) if row["lr-SGD"]]
    assert rates == ["0.8", "0.4", "0.2"]


def test_plateaus_are_looked_at():
    class Flat(Told):
        def configure_optimizers(self):
            optimizer = optim.SGD(self.parameters(), lr=1.0)
            scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
            return {"optimizer": optimizer, "lr_scheduler": scheduler, "monitor": "score"}

    trainer = quiet(max_epochs=3, limit_train_batches=1)
    trainer.fit(Flat([1, 1, 1]), data(), data(4))
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.01)


def test_accumulation_changes_with_the_epoch():
    steps = []
    spy = train.LambdaCallback(
        on_train_epoch_end=lambda trainer, module: steps.append(trainer.global_step)
    )
    schedule = train.GradientAccumulationScheduler({1: 2, 2: 7})
    quiet(max_epochs=3, callbacks=[schedule, spy]).fit(Net(), data())
    assert steps == [7, 7 + 4, 7 + 4 + 1]


def test_averaged_weights(tmp_path):
    weights = []
    spy = train.LambdaCallback(
        on_train_epoch_end=lambda trainer, module: weights.append(
            module.net[0].weight.detach().clone()
        )
    )

    def run(epochs, path=None):
        torch.manual_seed(5)
        weights.clear()
        net = Net()
        average = train.StochasticWeightAveraging(0.02, swa_epoch_start=2, annealing_epochs=1)
        trainer = quiet(max_epochs=epochs, callbacks=[spy, average])
        if epochs == 3:  # saved before the average is given to the module
            keep = lambda trainer, module: trainer.save_checkpoint(tmp_path / "three.ckpt")  # noqa: E731
            late = train.LambdaCallback(on_train_epoch_end=keep)
            late.monitors = True
            trainer.callbacks.append(late)
        trainer.fit(net, data(), ckpt_path=path)
        return trainer, net

    trainer, net = run(5)
    mean = torch.stack(weights[2:]).mean(0)
    assert torch.allclose(net.net[0].weight, mean, atol=1e-6)
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.02)
    assert int(net.net[1].num_batches_tracked) == 7  # measured anew

    run(3)
    _, resumed = run(5, tmp_path / "three.ckpt")
    assert resumed.net[0].weight.tolist() == net.net[0].weight.tolist()


def test_a_timer_ends_training():
    timer = train.Timer(timedelta(seconds=0.05))
    slow = train.LambdaCallback(on_train_batch_end=lambda *arguments: time.sleep(0.03))
    trainer = quiet(max_epochs=50, callbacks=[timer, slow])
    trainer.fit(Net(), data())
    assert 2 <= trainer.global_step <= 3 or timer.time_elapsed() >= 0.05
    assert timer.time_remaining() < 0.05
    again = train.Timer("00:00:00:10")
    again.load_state_dict(timer.state_dict())
    assert again.time_elapsed() == timer.time_elapsed()


def bar_text(tmp_path, monkeypatch, with_tqdm):
    if not with_tqdm:
        for name in ("tqdm", "tqdm.auto", "tqdm.std"):
            monkeypatch.setitem(sys.modules, name, None)
    file = io.StringIO()

    class Shown(Net):
        def training_step(self, batch, batch_idx):
            self.log("shown", 0.25, prog_bar=True)
            return super().training_step(batch, batch_idx)

    trainer = quiet(max_epochs=2, enable_progress_bar=True, callbacks=train.ProgressBar(file=file))
    trainer.fit(Shown(), data(), data(8))
    return file.getvalue()


def test_the_bar(tmp_path, monkeypatch):
    pytest.importorskip("tqdm", reason="needs the extra `lab`")
    text = bar_text(tmp_path, monkeypatch, True)
    assert "Epoch 0: 100%" in text and "Epoch 1: 100%" in text and "shown=0.25" in text


def test_plain_lines_without_tqdm(tmp_path, monkeypatch):
    lines = bar_text(tmp_path, monkeypatch, False).splitlines()
    assert lines[0].startswith("Epoch 0: 1/7, shown=0.25")
    assert lines[-1].startswith("Epoch 1: 7/7, shown=0.25")


def test_the_bar_of_a_validation_reaches_its_end():
    class Watched(train.ProgressBar):
        def on_validation_end(self, *args):
            bar = self.bars["validation"]
            ends.append((bar.n, bar.total))
            super().on_validation_end(*args)

    ends: list[tuple[int, int]] = []
    bar = Watched(file=io.StringIO())
    quiet(max_epochs=2, enable_progress_bar=True, callbacks=bar).fit(Net(), data(), data(8))
    assert ends == [(2, 2)] * 3  # the check before the training, and one an epoch


def test_the_table_of_a_csv_logger(tmp_path):
    class Set(Net):
        def __init__(self, width=3):
            super().__init__()
            self.save_hyperparameters()

    trainer = train.Trainer(
        max_epochs=2, default_root_dir=tmp_path, enable_progress_bar=False, log_every_n_steps=5
    )
    trainer.fit(Set(width=4), data(), data(8))
    folder = tmp_path / "train_logs" / "version_0"
    with open(folder / "metrics.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows if row["loss_step"]] == ["4", "9"]
    assert [row["epoch"] for row in rows if row["val_loss"]] == ["0", "1"]
    assert json.loads((folder / "hparams.json").read_text()) == {"width": 4}
    assert len(list((folder / "checkpoints").iterdir())) == 1
    loaded = Set.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    assert loaded.hparams == {"width": 4}
    assert train.CSVLogger(tmp_path).version == 1


def test_event_files(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs the extra `logging`")
    from tensorboardX.proto.event_pb2 import Event

    logger = train.TensorBoardLogger(tmp_path, name="runs", version="first")
    quiet(max_epochs=2, logger=logger, log_every_n_steps=7).fit(Net(), data(), data(8))
    (path,) = (tmp_path / "runs" / "first").glob("events*")
    content, place, scalars = path.read_bytes(), 0, []
    while place < len(content):
        length = int.from_bytes(content[place : place + 8], "little")
        event = Event.FromString(content[place + 12 : place + 12 + length])
        scalars += [(value.tag, event.step) for value in event.summary.value]
        place += length + 16
    assert {("val_loss", 6), ("val_loss", 13), ("loss_step", 6), ("loss_epoch", 13)} <= set(scalars)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: train.EarlyStopping("x", mode="up"), "mode must be one of 'min', 'max', got 'up'"),
        (lambda: train.EarlyStopping("x", patience=-1), "patience must be a whole number"),
        (lambda: train.ModelCheckpoint(save_top_k=3), "save_top_k=3 needs to know what is best"),
        (
            lambda: train.ModelCheckpoint(every_n_epochs=1, every_n_train_steps=1),
            "exclude each other",
        ),
        (lambda: train.Timer("10 minutes"), "duration must be 'DD:HH:MM:SS', got '10 minutes'"),
        (lambda: train.TQDMProgressBar(-1), "refresh_rate must be a whole number of at least 0"),
        (lambda: train.LambdaCallback(on_trian_start=print), "on_trian_start=.* is no hook"),
        (lambda: train.GradientAccumulationScheduler({}), "scheduling is empty"),
        (lambda: train.StochasticWeightAveraging(-1.0), "is not positive"),
        (
            lambda: train.ModelCheckpoint(filename="{epoch:zz}").format_checkpoint_name({}),
            "cannot be filled in",
        ),
    ],
)
def test_settings_that_make_no_sense(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("callback_class", [train.EarlyStopping, train.ModelCheckpoint])
def test_a_value_that_was_never_logged(callback_class, tmp_path):
    trainer = quiet(
        max_epochs=1, enable_checkpointing=True, default_root_dir=tmp_path,
        callbacks=callback_class(monitor="val_los"),
    )  # fmt: skip
    with pytest.raises(train.MonitorError, match=r"(?s)'val_los' was never logged.*val_loss"):
        trainer.fit(Net(), data(), data(8))
