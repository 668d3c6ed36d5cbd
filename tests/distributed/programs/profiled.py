"""Collectives and the buckets of DDP, in the profiler's table and in its trace."""

import json
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model = DDP(nn.Sequential(nn.Linear(300, 300), nn.Linear(300, 900)), bucket_cap_mb=0.5)
x = torch.ones(4, 300)
for _ in range(2):  # the second pass makes the buckets anew
    model(x).sum().backward()
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
    model(x).sum().backward()
    value = torch.ones(3)
    dist.all_reduce(value)
    dist.broadcast(value, src=0)
    dist.all_gather([torch.ones(3) for _ in range(size)], value)
    names = [None] * size
    dist.all_gather_object(names, "a")
    if rank < 2:
        dist.send(value, 1) if rank == 0 else dist.recv(value, 0)
    dist.barrier()
    work = dist.all_reduce(value, async_op=True)
    work.wait()
rows = {row.key: row for row in prof.key_averages()}
buckets = len(model.reducer.buckets)
assert buckets > 1
for name, count in (
    ("gloo:all_reduce", buckets + 2), ("gloo:broadcast", 1), ("gloo:all_gather", 1),
    ("gloo:all_gather_object", 1), ("gloo:barrier", 1), ("gloo:send", int(rank == 0)),
    ("gloo:recv", int(rank == 1)), *((f"DDP bucket {b} leaves", 1) for b in range(buckets)),
    *((f"DDP bucket {b} arrives", 1) for b in range(buckets)),
):  # fmt: skip
    assert (rows[name].count if name in rows else 0) == count, (name, sorted(rows))
assert "gloo:all_reduce" in prof.key_averages().table()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trace.json")
    prof.export_chrome_trace(path)
    with open(path) as file:
        events = json.load(file)["traceEvents"]
calls = [e for e in events if e["ph"] == "X" and e["name"] == "gloo:all_reduce"]
assert len(calls) == buckets + 2
assert [3] in [shape for call in calls for shape in call["args"]["Input Dims"]]
begun = {e["id"]: e for e in events if e["ph"] == "b"}
ended = {e["id"]: e for e in events if e["ph"] == "e"}
assert begun.keys() == ended.keys() and len(begun) == buckets + 1  # the last one is `work`
sizes = [event["args"]["bytes"] for event in begun.values()]
assert sum(sizes[:-1]) == 4 * sum(p.numel() for p in model.parameters()) and sizes[-1] == 12
assert all(ended[number]["ts"] >= event["ts"] for number, event in begun.items())
arrived = [e for e in events if e["ph"] == "X" and e["name"].endswith("arrives")]
left = [e for e in events if e["ph"] == "X" and e["name"].endswith("leaves")]
assert left[0]["ts"] < arrived[0]["ts"]
dist.destroy_process_group()
if rank == 0:
    print("profiled")
