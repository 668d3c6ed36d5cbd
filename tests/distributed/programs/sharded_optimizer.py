"""ZeroRedundancyOptimizer against the optimizer alone; PostLocalSGD against averages by hand."""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def model():
    torch.manual_seed(0)
    layers = [nn.Linear(6, 30), nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 30), nn.Linear(30, 2)]
    return nn.Sequential(*layers)


def batch(number):
    return torch.tensor(np.random.default_rng(number).standard_normal((4, 6)), dtype=torch.float32)


def groups(network):
    return [
        {"params": list(network[0].parameters())},
        {"params": list(network[1:].parameters()), "lr": 0.003},
    ]


def same_on_all(tensors):
    bits = [None] * size
    dist.all_gather_object(bits, [t.detach().numpy().tobytes() for t in tensors])
    return all(other == bits[0] for other in bits)


def train(network, optimizer, steps, scheduler=None):
    for step in steps:
        optimizer.zero_grad()
        (network(batch(step)) ** 2).mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def bytes_of(optimizer):
    return sum(
        value.numel() for state in optimizer.state.values() for value in state.values()
        if isinstance(value, torch.Tensor)
    )  # fmt: skip


def check(optimizer_class, as_views, **settings):
    network, alone = model(), model()
    sharded = ZeroRedundancyOptimizer(
        groups(network), optimizer_class, parameters_as_bucket_view=as_views, **settings
    )
    whole = optimizer_class(groups(alone), **settings)
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 2) for o in (sharded, whole)]
    train(network, sharded, range(5), schedulers[0])
    train(alone, whole, range(5), schedulers[1])
    assert sharded.param_groups[1]["lr"] == whole.param_groups[1]["lr"] < 0.001
    for a, b in zip(network.parameters(), alone.parameters()):
        assert torch.equal(a, b), optimizer_class
    if bytes_of(whole):
        share = bytes_of(sharded.optim) / bytes_of(whole)
        assert share < 0.1 + 1 / min(size, 2), share
    try:
        ZeroRedundancyOptimizer(model().parameters(), optimizer_class, **settings).state_dict()
    except RuntimeError as error:
        assert f"consolidate_state_dict(to={rank})" in str(error)
    else:
        raise AssertionError("a part was taken for the whole")
    sharded.consolidate_state_dict(to=size - 1)
    saved = [sharded.state_dict() if rank == size - 1 else None]
    dist.broadcast_object_list(saved, src=size - 1)
    wanted = whole.state_dict()
    assert saved[0]["state"].keys() == wanted["state"].keys()
    for index, state in wanted["state"].items():
        for name, value in state.items():
            other = saved[0]["state"][index][name]
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(other)), (index, name)
    assert saved[0]["param_groups"] == wanted["param_groups"]
    # Loaded into another one, training goes on as it would have.
    again = ZeroRedundancyOptimizer(groups(network), optimizer_class, **settings)
    again.load_state_dict(wanted)
    train(network, again, range(5, 8))
    train(alone, whole, range(5, 8))
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), alone.parameters()))


def with_uneven_inputs():
    network = DDP(model())
    optimizer = ZeroRedundancyOptimizer(network.parameters(), torch.optim.Adam, lr=0.01)
    with Join([network, optimizer]):
        train(network, optimizer, range(2 + 2 * rank))
    assert same_on_all(network.parameters())
    alone = model()
    whole = torch.optim.Adam(alone.parameters(), lr=0.01)
    for step in range(2 + 2 * (size - 1)):
        whole.zero_grad()
        active = sum(step < 2 + 2 * r for r in range(size))
        ((alone(batch(step)) ** 2).mean() * active / size).backward()
        whole.step()
    for a, b in zip(network.parameters(), alone.parameters()):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-5)


def added_group():
    network, alone = model(), model()
    sharded = ZeroRedundancyOptimizer(
        network[0].parameters(), torch.optim.Adam, parameters_as_bucket_view=True, lr=0.01
    )
    whole = torch.optim.Adam(alone[0].parameters(), lr=0.01)
    for optimizer, layers in ((sharded, network), (whole, alone)):
        train(layers, optimizer, range(2))
        optimizer.add_param_group({"params": list(layers[1:].parameters()), "lr": 0.1})
        train(layers, optimizer, range(2, 4))
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), alone.parameters()))


def local_steps():
    network = model()
    averager = PeriodicModelAverager(period=3, warmup_steps=2)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(network.parameters(), lr=0.1), averager)
    alike = []
    for step in range(9):
        train(network, optimizer, [10 * step + rank])
        alike.append(same_on_all(network.parameters()))
    assert alike == [step >= 2 and (step - 2) % 3 == 0 for step in range(9)], alike
    assert optimizer.state_dict()["step"] == 9
    averager.step = 0
    optimizer.load_state_dict({**optimizer.state_dict(), "step": 7})
    assert averager.step == 7


for as_views in (False, True):
    check(torch.optim.Adam, as_views, lr=0.01)
    check(torch.optim.SGD, as_views, lr=0.1, momentum=0.9)
check(torch.optim.SGD, False, lr=0.1)
with_uneven_inputs()
added_group()
local_steps()
try:
    ZeroRedundancyOptimizer(model().parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=1.0)
except NotImplementedError as error:
    assert "leave it out" in str(error)
else:
    raise AssertionError("overlap_with_ddp was accepted")
if rank == 0:
    print("divided")
dist.destroy_process_group()
