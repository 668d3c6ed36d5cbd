"""FSDP, in both faces, against DDP; and how many bytes each rank keeps."""

import copy
import itertools
import sys
import weakref
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy, FullOptimStateDictConfig, FullStateDictConfig, FullyShardedDataParallel,
    MixedPrecisionPolicy, OptimStateKeyType, ShardingStrategy, StateDictType, fully_shard,
)  # fmt: skip
from torch.distributed.fsdp.param_group import ParamGroup
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

WORDS, WIDTH, HEADS, LENGTH = 65, 32, 4, 8
LAYERS = int(sys.argv[1])

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight  # tied

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


torch.manual_seed(4)
start = GPT()
data = torch.randint(0, WORDS, (10, size, 2, LENGTH + 1))


def new(**options):
    model = copy.deepcopy(start)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def train(model, make, steps=10, parts=1):
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        for part in data[step, rank].chunk(parts):
            logits = model(part[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1).float(), part[:, 1:].flatten()) / parts
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.9)
        optimizer.step()
    return optimizer, float(norm)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def check(model, wanted, limit=1e-5):
    named = {n: p for n, p in model.named_parameters()}
    for (name, p), (_, q) in zip(named.items(), wanted):
        whole = p.full_tensor() if isinstance(p, DTensor) else p
        assert (whole - q).abs().max() <= limit, (name, (whole - q).abs().max())


def bytes_of(tensors):
    memory = {}
    for tensor in tensors:
        array = tensor._array
        while getattr(array, "base", None) is not None:
            array = array.base
        memory[id(array)] = array.nbytes
    return sum(memory.values())


def check_optimizer_states(model, optimizer):
    """Save the state of an optimizer in each form, load it into another one, and step both."""
    for part in data[:2, rank]:
        model(part[:, :-1]).float().square().mean().backward()
        optimizer.step()
    for form, config in (
        (StateDictType.FULL_STATE_DICT, FullOptimStateDictConfig(rank0_only=True)),
        (StateDictType.FULL_STATE_DICT, None),
        (StateDictType.SHARDED_STATE_DICT, None),
    ):
        other = sgd(model.parameters())
        with FullyShardedDataParallel.state_dict_type(model, form, None, config):
            state = FullyShardedDataParallel.optim_state_dict(model, optimizer)
            is_here = config is None or rank == 0
            assert bool(state) == is_here
            if is_here:
                value = state["state"]["words.weight"]["momentum_buffer"]
                assert value.shape == (WORDS, WIDTH), (form, type(value), value.shape)
                assert isinstance(value, DTensor) == (form is StateDictType.SHARDED_STATE_DICT)
            load = FullyShardedDataParallel.optim_state_dict_to_load
            other.load_state_dict(load(model, other, state))
        check_same_state(optimizer, other)
    state = FullyShardedDataParallel.full_optim_state_dict(model, optimizer)
    other = sgd(model.parameters())
    scatter = FullyShardedDataParallel.scatter_full_optim_state_dict
    other.load_state_dict(scatter(state if rank == 0 else None, model, optim=other))
    check_same_state(optimizer, other)
    if rank == 0:
        rekey = FullyShardedDataParallel.rekey_optim_state_dict
        numbered = rekey(state, OptimStateKeyType.PARAM_ID, model)
        assert list(numbered["state"]) == list(range(len(state["state"])))
        assert rekey(numbered, OptimStateKeyType.PARAM_NAME, model)["state"] == state["state"]


def check_same_state(one, other):
    for p, q in zip(one.param_groups[0]["params"], other.param_groups[0]["params"]):
        a, b = one.state[p]["momentum_buffer"], other.state[q]["momentum_buffer"]
        assert (a._local_tensor == b._local_tensor).all()


ddp = DistributedDataParallel(copy.deepcopy(start))
_, ddp_norm = train(ddp, sgd)
wanted = list(ddp.module.named_parameters())

model = new()
_, norm = train(model, sgd)
check(model, wanted)
assert abs(norm - ddp_norm) < 1e-5, (norm, ddp_norm)
assert all(isinstance(p, DTensor) for p in model.parameters())
assert model.head.weight is model.words.weight
assert all(m._fsdp.group.full is None for m in [model, *model.blocks])

model = new(reshard_after_forward=False, offload_policy=CPUOffloadPolicy())
train(model, sgd)
check(model, wanted)

# What each rank keeps: parameters, gradients and the state of Adam.
model = new()
optimizer, _ = train(model, lambda p: torch.optim.AdamW(p, lr=1e-3), steps=2)
parameters = list(model.parameters())
state = [v for s in optimizer.state.values() for v in s.values() if v.numel() > 1]
here = bytes_of([*parameters, *(p.grad for p in parameters), *state])
whole = 4 * sum(4 * p.numel() for p in parameters)
assert here <= 1.05 * whole / size, (here, whole)

# The most that is gathered at one time: the outermost, and two blocks.
alive, peak = [], 0
gather = ParamGroup.gather


def counted(group):
    global peak
    is_new = group.full is None
    arrays = gather(group)
    if is_new:
        alive.extend(map(weakref.ref, arrays))
        peak = max(peak, sum(a.nbytes for a in (r() for r in alive) if a is not None))
    return arrays


ParamGroup.gather = counted
train(model, sgd, steps=1)
ParamGroup.gather = gather
of_block = 4 * sum(p.numel() for p in model.blocks[0].parameters())
of_root = whole // 4 - LAYERS * of_block
assert of_block < peak <= of_root + 2 * of_block, (peak, of_root, of_block)

# Gathered beside the computation, in both directions: the same numbers.
model = new()
for before, after in itertools.pairwise(model.blocks):
    before.set_modules_to_forward_prefetch([after])
    after.set_modules_to_backward_prefetch([before])
calls = []
prefetch = ParamGroup.prefetch
ParamGroup.prefetch = lambda group: (calls.append(group.full is None), prefetch(group))
train(model, sgd)
ParamGroup.prefetch = prefetch
check(model, wanted)
assert calls == [True] * (2 * 10 * (LAYERS - 1)), calls
model.blocks[0]._fsdp.group.prefetch()
model.load_state_dict(start.state_dict())  # what was on its way is out of date
with torch.no_grad():
    logits = model(data[0, rank, :, :-1])
assert (logits - start(data[0, rank, :, :-1])).abs().max() <= 1e-5
try:
    model.set_modules_to_forward_prefetch([model.norm])
except TypeError as error:
    assert "call fully_shard" in str(error)
else:
    raise AssertionError

# The activations of the blocks are computed again in backward.
model = copy.deepcopy(start)
apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, Block))
for block in model.blocks:
    fully_shard(block, mesh=mesh)
train(fully_shard(model, mesh=mesh), sgd)
check(model, wanted)
assert list(model.state_dict()) == list(start.state_dict())

# Several backward passes for one step.
model = new()
other = DistributedDataParallel(copy.deepcopy(start))
for network in (model, other):
    optimizer = sgd(network.parameters())
    for step, is_last in ((0, False), (1, True)):
        batch = data[step, rank]
        if network is model:
            network.set_requires_gradient_sync(is_last)
        with other.no_sync() if network is other and not is_last else nullcontext():
            logits = network(batch[:, :-1]).flatten(0, 1)
            F.cross_entropy(logits, batch[:, 1:].flatten()).backward()
    optimizer.step()
check(model, list(other.module.named_parameters()))

# Half precision in the blocks.
model = new(mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
assert model(data[0, rank, :, :-1]).dtype == torch.bfloat16
train(model, sgd, steps=2)
assert all(p.dtype == p.grad.dtype == torch.float32 for p in model.parameters())

ddp = DistributedDataParallel(copy.deepcopy(start))
train(ddp, sgd, steps=3)
wanted = list(ddp.module.named_parameters())
for name in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
    model = FullyShardedDataParallel(
        copy.deepcopy(start), sharding_strategy=ShardingStrategy[name],
        auto_wrap_policy=ModuleWrapPolicy({Block}), sync_module_states=True,
    )  # fmt: skip
    train(model, sgd, steps=3)
    check(model, wanted)
    state = model.state_dict()
    assert list(state) == list(start.state_dict()), list(state)
    assert all(type(v) is torch.Tensor for v in state.values())
    for key, q in wanted:
        assert (state[key] - q).abs().max() <= 1e-5
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        parts = {key: value.clone() for key, value in model.state_dict().items()}
        assert all(isinstance(v, DTensor) for v in parts.values())
    only = FullStateDictConfig(rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, only):
        assert bool(model.state_dict()) == (rank == 0)
    model.load_state_dict(start.state_dict())
    check(model, start.named_parameters(), 0)
    model.load_state_dict(parts)
    check(model, wanted)
    check_optimizer_states(model, sgd(model.parameters()))
    with FullyShardedDataParallel.summon_full_params(model):
        assert model.module.words.weight.shape == (WORDS, WIDTH)
        model.module.words.weight.fill_(2.0)
    assert (model.state_dict()["words.weight"] == 2).all()
if rank == 0:
    print(f"{here} bytes of {whole} on each of {size} ranks, {peak} gathered at most")
dist.destroy_process_group()
