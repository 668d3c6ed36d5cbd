"""Collectives in a random order, from a seed that all ranks know, against NumPy's answer.

    random_collectives.py SEED COUNT [FIRST]

Several of them are on their way at a time, in two groups. A sequence that fails is printed as a
script that repeats its last calls.
"""

import sys

import numpy as np
import torch
import torch.distributed as dist

DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.complex64)
NAMES = (
    "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "scatter",
    "all_to_all_single", "all_gather_into_tensor", "reduce_scatter_tensor", "ring",
)  # fmt: skip
MOST_PENDING = 4

seed, count = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
backwards = dist.new_group(list(range(size)))  # a second group, with messages of its own
told = []
pending = []


def data(number, of_rank, shape, dtype):
    """What a rank has in this call."""
    generator = np.random.default_rng([seed, number, of_rank])
    return torch.tensor(generator.integers(0, 4, shape)).to(dtype)


def tensor_of(number, shape, dtype, is_strided):
    values = data(number, rank, shape, dtype)
    if not is_strided:
        return values
    wide = torch.zeros((*shape, 2), dtype=dtype)
    wide[..., 0] = values
    return wide[..., 0]


def check(number, got, wanted):
    wanted = np.asarray(wanted)
    if got.shape != wanted.shape or not np.array_equal(got.numpy(), wanted):
        raise AssertionError(
            f"rank {rank}, call {number}: got\n{got.numpy()}\nwanted\n{wanted}\n"
            f"the last calls (seed {seed}, {size} ranks):\n" + "\n".join(told[-12:])
        )


def total(op, parts):
    stack = np.stack(parts)
    return {"SUM": stack.sum(0, dtype=stack.dtype), "MAX": stack.max(0)}[op]


def start(number):
    """Start one call. Returns its work, and what has to be right when it is complete."""
    generator = np.random.default_rng([seed, number])
    name = NAMES[generator.integers(len(NAMES))]
    dtype = DTYPES[generator.integers(len(DTYPES))]
    op = "MAX" if generator.integers(4) == 0 and not dtype.is_complex else "SUM"
    shape = tuple(int(n) for n in generator.integers(1, 6, generator.integers(1, 4)))
    if generator.integers(20) == 0:
        shape = (int(generator.integers(1, 40_000)),)
    root = int(generator.integers(size))
    group = backwards if generator.integers(3) == 0 else None
    is_strided, is_async = bool(generator.integers(2)), bool(generator.integers(2))
    told.append(
        f"{number}: {name}({dtype}, {shape}, op={op}, root={root}, async_op={is_async}, "
        f"strided={is_strided}, group={'second' if group else 'all'})"
    )
    reduce_op = getattr(dist.ReduceOp, op)
    settings = {"group": group, "async_op": is_async}
    every = [data(number, r, shape, dtype).numpy() for r in range(size)]
    x = tensor_of(number, shape, dtype, is_strided)
    if name == "all_reduce":
        return dist.all_reduce(x, reduce_op, **settings), [(x, total(op, every))]
    if name == "reduce":
        wanted = [(x, total(op, every))] if rank == root else []
        return dist.reduce(x, root, reduce_op, **settings), wanted
    if name == "broadcast":
        return dist.broadcast(x, root, **settings), [(x, every[root])]
    if name == "all_gather":
        parts = [torch.empty(shape, dtype=dtype) for _ in range(size)]
        return dist.all_gather(parts, x, **settings), list(zip(parts, every))
    if name == "all_gather_into_tensor":
        y = torch.empty((size, *shape), dtype=dtype)
        return dist.all_gather_into_tensor(y, x, **settings), [(y, np.stack(every))]
    if name == "gather":
        parts = [torch.empty(shape, dtype=dtype) for _ in range(size)] if rank == root else None
        return dist.gather(x, parts, root, **settings), list(zip(parts or [], every))
    return start_divided(name, number, shape, dtype, is_strided, (op, root, group), settings)


def start_divided(name, number, shape, dtype, is_strided, choice, settings):
    """Start one call in which each rank has a part for each rank, or a message to the next one."""
    op, root, group = choice
    reduce_op = getattr(dist.ReduceOp, op)
    every = [data(number, r, shape, dtype).numpy() for r in range(size)]
    whole = [data(number, r, (size, *shape), dtype).numpy() for r in range(size)]
    x = tensor_of(number, shape, dtype, is_strided)
    mine = tensor_of(number, (size, *shape), dtype, is_strided)
    if name == "scatter":
        parts = list(mine.unbind(0)) if rank == root else None
        return dist.scatter(x, parts, root, **settings), [(x, whole[root][rank])]
    if name == "reduce_scatter":
        wanted = total(op, [one[rank] for one in whole])
        return dist.reduce_scatter(x, list(mine.unbind(0)), reduce_op, **settings), [(x, wanted)]
    if name == "reduce_scatter_tensor":
        wanted = total(op, [one[rank] for one in whole])
        return dist.reduce_scatter_tensor(x, mine, reduce_op, **settings), [(x, wanted)]
    if name == "all_to_all_single":
        y = torch.empty((size, *shape), dtype=dtype)
        wanted = np.stack([one[rank] for one in whole])
        return dist.all_to_all_single(y, mine, **settings), [(y, wanted)]
    assert name == "ring"
    y = torch.empty(shape, dtype=dtype)
    messages = [
        dist.P2POp(dist.isend, x, (rank + 1) % size, group),
        dist.P2POp(dist.irecv, y, (rank - 1) % size, group),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return None, [(y, every[(rank - 1) % size])]


def finish(number, work, wanted):
    if work is not None:
        work.wait()
    for got, values in wanted:
        check(number, got, values)


for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 0, count):
    work, wanted = start(number)
    if work is None:
        finish(number, None, wanted)
        continue
    pending.append((number, work, wanted))
    if len(pending) == MOST_PENDING:
        # Not always the oldest first.
        finish(*pending.pop(int(np.random.default_rng([seed, number, 7]).integers(MOST_PENDING))))
while pending:
    finish(*pending.pop())

dist.destroy_process_group()
if rank == 0:
    print(f"{count} collectives")
