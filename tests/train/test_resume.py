"""A training that is saved and goes on is bit for bit one that never stopped."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pytest

import edutorch as torch
from edutorch import optim, train
from edutorch.utils.data import DataLoader, Dataset
from tests.train.nets import Net, data, quiet, state_of

# Batches in an epoch: 7. Ten steps end in the middle of the second one (or of a later one,
# where gradients are accumulated).
CASES = {
    "plain": {},
    "accumulated": {"accumulate_grad_batches": 3},
    "clipped": {"gradient_clip_val": 0.1},
    "validated": {"val_check_interval": 2},
}

LATER = """
import json, sys
import edutorch as torch
from tests.train.nets import Net, data, quiet, state_of
path, settings = sys.argv[1], json.loads(sys.argv[2])
torch.manual_seed(12345)  # another process stands elsewhere
validation = data(8, shuffle=False) if "val_check_interval" in settings else None
trainer = quiet(max_steps=20, **settings)
trainer.fit(Net(), data(), validation, ckpt_path=path)
print(json.dumps({name: bits.hex() for name, bits in state_of(trainer).items()}))
"""


@pytest.mark.parametrize("case", CASES)
def test_ten_steps_and_ten_in_a_new_process_are_twenty(case, tmp_path):
    settings = CASES[case]
    validation = data(8, shuffle=False) if case == "validated" else None

    torch.manual_seed(7)
    whole = quiet(max_steps=20, **settings)
    whole.fit(Net(), data(), validation)
    expected = state_of(whole)

    torch.manual_seed(7)
    first = quiet(max_steps=10, **settings)
    first.fit(Net(), data(), validation)
    assert first.global_step == 10 and first.loop.batches not in (0, 7)
    path = tmp_path / "ten.ckpt"
    first.save_checkpoint(path)
    done = subprocess.run(
        [sys.executable, "-c", LATER, path, json.dumps(settings)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    state_bytes = {name: bytes.fromhex(bits) for name, bits in json.loads(done.stdout).items()}
    assert state_bytes == expected


def test_a_checkpoint_from_any_batch_goes_on_exactly(tmp_path):
    """Saved by a callback while training runs; three batches make a step."""

    class SaveAll(train.Callback):
        monitors = True

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            trainer.save_checkpoint(tmp_path / f"batch{trainer.loop.batches_seen}.ckpt")

        def on_validation_end(self, trainer, pl_module):
            if not trainer.sanity_checking:
                trainer.save_checkpoint(tmp_path / f"val{trainer.loop.batches_seen}.ckpt")

        def on_train_epoch_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / f"epoch{trainer.current_epoch}.ckpt")

    def run(path=None, *callbacks):
        trainer = quiet(max_epochs=2, accumulate_grad_batches=3, callbacks=list(callbacks))
        trainer.fit(
            Net(), data(generator=torch.Generator().manual_seed(3)), data(8), ckpt_path=path
        )
        return state_of(trainer)

    torch.manual_seed(7)
    whole = run(None, SaveAll())
    saved = sorted(path.name for path in tmp_path.iterdir())
    assert len(saved) == 14 + 2 + 2
    for name in saved:
        torch.manual_seed(999)
        assert run(tmp_path / name) == whole, name


class Noisy(Dataset):
    """Samples that draw from three generators each time they are asked for."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        noise = random.random() + np.random.rand() + torch.rand(()).item()
        return torch.full((4,), float(index) + noise), index % 2


def test_samples_made_at_random_are_the_same(tmp_path):
    def run(steps, path=None):
        trainer = quiet(max_steps=steps)
        trainer.fit(Net(), DataLoader(Noisy(), 2, shuffle=True), ckpt_path=path)
        return trainer

    def seed(number):
        random.seed(number), np.random.seed(number), torch.manual_seed(number)

    seed(1)
    whole = state_of(run(10))
    seed(1)
    run(4).save_checkpoint(tmp_path / "four.ckpt")
    seed(2)
    assert state_of(run(10, tmp_path / "four.ckpt")) == whole


def test_fit_goes_on_where_it_stopped_in_the_same_process():
    torch.manual_seed(7)
    whole = quiet(max_steps=20)
    whole.fit(Net(), data())
    expected = state_of(whole)
    torch.manual_seed(7)
    trainer, loader = quiet(max_steps=10), data()
    net = Net()
    made = net.configure_optimizers()
    net.configure_optimizers = lambda: made
    trainer.fit(net, loader)
    trainer.max_steps = 20
    trainer.fit(net, loader)
    assert state_of(trainer) == expected


class ByHand(Net):
    """Steps in each third batch, with an area under a curve that is kept through the epoch."""

    automatic_optimization = False

    def __init__(self):
        super().__init__()
        self.area = train.metrics.AUROC("binary")

    def training_step(self, batch, batch_idx):
        x, y = batch
        output = self(x)
        self.area.update(output[:, 1].sigmoid(), y)
        self.log("area", self.area, on_step=False, on_epoch=True)
        self.manual_backward(torch.nn.functional.cross_entropy(output, y))
        if batch_idx % 3 == 2:
            self.optimizers().step()
            self.optimizers().zero_grad()


def test_steps_by_hand_go_on_exactly(tmp_path):
    def run(path=None):
        keep = train.LambdaCallback(
            on_train_batch_end=lambda trainer, module, outputs, batch, batch_idx: (
                path or trainer.save_checkpoint(tmp_path / f"{trainer.loop.batches_seen}.ckpt")
            )
        )
        keep.monitors = True
        trainer = quiet(max_epochs=2, callbacks=keep)
        trainer.fit(ByHand(), data(), ckpt_path=path)
        return state_of(trainer)

    torch.manual_seed(7)
    whole = run()
    for batches in (2, 3, 11):
        torch.manual_seed(1)
        assert run(tmp_path / f"{batches}.ckpt") == whole, batches


def test_a_training_is_the_loop_by_hand(tmp_path):
    torch.manual_seed(7)
    trainer = quiet(max_epochs=3, gradient_clip_val=0.5)
    trainer.fit(Net(), data(), data(8))
    by_trainer = {k: v.tolist() for k, v in trainer.module.state_dict().items()}

    torch.manual_seed(7)
    net = Net()
    optimizer = optim.Adam(net.parameters(), lr=net.rate)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=100)
    loader = data()
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
        list(data(8))  # validation draws a random order too
    assert by_trainer == {k: v.tolist() for k, v in net.state_dict().items()}


def test_what_cannot_go_on_is_refused(tmp_path):
    trainer = quiet(max_steps=2)
    trainer.fit(Net(), data())
    trainer.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
    with pytest.raises(train.TrainError, match="has weights alone"):
        quiet(max_steps=4).fit(Net(), data(), ckpt_path=tmp_path / "weights.ckpt")
    torch.save(Net().state_dict(), tmp_path / "state.ckpt")
    with pytest.raises(train.TrainError, match="holds no checkpoint of a Trainer"):
        quiet(max_steps=4).fit(Net(), data(), ckpt_path=tmp_path / "state.ckpt")
    trainer.save_checkpoint(tmp_path / "two.ckpt")
    with pytest.warns(UserWarning, match="there is nothing left to train"):
        quiet(max_steps=2).fit(Net(), data(), ckpt_path=tmp_path / "two.ckpt")


def test_a_shorter_loader_is_noticed(tmp_path):
    trainer = quiet(max_steps=5)
    trainer.fit(Net(), data())
    trainer.save_checkpoint(tmp_path / "five.ckpt")
    with pytest.raises(train.TrainError, match=r"after 5 batches .* only 2"):
        quiet(max_steps=9).fit(Net(), data(8), ckpt_path=tmp_path / "five.ckpt")


@pytest.mark.parametrize("first", ["batch3", "batch4", "validation4", "epoch0", "batch5"])
def test_a_training_that_was_resumed_is_saved_and_resumed_again(first, tmp_path):
    """Four batches in an epoch: the checkpoint of its last one leaves none to fetch."""

    class SaveAll(train.Callback):
        monitors = True

        def __init__(self, folder):
            self.folder = folder
            folder.mkdir()

        def save(self, trainer, name):
            trainer.save_checkpoint(self.folder / f"{name}.ckpt")

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            self.save(trainer, f"batch{trainer.loop.batches_seen}")

        def on_validation_end(self, trainer, pl_module):
            self.save(trainer, f"validation{trainer.loop.batches_seen}")

        def on_train_epoch_end(self, trainer, pl_module):
            self.save(trainer, f"epoch{trainer.current_epoch}")

    def run(seed, path=None, *callbacks):
        torch.manual_seed(seed)
        trainer = quiet(max_epochs=2, num_sanity_val_steps=0, callbacks=list(callbacks))
        trainer.fit(Net(), data(16), data(4), ckpt_path=path)
        return state_of(trainer)

    whole = run(7, None, SaveAll(tmp_path / "whole"))
    again = SaveAll(tmp_path / "again")
    assert run(8, tmp_path / "whole" / f"{first}.ckpt", again) == whole
    for path in again.folder.iterdir():
        assert run(9, path) == whole, path.name
