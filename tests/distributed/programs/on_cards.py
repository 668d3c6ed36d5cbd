"""Collectives and DDP with tensors on the card of each rank."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

backend = None if sys.argv[1] == "None" else sys.argv[1]
dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()
card = torch.device("cuda", rank)
torch.cuda.set_device(card)


def on_card(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device=card)


def check(tensor, *values):
    assert tensor.device == card, tensor.device
    assert tensor.tolist() == list(values), (tensor, values)


for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
    x = on_card(rank, 1, dtype=dtype)
    dist.all_reduce(x)
    check(x, 1, 2)
x = on_card(1 + 1j * rank, dtype=torch.complex64)
dist.all_reduce(x)
check(x, 2 + 1j)
x = on_card(rank == 1, False, dtype=torch.bool)
dist.all_reduce(x)
check(x, True, False)
x = on_card(rank, 3.0)
work = dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True)
work.wait()
check(x, 0.5, 3.0)
x = torch.full((2, 2), float(rank), device=card)
dist.all_reduce(x[:, 0])  # memory with gaps
assert x.tolist() == [[1.0, rank], [1.0, rank]], x
x = on_card(rank + 5)
dist.broadcast(x, 1)
check(x, 6)
dist.reduce(x, 0)
check(x, 12 if rank == 0 else 6)
listed = [on_card(0.0) for _ in range(size)]
dist.all_gather(listed, on_card(rank))
check(torch.cat(listed), 0, 1)
whole = torch.empty(2, device=card)
dist.all_gather_into_tensor(whole, on_card(rank))
check(whole, 0, 1)
part = torch.empty(1, device=card)
dist.reduce_scatter_tensor(part, on_card(1, 10 + rank))
check(part, 2 if rank == 0 else 21)
dist.reduce_scatter(part, [on_card(1), on_card(rank)])
check(part, 2 if rank == 0 else 1)
dist.gather(on_card(rank), listed if rank == 0 else None, dst=0)
dist.scatter(part, [on_card(7), on_card(8)] if rank == 0 else None, src=0)
check(part, 7 + rank)
parts = torch.empty(2, device=card)
dist.all_to_all_single(parts, on_card(10 * rank, 10 * rank + 1))
check(parts, rank, 10 + rank)
dist.all_to_all(listed, [on_card(rank), on_card(rank + 2)])
check(torch.cat(listed), 0 + 2 * rank, 1 + 2 * rank)
if rank == 0:
    dist.send(on_card(4.0), 1)
else:
    dist.recv(part, 0)
    check(part, 4)
other = on_card(0.0)
for work in dist.batch_isend_irecv([
    dist.P2POp(dist.isend, on_card(rank), 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank),
]):  # fmt: skip
    work.wait()
check(other, 1 - rank)
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
dist.barrier(device_ids=[rank])

torch.manual_seed(3)
model = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(rank), device_ids=[rank])
alone = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(rank)
alone.load_state_dict(model.module.state_dict())
torch.manual_seed(5)
inputs, targets = torch.randn(8, 4), torch.randn(8, 1)
steps = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (model, alone)]
for _ in range(5):
    mine = slice(4 * rank, 4 * rank + 4)
    for network, step, rows in ((model, steps[0], mine), (alone, steps[1], slice(0, 8))):
        step.zero_grad()
        rows_in = inputs[rows] if network is model else inputs[rows].to(rank)
        nn.functional.mse_loss(network(rows_in), targets[rows].to(rank)).backward()
        step.step()
for ours, whole in zip(model.parameters(), alone.parameters(), strict=True):
    assert ours.device == card
    assert torch.allclose(ours, whole, atol=1e-6), (ours, whole)

if backend == "nccl":
    try:
        dist.all_reduce(torch.ones(2))
    except RuntimeError as error:
        assert "cpu:gloo,cuda:nccl" in str(error), error
    else:
        raise AssertionError("a tensor of the CPU with nccl")
else:
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [2.0, 2.0]
dist.destroy_process_group()
if rank == 0:
    print("all as it should be")
