"""Trains with checkpoints: killed once, told to leave once, and ends with the right losses.

resumed.py FOLDER STEPS
"""

import os
import signal
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP

folder, steps = sys.argv[1], int(sys.argv[2])
is_unharmed = sys.argv[3:] == ["unharmed"]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def start():
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)))
    return model, torch.optim.Adam(model.parameters(), lr=0.05)


def train_step(model, optimizer, step):
    x = torch.tensor(np.random.default_rng(step).standard_normal((8, 4)), dtype=torch.float32)
    part = x.chunk(size)[rank]
    optimizer.zero_grad()
    loss = ((model(part) - part.sum(1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss := loss.detach(), dist.ReduceOp.AVG)
    return loss.item()


def save(model, optimizer, step, losses):
    names, states = get_state_dict(model, optimizer)
    state = {"model": names, "optimizer": states, "step": step, "losses": losses}
    dcp.save(state, checkpoint_id=f"{folder}/step{step}")


model, optimizer = start()
first, losses = 0, []
latest = dcp.latest_checkpoint(folder)
if latest is not None:
    names, states = get_state_dict(model, optimizer)
    state = {"model": names, "optimizer": states, "step": 0, "losses": []}
    dcp.load(state, checkpoint_id=latest)
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    first, losses = state["step"], state["losses"]
if rank == 0:
    print("goes on from", first, flush=True)
with dcp.StopRequest() as stop:
    for step in range(first, steps):
        losses.append(train_step(model, optimizer, step))
        if step % 3 == 2:
            save(model, optimizer, step + 1, losses)
        if first == 0 and step == 7 and rank == 1 and not is_unharmed:
            os.kill(os.getpid(), signal.SIGKILL)
        if first == 6 or is_unharmed:  # after the restart: until the scheduler says so
            if rank == 0 and step == 9:
                print("waits for SIGTERM", flush=True)
            time.sleep(0.05)
        if stop.received():
            save(model, optimizer, step + 1, losses)
            dist.destroy_process_group()
            sys.exit(0)

alone, optimizer = start()
wanted = [train_step(alone, optimizer, step) for step in range(steps)]
assert losses == wanted, (losses, wanted)
if rank == 0:
    print("the right losses:", len(losses))
dist.destroy_process_group()
