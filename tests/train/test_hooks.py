"""Which hooks are called, in which order, and what a trainer does between them."""

from __future__ import annotations

import functools
import math

import pytest

import edutorch as torch
from edutorch import nn, optim, train
from tests.train.nets import Net, data, quiet, state_of

HOOKS = [
    name for name in dir(train.Callback) if name.startswith("on_") or name in ("setup", "teardown")
]


class Recorded(Net):
    """Writes down every hook and step."""

    def __init__(self):
        super().__init__()
        self.said: list[str] = []
        for name in [*HOOKS, "training_step", "validation_step", "test_step", "predict_step"]:
            if hasattr(type(self), name):
                object.__setattr__(self, name, self.recorded(name, getattr(self, name)))

    def recorded(self, name, function):
        @functools.wraps(function)
        def around(*args):
            self.said.append(name)
            return function(*args)

        return around

    def test_step(self, batch):
        self.log("test_loss", batch[0].mean())


EPOCH_START = ["on_train_epoch_start"]
FIRST_OF_TWO = """on_train_batch_start training_step on_before_zero_grad on_before_backward
    on_after_backward on_train_batch_end""".split()
SECOND_OF_TWO = """on_train_batch_start training_step on_before_backward on_after_backward
    on_before_optimizer_step on_train_batch_end""".split()
VALIDATION = """on_validation_start on_validation_epoch_start on_validation_batch_start
    validation_step on_validation_batch_end on_validation_batch_start validation_step
    on_validation_batch_end on_validation_epoch_end on_validation_end""".split()


def test_the_order_of_all_hooks():
    net = Recorded()
    trainer = quiet(max_epochs=2, accumulate_grad_batches=2, limit_train_batches=3)
    trainer.fit(net, data(), data(8))
    last = [*FIRST_OF_TWO[:-1], "on_before_optimizer_step", FIRST_OF_TWO[-1]]
    epoch = [
        *EPOCH_START, *FIRST_OF_TWO, *SECOND_OF_TWO, *last, *VALIDATION, "on_train_epoch_end",
    ]  # fmt: skip
    assert net.said == [
        "setup", "on_fit_start", *VALIDATION, "on_train_start", *epoch, *epoch, "on_train_end",
        "on_fit_end", "teardown",
    ]  # fmt: skip


def test_the_order_in_test_and_predict():
    net = Recorded()
    quiet().test(net, data(4), verbose=False)
    assert (
        net.said
        == """setup on_test_start on_test_epoch_start on_test_batch_start test_step
        on_test_batch_end on_test_epoch_end on_test_end teardown""".split()
    )
    net.said.clear()
    outputs = quiet().predict(net, data(4))
    assert (
        net.said
        == """setup on_predict_start on_predict_epoch_start on_predict_batch_start
        predict_step on_predict_batch_end on_predict_epoch_end on_predict_end teardown""".split()
    )
    assert [tuple(output.shape) for output in outputs] == [(4, 2)]


def test_a_callback_gets_the_same_hooks_before_the_module():
    said = []
    hooks = {
        name: functools.partial(lambda name, *args: said.append(name), name)
        for name in HOOKS
        if name not in ("on_save_checkpoint", "on_load_checkpoint", "on_exception")
    }
    net = Recorded()
    trainer = quiet(max_epochs=1, callbacks=train.LambdaCallback(**hooks))
    trainer.fit(net, data(), data(8))
    own = [name for name in net.said if not name.endswith("_step") or name.startswith("on_")]
    assert [name for name in said if "sanity" not in name] == own
    assert said.count("on_sanity_check_start") == said.count("on_sanity_check_end") == 1


@pytest.mark.parametrize(
    ("settings", "validations"),
    [
        ({}, [7, 14]),
        ({"val_check_interval": 3}, [3, 6, 10, 13]),
        ({"val_check_interval": 0.5}, [3, 6, 10, 13]),
        ({"check_val_every_n_epoch": 2}, [14]),
        ({"val_check_interval": 5, "check_val_every_n_epoch": None}, [5, 10]),
        ({"limit_val_batches": 0}, []),
    ],
)
def test_when_it_validates(settings, validations):
    seen = []
    spy = train.LambdaCallback(
        on_validation_end=lambda trainer, module: seen.append(trainer.loop.batches_seen)
    )
    quiet(max_epochs=2, num_sanity_val_steps=0, callbacks=[spy], **settings).fit(
        Net(), data(), data(8)
    )
    assert seen == validations


@pytest.mark.parametrize("settings", [{"max_steps": 9}, {"max_epochs": 3, "max_steps": 9}])
def test_where_it_ends(settings):
    trainer = quiet(**settings)
    trainer.fit(Net(), data())
    assert (trainer.current_epoch, trainer.global_step, trainer.loop.batches) == (1, 9, 2)


def test_loaders_that_do_not_know_their_length():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return ((torch.ones(4) * i, i % 2) for i in range(10))

    net = Recorded()
    loader = torch.utils.data.DataLoader(Stream(), batch_size=2)
    trainer = quiet(max_epochs=1, accumulate_grad_batches=2, num_sanity_val_steps=0)
    trainer.fit(net, iterations(loader), data(4))
    assert trainer.global_step == 3 and net.said.count("validation_step") == 1
    with pytest.warns(UserWarning, match="no batch to train on"):
        quiet(max_epochs=1, limit_train_batches=0).fit(Net(), data())


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 7, 8])
def test_a_loader_without_a_length_trains_as_one_with_it(batches):
    loader, runs = data(26), []
    for source in (loader, iterations(loader)):
        torch.manual_seed(0)
        logger = Rows()
        trainer = quiet(
            max_epochs=3, accumulate_grad_batches=batches, logger=logger, log_every_n_steps=1
        )
        trainer.fit(Net(), source)
        runs.append((state_of(trainer), trainer.loop.batches_stepped, logger.steps))
    (state, stepped, steps), (other_state, other_stepped, other_steps) = runs
    assert other_state == state  # the parameters, and the schedulers too
    in_an_epoch = math.ceil(7 / batches)
    assert stepped == other_stepped == 3 * in_an_epoch
    assert steps == {(step // in_an_epoch, step) for step in range(stepped)} >= other_steps


class Rows(train.Logger):
    """Keeps the epoch and the step of each row."""

    def __init__(self):
        self.steps: set[tuple[int, int]] = set()

    def log_metrics(self, metrics, step=None):
        self.steps.add((metrics["epoch"], step))


def iterations(loader):
    class WithoutLength:
        def __iter__(self):
            return iter(loader)

    return WithoutLength()


def test_layers_keep_their_own_mode_through_a_validation():
    class Frozen(Net):
        def on_train_start(self):
            self.net[1].eval()

        def validation_step(self, batch, batch_idx):
            assert not self.training and not torch.is_grad_enabled()

        def on_train_batch_start(self, batch, batch_idx):
            assert self.training and not self.net[1].training

    quiet(max_epochs=2).fit(Frozen(), data(), data(8))


def test_minus_one_ends_an_epoch():
    net = Net()
    net.on_train_batch_start = lambda batch, batch_idx: -1 if batch_idx == 2 else None
    trainer = quiet(max_epochs=2)
    trainer.fit(net, data())
    assert trainer.global_step == 4


def test_a_step_may_leave_a_batch_out():
    class Picky(Net):
        def training_step(self, batch, batch_idx):
            return None if batch_idx % 2 else {"loss": super().training_step(batch, batch_idx)}

    trainer = quiet(max_epochs=1)
    trainer.fit(Picky(), data())
    assert trainer.global_step == 4


def test_two_optimizers_by_hand():
    class Two(train.TrainModule):
        automatic_optimization = False

        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 2), nn.Linear(4, 2)

        def training_step(self, batch, batch_idx):
            first, second = self.optimizers()
            for optimizer, layer in ((first, self.a), (second, self.b)):
                optimizer.zero_grad()
                self.manual_backward(layer(batch[0]).square().mean())
                self.clip_gradients(optimizer, 0.01)
                optimizer.step()
            first_schedule, _ = self.lr_schedulers()
            first_schedule.step()

        def configure_optimizers(self):
            optimizers = [optim.SGD(part.parameters(), lr=0.1) for part in (self.a, self.b)]
            return optimizers, [
                optim.lr_scheduler.StepLR(optimizer, 1, 0.5) for optimizer in optimizers
            ]

    net = Two()
    before = net.a.weight.tolist(), net.b.weight.tolist()
    trainer = quiet(max_epochs=1)
    trainer.fit(net, data())
    assert trainer.global_step == 14
    assert net.a.weight.tolist() != before[0] and net.b.weight.tolist() != before[1]
    assert [optimizer.param_groups[0]["lr"] for optimizer in trainer.optimizers] == [
        0.1 / 2**7,
        0.1,
    ]
    with pytest.raises(train.TrainError, match="accumulate_grad_batches is for automatic"):
        quiet(accumulate_grad_batches=2).fit(Two(), data())


def test_lbfgs_asks_for_the_loss_again():
    class Fit(Net):
        def configure_optimizers(self):
            return optim.LBFGS(self.parameters(), max_iter=4)

    net = Fit(dropout=0.0)
    calls = []
    step = net.training_step
    net.training_step = lambda batch, batch_idx: calls.append(1) or step(batch, batch_idx)
    trainer = quiet(max_epochs=1)
    trainer.fit(net, data())
    assert trainer.global_step == 7 and len(calls) > 7


def test_epochs_are_means_over_samples():
    """26 samples in batches of 4: the last batch has 2, and counts half."""
    seen = []

    class Means(Net):
        def validation_step(self, batch, batch_idx):
            seen.append(batch[0])
            self.log("mean", batch[0].mean())
            self.log("largest", batch[0].max(), reduce_fx="max")
            self.log("samples", len(batch[0]), reduce_fx="sum")

    trainer = quiet(logger=False)
    (logged,) = trainer.validate(Means(), data(), verbose=False)
    everything = torch.cat(seen)
    assert logged["mean"] == pytest.approx(everything.mean().item(), rel=1e-5)
    assert logged["largest"] == everything.max().item() and logged["samples"] == 26
    assert trainer.callback_metrics["samples"].item() == 26


def test_several_loaders_have_numbers():
    class Several(Net):
        def validation_step(self, batch, batch_idx, dataloader_idx):
            self.log("which", float(dataloader_idx))

    logged = quiet().validate(Several(), [data(4), data(8)], verbose=False)
    assert logged == [{"which/dataloader_idx_0": 0.0}, {"which/dataloader_idx_1": 1.0}]


def test_a_data_module():
    said = []

    class Data(train.DataModule):
        def prepare_data(self):
            said.append("prepare")

        def setup(self, stage):
            said.append(stage)

        def train_dataloader(self):
            return data()

        def val_dataloader(self):
            return [data(8)]

    trainer = quiet(max_epochs=1)
    trainer.fit(Net(), datamodule=Data())
    assert trainer.global_step == 7 and "val_loss" in trainer.callback_metrics
    assert said == ["prepare", "fit"]


def test_trials_are_short_and_leave_nothing(tmp_path):
    trainer = train.Trainer(
        fast_dev_run=2, default_root_dir=tmp_path, enable_progress_bar=False,
        callbacks=[train.ModelCheckpoint(tmp_path)],
    )  # fmt: skip
    trainer.fit(Net(), data(), data(16))
    assert trainer.global_step == 2 and list(tmp_path.iterdir()) == []


def test_overfitting_sees_the_same_batches():
    seen = []

    class Spy(Net):
        def training_step(self, batch, batch_idx):
            seen.append(batch[0].tolist())
            return super().training_step(batch, batch_idx)

    quiet(max_epochs=3, overfit_batches=2).fit(Spy(), data())
    assert seen[:2] == seen[2:4] == seen[4:] and len(seen) == 6
