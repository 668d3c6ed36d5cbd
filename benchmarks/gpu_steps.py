"""Captured training steps on a GPU: how fast, how exact, and how much memory (`gpu.sh speed`)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from . import networks, report
from .timing import Result, Work, contest

EAGER, COMPILED = "edutorch", "edutorch, compiled"
TORCH_EAGER, TORCH_COMPILED = "PyTorch", "PyTorch, reduce-overhead"
RIVALS = (EAGER, COMPILED, TORCH_EAGER, TORCH_COMPILED)


class Network(NamedTuple):
    """One row: a network, the shape of its batch, and the goals.

    Attributes:
        make: builds it, given the library.
        shape: of the batch; a tuple of tokens if `words`.
        classes: of the labels.
        dtype: of parameters and batch.
        goal, eager_goal: the most that a compiled step may take, by PyTorch's compiled one, and an
            eager step, by PyTorch's eager one.
    """

    name: str
    make: Callable[[Any], Any]
    shape: tuple[int, ...]
    classes: int = 10
    dtype: str = "float32"
    words: int = 0
    goal: float = 1.3
    eager_goal: float = 1.5


NETWORKS = {
    "mlp": Network("MLP 784-128-10, b64", lambda t: networks.mlp(t, 784, 128, 10), (64, 784)),
    "wide": Network(
        "MLP 784-1024-1024-10, b256", lambda t: networks.mlp(t, 784, 1024, 1024, 10), (256, 784),
        goal=1.1,
    ),
    "lenet": Network("LeNet, b64", networks.lenet, (64, 1, 28, 28)),
    "lstm": Network("nn.LSTM, T=32, b32", lambda t: networks.lstm(t, "layer"), (32, 32, 64)),
    "resnet": Network(
        "ResNet-18 32x32, b64, bf16", networks.resnet, (64, 3, 32, 32), dtype="bfloat16", goal=1.1,
        eager_goal=1.1,
    ),
    "gpt": Network(
        "GPT 12L d768 T1024, b4, bf16",
        lambda t: networks.gpt(t, 1024, 768, 12, 12, 50304), (4, 1024), 50304, "bfloat16", 50304,
        1.1, 1.1,
    ),
}  # fmt: skip
SMALL = {
    "mlp": NETWORKS["mlp"]._replace(make=lambda t: networks.mlp(t, 12, 8, 10), shape=(4, 12)),
    "lenet": NETWORKS["lenet"]._replace(shape=(2, 1, 28, 28)),
}
"""The same in small, for the tests of these functions."""


class Step:
    """A training step of a network on a device, as a function without arguments."""

    def __init__(
        self, key: str, device: str = "cuda", compiled: bool = False, library: Any = None,
        small: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        torch = library or importlib.import_module("edutorch")
        network = (SMALL if small or device != "cuda" else NETWORKS)[key]
        torch.manual_seed(0)
        self.torch, self.device = torch, device
        with torch.device(device):
            model = network.make(torch)
        dtype = getattr(torch, network.dtype)
        self.model = model = model.to(device).to(dtype)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        random = np.random.default_rng(0)
        count = network.shape[0] * (network.shape[1] if network.words else 1)
        if network.words:
            x = torch.tensor(random.integers(0, network.words, network.shape)).to(device)
        else:
            values = random.standard_normal(network.shape).astype("float32")
            x = torch.tensor(values).to(device).to(dtype)
        y = torch.tensor(random.integers(0, network.classes, count)).to(device)

        def step() -> Any:
            with torch.device(device):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x).float(), y)
                loss.backward()
                optimizer.step()
                return loss

        self.run = torch.compile(step, **settings) if compiled else step

    def __call__(self) -> Any:
        return self.run()

    def loss(self) -> float:
        """Make a step; return its loss."""
        return float(self.run().item())

    def wait(self) -> None:
        """Wait until the device is done."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def sample(self, number: int) -> float:
        """Make so many steps; return the seconds until the device has done them."""
        self.wait()
        start = perf_counter()
        for _ in range(number):
            self.run()
        self.wait()
        return perf_counter() - start

    def values(self) -> list[Any]:
        """Return all parameters as NumPy arrays."""
        return [parameter.detach().cpu().float().numpy() for parameter in self.model.parameters()]


def works_of(key: str, device: str) -> dict[str, Work]:
    """Return the four rivals of a row, warm; one that fails is named and left out."""
    torch = importlib.import_module("torch")
    makers: dict[str, Callable[[], Step]] = {
        EAGER: lambda: Step(key, device),
        COMPILED: lambda: Step(key, device, compiled=True),
        TORCH_EAGER: lambda: Step(key, device, library=torch),
        TORCH_COMPILED: lambda: Step(
            key, device, compiled=True, library=torch, mode="reduce-overhead"
        ),
    }
    works: dict[str, Work] = {}
    for name, make in makers.items():
        try:
            work = make()
            for _ in range(5):
                work()
            work.wait()
            works[name] = work
        except Exception as error:  # noqa: BLE001  the other rivals are measured all the same
            print(f"{key}: {name} fails: {type(error).__name__}: {error}", flush=True)
    return works


def speed(
    keys: tuple[str, ...] = tuple(NETWORKS), device: str = "cuda", budget: float = 25.0
) -> str:
    """Measure steps against PyTorch's in the same call; return the table."""
    rows = []
    for key in keys:
        works = works_of(key, device)
        result = contest(works, rounds=7, seconds=0.1, budget=budget)
        rows.append(row(NETWORKS[key], result))
        print(" | ".join(rows[-1]), flush=True)
        work = works.get(COMPILED)
        if isinstance(work, Step):
            print(work.run.explain(), flush=True)
    return report.table(["ms", *RIVALS, "compiled / goal", "eager / goal"], rows)


def row(network: Network, result: Result) -> list[str]:
    """Return a row of the table."""
    times = [
        f"{result.median(name) * 1e3:.3f}" if name in result.samples else "-" for name in RIVALS
    ]
    pairs = ((COMPILED, TORCH_COMPILED, network.goal), (EAGER, TORCH_EAGER, network.eager_goal))
    ratios = [
        f"{result.ratio(ours, theirs):.2f} / {goal}"
        if ours in result.samples and theirs in result.samples
        else f"- / {goal}"
        for ours, theirs, goal in pairs
    ]
    return [network.name, *times, *ratios]


def products(sizes: tuple[int, ...] = (512, 2048, 8192), device: str = "cuda") -> str:
    """Measure products of square matrices against PyTorch's; return the table."""
    import edutorch
    from edutorch.kernels.gpu.matmul import product

    torch = importlib.import_module("torch")
    rows = []
    for size in sizes:
        for dtype in ("float32", "bfloat16"):
            ours = edutorch.ones(size, size).to(getattr(edutorch, dtype)).to(device)._array
            theirs = torch.ones(size, size, dtype=getattr(torch, dtype), device=device)
            works: dict[str, Work] = {
                "edutorch": Queue(edutorch, lambda a=ours: product(a, a)),
                "PyTorch": Queue(torch, lambda b=theirs: b @ b),
            }
            result = contest(works, rounds=7, seconds=0.05, budget=5.0)
            ratio = result.ratio("edutorch", "PyTorch")
            rows.append([f"{size} x {size} {dtype}", f"{ratio:.3f}"])
            print(" | ".join(rows[-1]), flush=True)
    return report.table(["product", "time / PyTorch (goal 1.05)"], rows)


class Queue:
    """Work for a GPU, which the host waits for at the end of a sample."""

    def __init__(self, library: Any, work: Callable[[], Any]) -> None:
        self.library, self.work = library, work

    def __call__(self) -> None:
        self.sample(1)

    def sample(self, number: int) -> float:
        """Do the work so many times; return the seconds until the GPU has done it."""
        self.library.cuda.synchronize()
        start = perf_counter()
        for _ in range(number):
            self.work()
        self.library.cuda.synchronize()
        return perf_counter() - start


def replays(
    keys: tuple[str, ...] = ("mlp", "lenet"), steps: int = 1000, device: str = "cuda"
) -> str:
    """Compare replayed steps with launches of the same program, bit by bit, and with eager ones."""
    lines = []
    for key in keys:
        graph = Step(key, device, compiled=True)
        launched = Step(key, device, compiled=True, mode="max-autotune-no-cudagraphs")
        eager = Step(key, device)
        furthest = 0.0
        for number in range(steps):
            losses = [graph(), launched()]
            if number < 20:
                first, second, third = (float(t.item()) for t in (*losses, eager()))
                furthest = max(furthest, abs(first - third), abs(second - third))
        same = all(
            np.array_equal(first, second)
            for first, second in zip(graph.values(), launched.values(), strict=True)
        )
        lines.append(
            f"{key}: {steps:,} replays {'equal' if same else 'DIFFER FROM'} {steps:,} launches; "
            f"furthest from eager in 20 steps: {furthest:.1e} (goal 1e-4); "
            + graph.run.explain().splitlines()[-1]
        )
        print(lines[-1], flush=True)
    return "\n".join(lines)


def memory(steps: int = 5000, device: str = "cuda", key: str = "mlp") -> str:
    """Return the memory in use after a tenth of many replayed steps, and after all of them."""
    step = Step(key, device, compiled=True)
    lines = []
    for part, number in (("a tenth", steps // 10), ("all", steps - steps // 10)):
        step.sample(number)
        lines.append(f"after {part} of {steps:,} steps: {in_use(device):,} bytes in use")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def in_use(device: str) -> int:
    """Return how much of the GPU's memory is in use, by all pools; 0 without one."""
    if device != "cuda":
        return 0
    free, total = importlib.import_module("cupy").cuda.runtime.memGetInfo()
    return total - free


def live_cost(turns: int = 7, steps: int = 50, device: str = "cuda", key: str = "gpt") -> str:
    """Measure what a live view without a page costs of an eager step of at least 5 ms."""
    from edutorch import viz

    step = Step(key, device)
    step.sample(3)
    times: dict[str, list[float]] = {"bare": [], "watched": []}
    for _ in range(turns):
        times["bare"].append(step.sample(steps) / steps)
        with viz.live(step.model):
            times["watched"].append(step.sample(steps) / steps)
    bare, watched = (float(np.median(times[name])) for name in ("bare", "watched"))
    text = (
        f"live view of {key}: {watched / bare:.3f} of the bare step of {bare * 1e3:.1f} ms "
        "(goal 1.05)"
    )
    print(text, flush=True)
    return text


def all_speed(device: str = "cuda") -> None:
    """Measure everything that `gpu.sh speed` reports, the shortest first."""
    for part in (replays, memory, products, live_cost, speed):
        try:
            print(f"\n## {part.__name__}\n", flush=True)
            print(part(device=device), flush=True)
        except Exception as error:  # noqa: BLE001  the other parts are measured all the same
            print(f"{part.__name__} fails: {type(error).__name__}: {error}", flush=True)
