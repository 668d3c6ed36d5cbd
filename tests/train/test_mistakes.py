"""What goes wrong says where and what to do, and leaves the trainer in order."""

from __future__ import annotations

import signal
import warnings

import pytest

import edutorch as torch
from edutorch import nn, optim, train
from tests.train.nets import Net, data, quiet


def variant(**methods):
    return type("Mine", (Net,), methods)()


def fit(net, *args, **settings):
    trainer = quiet(**{"max_epochs": 1, **settings})
    trainer.fit(net, *(args or (data(),)))
    return trainer


def returns(value):
    return lambda self, *batch: value


@pytest.mark.parametrize(
    ("net", "text"),
    [
        (variant(training_step=returns(3.0)), r"Mine.training_step: has to return the loss: a ten"),
        (variant(training_step=returns({"los": 1})), r"got dict with the keys \['los'\]"),
        (
            variant(training_step=lambda self, batch, i: self(batch[0])),
            r"(?s)one number with a gradient.*shape \(4, 2\).*loss.mean\(\)",
        ),
        (
            variant(training_step=lambda self, batch, i: self(batch[0]).mean().detach()),
            r"(?s)requires_grad=False.*was it detached",
        ),
        (variant(configure_optimizers=returns("Adam")), r"of which no optimizer can be taken"),
        (variant(configure_optimizers=returns({"optim": 1})), r"(?s)needs \"optimizer\".*'optim'"),
        (variant(configure_optimizers=returns({"optimizer": 1})), "int is not an optimizer"),
        (
            variant(configure_optimizers=lambda self: {
                "optimizer": optim.SGD(self.parameters(), 0.1),
                "lr_scheduler": {"scheduler": 1, "every": 2},
            }),
            r"(?s)dict of a scheduler needs.*'every'",
        ),
        (
            variant(configure_optimizers=lambda self: [optim.SGD(self.parameters(), 0.1)] * 2),
            r"(?s)2 optimizers: which one.*automatic_optimization = False",
        ),
    ],
)  # fmt: skip
def test_steps_that_return_the_wrong_thing(net, text):
    with pytest.raises(train.TrainError, match=text):
        fit(net)


class Bare(train.TrainModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fit(Bare()), r"(?s)Bare: it has no training_step.*def training_step\(self, batch"),
        (lambda: fit(nn.Linear(1, 1)), r"(?s)must be a TrainModule, not Linear.*train.fit\(model"),
        (lambda: fit(Net(), None), "there is nothing to train on"),
        (lambda: fit(Net(), 5), "train_dataloaders must be a loader that gives batches, not int"),
        (lambda: fit(Net(), [data(), data()]), "from one loader, got 2"),
        (lambda: quiet().test(Net(), data()), "it has no test_step"),
        (lambda: quiet().validate(Net()), "there are no batches"),
        (lambda: quiet().module, "it has no module yet"),
        (lambda: Net().trainer, "it is not being trained"),
        (lambda: quiet().validate(variant(on_validation_start=lambda self: None)), "no batches"),
    ],
)
def test_what_is_missing_is_named(call, text):
    with pytest.raises(train.TrainError, match=text):
        call()


def test_configure_optimizers_is_needed():
    class Half(Bare):
        def training_step(self, batch, batch_idx):
            return self.layer(batch[0]).mean()

    with pytest.raises(train.TrainError, match="it has no configure_optimizers"):
        fit(Half())


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"accumulate_grad_batches": 0}, "accumulate_grad_batches must be a whole number"),
        ({"max_epochs": 1.5}, "max_epochs must be a whole number of at least -1, got 1.5"),
        ({"limit_train_batches": 1.5}, "limit_train_batches must be a whole number of batches, or"),
        ({"val_check_interval": 0.0}, "val_check_interval must be"),
        ({"check_val_every_n_epoch": None}, "counts batches through all epochs"),
        ({"gradient_clip_val": -1}, "gradient_clip_val must be positive"),
        ({"gradient_clip_algorithm": "max"}, "must be one of None, 'norm', 'value', got 'max'"),
        ({"precision": "8"}, "precision must be one of"),
        ({"devices": 2}, "devices=2: this trainer uses one device"),
        ({"accelerator": "tpu"}, "accelerator must be one of 'auto', 'cpu', 'gpu', 'cuda'"),
    ],
)
def test_settings_that_make_no_sense(settings, text):
    with pytest.raises(train.SettingError, match=text):
        quiet(**settings)


def test_an_error_in_a_step_names_step_and_batch():
    def training_step(self, batch, batch_idx):
        if batch_idx == 3:
            raise KeyError("label")
        return Net.training_step(self, batch, batch_idx)

    told = []
    spy = train.LambdaCallback(on_exception=lambda trainer, module, error: told.append(error))
    with pytest.raises(KeyError) as caught:
        fit(variant(training_step=training_step), callbacks=spy)
    assert caught.value.__notes__ == ["Mine.training_step: epoch 0, batch 3"]
    assert told == [caught.value]


def test_an_error_in_a_loader_names_the_batch():
    def batches():
        yield from list(data())[:2]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone") as caught:
        fit(Net(), batches())
    assert caught.value.__notes__ == ["while batch 2 of train_dataloaders was loaded"]


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (lambda self: self.log("x", 1), "'x' cannot be logged in on_fit_start"),
    ],
)
def test_where_nothing_can_be_logged(method, text):
    with pytest.raises(train.TrainError, match=text):
        fit(variant(on_fit_start=method))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.ones(2), r"(?s)only one number can be logged.*shape \(2,\)"),
        ("high", "only numbers can be logged, not str"),
    ],
)
def test_what_cannot_be_logged(value, text):
    with pytest.raises(train.StepOutputError, match=text):
        fit(variant(on_train_batch_start=lambda self, batch, i: self.log("x", value)))


def test_a_nan_is_told_once():
    def training_step(self, batch, batch_idx):
        return Net.training_step(self, batch, batch_idx) * (float("nan") if batch_idx > 1 else 1)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(variant(training_step=training_step))
    (text,) = [str(warning.message) for warning in said if "the loss is" in str(warning.message)]
    assert "Mine.training_step: the loss is nan at epoch 0, batch 2 (step 2)" in text
    assert "detect_anomaly=True" in text


def test_anomaly_mode_names_the_op():
    def training_step(self, batch, batch_idx):
        return (self(batch[0]) * 0).sum().sqrt() * 0

    with pytest.raises(RuntimeError, match="SqrtBackward") as caught:
        fit(variant(training_step=training_step), detect_anomaly=True)
    assert "Mine.backward: epoch 0, batch 0" in caught.value.__notes__
    assert not torch.is_anomaly_enabled()


@pytest.mark.parametrize("hook", ["training_step", "on_train_batch_end", "on_after_backward"])
def test_an_interrupt_ends_it_in_order(hook, tmp_path):
    """Ctrl-C anywhere: counts and parameters belong together, and training can go on."""

    def interrupted(self, *args):
        if self.global_step == 5 and not self.done:
            self.done = True
            signal.raise_signal(signal.SIGINT)
        return getattr(Net, hook)(self, *args)

    net = variant(**{hook: interrupted, "done": False})
    told = []
    spy = train.LambdaCallback(on_exception=lambda trainer, module, error: told.append(error))
    trainer = quiet(max_epochs=2, callbacks=spy)
    with pytest.warns(UserWarning, match=r"fit: interrupted at epoch 0, batch \d; trainer.save_ch"):
        trainer.fit(net, data())
    assert trainer.interrupted and isinstance(told[0], KeyboardInterrupt)
    assert torch.is_grad_enabled() and trainer.state == "interrupted"
    steps = {int(state["step"]) for state in trainer.optimizers[0].state.values()}
    assert steps == {trainer.global_step} == {trainer.loop.batches} == {5}
    assert trainer.lr_scheduler_configs[0].scheduler.last_epoch == 5
    trainer.save_checkpoint(tmp_path / "five.ckpt")
    later = quiet(max_epochs=2)
    later.fit(Net(), data(), ckpt_path=tmp_path / "five.ckpt")
    assert later.global_step == 14


def test_an_interrupt_inside_the_step_waits_for_its_end():
    class Slow(optim.SGD):
        def step(self, closure=None):
            super().step()
            signal.raise_signal(signal.SIGINT)

    net = variant(configure_optimizers=lambda self: Slow(self.parameters(), lr=0.1))
    trainer = quiet(max_epochs=1)
    with pytest.warns(UserWarning, match="interrupted"):
        trainer.fit(net, data())
    assert trainer.interrupted and trainer.global_step == trainer.loop.batches == 1
