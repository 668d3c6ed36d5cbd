"""Saves again and again into one folder, until one rank kills itself: `... FOLDER KILLS SEED`.

The launcher starts it anew; then the checkpoint has to be that of one step, the last or the one
before.
"""

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

sys.path.insert(0, str(Path(__file__).parent))
from duck_dtensor import Mesh, Sharded

folder, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def state_of(step):
    shard = Sharded(torch.full((2 * size, 50_000), float(step)), Mesh(size), [0])
    whole = {f"w{i}": torch.full((20_000,), float(step)) for i in range(6)}
    return {"shard": shard, "whole": whole, "step": step}


last = 0
if dcp.latest_checkpoint(folder) is None:
    assert attempt == 0, "there is no checkpoint left"
else:
    state = state_of(-1)
    dcp.load(state, checkpoint_id=folder)
    last = state["step"]
    for tensor in (state["shard"].local, *state["whole"].values()):
        assert (tensor == last).all(), (last, tensor)
    saved = int(Path(folder, "..", "finished").read_text())
    assert saved <= last <= saved + 1, (saved, last)
    if rank == 0:
        with open(Path(folder, "..", "log"), "a") as log:
            log.write(f"{attempt} {last} {saved}\n")
if attempt == kills:
    dist.destroy_process_group()
    sys.exit(0)

chance = random.Random(f"{seed} {attempt}")
bad, seconds = chance.randrange(size), chance.uniform(0.0, 0.25)


def end():
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


for step in range(last + 1, last + 10_000):
    if step == last + 2 and rank == bad:
        threading.Thread(target=end, daemon=True).start()
    if step % 2:
        dcp.save(state_of(step), checkpoint_id=folder)
    else:
        dcp.async_save(state_of(step), checkpoint_id=folder).result()
    if rank == 0:
        part = Path(folder, "..", "part")
        part.write_text(str(step))
        part.rename(Path(folder, "..", "finished"))
