"""The trainer with the rest: numbers of 16 and 64 bits, live pictures, one call for a lesson."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

import edutorch as torch
from edutorch import amp, nn, train
from edutorch.nn import functional as F
from tests.train.nets import Net, data, quiet


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision(precision, tmp_path):
    dtypes_seen = set()

    class Spy(Net):
        def training_step(self, batch, batch_idx):
            dtypes_seen.add(self.net[0](batch[0]).dtype)
            return super().training_step(batch, batch_idx)

    trainer = quiet(max_epochs=2, precision=precision, gradient_clip_val=1.0)
    trainer.fit(Spy(), data())
    half = torch.bfloat16 if precision.startswith("bf16") else torch.float16
    assert dtypes_seen == {half} and trainer.module.net[0].weight.dtype == torch.float32
    assert math.isfinite(trainer.values["loss"])
    assert (trainer.precision.scaler is not None) == (precision == "16-mixed")


def test_a_scaler_goes_on_exactly(tmp_path):
    def run(steps, path=None):
        torch.manual_seed(3)
        trainer = quiet(max_steps=steps, precision="16-mixed")
        trainer.precision.scaler = amp.GradScaler("cpu", init_scale=256.0, growth_interval=4)
        trainer.fit(Net(), data(), ckpt_path=path)
        return trainer

    whole = run(12)
    run(6).save_checkpoint(tmp_path / "six.ckpt")
    resumed = run(12, tmp_path / "six.ckpt")
    assert resumed.precision.scaler.state_dict() == whole.precision.scaler.state_dict()
    assert resumed.precision.scaler.get_scale() == 256 * 2**3
    states = [trainer.module.state_dict().values() for trainer in (whole, resumed)]
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))


def test_clipping_sees_gradients_of_their_own_size():
    norms = []

    class Spy(Net):
        def on_before_optimizer_step(self, optimizer):
            norms.append(sum(float(p.grad.square().sum()) for p in self.parameters()) ** 0.5)

    for precision in ("32", "16-mixed"):
        torch.manual_seed(0)
        quiet(max_steps=1, precision=precision).fit(Spy(dropout=0.0), data(shuffle=False))
    assert norms[0] == pytest.approx(norms[1], rel=0.02)


def test_double_precision():
    dtypes_seen = set()

    class Spy(Net):
        def training_step(self, batch, batch_idx):
            dtypes_seen.update((batch[0].dtype, torch.zeros(1).dtype, batch[1].dtype))
            return super().training_step(batch, batch_idx)

    net = Spy()
    quiet(max_steps=1, precision="64").fit(net, data())
    assert dtypes_seen == {torch.float64, torch.int64} and net.net[0].weight.dtype == torch.float64
    assert torch.zeros(1).dtype == torch.float32


def test_live_pictures_see_every_step():
    net = Net()
    with torch.viz.live(net) as view:
        quiet(max_epochs=2).fit(net, data(), data(8))
    assert view.step == 14 and view.loss is not None


def test_one_call_for_a_first_lesson():
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    accuracy = train.metrics.Accuracy("multiclass", num_classes=2)
    curves = train.fit(
        model, F.cross_entropy, data(64), epochs=5, lr=0.05, val_loader=data(64),
        metrics={"accuracy": accuracy}, enable_progress_bar=False,
    )  # fmt: skip
    assert set(curves) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert all(len(curve) == 5 for curve in curves.values())
    assert curves["loss"][-1] < curves["loss"][0] / 2 and curves["val_accuracy"][-1] > 0.8
    with pytest.raises(train.TrainError, match=r"a batch has to be \(inputs, targets\)"):
        train.fit(model, F.cross_entropy, [torch.zeros(2, 4)], enable_progress_bar=False)


def test_it_is_loaded_when_asked_for():
    code = (
        "import sys, edutorch\n"
        "assert 'edutorch.train' not in sys.modules\n"
        "edutorch.train.Trainer\n"
        "loaded = {'tqdm', 'tensorboardX', 'sklearn'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
