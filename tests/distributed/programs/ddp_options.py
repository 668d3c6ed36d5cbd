"""What DDP can be told: hooks, uneven inputs, unused parameters, buffers. Run on two ranks."""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    default_hooks,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def same_on_all(tensors):
    bits = [None] * size
    dist.all_gather_object(bits, [t.detach().numpy().tobytes() for t in tensors])
    return all(other == bits[0] for other in bits)


def raises(error_type, call, *texts):
    try:
        call()
    except error_type as error:
        for text in texts:
            assert text in str(error), (text, str(error))
    else:
        raise AssertionError(f"nothing was raised: {texts}")


def batch(number):
    return torch.tensor(np.random.default_rng(number).standard_normal((6, 40)), dtype=torch.float32)


def model(seed=0, **options):
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 8))
    return DDP(layers, bucket_cap_mb=0.004, **options)


def gradients(network, x):
    network.zero_grad()
    (network(x) ** 2).mean().backward()
    return [p.grad.clone() for p in network.parameters()]


def compare_hooks():
    x = batch(rank)
    wanted = gradients(model(), x)
    for hook, tolerance in (
        (default_hooks.allreduce_hook, 1e-6),
        (default_hooks.fp16_compress_hook, 2e-3),
        (default_hooks.bf16_compress_hook, 2e-2),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 2e-3),
        (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), 2e-2),
    ):
        for options in ({}, {"gradient_as_bucket_view": True}):
            network = model(**options)
            network.register_comm_hook(None, hook)
            for _ in range(3):  # the buckets are made anew after the first pass
                averaged = gradients(network, x)
            for a, b in zip(wanted, averaged):
                assert (a - b).abs().max() <= tolerance * a.abs().max(), hook
            assert same_on_all(averaged)
            if tolerance > 1e-3:
                assert any((a != b).any() for a, b in zip(wanted, averaged)), "nothing was rounded"

    def own_hook(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        tensor = bucket.buffer()
        parts = [torch.zeros_like(tensor) for _ in range(size)]
        dist.all_gather(parts, tensor, group=state)
        future = torch.futures.Future()
        future.set_result(sum(parts) / size)
        return future

    network = model()
    network.register_comm_hook(dist.group.WORLD, own_hook)
    for a, b in zip(wanted, gradients(network, x)):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)
    network = model()
    register_ddp_comm_hook(DDPCommHookType.NOOP, network)
    alone = gradients(network, x)
    assert not same_on_all(alone)
    raises(RuntimeError, lambda: network.register_comm_hook(None, print), "only be called once")
    raises(TypeError, lambda: model().register_comm_hook(None, 3), "must be callable")


def power_sgd():
    x = batch(rank)
    wanted = gradients(model(), x)
    # With the rank of the matrices, nothing is lost.
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        network = model()
        state = powerSGD_hook.PowerSGDState(None, 64, 2, min_compression_rate=0.01)
        network.register_comm_hook(state, hook)
        for _ in range(4):
            averaged = gradients(network, x)
        assert same_on_all(averaged)
        for a, b in zip(wanted, averaged):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=2e-6)
    # With rank 1, the errors are given back: the mean over many passes is the gradient.
    network = model()
    state = powerSGD_hook.PowerSGDState(None, 1, 2)
    network.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    total = [torch.zeros_like(a) for a in wanted]
    for number in range(62):
        averaged = gradients(network, x)
        if number >= 2:
            total = [t + f for t, f in zip(total, averaged)]
    assert same_on_all(averaged)
    before, after = state.total_numel_before_compression, state.total_numel_after_compression
    assert after < before / 4, (before, after)
    error = (total[0] / 60 - wanted[0]).norm() / wanted[0].norm()
    one = (averaged[0] - wanted[0]).norm() / wanted[0].norm()
    assert error < 0.2 < one, (error, one)
    raises(ValueError, lambda: powerSGD_hook.PowerSGDState(None, 1, 1), "start_powerSGD_iter")


def uneven(by_all, as_views):
    """Rank r has 3 + 2 r batches."""
    network = model(gradient_as_bucket_view=as_views)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    with network.join(divide_by_initial_world_size=by_all):
        for step in range(3 + 2 * rank):
            optimizer.zero_grad()
            (network(batch(10 * step + rank)) ** 2).mean().backward()
            optimizer.step()
    assert same_on_all(network.parameters())
    alone = model().module
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.5)
    for step in range(3 + 2 * (size - 1)):
        optimizer.zero_grad()
        active = [r for r in range(size) if step < 3 + 2 * r]
        loss = sum((alone(batch(10 * step + r)) ** 2).mean() for r in active)
        (loss / (size if by_all else len(active))).backward()
        optimizer.step()
    for a, b in zip(network.parameters(), alone.parameters()):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-6)


class Counter(Joinable):
    """Counts the ranks with a batch in each iteration."""

    def __init__(self):
        super().__init__()
        self.counts, self.last = [], None

    def __call__(self):
        Join.notify_join_context(self)
        self.add(1.0)

    def add(self, value):
        total = torch.tensor(value)
        dist.all_reduce(total)
        self.counts.append(int(total))

    def join_hook(self, **kwargs):
        counter = self

        class Hook(JoinHook):
            def main_hook(self):
                counter.add(0.0)

            def post_hook(self, is_last_joiner):
                counter.last = is_last_joiner

        return Hook()

    @property
    def join_device(self):
        return torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD


def join_others():
    network = model()

    def train():
        with network.join(throw_on_early_termination=True):
            for step in range(1 + rank):
                network(batch(step)).sum().backward()

    text = "exhausted all inputs" if rank == 0 else "at least one rank that exhausted inputs"
    raises(RuntimeError, train, text)
    raises(ValueError, lambda: Join([]), "at least one joinable")

    counter = Counter()
    with Join([counter]):
        for _ in range(2 + rank):
            counter()
    assert counter.counts == [sum(step < 2 + r for r in range(size)) for step in range(size + 1)], (
        counter.counts
    )
    assert counter.last == (rank == size - 1)


class Branches(nn.Module):
    """Rank r uses part r; the last part is used by none."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(2, 2) for _ in range(size + 1)])
        self.last = nn.Linear(2, 1)

    def forward(self, inputs):
        return self.last(self.parts[rank](inputs))


def unused():
    for options in ({"find_unused_parameters": True}, {"static_graph": True}):
        for as_views in (False, True):
            network = DDP(Branches(), gradient_as_bucket_view=as_views, **options)
            for _ in range(3):
                network.zero_grad()
                network(torch.ones(2, 2)).sum().backward()
                assert all(p.grad is not None for p in network.module.parts[:size].parameters())
                assert all(p.grad is None for p in network.module.parts[size].parameters())
                assert same_on_all([p.grad for p in network.parameters() if p.grad is not None])
    network = DDP(Branches())
    network(torch.ones(2, 2)).sum().backward()
    raises(
        RuntimeError, lambda: network(torch.ones(2, 2)), "Expected to have finished reduction",
        f"parts.{size}.weight", "find_unused_parameters=True",
    )  # fmt: skip


def buffers():
    for copied in (True, False):
        network = DDP(nn.BatchNorm1d(3), broadcast_buffers=copied)
        for step in range(3):
            network(torch.randn(8, 3) + rank)
        mean = network.module.running_mean
        with torch.no_grad():
            network(torch.zeros(8, 3))  # all update alike what was copied from rank 0
        assert same_on_all([mean]) == copied
    # The rank that has no more batches gets the buffers of one that has.
    network = DDP(nn.BatchNorm1d(3))
    with network.join():
        for step in range(2 + 2 * (rank == 0)):
            network(torch.ones(4, 3) * step).sum().backward()
    assert same_on_all(network.module.buffers())
    assert int(network.module.num_batches_tracked) == 4


def differing():
    raises(
        RuntimeError, lambda: DDP(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1 + rank))),
        "'1.weight' differs", "1.weight (1, 2)", "1.weight (2, 2)", "rank  1",
    )  # fmt: skip
    layers = [nn.Linear(2, 2) for _ in range(1 + rank)]
    raises(RuntimeError, lambda: DDP(nn.Sequential(*layers)), "different numbers of parameters")
    raises(RuntimeError, lambda: DDP(nn.Tanh()), "doesn't have any parameters")


compare_hooks()
power_sgd()
for by_all in (True, False):
    for as_views in (True, False):
        uneven(by_all, as_views)
join_others()
unused()
buffers()
differing()
if rank == 0:
    print("all options")
dist.destroy_process_group()
