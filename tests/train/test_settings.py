"""What each setting stands for when it is left out, and what it changes when it is not."""

from __future__ import annotations

import inspect
import types
import warnings
from datetime import timedelta

import numpy as np
import pytest

import edutorch as torch
from edutorch import optim, train
from edutorch.train import metrics as M
from edutorch.train.checkpoint import named_callbacks
from edutorch.train.log_buffer import LogBook
from edutorch.train.metrics.base import describe
from tests.train.nets import Net, data, quiet

MODULE_LOG = (
    "prog_bar=False logger=True on_step=None on_epoch=None reduce_fx='mean' batch_size=None"
)
OF_CLASSES = "num_classes=None threshold=0.5 average='default' top_k=1"
DEFAULTS = {
    "Trainer": """accelerator='auto' devices='auto' precision='32' logger=True callbacks=None
        fast_dev_run=False max_epochs=None min_epochs=None max_steps=-1 min_steps=None
        limit_train_batches=None limit_val_batches=None limit_test_batches=None
        limit_predict_batches=None overfit_batches=0 val_check_interval=1.0
        check_val_every_n_epoch=1 num_sanity_val_steps=2 log_every_n_steps=50
        enable_checkpointing=True enable_progress_bar=True accumulate_grad_batches=1
        gradient_clip_val=None gradient_clip_algorithm=None deterministic=False
        detect_anomaly=False default_root_dir=None""",
    "Trainer.fit": "train_dataloaders=None val_dataloaders=None datamodule=None ckpt_path=None",
    "Trainer.validate": "model=None dataloaders=None ckpt_path=None verbose=True datamodule=None",
    "Trainer.test": "model=None dataloaders=None ckpt_path=None verbose=True datamodule=None",
    "Trainer.predict": "model=None dataloaders=None ckpt_path=None datamodule=None",
    "Trainer.save_checkpoint": "weights_only=False",
    "TrainModule.log": MODULE_LOG,
    "TrainModule.clip_gradients": "gradient_clip_val=None gradient_clip_algorithm=None",
    "EarlyStopping": """min_delta=0.0 patience=3 verbose=False mode='min' strict=True
        check_finite=True stopping_threshold=None divergence_threshold=None
        check_on_train_epoch_end=None""",
    "ModelCheckpoint": """dirpath=None filename=None monitor=None verbose=False save_last=False
        save_top_k=1 save_weights_only=False mode='min' auto_insert_metric_name=True
        every_n_train_steps=None every_n_epochs=None save_on_train_epoch_end=None""",
    "LearningRateMonitor": "logging_interval=None log_momentum=False",
    "ProgressBar": "refresh_rate=1 leave=False file=None",
    "StochasticWeightAveraging": """swa_epoch_start=0.8 annealing_epochs=10
        annealing_strategy='cos' avg_fn=None device=None""",
    "Timer": "duration=None interval='step'",
    "CSVLogger": "save_dir='.' name='train_logs' version=None flush_logs_every_n_steps=100",
    "TensorBoardLogger": "save_dir='.' name='train_logs' version=None",
    "MLFlowLogger": """experiment_name='train_logs' run_name=None tracking_uri=None tags=None
        run_id=None""",
    "fit": "epochs=1 optimizer=None lr=0.001 val_loader=None metrics=None",
    "metrics.AUROC": "num_classes=None average='macro'",
    "metrics.Accuracy": OF_CLASSES, "metrics.Precision": OF_CLASSES, "metrics.Recall": OF_CLASSES,
    "metrics.F1Score": OF_CLASSES,
    "metrics.ConfusionMatrix": "num_classes=None threshold=0.5 normalize=None",
    "metrics.MeanSquaredError": "squared=True", "metrics.MeanMetric.update": "weight=1.0",
    "metrics.Perplexity": "ignore_index=None",
    "metrics.R2Score": "multioutput='uniform_average'",
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_lightnings(name):
    function = train
    for part in name.split("."):
        function = getattr(function, part)
    parameters = inspect.signature(function).parameters.items()
    defaults = [f"{key}={p.default!r}" for key, p in parameters if p.default is not p.empty]
    assert defaults == DEFAULTS[name].split()


def test_a_trainer_without_settings_shows_saves_and_logs(tmp_path):
    trainer = train.Trainer(default_root_dir=tmp_path)
    class_names = [type(callback).__name__ for callback in trainer.callbacks]
    assert class_names == ["ProgressBar", "ModelCheckpoint"]
    assert [type(logger).__name__ for logger in trainer.loggers] == ["CSVLogger"]
    assert (trainer.max_epochs, trainer.max_steps) == (1000, -1)


# Metrics ------------------------------------------------------------------------------------------

METRICS = {
    "AUROC": lambda: M.AUROC("binary"), "Accuracy": lambda: M.Accuracy("binary"),
    "ConfusionMatrix": lambda: M.ConfusionMatrix("binary"), "F1": lambda: M.F1Score("binary"),
    "Precision": lambda: M.Precision("binary"), "Recall": lambda: M.Recall("binary"),
    "MeanAbsoluteError": M.MeanAbsoluteError, "MeanMetric": M.MeanMetric,
    "MeanSquaredError": M.MeanSquaredError, "Perplexity": M.Perplexity, "R2Score": M.R2Score,
}  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
def test_without_a_batch_there_is_no_value(name):
    with pytest.raises(M.MetricError, match="before any update"):
        METRICS[name]().compute()


@pytest.mark.parametrize("metric_class", [M.Accuracy, M.Precision, M.Recall, M.F1Score, M.AUROC,
                                  M.ConfusionMatrix])  # fmt: skip
def test_choices_and_numbers_of_classes_are_looked_at(metric_class):
    with pytest.raises(ValueError, match="task must be one of 'binary', 'multiclass', got 'all'"):
        metric_class("all")
    with pytest.raises(ValueError, match="num_classes must be a whole number of at least 2"):
        metric_class("multiclass", num_classes=1)
    setting = "normalize" if metric_class is M.ConfusionMatrix else "average"
    with pytest.raises(ValueError, match=f"{setting} must be one of"):
        metric_class("binary", **{setting: "samples"})
    if metric_class not in (M.AUROC, M.ConfusionMatrix):
        with pytest.raises(ValueError, match="top_k must be a whole number of at least 1"):
            metric_class("multiclass", 3, top_k=0)


def test_a_class_that_is_absent_counts_as_zero_without_a_warning():
    chosen, true = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric_class in (M.Precision, M.Recall, M.F1Score, M.Accuracy):
            assert metric_class("multiclass", 3, average=None)(chosen, true)[2].item() == 0
        for normalize, total in (("true", 2), ("pred", 2), ("all", 1)):
            matrix = M.ConfusionMatrix("multiclass", 3, normalize=normalize)(chosen, true)
            assert matrix.sum().item() == pytest.approx(total)
            assert matrix[2].tolist() == matrix[:, 2].tolist() == [0, 0, 0]


def test_a_metric_keeps_no_array_of_the_batch():
    for metric in (M.AUROC("binary"), M.Accuracy("binary"), M.MeanMetric()):
        scores, target = np.array([0.1, 0.6, 0.4, 0.9]), np.array([0, 0, 1, 1])
        batch = (torch.from_numpy(scores), torch.from_numpy(target))
        metric.update(*batch)
        before = metric.compute().item()
        scores[:] = 0.5
        target[:] = 1 - target
        assert metric.compute().item() == before


@pytest.mark.parametrize(
    ("reduce_fx", "values", "expected"),
    [
        ("mean", (3.0, 5.0, 4.0), 4.0), ("sum", (3.0, 5.0, 4.0), 12.0),
        ("min", (3.0, 5.0, 4.0), 3.0), ("max", (-3.0, -5.0, -4.0), -3.0),
        ("min", (-3.0, -5.0, -4.0), -5.0), ("max", (3.0, 5.0, 4.0), 5.0),
    ],
)  # fmt: skip
def test_what_the_values_of_an_epoch_come_to(reduce_fx, values, expected):
    class Logs(Net):
        def validation_step(self, batch, batch_idx):
            self.log("value", values[batch_idx], reduce_fx=reduce_fx)

    (logged,) = quiet().validate(Logs(), data(12), verbose=False)
    assert logged == {"value": expected}


# What a step returns ------------------------------------------------------------------------------


def test_without_an_optimizer_the_steps_only_look():
    class Looks(Net):
        def configure_optimizers(self):
            return None

    net, seen = Looks(), []
    net.training_step = lambda batch, batch_idx: seen.append(batch_idx)
    before = net.net[0].weight.tolist()
    trainer = quiet(max_epochs=1)
    trainer.fit(net, data())
    assert seen == list(range(7)) and trainer.global_step == 0 and trainer.optimizers == []
    assert net.net[0].weight.tolist() == before


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"interval": "batch"}, "interval must be one of 'epoch', 'step', got 'batch'"),
        ({"frequency": 0}, "frequency must be a whole number of at least 1, got 0"),
        ({"scheduler": 3}, "int is not a scheduler"),
        ({"scheduler": optim.lr_scheduler.ReduceLROnPlateau}, "has to know what to look at"),
    ],
)
def test_a_scheduler_that_cannot_step_is_refused(config, text):
    class Scheduled(Net):
        def configure_optimizers(self):
            optimizer = optim.SGD(self.parameters(), lr=0.1)
            made = config.get("scheduler", optim.lr_scheduler.ConstantLR)
            scheduler = made(optimizer) if callable(made) else made
            return {"optimizer": optimizer,
                    "lr_scheduler": {**config, "scheduler": scheduler}}  # fmt: skip

    with pytest.raises((train.SettingError, train.StepOutputError), match=text):
        quiet(max_epochs=1).fit(Scheduled(), data())


@pytest.mark.parametrize("algorithm", [None, "norm", "value"])
def test_gradients_are_clipped_only_where_a_value_is_given(algorithm):
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    net.net(torch.ones(2, 4)).sum().backward()
    before = [p.grad.clone() for p in net.parameters()]
    net.clip_gradients(optimizer, gradient_clip_algorithm=algorithm)
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), before, strict=True))
    net.clip_gradients(optimizer, 1e-3, algorithm)
    largest = max(p.grad.abs().max().item() for p in net.parameters())
    assert 0 < largest <= 1.001e-3
    with pytest.raises(ValueError, match="must be one of 'norm', 'value', got 'max'"):
        net.clip_gradients(optimizer, 1.0, "max")


# When it is saved, shown and told -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("validates", "setting", "where"),
    [
        (False, None, "train"), (False, True, "train"), (True, None, "validation"),
        (True, True, "train"), (True, False, "validation"), (False, False, "end"),
    ],
)  # fmt: skip
def test_where_an_epoch_is_saved(validates, setting, where, tmp_path):
    """Behind its validation if there is one; what nobody saved is saved at the end."""
    moments = []

    class Keeper(train.ModelCheckpoint):
        def save(self, trainer):
            inside = trainer.evaluating or trainer.loop.stage
            moments.append(inside if inside == "validation" else trainer.current_epoch)
            super().save(trainer)

    keeper = Keeper(tmp_path, save_top_k=-1, save_on_train_epoch_end=setting)
    trainer = quiet(max_epochs=3, callbacks=keeper, enable_checkpointing=True,
                    limit_train_batches=1)  # fmt: skip
    trainer.fit(Net(), data(), data(4) if validates else None)
    expected = {"train": [0, 1, 2], "validation": ["validation"] * 3, "end": [3]}
    assert moments == expected[where]


def test_the_number_of_batches_to_look_at_is_known():
    class Endless:
        def __iter__(self):
            return iter(data(8))

    trainer = quiet()
    trainer.validate(Net(), data(8), verbose=False)
    assert trainer.num_evaluation_batches == 2
    trainer.validate(Net(), [data(8), data(12)], verbose=False)
    assert trainer.num_evaluation_batches == 5
    trainer.validate(Net(), [data(8), Endless()], verbose=False)
    assert trainer.num_evaluation_batches is None


def test_results_are_printed_unless_they_are_not_wanted(capsys):
    for verbose in (True, False):
        (logged,) = quiet().validate(Net(), data(8), verbose=verbose)
        text = capsys.readouterr().out
        assert text == (f"val_loss={logged['val_loss']:.4g}\n" if verbose else "")


@pytest.mark.parametrize("bar", ["none", "plain", "tqdm"])
def test_printing_goes_above_a_bar(bar, monkeypatch, capsys):
    class Prints(Net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.print("batch", batch_idx, sep="-", end="!\n")

    if bar == "tqdm":
        pytest.importorskip("tqdm", reason="needs the extra `lab`")
    else:
        monkeypatch.setattr("edutorch.train.callbacks.progress.bar_class", lambda anywhere: None)
    quiet(max_epochs=1, enable_progress_bar=bar != "none").fit(Prints(), data(8))
    assert capsys.readouterr().out.split() == ["batch-0!", "batch-1!"]


def test_a_sampler_with_an_order_for_each_epoch_goes_on_in_that_epoch(tmp_path):
    class ByEpoch:
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter(range(8) if self.epoch % 2 == 0 else range(7, -1, -1))

        def __len__(self):
            return 8

    def run(steps, path=None):
        seen = []

        class Spy(Net):
            def training_step(self, batch, batch_idx):
                seen.append(batch[0].flatten().tolist())
                return super().training_step(batch, batch_idx)

        trainer = quiet(max_steps=steps)
        loader = torch.utils.data.DataLoader(data(8).dataset, 2, sampler=ByEpoch())
        trainer.fit(Spy(), loader, ckpt_path=path)
        return trainer, seen

    _, whole = run(8)
    first, begun = run(6)
    first.save_checkpoint(tmp_path / "six.ckpt")
    _, rest = run(8, tmp_path / "six.ckpt")
    assert begun + rest == whole and whole[:4] != whole[4:]


FORMS = {
    "an optimizer": lambda o, s: (o, 0), "a list": lambda o, s: ([o], 0),
    "a dict": lambda o, s: ({"optimizer": o}, 0),
    "with a scheduler": lambda o, s: ({"optimizer": o, "lr_scheduler": s}, 1),
    "two lists": lambda o, s: (([o], [s]), 1), "a list and a scheduler": lambda o, s: (([o], s), 1),
    "lists in a list": lambda o, s: ([[o], [s]], 1), "a tuple": lambda o, s: ((o,), 0),
    "a list and a config": lambda o, s: (([o], [{"scheduler": s, "interval": "epoch"}]), 1),
    "dicts in a list": lambda o, s: ([{"optimizer": o, "lr_scheduler": {"scheduler": s}}], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_the_forms_in_which_an_optimizer_is_returned(name):
    class Formed(Net):
        def configure_optimizers(self):
            optimizer = optim.SGD(self.parameters(), lr=0.8)
            return FORMS[name](optimizer, optim.lr_scheduler.StepLR(optimizer, 1, 0.5))[0]

    trainer = quiet(max_epochs=2, limit_train_batches=1)
    trainer.fit(Formed(), data())
    schedulers = FORMS[name](None, None)[1]
    assert (len(trainer.optimizers), len(trainer.lr_scheduler_configs)) == (1, schedulers)
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.8 * 0.25**schedulers


def test_a_loader_that_is_given_comes_before_the_modules_own():
    class Own(Net):
        def train_dataloader(self):
            return data(8)

    for loaders, steps in (((), 2), ((data(16),), 4)):
        trainer = quiet(max_epochs=1)
        trainer.fit(Own(), *loaders)
        assert trainer.global_step == steps


def test_what_the_short_form_shows_in_its_bar():
    shown = []
    spy = train.LambdaCallback(
        on_train_epoch_end=lambda trainer, module: shown.append(set(trainer.progress_bar_metrics))
    )
    spy.monitors = True
    accuracy = M.Accuracy("multiclass", num_classes=2)
    train.fit(
        torch.nn.Linear(4, 2), torch.nn.functional.cross_entropy, data(8), val_loader=data(8),
        metrics={"accuracy": accuracy}, callbacks=[spy], enable_progress_bar=False,
    )  # fmt: skip
    assert shown == [{"loss", "accuracy", "val_loss", "val_accuracy"}]


def test_a_timer_stops_when_nothing_is_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("edutorch.train.callbacks.training.time.monotonic", lambda: now[0])
    trainer = types.SimpleNamespace(should_stop=False)
    timer = train.Timer(timedelta(seconds=2))
    timer.on_train_start(trainer, None)
    for elapsed, stops in ((0.0, False), (1.5, False), (1.99, False), (2.0, True)):
        now[0] = 100.0 + elapsed
        timer.look(trainer)
        assert trainer.should_stop == stops
        assert timer.time_remaining() == pytest.approx(2 - elapsed)


def test_what_is_logged_by_step_and_epoch_has_both_names() -> None:
    book = LogBook()
    for value in (1.0, 3.0):
        book.log("training_step", "loss", value, 1, on_step=True, on_epoch=True, prog_bar=True,
                 logger=True, reduce_fx="mean")  # fmt: skip
    values = book.epoch_values()
    assert {name: value for name, (_, value) in values.items()} == {"loss_epoch": 2.0, "loss": 2.0}
    entry = values["loss"][0]
    assert (entry.on_step, entry.on_epoch, entry.prog_bar, entry.logger) == (
        False, True, False, False,
    )  # fmt: skip


def test_a_refused_value_is_described_by_its_shape_or_as_it_is() -> None:
    assert describe("words") == "'words'"
    assert describe(np.ones((2, 3))) == "shape (2, 3)"


def test_callbacks_of_one_kind_are_saved_by_number() -> None:
    callbacks = [types.SimpleNamespace(state_key=key) for key in ("a", "b", "a", "a")]
    assert [name for name, _ in named_callbacks(callbacks)] == ["a", "b", "a#2", "a#3"]
    assert [callback for _, callback in named_callbacks(callbacks)] == callbacks


def test_a_simple_fit_writes_no_files(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = torch.ones(4, 1)
    curves = train.fit(torch.nn.Linear(1, 1), torch.nn.functional.mse_loss, [(x, x)], epochs=2,
                       enable_progress_bar=False)  # fmt: skip
    assert len(curves["loss"]) == 2
    assert list(tmp_path.iterdir()) == []
