"""Every collective, dtype, layout and way of waiting, against NumPy's answer."""

import itertools
import sys

import numpy as np
import torch
import torch.distributed as dist

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64,
    torch.uint8, torch.bool, torch.complex64,
)  # fmt: skip
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
count = 0


def values(of_rank, dtype, shape=(3, 4)):
    """The elements of one rank, small enough to be exact in all dtypes."""
    generator = np.random.default_rng(of_rank + 17)
    return torch.tensor(generator.integers(0, 3, shape)).to(dtype)


def strided(tensor):
    """The same elements in memory with gaps."""
    wide = torch.zeros((*tensor.shape, 2), dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


def arrays(dtype):
    return [to_numpy(values(r, dtype)) for r in range(size)]


def to_numpy(tensor):
    wide = tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
    return wide.numpy().copy()


def reduced(op, parts):
    stack = np.stack(parts)
    if stack.dtype == bool:
        return {"SUM": stack.any(0), "MAX": stack.any(0), "BOR": stack.any(0),
                "PRODUCT": stack.all(0), "MIN": stack.all(0), "BAND": stack.all(0),
                "BXOR": np.logical_xor.reduce(stack)}[op]  # fmt: skip
    if op == "AVG":
        return stack.mean(0)
    functions = {
        "SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum,
        "BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor,
    }  # fmt: skip
    return functions[op].reduce(stack, dtype=stack.dtype)


def is_defined(op, dtype):
    if op in ("BAND", "BOR", "BXOR"):
        return not (dtype.is_floating_point or dtype.is_complex)
    if op in ("MIN", "MAX"):
        return not dtype.is_complex
    return op != "AVG" or dtype.is_floating_point or dtype.is_complex


def check(what, got, wanted, dtype):
    global count
    count += 1
    exact = not (dtype.is_floating_point or dtype.is_complex)
    tolerance = 0 if exact else {2: 1e-2, 4: 1e-6, 8: 1e-6}[dtype.itemsize]
    np.testing.assert_allclose(to_numpy(got), wanted, rtol=tolerance, atol=tolerance, err_msg=what)


def call(function, *args, is_async, **settings):
    work = function(*args, async_op=is_async, **settings)
    assert (work is not None) == is_async
    if work is not None:
        assert work.wait() and work.is_completed() and work.is_success()


for dtype, is_strided, is_async in itertools.product(DTYPES, (False, True), (False, True)):
    make = strided if is_strided else torch.clone
    about = f"{dtype}, strided {is_strided}, async {is_async}, {size} ranks"
    everyone = arrays(dtype)

    def new(of_rank=rank, shape=(3, 4), dtype=dtype, make=make):
        return make(values(of_rank, dtype, shape))

    for name in OPS:
        op = getattr(dist.ReduceOp, name)
        if not is_defined(name, dtype):
            try:
                dist.all_reduce(new(), op)
            except RuntimeError as error:
                assert name in str(error), error
            else:
                raise AssertionError(f"{name} of {dtype} was computed")
            continue
        x = new()
        call(dist.all_reduce, x, op, is_async=is_async)
        check(f"all_reduce {name} {about}", x, reduced(name, everyone), dtype)
        x = new()
        call(dist.reduce, x, size - 1, op, is_async=is_async)
        wanted = reduced(name, everyone) if rank == size - 1 else everyone[rank]
        check(f"reduce {name} {about}", x, wanted, dtype)
        long = [values(r, dtype, (2 * size, 3)) for r in range(size)]
        wanted = reduced(name, [to_numpy(part) for part in long])[2 * rank : 2 * rank + 2]
        y = new(shape=(2, 3))
        call(dist.reduce_scatter_tensor, y, make(long[rank]), op, is_async=is_async)
        check(f"reduce_scatter_tensor {name} {about}", y, wanted, dtype)
        y = new(shape=(2, 3))
        parts = [make(part) for part in long[rank].chunk(size)]
        call(dist.reduce_scatter, y, parts, op, is_async=is_async)
        check(f"reduce_scatter {name} {about}", y, wanted, dtype)

    x = new()
    call(dist.broadcast, x, size - 1, is_async=is_async)
    check(f"broadcast {about}", x, everyone[size - 1], dtype)

    x, outputs = new(), [new() for _ in range(size)]
    call(dist.all_gather, outputs, x, is_async=is_async)
    for got, wanted in zip(outputs, everyone):
        check(f"all_gather {about}", got, wanted, dtype)

    y = make(torch.zeros((3 * size, 4), dtype=dtype))
    call(dist.all_gather_into_tensor, y, x, is_async=is_async)
    check(f"all_gather_into_tensor {about}", y, np.concatenate(everyone), dtype)

    outputs = [new() for _ in range(size)] if rank == 0 else None
    call(dist.gather, x, outputs, 0, is_async=is_async)
    for got, wanted in zip(outputs or [], everyone):
        check(f"gather {about}", got, wanted, dtype)

    y, inputs = new(), [new(r) for r in range(size)] if rank == size - 1 else None
    call(dist.scatter, y, inputs, size - 1, is_async=is_async)
    check(f"scatter {about}", y, everyone[rank], dtype)

    outputs = [new() for _ in range(size)]
    call(dist.all_to_all, outputs, [new(10 * rank + to) for to in range(size)], is_async=is_async)
    for origin, got in enumerate(outputs):
        check(f"all_to_all {about}", got, to_numpy(values(10 * origin + rank, dtype)), dtype)

    mine = make(torch.cat([values(10 * rank + to, dtype, (to + 1, 2)) for to in range(size)]))
    y = make(torch.zeros(((rank + 1) * size, 2), dtype=dtype))
    call(
        dist.all_to_all_single, y, mine, [rank + 1] * size, [to + 1 for to in range(size)],
        is_async=is_async,
    )  # fmt: skip
    wanted = [to_numpy(values(10 * r + rank, dtype, (rank + 1, 2))) for r in range(size)]
    check(f"all_to_all_single {about}", y, np.concatenate(wanted), dtype)

    if size > 1:
        left, right = (rank - 1) % size, (rank + 1) % size
        y = new()
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, new(), right), dist.P2POp(dist.irecv, y, left)]
        )
        for work in works:
            work.wait()
        check(f"isend, irecv {about}", y, everyone[left], dtype)
        y = new()
        if rank == 0:
            dist.send(new(), 1, tag=3)
        elif rank == 1:
            assert dist.recv(y, tag=3) == 0
            check(f"send, recv {about}", y, everyone[0], dtype)

dist.barrier()
dist.monitored_barrier()

objects = [None] * size
dist.all_gather_object(objects, {"rank": rank, "tensor": torch.ones(rank)})
assert [object["rank"] for object in objects] == list(range(size))
shared = [{"a": 1}, "two"] if rank == 0 else [None, None]
dist.broadcast_object_list(shared, 0)
assert shared == [{"a": 1}, "two"]
own = [None]
dist.scatter_object_list(own, list("abcdefg")[:size] if rank == 0 else None, 0)
assert own == ["abcdefg"[rank]]
outputs = [None] * size if rank == 0 else None
dist.gather_object(rank * 2, outputs, 0)
assert rank or outputs == [2 * r for r in range(size)]

halves = [list(range(size // 2)), list(range(size // 2, size))]
if size > 1:
    own_half, both = dist.new_subgroups_by_enumeration(halves)
    x = torch.tensor([1.0])
    dist.all_reduce(x, group=own_half)
    members = dist.get_process_group_ranks(own_half)
    assert x.item() == len(members) and rank in members
    assert dist.get_group_rank(own_half, rank) == members.index(rank)
    last = dist.new_group([size - 1])
    assert (dist.get_rank(last) == -1) == (rank != size - 1)

if rank == 0:
    print(count, "results of", size, "ranks", file=sys.stdout)
dist.destroy_process_group()
