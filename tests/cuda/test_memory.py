"""Memory of simulated cards: what is in use, its peak, what holds it, and pinned memory."""

import gc

import pytest

import edutorch
from edutorch import cuda, nn

MIB = 2**20


def test_use_and_peak(cards):
    before = cuda.memory_allocated()
    x = edutorch.zeros(MIB // 4, device="cuda")
    assert cuda.memory_allocated() - before == MIB
    y = x + 1
    view = y[10:]
    assert cuda.memory_allocated() - before == 2 * MIB
    del y
    assert cuda.memory_allocated() - before == 2 * MIB  # the view keeps it
    del view
    assert cuda.memory_allocated() - before == MIB
    assert cuda.max_memory_allocated() - before >= 2 * MIB
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == cuda.memory_allocated()
    assert cuda.memory_reserved() >= 2 * MIB
    cuda.empty_cache()
    assert cuda.memory_reserved() == cuda.memory_allocated()
    assert cuda.memory_allocated("cuda:1") == 0
    assert cuda.reset_max_memory_allocated is cuda.reset_peak_memory_stats
    del x


def test_statistics_have_pytorchs_keys(cards):
    x = edutorch.zeros(1000, device="cuda")
    stats = cuda.memory_stats()
    assert list(stats) == sorted(stats)
    assert stats["allocated_bytes.all.current"] == cuda.memory_allocated() == 4096
    assert stats["allocated_bytes.all.peak"] == cuda.max_memory_allocated()
    assert stats["reserved_bytes.all.current"] == cuda.memory_cached()
    assert stats["num_ooms"] == 0
    assert cuda.memory_stats_as_nested_dict()["active_bytes"]["all"]["allocated"] == 4096
    cuda.reset_accumulated_memory_stats()
    assert cuda.memory_stats()["allocated_bytes.all.allocated"] == 0
    del x
    assert cuda.memory_stats()["allocated_bytes.all.freed"] == 4096


def test_what_holds_the_memory(cards):
    gc.collect()
    model = nn.Linear(64, 32).cuda()
    optimizer = edutorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(edutorch.ones(2, 64, device="cuda")).sum().backward()
    optimizer.step()
    table = cuda.memory_summary()
    assert "8.0 KiB, (32, 64) float32: weight of Linear" in table
    assert "8.0 KiB, (32, 64) float32: the gradient of weight of Linear" in table
    assert "SGD's momentum_buffer of weight of Linear" in table
    assert "Linear" not in cuda.memory_summary(abbreviated=True)
    named = {block["user_metadata"] for part in cuda.memory_snapshot() for block in part["blocks"]}
    assert {"weight of Linear", "bias of Linear"} <= named
    assert sum(part["allocated_size"] for part in cuda.memory_snapshot()) <= cuda.memory_allocated()


def test_out_of_memory_names_what_is_held(cards):
    held = edutorch.zeros(1000, 100, device="cuda")
    cuda.set_per_process_memory_fraction(1e-4)
    with pytest.raises(cuda.OutOfMemoryError) as caught:
        edutorch.zeros(4, MIB, device="cuda")
    text = str(caught.value)
    assert text.startswith("zeros: CUDA out of memory: tried to allocate 16.0 MiB\n")
    assert "cuda:0" in text and "390.6 KiB, (1000, 100) float32: a tensor" in text
    assert "(4, 1048576)" not in text and "torch.cuda.empty_cache()" in text
    with pytest.raises(RuntimeError, match=r"^matmul: CUDA out of memory"):
        held @ edutorch.zeros(100, 5000, device="cuda")
    assert cuda.memory_stats()["num_ooms"] == 2
    assert cuda.get_per_process_memory_fraction() == pytest.approx(1e-4, rel=0.01)
    assert cuda.memory_allocated() >= held.nbytes  # the rest goes on
    with pytest.raises(ValueError, match="Invalid fraction value: 2"):
        cuda.set_per_process_memory_fraction(2)


def test_pinned_memory(cards):
    plain = edutorch.arange(6.0).reshape(2, 3)
    pinned = plain.T.pin_memory()
    assert pinned.is_pinned() and pinned[1:].is_pinned() and not plain.is_pinned()
    assert pinned.tolist() == plain.T.tolist() and pinned.pin_memory() is pinned
    assert pinned.untyped_storage().is_pinned()
    there = pinned.to("cuda", non_blocking=True)
    assert there.tolist() == pinned.tolist() and not there.is_pinned()
    assert pinned.cuda(1, non_blocking=True).device.index == 1
    assert there.copy_(pinned + 1, non_blocking=True).tolist() == (pinned + 1).tolist()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        there.pin_memory()


def test_a_loader_pins_its_batches(cards):
    data = edutorch.utils.data.TensorDataset(edutorch.arange(6.0), edutorch.arange(6))
    for x, y in edutorch.utils.data.DataLoader(data, batch_size=3, pin_memory=True):
        assert x.is_pinned() and y.is_pinned()


def test_nothing_is_pinned_without_a_card():
    x = edutorch.ones(2)
    if not cuda.is_available():
        assert x.pin_memory() is x and not x.is_pinned()
        assert cuda.memory_stats() == {} and cuda.max_memory_allocated() == 0
