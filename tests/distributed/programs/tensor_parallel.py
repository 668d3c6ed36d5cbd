"""A GPT of 4 layers, divided among the ranks, against one process; gradients and steps too."""

import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel, SequenceParallel,
    loss_parallel, parallelize_module,
)  # fmt: skip

WORDS, WIDTH, HEADS, LAYERS, LENGTH = 33, 24, 6, 4, 12

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.o = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        # The number of heads is left open: each rank has some of them.
        q, k, v = (
            f(x).view(b, -1, HEADS // self.parts, WIDTH // HEADS).transpose(1, 2)
            for f in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, q.shape[2], -1))

    parts = 1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


PLAIN = {
    "words": RowwiseParallel(input_layouts=Replicate()),
    "places": ColwiseParallel(output_layouts=Replicate()),
    "blocks.*.attention.[qkv]": ColwiseParallel(),
    "blocks.*.attention.o": RowwiseParallel(),
    "blocks.*.up": ColwiseParallel(),
    "blocks.*.down": RowwiseParallel(),
    "head": ColwiseParallel(use_local_output=False),
}
SEQUENCE = {
    "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "places": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)),
    "blocks.*.norm1": SequenceParallel(),
    "blocks.*.attention": PrepareModuleInput(
        input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
    ),
    "blocks.*.attention.[qkv]": ColwiseParallel(),
    "blocks.*.attention.o": RowwiseParallel(output_layouts=Shard(1)),
    "blocks.*.norm2": SequenceParallel(),
    "blocks.*.up": ColwiseParallel(input_layouts=Shard(1)),
    "blocks.*.down": RowwiseParallel(output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
}

torch.manual_seed(3)
start = GPT()
tokens = torch.randint(0, WORDS, (3, LENGTH + 1))


def train(model, is_parallel):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, gradients = [], {}
    for step in range(3):
        optimizer.zero_grad()
        if is_parallel:
            with loss_parallel():
                logits = model(tokens[:, :-1])
                assert isinstance(logits, DTensor) and logits.placements[0].is_shard(2), logits
                loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
                loss.backward()
        else:
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
        losses.append(float(loss))
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        losses.append(float(norm))
        if step == 0:
            gradients = {n: whole(p.grad) for n, p in model.named_parameters()}
        optimizer.step()
    return losses, gradients


def whole(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


alone = copy.deepcopy(start)
wanted, gradients = train(alone, False)


def check(tp, dp, plan):
    """Train a copy that is divided along one mesh or two, and compare it with `alone`."""
    model = copy.deepcopy(start)
    for block in model.blocks:
        block.attention.parts = tp.size()
    parallelize_module(model, tp, plan)
    if dp is not None:
        for block in model.blocks:
            fully_shard(block, mesh=dp)
        fully_shard(model, mesh=dp)
    divided = [p for p in model.parameters() if isinstance(p, DTensor)]
    seen, seen_gradients = train(model, True)
    assert max(abs(a - b) for a, b in zip(seen, wanted)) <= 1e-5, (seen, wanted)
    for name, g in gradients.items():
        assert (seen_gradients[name] - g).abs().max() <= 1e-5, name
    for (name, p), q in zip(model.named_parameters(), alone.parameters()):
        assert (whole(p) - q).abs().max() <= 1e-5, name
    here = sum(p._local_tensor.numel() for p in divided)
    if rank == 0:
        print(f"{here} of {sum(p.numel() for p in divided)} numbers on each rank")


# As many ranks share the heads as divide them, and as many groups of ranks the parameters.
meshes = [] if HEADS % size else [(mesh, None)]
for dp_size in (n for n in range(1, size + 1) if size % n == 0 and HEADS % (size // n) == 0):
    grid = init_device_mesh("cpu", (dp_size, size // dp_size), mesh_dim_names=("dp", "tp"))
    meshes.append((grid["tp"], grid["dp"]))
for plan in (PLAIN, SEQUENCE):
    for tp, dp in meshes:
        check(tp, dp, plan)

pair = PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate())
layer = parallelize_module(nn.Identity(), mesh, pair)
refused = parallelize_module(nn.Linear(4, 4), mesh, ColwiseParallel())
try:
    fully_shard(refused, mesh=init_device_mesh("cpu", (size,), mesh_dim_names=("dp",)))
except RuntimeError as error:
    assert "is a DTensor already" in str(error) and "mesh['dp']" in str(error), error
else:
    raise AssertionError
assert layer(torch.full((1,), float(rank))).tolist() == list(range(size))
try:
    parallelize_module(nn.LayerNorm(2), mesh, ColwiseParallel())
except NotImplementedError as error:
    assert "ColwiseParallel" in str(error) and "LayerNorm" in str(error)
else:
    raise AssertionError
dist.destroy_process_group()
