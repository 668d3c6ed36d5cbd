"""SyncBatchNorm on all ranks against BatchNorm of the whole batch, in one process."""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def check(sizes, shape, dtype, tolerance, offset=0.0, **options):
    """Compare outputs, gradients and averages; rank r has `sizes[r]` samples."""
    classes = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
    alone = classes[len(shape)](4, **options).to(dtype)
    if alone.weight is not None:
        with torch.no_grad():
            alone.weight += torch.arange(4.0) / 4
    layer = classes[len(shape)](4, **options).to(dtype)
    layer.load_state_dict(alone.state_dict())
    layer = nn.SyncBatchNorm.convert_sync_batchnorm(layer)
    assert type(layer) is nn.SyncBatchNorm
    generator = np.random.default_rng(1)
    start = sum(sizes[:rank])
    mine = slice(start, start + sizes[rank])
    for _ in range(2):
        values = generator.standard_normal((2, sum(sizes), 4, *shape))
        values[0] += offset
        x, g = (torch.tensor(v, dtype=dtype) for v in values)
        whole, part = x.clone().requires_grad_(), x[mine].clone().requires_grad_()
        wanted, synced = alone(whole), layer(part)
        assert synced.dtype is dtype
        wanted.backward(g)
        synced.backward(g[mine])
        pairs = [(wanted[mine], synced), (whole.grad[mine], part.grad)]
        for name, parameter in layer.named_parameters():
            total = parameter.grad.clone()
            dist.all_reduce(total)  # each rank has its own part
            pairs.append((getattr(alone, name).grad, total))
        pairs += list(zip(alone.buffers(), layer.buffers()))
        for a, b in pairs:
            a, b = a.detach().double().numpy(), b.detach().double().numpy()
            np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance)
    alone.eval(), layer.eval()
    np.testing.assert_allclose(
        alone(x).detach().double().numpy(), layer(x).detach().double().numpy(),
        atol=tolerance, rtol=tolerance,
    )  # fmt: skip


even, uneven = [6] * size, [3 + 5 * r for r in range(size)]
for sizes in (even, uneven, [0, *[4] * (size - 1)]):
    for shape in ((), (3,), (3, 3), (2, 2, 2)):
        check(sizes, shape, torch.float64, 1e-12)
        check(sizes, shape, torch.float32, 2e-6)
check(uneven, (4, 4), torch.float32, 2e-3, offset=1000.0)  # the mean is no trap
check(uneven, (4, 4), torch.float16, 1e-2)
check(uneven, (4, 4), torch.bfloat16, 6e-2)
check(uneven, (4,), torch.float64, 1e-12, momentum=None)
check(uneven, (4,), torch.float64, 1e-12, affine=False)
check(uneven, (4,), torch.float64, 1e-12, track_running_stats=False)

# A group of its own: only this rank's batch counts.
groups = [dist.new_group([r]) for r in range(size)]
layer = nn.SyncBatchNorm(2, process_group=groups[rank])
x = torch.randn(5, 2) + rank
np.testing.assert_allclose(
    layer(x).detach().numpy(), nn.BatchNorm1d(2)(x).detach().numpy(), atol=1e-6
)
one = torch.ones(1 if rank == 0 else 0, 2)
try:
    nn.SyncBatchNorm(2)(one)
except ValueError as error:
    assert "Expected more than 1 value per channel" in str(error)
else:
    raise AssertionError("one value has no variance")
dist.destroy_process_group()
assert nn.SyncBatchNorm(2)(x).shape == (5, 2)  # without a group
if rank == 0:
    print("as one batch")
