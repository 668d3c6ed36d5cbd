"""Ops on distributed tensors, in all placements of their inputs, against plain ones."""

import io
import itertools
import pickle

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import (
    DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor,
)  # fmt: skip

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))
generator = np.random.default_rng(5)
checks = 0


def random(*shape):
    return torch.tensor(generator.standard_normal(shape).astype(np.float32))


def placed(whole, placement):
    """Return a leaf on this rank, and the DTensor that the leaves of all ranks are together."""
    if placement.is_partial():
        terms = [whole * 0.25, *[whole * (0.75 / (size - 1))] * (size - 1)] if size > 1 else [whole]
        local = terms[rank].detach().requires_grad_()
        return DTensor.from_local(local, mesh, [placement]), local
    value = distribute_tensor(whole, mesh, [placement])
    if whole.is_floating_point():
        value.requires_grad_()
    return value, value


def check(name, f, *wholes):
    global checks
    plain = [w.clone().requires_grad_() if w.is_floating_point() else w for w in wholes]
    wanted = f(*plain)
    weight = random(*wanted.shape)
    (wanted * weight).sum().backward()
    choices = []
    for whole in wholes:
        shards = [Shard(d) for d in range(whole.ndim)]
        choices.append([Replicate(), *shards, *([Partial()] if whole.is_floating_point() else [])])
    for placements in itertools.product(*choices):
        said = (name, placements)
        inputs, leaves = zip(*map(placed, wholes, placements))
        result = f(*inputs)
        assert isinstance(result, DTensor) and result.shape == wanted.shape, (said, result.shape)
        full = result.full_tensor()
        assert (full - wanted).abs().max() <= 1e-4, (said, result, wanted)
        (full * weight).sum().backward()
        for leaf, own, placement in zip(leaves, plain, placements):
            if not own.requires_grad:
                continue
            g = leaf.grad.full_tensor() if isinstance(leaf, DTensor) else leaf.grad
            assert (g - own.grad).abs().max() <= 1e-4, (said, placement, g, own.grad)
        checks += 1


x, y, v, w, b = random(5, 4), random(5, 4), random(4), random(6, 4), random(6)
check("add", lambda a, c: a + c, x, y)
check("add of a row", lambda a, c: a + c, x, v)
check("sub", lambda a, c: a - 2 * c, x, v)
check("mul", lambda a, c: a * c, x, y)
check("div", lambda a, c: a / (c.exp() + 1), x, v)
check("column", lambda a, c: a * c, x, random(5, 1))
check("numbers", lambda a: (2 * a - 1) / 3 + a.tanh() ** 2, x)
check("where", lambda a, c: torch.where(a > 0, a, c), x, y)
check("gelu", F.gelu, x)
check("linear", F.linear, x, w, b)
check("linear of three", lambda a, c: F.linear(a, c), random(2, 3, 4), w)
check("matmul", torch.matmul, x, w.T.contiguous())
check("matmul of a batch", torch.matmul, random(3, 2, 4), random(3, 4, 5))
check("matmul, broadcast", torch.matmul, random(3, 2, 4), random(1, 4, 5))
check("matmul by a vector", torch.matmul, x, v)
check("mm", torch.mm, x, w.T.contiguous())
check("bmm", torch.bmm, random(3, 2, 4), random(3, 4, 5))
check("sum", lambda a: a.sum(), x)
check("sum of rows", lambda a: a.sum(0), x)
check("sum, kept", lambda a: a.sum(-1, keepdim=True), x)
check("mean", lambda a: a.mean(), x)
check("mean of rows", lambda a: a.mean(1), x)
check("amax", lambda a: a.amax(1), x)
check("max", lambda a: a.max(1).values, x)
check("var", lambda a: a.var(0), x)
check("norm", lambda a: torch.linalg.vector_norm(a), x)
check("softmax", lambda a: F.softmax(a, -1), x)
check("log_softmax", lambda a: F.log_softmax(a, 0), x)
check("layer_norm", lambda a, c, d: F.layer_norm(a, (4,), c, d), x, random(4), random(4))
check("layer_norm of three", lambda a: F.layer_norm(a, (4,)), random(3, 2, 4))
check("rms_norm", lambda a, c: F.rms_norm(a, (4,), c), x, random(4))
check("embedding", F.embedding, torch.tensor([[0, 4, 2], [1, 1, 3]]), x)
check("embedding of three rows", F.embedding, torch.tensor([0, 2, 1]), random(3, 2))
check("transpose", lambda a: a.T * 2, x)
check("permute", lambda a: a.permute(2, 0, 1), random(2, 3, 4))
check("view", lambda a: a.view(4, 2, 3), random(4, 6))
check("view of parts", lambda a: a.view(2, 4, 3).transpose(1, 2), random(8, 3))
check("flatten", lambda a: a.flatten(0, 1), random(4, 2, 3))
check("flatten uneven", lambda a: a.reshape(-1), random(3, 2))
check("unsqueeze", lambda a: a.unsqueeze(1).expand(5, 3, 4), x)
check("squeeze", lambda a: a.squeeze(1), random(5, 1, 4))
check("getitem", lambda a: a[:, 1:3], x)
check("getitem of a row", lambda a: a[2], x)
check("chunk", lambda a: torch.cat([p * (i + 1) for i, p in enumerate(a.chunk(2, 1))], 1), x)
check("select", lambda a: a.select(0, 1), x)
check("stack", lambda a, c: torch.stack([a, c], 1), x, y)
check("nll", lambda a, t: F.cross_entropy(a, t), x, torch.tensor([0, 3, 1, 1, 2]))
check("nll, summed", lambda a, t: F.cross_entropy(a, t, reduction="sum"), x,
      torch.tensor([0, 3, 1, 1, 2]))  # fmt: skip
check("mse", F.mse_loss, random(4, 2), random(4, 2))
check("attention", lambda q, k, u: F.softmax(q @ k.transpose(-2, -1), -1) @ u,
      random(2, 2, 3, 4), random(2, 2, 3, 4), random(2, 2, 3, 4))  # fmt: skip
q, k, u = random(2, 3, 4, 2), random(2, 3, 4, 2), random(2, 3, 4, 2)
check(
    "attention as one op",
    lambda *all: F.scaled_dot_product_attention(*all, is_causal=True),
    q,
    k,
    u,
)
angles = torch.polar(torch.ones(4, 2), torch.arange(8.0).view(4, 2))


def rotate(a):
    parts = torch.view_as_complex(a.reshape(*a.shape[:-1], -1, 2))
    turns = distribute_tensor(angles, mesh) if isinstance(a, DTensor) else angles
    return torch.view_as_real(parts * turns).flatten(2)


check("rotary embedding", rotate, random(3, 4, 4))
check("conv2d", lambda a, f: F.conv2d(a, f, padding=1), random(2, 3, 4, 4), random(4, 3, 3, 3))
check("conv2d with a bias", F.conv2d, random(2, 2, 3, 3), random(3, 2, 2, 2), random(3))
check(
    "conv2d in groups",
    lambda a, f: F.conv2d(a, f, groups=2),
    random(2, 4, 3, 3),
    random(4, 2, 2, 2),
)
check("conv1d", F.conv1d, random(2, 3, 5), random(4, 3, 2))
check("pools", lambda a: F.max_pool2d(a, 2) + F.avg_pool2d(a, 2), random(3, 2, 4, 4))
check("pad", lambda a: F.pad(a, (1, 2)), random(3, 2, 4))
check("group_norm", lambda a, c, d: F.group_norm(a, 2, c, d), random(3, 4, 2), random(4), random(4))
check("tril", torch.tril, random(3, 2, 4))
check("einsum", lambda a, c: torch.einsum("bij,bkj->bik", a, c), random(2, 3, 4), random(2, 2, 4))
check("einsum, summed", lambda a, c: torch.einsum("ij,kl->j", a, c), random(2, 3), random(2, 2))
check("sort", lambda a: a.sort(1).values, x)
check("bce", F.binary_cross_entropy_with_logits, random(4, 2), random(4, 2))
check("inv", torch.linalg.inv, random(3, 3) + 4 * torch.eye(3))
check("t", lambda a: a.t() * 2, x)
check("split", lambda a: torch.cat([p * (i + 1) for i, p in enumerate(a.split([1, 3], 1))], 1), x)
check("masked_fill", lambda a: a.masked_fill(a < 0, 0.5), x)
check("double", lambda a: a.double().float(), x)

# Every way from one placement to another, of parts of different sizes.
wholes = [random(5, 3), random(1, 7), random(4, 4)]
for whole, before, after in itertools.product(
    wholes,
    [Replicate(), Shard(0), Shard(1), Partial()],
    [Replicate(), Shard(0), Shard(1), Partial()],
):
    if after.is_partial() and before.is_shard():
        continue
    value, leaf = placed(whole, before)
    moved = value.redistribute(placements=[after])
    assert moved.placements == (after,)
    assert np.allclose(moved.full_tensor().detach().numpy(), whole.numpy(), atol=1e-6)
    factor = random(*whole.shape)
    (moved.full_tensor() * factor).sum().backward()
    g = leaf.grad.full_tensor() if isinstance(leaf, DTensor) else leaf.grad
    assert np.allclose(g.numpy(), factor.numpy(), atol=1e-6), (before, after)

# The gradient of a local tensor, where it is wanted.
for leaving, wanted in ((Replicate(), 1), (Partial(), float(rank == 0))):
    local = torch.ones(2, 3, requires_grad=True)
    whole = DTensor.from_local(local, mesh, [Replicate()], grad_placements=[leaving])
    factor = torch.arange(6.0).view(2, 3)
    (whole.to_local() * factor).sum().backward()
    assert (local.grad == factor * wanted).all()

# What cannot leave this process says so.
part = distribute_tensor(torch.ones(size * 2), mesh, [Shard(0)])
for leave in (pickle.dumps, lambda x: torch.save({"w": x}, io.BytesIO())):
    try:
        leave(part)
    except RuntimeError as error:
        assert "distributed.checkpoint.save" in str(error), error
    else:
        raise AssertionError("a part was saved as if it were the whole")

# Two axes of a mesh.
grid = init_device_mesh("cpu", (1, size), mesh_dim_names=("dp", "tp"))
assert grid["tp"].size() == size and grid["tp"].get_local_rank() == rank
assert grid["dp"].size() == 1 and grid.get_coordinate() == [0, rank]
assert grid.get_group("tp").size() == size and grid.size(1) == size
value = distribute_tensor(wholes[0], grid, [Shard(0), Shard(0)])
assert np.allclose(value.full_tensor().numpy(), wholes[0].numpy())
turned = value.redistribute(placements=[Shard(1), Shard(0)])
assert np.allclose(
    (turned @ turned.T).full_tensor().numpy(), (wholes[0] @ wholes[0].T).numpy(), atol=1e-5
)

# Parameters, optimizers, norms of gradients, dropout, copies.
torch.manual_seed(0)
for make in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.AdamW(p)):
    alone = torch.nn.Linear(6, 5)
    model = torch.nn.Linear(6, 5)
    model.load_state_dict(alone.state_dict())
    distribute_module(
        model, mesh,
        lambda name, mod, m: [
            mod.register_parameter(n, nn.Parameter(distribute_tensor(p.detach(), m, [Shard(0)])))
            for n, p in list(mod.named_parameters(recurse=False))
        ],
    )  # fmt: skip
    assert isinstance(model.weight, DTensor) and isinstance(model.weight, torch.nn.Parameter)
    inputs = random(7, 6)
    for network in (alone, model):
        optimizer = make(network.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            data = inputs if network is alone else distribute_tensor(inputs, mesh)
            network(data).pow(2).mean().backward()
            norm = torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            optimizer.step()
        if network is alone:
            first = norm
    assert abs(float(norm) - float(first)) < 1e-5, (norm, first)
    for p, q in zip(model.parameters(), alone.parameters()):
        assert p._local_tensor.numel() < q.numel() or size == 1
        assert (p.full_tensor() - q).abs().max() < 1e-5
    state = {k: v.full_tensor() for k, v in model.state_dict().items()}
    model.load_state_dict({k: distribute_tensor(v, mesh, [Shard(0)]) for k, v in state.items()})
    assert (model.weight.full_tensor() - alone.weight).abs().max() < 1e-5
torch.manual_seed(1)
kept = F.dropout(x, 0.5)
torch.manual_seed(1)
assert (
    F.dropout(distribute_tensor(x, mesh, [Shard(0)]), 0.5).full_tensor() - kept
).abs().max() == 0

torch.manual_seed(2)
drawn = torch.empty(5, 3).normal_()
torch.manual_seed(2)
parts = nn.init.normal_(distribute_tensor(torch.zeros(5, 3), mesh, [Shard(0)]))
assert (parts.full_tensor() - drawn).abs().max() == 0
parts.zero_().add_(1).mul_(distribute_tensor(drawn, mesh))
assert (parts.full_tensor() - drawn).abs().max() == 0

for call, words in (
    (lambda: torch.mode(distribute_tensor(x, mesh, [Shard(0)])),
     ("mode", "Shard(dim=0)", "redistribute")),
    (lambda: distribute_tensor(x, mesh, [Shard(0)]).transpose_(0, 1), ("transpose_",)),
    (lambda: distribute_tensor(x, mesh, [Shard(0)]).__setitem__(0, 1.0), ("__setitem__",)),
    (lambda: distribute_tensor(x, mesh, [Shard(0)]) + y, ("add", "mixed", "distribute_tensor")),
    (lambda: distribute_tensor(x, mesh, [Shard(3)]), ("Shard(dim=3)", "2 dims")),
    (lambda: DTensor.from_local(x, mesh, [Shard(0)], shape=(7, 4)), ("from_local", "rank")),
):  # fmt: skip
    try:
        call()
    except (RuntimeError, ValueError) as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(words)
if rank == 0:
    print(checks, "checks")
dist.destroy_process_group()
