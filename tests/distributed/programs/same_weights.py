"""DDP on all ranks against one process with the whole batch, and its bits on all ranks."""

import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 20
options = dict(pair.split("=") for pair in sys.argv[1:])
as_views = options.get("views") == "1"

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def mlp():
    return nn.Sequential(
        nn.Linear(20, 64),
        nn.ReLU(),
        nn.Linear(64, 600),
        nn.Tanh(),
        nn.Linear(600, 600),
        nn.ReLU(),
        nn.Linear(600, 64),
        nn.Linear(64, 5),
    )


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    )


def data(shape):
    generator = np.random.default_rng(3)
    x = generator.standard_normal((STEPS, 24, *shape)).astype(np.float32)
    return torch.tensor(x), torch.tensor(generator.integers(0, 5, (STEPS, 24)))


def check(make, shape, bucket):
    torch.manual_seed(rank)  # the ranks begin differently: DDP has to make them alike
    model = DDP(make(), gradient_as_bucket_view=as_views, bucket_cap_mb=bucket)
    alone = make()
    alone.load_state_dict(model.module.state_dict())
    x, y = data(shape)
    for network, parts, place in ((model, size, rank), (alone, 1, 0)):
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        for step in range(STEPS):
            optimizer.zero_grad()
            inputs, targets = x[step].chunk(parts)[place], y[step].chunk(parts)[place]
            F.cross_entropy(network(inputs), targets).backward()
            optimizer.step()
    error = max((a - b).abs().max().item() for a, b in zip(model.parameters(), alone.parameters()))
    assert error <= 1e-5, error
    bits = [None] * size
    dist.all_gather_object(bits, [p.detach().numpy().tobytes() for p in model.parameters()])
    assert all(other == bits[0] for other in bits)


for bucket in (25, 0.001):
    check(mlp, (20,), bucket)
    check(cnn, (1, 8, 8), bucket)

# no_sync: two parts of the batch, averaged once.
torch.manual_seed(0)
model = DDP(nn.Linear(3, 1, bias=False), gradient_as_bucket_view=as_views)
x = torch.arange(12.0).reshape(4, 3) + rank
with model.no_sync():
    model(x[:2]).sum().backward()
model(x[2:]).sum().backward()
wanted = np.mean([(np.arange(12.0).reshape(4, 3) + r).sum(0) for r in range(size)], axis=0)
np.testing.assert_allclose(model.module.weight.grad.numpy()[0], wanted)


class Branches(nn.Module):
    """A model of which each rank uses another part."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(2, 2) for _ in range(size)])
        self.last = nn.Linear(2, 1)

    def forward(self, inputs):
        return self.last(self.parts[rank](inputs))


model = DDP(Branches(), find_unused_parameters=True, gradient_as_bucket_view=as_views)
for _ in range(2):
    model.zero_grad()
    model(torch.ones(2, 2)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
if size > 1:
    model = DDP(Branches())
    model(torch.ones(2, 2)).sum().backward()
    try:
        model(torch.ones(2, 2))
    except RuntimeError as error:
        assert "Expected to have finished reduction" in str(error)
        assert f"parts.{(rank + 1) % size}.weight" in str(error), error
    else:
        raise AssertionError("unused parameters were not noticed")
if rank == 0:
    print("the same weights")
dist.destroy_process_group()
