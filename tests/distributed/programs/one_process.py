"""CNN with SyncBatchNorm and GPT equal one process with the whole batch; bits after 200 steps."""

import hashlib
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
BATCH = 12


class GPT(nn.Module):
    """A small GPT, without dropout."""

    def __init__(self, letters=17, width=32, length=10, layers=2):
        super().__init__()
        self.token, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True,
                norm_first=True,
            )
            for _ in range(layers)
        )  # fmt: skip
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        length = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        y = self.token(x) + self.place(torch.arange(length))
        for block in self.blocks:
            y = block(y, src_mask=mask, is_causal=True)
        return self.norm(y) @ self.token.weight.T  # a weight that is used twice


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 2),
        nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(32, 5),
    )  # fmt: skip


def mlp():
    return nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)
    )


def images(step):
    generator = np.random.default_rng(step)
    x = torch.tensor(generator.standard_normal((BATCH, 1, 8, 8)), dtype=torch.float32)
    return x, torch.tensor(generator.integers(0, 5, BATCH))


def letters(step):
    text = torch.tensor(np.random.default_rng(step).integers(0, 17, (BATCH, 11)))
    return text[:, :-1], text[:, 1:]


def vectors(step):
    generator = np.random.default_rng(step)
    x = torch.tensor(generator.standard_normal((BATCH, 20)), dtype=torch.float32)
    return x, torch.tensor(generator.integers(0, 5, BATCH))


def train(network, batch, parts, place, steps):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        x, y = (t.chunk(parts)[place] for t in batch(step))
        out = network(x)
        F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1)).backward()
        optimizer.step()


def state_bits(network):
    return b"".join(value.detach().numpy().tobytes() for value in network.state_dict().values())


def check(make, batch, sync=False):
    torch.manual_seed(rank)
    network = make()
    if sync:
        network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
    network = DDP(network, bucket_cap_mb=0.01)
    alone = make()
    alone.load_state_dict(network.module.state_dict())
    train(network, batch, size, rank, 20)
    train(alone, batch, 1, 0, 20)
    for (name, a), b in zip(alone.state_dict().items(), network.module.state_dict().values()):
        error = (a - b).abs().max().item()
        assert error <= 1e-5, (name, error)


check(cnn, images, sync=True)
check(GPT, letters)

torch.manual_seed(0)
digest = hashlib.sha256()
for make, batch, options in (
    (mlp, vectors, {}),
    (lambda: nn.SyncBatchNorm.convert_sync_batchnorm(cnn()), images, {"static_graph": True}),
    (GPT, letters, {"gradient_as_bucket_view": True}),
):
    network = DDP(make(), bucket_cap_mb=0.05, **options)
    train(network, batch, size, rank, 200 if make is not GPT else int(sys.argv[1]))
    bits = [None] * size
    dist.all_gather_object(bits, state_bits(network))
    assert all(other == bits[0] for other in bits), make
    digest.update(bits[0])
if rank == 0:
    print("bits", digest.hexdigest())
dist.destroy_process_group()
