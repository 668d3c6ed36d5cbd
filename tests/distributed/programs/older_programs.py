"""What programs of pytorch/examples take for granted: names, meta models, gradients of messages."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._composable.fsdp import fully_shard
from torch.distributed._tensor import Shard, distribute_tensor
from torch.distributed._tensor.device_mesh import init_device_mesh
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    _init_optim_state,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.nn.functional import all_gather, all_reduce, broadcast, reduce_scatter

dist.init_process_group(dist.get_default_backend_for_device("cpu"))
rank, size = dist.get_rank(), dist.get_world_size()
assert dist.distributed_c10d.get_rank() == rank and dist.is_backend_available("gloo")
assert "gloo" in dist.get_backend_config() and not dist.is_ucc_available()

del os.environ["RANK"]  # a sampler asks the group
sampler = torch.utils.data.DistributedSampler(range(4 * size), shuffle=False)
assert list(sampler) == list(range(rank, 4 * size, size))


def close(a, b):
    torch.testing.assert_close(a, b)


# Gradients through messages: the loss of all ranks together is a sum over the ranks.
x = torch.full((2,), float(rank + 1), requires_grad=True)
((rank + 1) * all_reduce(x)).sum().backward()
close(x.grad, torch.full((2,), size * (size + 1) / 2))
x.grad = None
parts = all_gather(x)
assert [part[0].item() for part in parts] == [float(r + 1) for r in range(size)]
sum((number + 1) * part for number, part in enumerate(parts)).sum().backward()
close(x.grad, torch.full((2,), float(size * (rank + 1))))
x.grad = None
(2 * broadcast(x, 0)).sum().backward()
close(x.grad, torch.full((2,), 2.0 * size if rank == 0 else 0.0))
x.grad = None
own = reduce_scatter(torch.empty(2), [x * (number + 1) for number in range(size)])
close(own.detach(), torch.full((2,), (rank + 1) * size * (size + 1) / 2))
own.sum().backward()
close(x.grad, torch.full((2,), size * (size + 1) / 2))

whole = distribute_tensor(torch.arange(6.0), init_device_mesh("cpu", (size,)), [Shard(0)])
close(whole.full_tensor(), torch.arange(6.0))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.body, self.write = nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 7)
        self.write.weight = self.read.weight

    def forward(self, x):
        return self.write(self.body(self.read(x)))


def sharded(device=None):
    with torch.device(device or "cpu"):
        model = Tied()
    fully_shard(model.body)
    return fully_shard(model)


def train(model, optimizer, prefetches, steps=4):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        if prefetches:
            model.unshard()
        loss = model(torch.randint(0, 7, (8,), generator=generator)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


full = StateDictOptions(full_state_dict=True, cpu_offload=True)
told = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
torch.manual_seed(0)
model = sharded()
start = get_model_state_dict(model, options=full)
losses = []
for prefetches in (False, True):  # unshard() before each step: not the weights of the last one
    set_model_state_dict(model, start, options=told)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses.append(train(model, optimizer, prefetches))
assert losses[0] == losses[1]

# A model on meta takes a checkpoint of rank 0, and goes on as the other does.
weights = get_model_state_dict(model, options=full)
moments = get_optimizer_state_dict(model, optimizer, options=full)
again = sharded("meta")
set_model_state_dict(again, weights, options=told)
assert again.write.weight is again.read.weight and not again.body.weight.is_meta
second = torch.optim.Adam(again.parameters(), lr=0.1)
_init_optim_state(second)
set_optimizer_state_dict(again, second, moments, options=told)
assert train(model, optimizer, False) == train(again, second, False)
results = [get_model_state_dict(m, options=full) for m in (model, again)]  # {} but on rank 0
for name, value in results[0].items():
    close(value, results[1][name])

# A parameter that was exchanged is the one that is gathered.
other = sharded("meta")
now = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
with_parts = {
    name: nn.Parameter(distribute_tensor(now[name], part.device_mesh, part.placements))
    for name, part in model.state_dict().items()
}
other.load_state_dict(with_parts, assign=True)
close(other(torch.arange(7)), model(torch.arange(7)))

dist.destroy_process_group()
print("older programs run")
