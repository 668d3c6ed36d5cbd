"""Thirty collectives; in the eleventh, one rank does something else."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

what, bad = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
for number in range(30):
    x = torch.ones(100)
    if rank == bad and number == 10:
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "raise":
            raise ValueError("a bad batch")
        if what == "shape":
            x = torch.ones(50)
        if what == "dtype":
            x = x.double()
        if what == "other":
            dist.broadcast(x, 0)
        if what == "async":
            dist.all_reduce(x, async_op=True).wait()
            continue
        if what == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if what == "pause":
            os.system(f"(sleep 3; kill -CONT {os.getpid()}) &")
            os.kill(os.getpid(), signal.SIGSTOP)
        if what == "skip":
            continue
        if what == "leave":
            sys.exit(0)
    dist.all_reduce(x)
    time.sleep(0.02)
if rank == 0:
    print("done", os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"])
dist.destroy_process_group()
