"""A small model with everything that makes resuming hard, and what runs it."""

from __future__ import annotations

import edutorch as torch
from edutorch import nn, optim, train
from edutorch.nn import functional as F
from edutorch.utils.data import DataLoader, TensorDataset


class Net(train.TrainModule):
    """Dropout, batch norm, Adam and a scheduler that steps each time."""

    def __init__(self, dropout: float = 0.3, rate: float = 0.01):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 2)
        )
        self.rate = rate
        self.accuracy = train.metrics.Accuracy("multiclass", num_classes=2)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        output = self(x)
        loss = F.cross_entropy(output, y)
        self.accuracy.update(output, y)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log("accuracy", self.accuracy, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self(x), y))

    def configure_optimizers(self):
        optimizer = optim.Adam(self.parameters(), lr=self.rate)
        scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=100)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


def data(samples: int = 26, batch_size: int = 4, shuffle: bool = True, **settings) -> DataLoader:
    source = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 4, generator=source)
    y = (x.sum(1) > 0).long()
    return DataLoader(TensorDataset(x, y), batch_size, shuffle=shuffle, **settings)


def quiet(**settings) -> train.Trainer:
    """A trainer that writes nothing anywhere."""
    plain = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    return train.Trainer(**{**plain, **settings})


def state_of(trainer: train.Trainer) -> dict[str, bytes]:
    """Every number of a training, bit for bit."""
    state_bytes = {k: v.numpy().tobytes() for k, v in trainer.module.state_dict().items()}
    for number, optimizer in enumerate(trainer.optimizers):
        state = optimizer.state_dict()
        state_bytes[f"groups {number}"] = repr(state["param_groups"]).encode()
        for index, values in state["state"].items():
            for name, value in values.items():
                bits = value.numpy().tobytes() if hasattr(value, "numpy") else repr(value).encode()
                state_bytes[f"optimizer {number}.{index}.{name}"] = bits
    for config in trainer.lr_scheduler_configs:
        state_bytes["scheduler"] = repr(config.scheduler.last_epoch).encode()
    state_bytes["random"] = torch.get_rng_state().numpy().tobytes()
    state_bytes["logged"] = repr(sorted(trainer.values.items())).encode()
    counts = (trainer.current_epoch, trainer.global_step, trainer.loop.batches)
    state_bytes["counts"] = repr(counts).encode()
    return state_bytes
