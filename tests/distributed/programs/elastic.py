"""Trains on as many ranks as there are, with one global batch, from the newest checkpoint on.

elastic.py FOLDER STEPS PAUSE
"""

import json
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP

folder, steps, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
BATCH = 12  # divided by 1, 2 and 3
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)


def state_of(step):
    names, states = get_state_dict(model, optimizer)
    return {"model": names, "optimizer": states, "step": step}


state = state_of(0)
latest = dcp.latest_checkpoint(folder)
if latest is not None:
    dcp.load(state, checkpoint_id=latest)
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
for step in range(state["step"], steps):
    x = torch.tensor(np.random.default_rng(step).standard_normal((BATCH, 4)), dtype=torch.float32)
    part = x.chunk(size)[rank]
    optimizer.zero_grad()
    loss = ((model(part) - part.sum(1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss := loss.detach(), dist.ReduceOp.AVG)
    if rank == 0:
        with open(f"{folder}/log", "a") as log:
            log.write(json.dumps([step, size, loss.item(), time.time()]) + "\n")
    if step % 5 == 4:
        dcp.save(state_of(step + 1), checkpoint_id=f"{folder}/step{step + 1}")
    time.sleep(pause)
dist.destroy_process_group()
