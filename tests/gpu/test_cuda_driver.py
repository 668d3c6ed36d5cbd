"""The driver of real cards calls CuPy as CuPy wants to be called."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from edutorch.backends.cupy_memory import CupyMemory, use_tensor_cores
from edutorch.cuda.cupy_driver import FIELDS, CupyDriver
from edutorch.errors import OutOfMemory

cupy = pytest.importorskip("cupy", reason="CuPy is needed, though no GPU: make test-gpu")

from tests.gpu.cupy_stand_in import StandIn, signature_of  # noqa: E402

MIB = 2**20


class Pool:
    """CuPy's pool, as far as it is asked."""

    def __init__(self, limit: int = 4 * MIB) -> None:
        self.used, self.limit = 0, limit

    def malloc(self, size: int) -> object:
        if self.used + size > self.limit:
            raise cupy.cuda.memory.OutOfMemoryError(size, self.used)
        self.used += size
        return SimpleNamespace(mem=SimpleNamespace(size=size))

    def used_bytes(self) -> int:
        return self.used

    def total_bytes(self) -> int:
        return 2 * self.used

    def free_all_blocks(self) -> None:
        pass

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self.limit = int(100 * MIB * fraction)

    def get_limit(self) -> int:
        return self.limit


def test_the_pool_of_the_test_is_one_of_cupys():
    for name in [name for name in vars(Pool) if not name.startswith("_")]:
        assert hasattr(cupy.cuda.MemoryPool, name), name
        if name != "set_limit":
            mine = list(signature_of(getattr(Pool, name)).parameters)[1:]
            theirs = list(signature_of(getattr(cupy.cuda.MemoryPool, name)).parameters)
            assert mine == theirs[: len(mine)]


@pytest.fixture
def library():
    pool, private, calls = Pool(), Pool(), []
    properties = {field: 7 for field in FIELDS.values() if field != "clockRate"}
    answers = {
        "cupy.get_default_memory_pool": lambda: pool,
        "cupy.cuda.MemoryPool": lambda: private,
        "cupy.get_default_pinned_memory_pool": StandIn(
            cupy.cuda.PinnedMemoryPool, "cupy.cuda.PinnedMemoryPool", {}, calls
        ),
        "cupy.cuda.runtime.getDevice": 0,
        "cupy.cuda.runtime.memGetInfo": lambda: (30 * MIB, 100 * MIB),
        "cupy.cuda.runtime.getDeviceProperties": properties
        | {"name": b"NVIDIA H100", "major": 9, "minor": 0, "uuid": bytes(range(16))},
        "cupy.cuda.runtime.deviceCanAccessPeer": 1,
        "cupy.cuda.get_elapsed_time": 1.5,
        "cupy.cuda.alloc_pinned_memory": lambda size: bytearray(size + 8),
        "cupy.cuda.pinned_memory.is_memory_pinned": True,
        "cupy.cuda.Event.done": True,
    }
    made = StandIn(cupy, "cupy", answers, calls)
    made.__dict__.update(pool=pool, private=private, calls=calls)
    made.__dict__["memory"] = CupyMemory(made)
    made.__dict__["driver"] = CupyDriver(made, made.memory)
    return made


def called(library) -> list[str]:
    return [path.removeprefix("cupy.") for path, _, _ in library.calls]


def test_the_stand_in_refuses_what_cupy_does_not_have(library):
    with pytest.raises(AttributeError, match=r"CuPy has no cupy\.cuda\.Streams"):
        library.cuda.Streams()
    with pytest.raises(TypeError):
        library.cuda.Stream(speed=1)
    with pytest.raises(TypeError):
        library.cuda.Stream().wait_event()
    with pytest.raises(TypeError):
        library.cuda.runtime.memGetInfo(0)
    with pytest.raises(AttributeError):
        library.cuda.Stream().begin()


def test_streams_and_events(library):
    driver = library.driver
    stream = driver.make_stream(0, -1)
    assert library.calls[-1] == ("cupy.cuda.Stream", (), {"non_blocking": True, "priority": -1})
    stream.synchronize()
    stream.wait_event(driver.make_event(True, False, False))
    assert library.calls[-2] == ("cupy.cuda.Event", (False, False, False), {})
    event = driver.make_event(False, True, True)
    assert library.calls[-1] == ("cupy.cuda.Event", (True, True, True), {})
    event.record(stream)
    event.synchronize()
    assert event.done and driver.elapsed_ms(event, event) == 1.5
    driver.external_stream(0x1230, 0)
    driver.current_stream(0)
    driver.use_stream(stream)
    assert called(library)[-1] == "cuda.Stream.use"
    assert driver.default_stream(0) is cupy.cuda.Stream.null


def test_cards(library):
    driver = library.driver
    properties = driver.properties(0)
    assert (properties.name, properties.major, properties.minor) == ("NVIDIA H100", 9, 0)
    assert properties.total_memory == properties.multi_processor_count == 7
    assert properties.clock_rate == 0  # CUDA 13 does not tell it
    assert properties.uuid == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert driver.can_access_peer(0, 1)
    driver.synchronize(0)
    assert "cuda.runtime.deviceSynchronize" in called(library)


def test_cupy_names_the_properties_so():
    """They are keys of a dictionary that only a GPU fills; their names stand in the library."""
    with open(cupy.cuda.runtime.__file__, "rb") as file:
        text = file.read()
    assert [key for key in (*FIELDS.values(), "uuid") if key.encode() not in text] == []


def test_marks(library):
    library.driver.range_push("step")
    library.driver.range_pop()
    library.driver.mark("here")
    nvtx = ["cuda.nvtx.RangePush", "cuda.nvtx.RangePop", "cuda.nvtx.Mark"]
    assert called(library)[-3:] == nvtx


def test_allocation_is_counted(library):
    memory, driver = library.memory, library.driver
    assert ("cupy.cuda.set_allocator", (memory.malloc,), {}) in library.calls
    memory.malloc(MIB)
    memory.malloc(2 * MIB)
    library.pool.used = 0  # the arrays are freed
    memory.malloc(MIB)
    counts = driver.memory_counts(0)
    assert (counts.used.current, counts.used.peak) == (MIB, 3 * MIB)
    assert (counts.used.allocated, counts.used.freed) == (4 * MIB, 3 * MIB)
    assert counts.reserved.peak == 6 * MIB
    driver.release_cached(0)
    driver.set_memory_fraction(0, 0.5)
    assert driver.memory_limit(0) == 50 * MIB
    assert driver.memory_info(0) == (30 * MIB, 100 * MIB)
    assert "set_limit" in dir(cupy.cuda.MemoryPool)


def test_out_of_memory(library):
    library.memory.malloc(MIB)
    with pytest.raises(OutOfMemory) as caught:
        library.memory.malloc(4 * MIB)
    assert "CUDA out of memory: tried to allocate 4.0 MiB" in str(caught.value)
    for row in ("total      = 100.0 MiB", "free       = 30.0 MiB", "allocated  = 1.0 MiB"):
        assert row in str(caught.value)
    assert isinstance(caught.value.__cause__, cupy.cuda.memory.OutOfMemoryError)
    assert library.driver.memory_counts(0).out_of_memory_count == 1


def test_capture_has_a_pool_of_its_own(library):
    driver, stream = library.driver, library.driver.make_stream(0, 0)
    driver.begin_capture(stream, (0, 1))
    assert library.calls[-2][:2] == ("cupy.cuda.Stream.begin_capture", (2,))  # relaxed
    assert cupy.cuda.runtime.streamCaptureModeRelaxed == 2
    library.memory.malloc(MIB)
    driver.end_capture(stream)
    library.memory.malloc(2 * MIB)
    assert (library.private.used, library.pool.used) == (MIB, 2 * MIB)
    assert driver.memory_counts(0).used.current == 3 * MIB
    driver.drop_pool((0, 1))
    driver.drop_pool((0, 1))
    assert driver.memory_counts(0).used.current == 2 * MIB
    assert "launch" in dir(cupy.cuda.Graph)
    assert list(signature_of(cupy.cuda.Graph.launch).parameters) == ["stream"]


def test_memory_that_another_stream_uses(library):
    class Array:
        base = None
        data = SimpleNamespace(mem="its memory")

    array, stream = Array(), library.driver.make_stream(0, 0)
    answers = {"cupy.cuda.Stream.record": lambda event=None: SimpleNamespace(done=False)}
    library._answers.update(answers)
    library.driver.record_stream(array, stream)
    assert "cuda.Stream.record" not in called(library)
    del array
    assert "cuda.Stream.record" in called(library)
    ((event, memory),) = library.memory._held
    assert memory == "its memory"
    library.memory.release_done()
    assert library.memory._held
    event.done = True
    library.memory.malloc(512)
    assert not library.memory._held
    assert cupy.ndarray.__weakrefoffset__  # what `weakref.finalize` needs


def test_pinned_memory(library):
    source = np.arange(6, dtype=np.float32).reshape(2, 3).T
    pinned = library.memory.pin(source)
    assert pinned.tolist() == source.tolist() and pinned.flags.c_contiguous
    assert ("cupy.cuda.alloc_pinned_memory", (24,), {}) in library.calls
    assert library.memory.pin(source[:0]).shape == (0, 2)
    assert library.memory.is_pinned(pinned)
    assert list(signature_of(cupy.cuda.pinned_memory.is_memory_pinned).parameters) == ["data"]
    assert "blocking" in signature_of(cupy.asarray).parameters


def test_tensor_cores(library):
    use_tensor_cores(library, "highest")
    use_tensor_cores(library, "high")
    products = cupy._core._routines_linalg
    modes = [args[1] for path, args, _ in library.calls if path.endswith("set_compute_type")]
    assert modes == [products.COMPUTE_TYPE_DEFAULT, products.COMPUTE_TYPE_TF32]
    assert products.to_compute_type_index(np.dtype(np.float32)) == 2
