"""One rank of `python -m benchmarks distributed`: it waits for orders, and says how long they took.

The same program runs on PyTorch and, under the alias, on edutorch. Between the orders it sleeps in
a read, so that the other library has the processors to itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

Work = Callable[[], object]
FOLDER = Path(sys.argv[1])
LETTERS, WIDTH, LENGTH, LAYERS = 64, 256, 64, 8


class GPT(nn.Module):
    """Blocks of attention and MLP, without dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )
        self.last = nn.Linear(WIDTH, LETTERS)

    def forward(self, x: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        y = self.token(x) + self.place(torch.arange(x.shape[1]))
        for block in self.blocks:
            y = block(y, src_mask=mask, is_causal=True)
        return self.last(y)


def make_step(network: Any, x: Any, y: Any, bucket_mb: float = 25) -> tuple[Work, Work]:
    """Return a step with its messages, and one without."""
    model = DistributedDataParallel(network, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        out = model(x)
        F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1)).backward()
        optimizer.step()

    def step_alone() -> None:
        with model.no_sync():
            step()

    return step, step_alone


def make_messages(network: Any, bucket_mb: float) -> Work:
    """Return what sends the gradients of a model, and waits for them."""
    size = sum(p.numel() for p in network.parameters())
    count = max(1, round(size * 4 / (bucket_mb * 2**20)))
    flats = [torch.zeros(size // count) for _ in range(count)]

    def send() -> None:
        for work in [dist.all_reduce(flat, async_op=True) for flat in flats]:
            work.wait()

    return send


def make_orders() -> dict[str, Work]:
    """Return what can be ordered, by name."""
    torch.manual_seed(0)
    mlp = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    x, y = torch.randn(256 // dist.get_world_size(), 784), torch.arange(256) % 10
    letters = torch.randint(0, LETTERS, (4, LENGTH))
    gpt = GPT()
    step, step_alone = make_step(gpt, letters, letters, 4)
    small, large = torch.ones(256), torch.ones(2**20)
    return {
        "mlp": make_step(mlp, x, y[: len(x)])[0],
        "all_reduce 1 KB": lambda: dist.all_reduce(small),
        "all_reduce 4 MB": lambda: dist.all_reduce(large),
        "gpt": step,
        "gpt without messages": step_alone,
        "messages of gpt": make_messages(gpt, 4),
    }


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    orders, rank = make_orders(), dist.get_rank()
    while True:
        name, _, count = (FOLDER / f"{rank}.order").read_text().partition("|")
        if name == "end":
            break
        work = orders[name]
        dist.barrier()
        work()
        start = perf_counter()
        for _ in range(int(count)):
            work()
        took = (perf_counter() - start) / int(count)
        (FOLDER / f"{rank}.answer").write_text(str(took))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
