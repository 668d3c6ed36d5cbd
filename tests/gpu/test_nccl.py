"""The engine for GPUs calls NCCL as CuPy wants it to be called, and its results are right."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from edutorch import backends, tensor, zeros
from edutorch.distributed import collectives, point_to_point
from edutorch.distributed.engines import nccl
from edutorch.distributed.errors import DistBackendError
from edutorch.distributed.process_group import ProcessGroup
from edutorch.distributed.reduce_op import ReduceOp
from edutorch.errors import DTypeError, MissingExtraError
from tests.simulation import simulated

pytest.importorskip("cupy", reason="CuPy is needed, though no GPU: make test-gpu")

from tests.gpu.nccl_stand_in import Mpi, NcclStandIn, World, real_nccl


class Engine(nccl.NcclEngine):
    """The engine, with the memory of a simulated card in place of a GPU's."""

    def takes(self, array):
        return not isinstance(array, np.ndarray)

    def free(self):
        self.connection = None


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return real_nccl(tmp_path_factory.mktemp("nccl"))


@pytest.fixture
def run(library, monkeypatch):
    """Return a function that calls `work(group, rank)` in two threads, the ranks."""

    def run(work, backend="nccl"):
        world = World(2)
        module = NcclStandIn(library, world)
        monkeypatch.setattr(nccl, "import_nccl", lambda: module)
        problems = []

        def begin(rank):
            try:
                group = ProcessGroup(Engine(Mpi(world, rank)), [0, 1], backend, 0)
                work(group, rank)
            except BaseException as error:  # noqa: BLE001
                problems.append(error)
                world.meeting.abort()

        threads = [threading.Thread(target=begin, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        if problems:
            raise problems[0]
        return module.calls

    with simulated(1):
        monkeypatch.setattr("edutorch.distributed.collectives.group_of", lambda group, name: group)
        monkeypatch.setattr(
            "edutorch.distributed.point_to_point.group_of", lambda group, name: group
        )
        yield run


def card(values, dtype="float32"):
    import edutorch

    return tensor(values, dtype=getattr(edutorch, dtype), device="cuda")


REDUCTIONS = [
    ("float32", "SUM", [0.0, 1.0], [1.0, 3.0], [1.0, 4.0]),
    ("float32", "AVG", [0.0, 1.0], [1.0, 3.0], [0.5, 2.0]),
    ("bfloat16", "SUM", [1.0, 2.0], [0.5, 1.0], [1.5, 3.0]),
    ("bfloat16", "AVG", [1.0, 2.0], [3.0, 1.0], [2.0, 1.5]),
    ("float16", "MAX", [1.0, 2.0], [0.5, 4.0], [1.0, 4.0]),
    ("float64", "PRODUCT", [1.0, 2.0], [0.5, 4.0], [0.5, 8.0]),
    ("int64", "MIN", [1, 2], [0, 4], [0, 2]),
    ("int16", "SUM", [1, -2], [300, 4], [301, 2]),
    ("uint8", "MAX", [1, 2], [0, 4], [1, 4]),
    ("complex64", "SUM", [1 + 1j, 2], [1j, 4], [1 + 2j, 6]),
    ("complex128", "AVG", [1 + 1j, 2], [1j, 4], [0.5 + 1j, 3]),
    ("bool", "SUM", [True, False], [True, False], [True, False]),
    ("bool", "BAND", [True, True], [True, False], [True, False]),
]


def test_reductions(run):
    def work(group, rank):
        for dtype, op, first, second, expected in REDUCTIONS:
            for is_async in (False, True):
                x = card((first, second)[rank], dtype)
                done = collectives.all_reduce(x, getattr(ReduceOp, op), group, is_async)
                if done is not None:
                    done.wait()
                    assert done.is_completed()
                assert x.tolist() == expected, (dtype, op, x)
            x = card((first, second)[rank], dtype)
            collectives.reduce(x, 1, getattr(ReduceOp, op), group)
            assert x.tolist() == (expected if rank else first), (dtype, op, x)
            part = card([first[0]], dtype)
            collectives.reduce_scatter_tensor(
                part, card((first, second)[rank], dtype), getattr(ReduceOp, op), group
            )
            assert part.tolist() == [expected[rank]], (dtype, op, part)
        x = card([1.0, 2.0])
        collectives.all_reduce(x, ReduceOp("PREMUL_SUM", 0.5), group)
        assert x.tolist() == [1.0, 2.0]
        gaps = zeros(2, 2, device="cuda")
        gaps[:, 0] = rank + 1.0
        collectives.all_reduce(gaps[:, 0], group=group)
        assert gaps.tolist() == [[3.0, 0.0], [3.0, 0.0]]

    calls = run(work)
    assert {"allReduce", "reduce", "reduceScatter"} <= set(calls)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64", "int16"])
def test_movement(run, dtype):
    def work(group, rank):
        mine = card([rank, 1], dtype)
        x = card([rank, 1], dtype)
        collectives.broadcast(x, 1, group)
        assert x.tolist() == card([1, 1], dtype).tolist()
        whole = zeros(4, dtype=x.dtype, device="cuda")
        collectives.all_gather_into_tensor(whole, mine, group)
        assert whole.tolist() == card([0, 1, 1, 1], dtype).tolist()
        listed = [zeros(2, dtype=x.dtype, device="cuda") for _ in range(2)]
        collectives.gather(mine, listed if rank else None, 1, group)
        assert not rank or listed[0].tolist() == card([0, 1], dtype).tolist()
        collectives.scatter(x, [card([0, 0], dtype), mine] if rank == 0 else None, 0, group)
        assert x.tolist() == card([0, rank], dtype).tolist()
        collectives.all_to_all_single(x, mine, group=group)
        assert x.tolist() == card([0, 1] if rank == 0 else [1, 1], dtype).tolist()
        longer, sizes = zeros(1 + 2 * rank, dtype=x.dtype, device="cuda"), ([1, 0], [1, 2])[rank]
        sent = ([1, 1], [0, 2])[rank]
        collectives.all_to_all_single(longer, card([1, 0], dtype), sizes, sent, group)
        assert longer.tolist() == card([0, 1, 0] if rank else [1], dtype).tolist()
        collectives.barrier(group)

    calls = run(work)
    assert {"broadcast", "allGather", "send", "recv"} <= set(calls)


def test_messages(run):
    def work(group, rank):
        x = card([float(rank)])
        if rank:
            point_to_point.send(x, 0, group)
        else:
            assert point_to_point.recv(x, 1, group) == 1
            assert x.tolist() == [1.0]
        other, mine = card([0.0]), card([rank + 5.0])
        works = point_to_point.batch_isend_irecv([
            point_to_point.P2POp(point_to_point.isend, mine, 1 - rank, group),
            point_to_point.P2POp(point_to_point.irecv, other, 1 - rank, group),
        ])  # fmt: skip
        for message in works:
            message.wait()
        assert other.tolist() == [6.0 - rank]

    run(work)


def test_what_nccl_cannot_do_is_said(run):
    def work(group, rank):
        with pytest.raises(DTypeError, match=r"NCCL has no ReduceOp\.BXOR for int64"):
            collectives.all_reduce(card([1], "int64"), ReduceOp.BXOR, group)
        with pytest.raises(DTypeError, match=r"NCCL has no ReduceOp\.BXOR for bool"):
            collectives.all_reduce(card([True], "bool"), ReduceOp.BXOR, group)
        with pytest.raises(DTypeError, match=r"NCCL has no ReduceOp\.PRODUCT for complex64"):
            collectives.all_reduce(card([1j], "complex64"), ReduceOp.PRODUCT, group)
        with pytest.raises(DistBackendError, match="cannot receive from any rank"):
            point_to_point.recv(card([1.0]), group=group)
        with pytest.raises(DistBackendError, match="No backend type associated with device type"):
            collectives.all_reduce(tensor([1.0]), group=group)
        group.engine.connect(0)
        with pytest.raises(DistBackendError, match="on the same GPU of a process"):
            group.engine.connect(1)

    run(work)


def test_the_names_of_dtypes_are_nccls(library):
    for code, _ in nccl.DTYPES.values():
        assert hasattr(library, f"NCCL_{code}"), code
    for op in (*nccl.BOOL_OPS.values(), *nccl.OPS.values()):
        assert hasattr(library, f"NCCL_{op}"), op


def test_an_engine_takes_arrays_of_real_gpus_only():
    engine = nccl.NcclEngine(Mpi(World(1), 0))
    assert not engine.takes(np.ones(2))
    with simulated(1):
        assert not engine.takes(backends.get("cuda").asarray([1.0]))


def test_without_the_library_the_extra_is_named(monkeypatch):
    from cupy.cuda import nccl as cupys

    monkeypatch.setattr(cupys, "available", False, raising=False)
    with pytest.raises(MissingExtraError, match=r"no library libnccl\.so\.2[^@]*dist-cuda"):
        nccl.import_nccl()
