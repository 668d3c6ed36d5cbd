"""`multiprocessing.spawn` with process groups: what works, and how each failure arrives."""

import os
import signal
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

FACTOR = 2.0


class Net(nn.Module):
    """A class of the program: it travels by value."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x) * FACTOR


def train(rank, world_size, what, folder):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    model = DDP(Net())
    model(torch.ones(3, 4) * (rank + 1)).sum().backward()
    gradient = model.module.layer.weight.grad
    if rank == 1 and what == "raise":
        raise ValueError("a bad batch")
    if rank == 1 and what == "exit":
        sys.exit(3)
    if rank == 1 and what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    torch.save(gradient, f"{folder}/{what}{rank}.pt")
    dist.destroy_process_group()


def count(rank, queue):
    queue.put(rank)


def main(folder):
    os.environ.update(RANK="0", WORLD_SIZE="1")  # of a pod: not those of the processes it starts
    mp.spawn(train, args=(2, "good", folder), nprocs=2)
    for rank in range(2):
        gradient = torch.load(f"{folder}/good{rank}.pt")
        assert torch.equal(gradient, torch.full((2, 4), 9.0)), gradient

    context = mp.spawn(train, args=(2, "later", folder), nprocs=2, join=False)
    assert not context.join(timeout=0.01)
    while not context.join():
        pass
    assert os.path.exists(f"{folder}/later1.pt")

    try:
        mp.spawn(train, args=(2, "raise", folder), nprocs=2)
    except mp.ProcessRaisedException as error:
        assert error.error_index == 1 and error.error_pid > 0
        assert "-- Process 1 terminated with the following error:\nTraceback" in error.msg
        assert "spawned.py" in error.msg and "ValueError: a bad batch" in error.msg, error.msg
    else:
        raise AssertionError("nothing was raised")

    for what, code, name in (("exit", 3, None), ("kill", -9, "SIGKILL")):
        try:
            mp.start_processes(train, args=(2, what, folder), nprocs=2)
        except mp.ProcessExitedException as error:
            assert (error.error_index, error.exit_code, error.signal_name) == (1, code, name), error
        else:
            raise AssertionError("nothing was raised")

    queue = mp.get_context("fork").SimpleQueue()  # such processes must be children of this one
    mp.start_processes(count, args=(queue,), nprocs=2, start_method="fork")
    assert sorted([queue.get(), queue.get()]) == [0, 1]
    print("all as it should be")


if __name__ == "__main__":
    main(sys.argv[1])
