"""Streams and events, on simulated cards."""

import pytest

import edutorch
from edutorch import cuda
from edutorch.errors import DeviceError


def test_a_stream_is_used_inside_of_a_block(cards):
    first, second = cuda.Stream(), cuda.Stream(priority=-1)
    assert cuda.current_stream() == cuda.default_stream() != first != second
    with cuda.stream(first):
        assert cuda.current_stream() == first
        with second:
            assert cuda.current_stream() == second
        assert cuda.current_stream() == first
        with cuda.stream(None):
            assert cuda.current_stream() == first
    assert cuda.current_stream().cuda_stream == 0
    assert second.priority == -1 and first.query() and first.device == edutorch.device("cuda:0")
    assert repr(cuda.default_stream()) == "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>"
    assert len({first, second, cuda.current_stream(), cuda.default_stream()}) == 3


def test_a_stream_brings_its_card_along(cards):
    there = cuda.Stream("cuda:1")
    with cuda.stream(there):
        assert cuda.current_device() == 1
        assert edutorch.ones(1, device="cuda").device.index == 1
    assert cuda.current_device() == 0
    assert cuda.current_stream(1) == cuda.default_stream(1)
    cuda.set_stream(there)
    assert cuda.current_device() == 1 and cuda.current_stream() == there
    cuda.set_stream(cuda.default_stream(1))
    cuda.set_device(0)


def test_streams_wait_for_each_other(cards):
    work, done = cuda.Stream(), cuda.Event()
    work.wait_stream(cuda.current_stream())
    work.record_event(done)
    assert isinstance(work.record_event(), cuda.Event)
    cuda.current_stream().wait_event(done)
    done.wait()
    done.synchronize()
    work.synchronize()
    cuda.synchronize("cuda:1")
    x = edutorch.ones(3, device="cuda")
    x.record_stream(work)
    edutorch.ones(3).record_stream(work)  # nothing to keep on the CPU


def test_time_between_events(cards):
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert repr(start) == "<torch.cuda.Event uninitialized>" and start.query()
    with pytest.raises(ValueError, match="recorded before calculating elapsed time"):
        start.elapsed_time(end)
    start.record()
    sum(range(100_000))
    end.record()
    assert 0 < start.elapsed_time(end) < 60_000
    assert end.elapsed_time(start) < 0
    plain = cuda.Event()
    plain.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        plain.elapsed_time(end)
    with pytest.raises(ValueError, match="has no timing"):
        cuda.Event(enable_timing=True, interprocess=True)
    with pytest.raises(ValueError, match="does not match the recording stream"):
        plain.record(cuda.Stream(1))


def test_streams_of_other_libraries(cards):
    theirs = cuda.ExternalStream(0x1230, 1)
    assert (theirs.cuda_stream, theirs.device_index) == (0x1230, 1)
    assert cuda.get_stream_from_external(0x1230, 1) == theirs
    assert theirs._as_parameter_.value == 0x1230


def test_cards(cards):
    with cuda.device(1):
        assert cuda.current_device() == 1
        with cuda.device(-1), cuda.device(None):
            assert cuda.current_device() == 1
    with cuda.device_of(edutorch.ones(1, device="cuda:1")):
        assert cuda.current_device() == 1
    with cuda.device_of(edutorch.ones(1)):
        assert cuda.current_device() == 0
    properties = cuda.get_device_properties("cuda:1")
    assert "imulated" in properties.name == cuda.get_device_name(1)
    assert (properties.major, properties.minor) == cuda.get_device_capability()
    assert properties.total_memory == cuda.mem_get_info()[1] and properties.multi_processor_count
    assert cuda.can_device_access_peer(0, 1) and not cuda.can_device_access_peer(0, 0)
    assert cuda.get_arch_list()[-1] == "sm_120" and "code=sm_90" in cuda.get_gencode_flags()
    assert cuda.is_initialized() and not cuda.is_tf32_supported()
    assert "simulated" in cuda.list_gpu_processes()
    cuda.init()
    cuda.ipc_collect()
    with pytest.raises(DeviceError, match="no sensors"):
        cuda.temperature()
    with pytest.raises(DeviceError, match="invalid device ordinal"):
        cuda.Stream(2)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.get_device_properties("cpu")


def test_debug_mode(cards):
    with pytest.warns(UserWarning, match="no effect"):
        cuda.set_sync_debug_mode("warn")
    assert cuda.get_sync_debug_mode() == 1
    cuda.set_sync_debug_mode(0)
    with pytest.raises(ValueError, match="expected one of"):
        cuda.set_sync_debug_mode("loud")


def test_ranges(cards):
    from edutorch.cuda import nvtx

    assert nvtx.range_push("outer") == 0 and nvtx.range_push("inner") == 1
    assert nvtx.range_pop() == 1 and nvtx.range_pop() == 0 and nvtx.range_pop() == -1
    nvtx.mark("here")
    begun = nvtx.range_start("a range")
    nvtx.range_push("inside")
    nvtx.range_end(begun)

    @nvtx.range("step {}", 3)
    def step():
        return nvtx.range_pop, nvtx._thread.depth

    assert step()[1] == 1 and nvtx.range_pop() == -1


def test_several_cards(cards):
    from edutorch.cuda import comm

    x = edutorch.arange(6.0, device="cuda").reshape(3, 2)
    copies = comm.broadcast(x, [0, 1])
    assert [copy.device.index for copy in copies] == [0, 1]
    assert comm.reduce_add(copies, 1).tolist() == (2 * x).tolist()
    parts = comm.scatter(x, [0, 1], [1, 2])
    assert [part.shape[0] for part in parts] == [1, 2] and parts[1].device.index == 1
    assert comm.gather(parts, destination="cpu").tolist() == x.tolist()
    assert comm.gather(parts, destination=1).device.index == 1
    assert len(comm.broadcast_coalesced([x, x], [0, 1])[1]) == 2
    assert comm.broadcast(x, out=copies)[1].tolist() == x.tolist()
    assert comm.scatter(x, out=[x.new_zeros(1, 2), x.new_zeros(2, 2)])[0].tolist() == [[0, 1]]
    with pytest.raises(RuntimeError, match="exactly one of"):
        comm.broadcast(x)
    with pytest.raises(RuntimeError, match="one shape"):
        comm.reduce_add([x, x[:1]])


def test_seeds(cards):
    cuda.manual_seed_all(3)
    assert cuda.initial_seed() == 3 and len(cuda.default_generators) == 2
    states = cuda.get_rng_state_all()
    drawn = [edutorch.rand(3, device=f"cuda:{index}").tolist() for index in range(2)]
    cuda.set_rng_state_all(states)
    assert [edutorch.rand(3, device=f"cuda:{index}").tolist() for index in range(2)] == drawn
    cuda.set_rng_state(states[1], "cuda:1")
    assert edutorch.rand(3, device="cuda:1").tolist() == drawn[1]
    cuda.seed_all()
    assert {generator.initial_seed() for generator in cuda.default_generators} != {3}
    cuda.seed()


def test_old_types(cards):
    x = cuda.FloatTensor([1, 2])
    assert x.is_cuda and isinstance(x, cuda.FloatTensor) and x.type() == "torch.cuda.FloatTensor"
    assert not isinstance(x, edutorch.FloatTensor) and not isinstance(x.cpu(), cuda.FloatTensor)
    assert cuda.LongTensor(2, 3).shape == (2, 3)
