"""Runs a program as `__main__`, and at its end compares its weights between the ranks.

    torchrun --nproc-per-node 2 compare_weights.py PROGRAM [ARGUMENT ...]

The weights are the parameters of all optimizers that the program has made. Of a DTensor, the
whole is compared. Each rank prints "weights: N equal on M ranks".
"""

import hashlib
import runpy
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

optimizers = []
start, destroy = torch.optim.Optimizer.__init__, dist.destroy_process_group


def noted(self, *args, **named):
    start(self, *args, **named)
    if threading.current_thread() is threading.main_thread():  # not one of a kernel's maker
        optimizers.append(self)


def compare():
    parameters = {id(p): p for o in optimizers for g in o.param_groups for p in g["params"]}
    digests = []
    with torch.no_grad():
        for parameter in parameters.values():
            whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
            digests.append(hashlib.sha256(whole.detach().cpu().numpy().tobytes()).hexdigest())
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, digests)
    differing = [i for i in range(len(digests)) if len({other[i] for other in gathered}) > 1]
    assert digests and not differing, f"weights {differing} of {len(digests)} differ"
    print(f"weights: {len(digests)} equal on {len(gathered)} ranks", flush=True)


def compare_and_destroy(group=None):
    if group is None and optimizers:
        compare()
        optimizers.clear()
    destroy(group)


torch.optim.Optimizer.__init__ = noted
dist.destroy_process_group = compare_and_destroy
program = sys.argv[1]
del sys.argv[0]
sys.path[0] = str(Path(program).resolve().parent)
module = runpy.run_path(program, run_name="__main__")
if dist.is_initialized() and optimizers:
    compare()
