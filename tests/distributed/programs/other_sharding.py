"""A model saved by DDP, FSDP and tensor parallel, loaded by all three: `... save|load FOLDER`."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel as DDP

what, folder = sys.argv[1:]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


def ddp(model):
    return DDP(model)


def fsdp(model):
    for layer in model:
        if not isinstance(layer, nn.Tanh):
            fully_shard(layer)
    return fully_shard(model)


def tensor_parallel(model):
    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def both(model):
    tp = 2 - size % 2
    grid = init_device_mesh("cpu", (size // tp, tp), mesh_dim_names=("dp", "tp"))
    parallelize_module(model, grid["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return fully_shard(model, mesh=grid["dp"])


def make(wrap, seed):
    torch.manual_seed(seed)
    model = wrap(nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 5)))
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def train(model, optimizer):
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        loss = (model(torch.ones(4, 6) * step) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def whole(model):
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


ways = (ddp, fsdp, tensor_parallel, both)
for way in ways:
    place = f"{folder}/{way.__name__}"
    if what == "save":
        model, optimizer = make(way, 0)
        train(model, optimizer)
        names, states = get_state_dict(model, optimizer)
        dcp.save({"model": names, "optimizer": states}, checkpoint_id=place)
        told = {name: value.tolist() for name, value in whole(model).items()}
        losses = train(model, optimizer)
        if rank == 0:
            Path(f"{place}.txt").write_text(repr((told, losses)))
        continue
    wanted, losses = eval(Path(f"{place}.txt").read_text())
    for other in ways:
        model, optimizer = make(other, 1)
        names, states = get_state_dict(model, optimizer)
        state = {"model": names, "optimizer": states}
        dcp.load(state, checkpoint_id=place)
        set_state_dict(
            model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        have = {name: value.tolist() for name, value in whole(model).items()}
        assert have == wanted, (way, other)
        again = train(model, optimizer)
        assert max(abs(a - b) for a, b in zip(losses, again)) < 1e-5, (way, other, losses, again)
if rank == 0:
    print("the same in all ways")
dist.destroy_process_group()
