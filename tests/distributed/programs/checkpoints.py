"""Saves at one world size, loads at others: `checkpoints.py save|load FOLDER`."""

import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.nn.parallel import DistributedDataParallel as DDP

sys.path.insert(0, str(Path(__file__).parent))
from duck_dtensor import Mesh, Sharded

what, folder = sys.argv[1:]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

SHAPES = {"vector": (7,), "matrix": (10, 6), "cube": (3, 5, 4), "few": (2, 3)}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int64": torch.int64}


def whole(name, dtype):
    generator = np.random.default_rng(len(name))
    return torch.tensor(generator.integers(-99, 99, SHAPES[name])).to(DTYPES[dtype])


def meshes():
    """Each way to divide a tensor on so many ranks."""
    yield Mesh(size), [0]
    yield Mesh(size), [None]
    for rows in {1, 2, size}:
        if size % rows == 0:
            yield Mesh(rows, size // rows), [None, 0]
            yield Mesh(rows, size // rows), [0, 1]


def dims_for(shape, dims):
    return [dim if dim is not None and dim < len(shape) else None for dim in dims]


def sharded(make, mesh, dims):
    return {
        f"{name}.{dtype}": Sharded(make(whole(name, dtype)), mesh, dims_for(SHAPES[name], dims))
        for name in SHAPES
        for dtype in DTYPES
    }


def model_and_optimizer(seed):
    torch.manual_seed(seed)
    model = DDP(nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 3)))
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def train(model, optimizer, steps):
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = (model(torch.ones(4, 6) * step) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def raises(call, *texts):
    try:
        call()
    except RuntimeError as error:
        assert all(text in str(error) for text in texts), error
    else:
        raise AssertionError(f"nothing was raised: {texts}")


if what == "save":
    for number, (mesh, dims) in enumerate(meshes()):
        state = sharded(lambda x: x, mesh, dims)
        dcp.save({"tensors": state, "n": number}, checkpoint_id=f"{folder}/mesh{number}")
    model, optimizer = model_and_optimizer(0)
    train(model, optimizer, 3)
    names, states = get_state_dict(model, optimizer)
    saved = {"model": names, "optimizer": states, f"rank{rank}": {"mine": torch.ones(2) * rank}}
    future = dcp.async_save(saved, checkpoint_id=f"{folder}/model")
    again = dcp.async_save({"x": torch.ones(3)}, checkpoint_id=f"{folder}/again")
    losses = train(model, optimizer, 3)  # changes the tensors while they are saved
    future.result(), again.result()
    if rank == 0:
        Path(folder, "losses").write_text(repr(losses))
    # Whole tensors are written once, by ranks in turn.
    state = {f"w{i}": torch.ones(1000) for i in range(8)}
    dcp.save(state, checkpoint_id=f"{folder}/balanced")
    dist.barrier()
    sizes = [p.stat().st_size for p in Path(folder, "balanced").glob("__*")]
    assert len(sizes) == size and sum(sizes) < 8 * 4000 + size * 2500, sizes
    assert max(sizes) < 1.5 * min(sizes), sizes
    # A rank that fails is named by all, and the checkpoint that was there stays.
    bad = {"x": torch.ones(3), "y": open(os.devnull) if rank == size - 1 else 1}
    raises(lambda: dcp.save(bad, checkpoint_id=f"{folder}/balanced"), f"rank {size - 1}")
    other = {"x": torch.ones(3 + rank)}
    raises(lambda: dcp.save(other, checkpoint_id=f"{folder}/balanced"), "x differs in shape")
    dcp.load(state, checkpoint_id=f"{folder}/balanced")
else:
    saved = sorted(Path(folder).glob("mesh*"))
    assert len(saved) >= 3, saved
    for place in saved:
        for mesh, dims in meshes():
            target = {"tensors": sharded(lambda x: x * 0, mesh, dims), "n": None}
            dcp.load(target, checkpoint_id=place)
            wanted = sharded(lambda x: x, mesh, dims)
            for key, value in target["tensors"].items():
                assert torch.equal(value.local, wanted[key].local), (place, key, rank)
            assert f"mesh{target['n']}" == place.name
    model, optimizer = model_and_optimizer(1)
    names, states = get_state_dict(model, optimizer)
    state = {"model": names, "optimizer": states, "rank0": {"mine": torch.zeros(2)}}
    dcp.load(state, checkpoint_id=f"{folder}/model")
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    assert state["rank0"]["mine"].tolist() == [0, 0]
    losses = train(model, optimizer, 3)
    assert np.allclose(losses, eval(Path(folder, "losses").read_text()), atol=1e-6), losses
    raises(
        lambda: dcp.load({"model": {"0.weight": torch.ones(3), "new": torch.ones(1)}},
                         checkpoint_id=f"{folder}/model"),
        "another model", "missing", "model.new", "unexpected", "model.2.bias", "(40, 6)",
    )  # fmt: skip
    raises(lambda: dcp.load({}, checkpoint_id=f"{folder}/none"), "no complete checkpoint")
    # Rank 0 has the weights; all others receive them.
    torch.manual_seed(rank)
    model = nn.Linear(5, 4)
    full = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, get_model_state_dict(model) if rank == 0 else {}, options=full)
    bits = [None] * size
    dist.all_gather_object(bits, model.weight.detach().numpy().tobytes())
    assert all(other == bits[0] for other in bits)
latest = dcp.latest_checkpoint(folder)
assert latest == f"{folder}/balanced", latest
if rank == 0:
    print("checkpoints agree")
dist.destroy_process_group()
