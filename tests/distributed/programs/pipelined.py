"""A small GPT of four layers in stages, against one process with the whole batch."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    SplitPoint,
    pipeline,
)

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
WORDS, WIDTH, TIME, BATCH = 50, 32, 12, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixed, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (
            y.reshape(n, t, 4, c // 4).transpose(1, 2)
            for y in self.mixed(self.first(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(y.transpose(1, 2).reshape(n, t, c))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


class Start(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TIME, WIDTH)

    def forward(self, tokens):
        return self.words(tokens) + self.places(torch.arange(tokens.shape[1]))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = Start()
        self.layers = nn.ModuleList([Block() for _ in range(4)])
        self.end = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.start(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.end(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.reshape(-1, WORDS), targets.reshape(-1))


def model():
    torch.manual_seed(0)
    return GPT()


tokens = torch.randint(0, WORDS, (BATCH, TIME), generator=torch.Generator().manual_seed(1))
targets = torch.randint(0, WORDS, (BATCH, TIME), generator=torch.Generator().manual_seed(2))
whole = model()
wanted_logits = whole(tokens)
wanted_loss = loss_of(wanted_logits, targets)
wanted_loss.backward()
gradients = {name: p.grad for name, p in whole.named_parameters()}
rates = torch.optim.SGD(whole.parameters(), lr=0.1)
rates.step()


def check(make, stages, steps=2, microbatches=4):
    """Make the schedule, run steps, and compare with one process."""
    total = size * stages
    layers = 4 // total
    points = {f"layers.{layers * i}": SplitPoint.BEGINNING for i in range(1, total)}
    pipe = pipeline(model(), (tokens[:2],), split_spec=points)
    assert pipe.num_stages == total
    mine = [pipe.build_stage(i, "cpu") for i in range(rank, total, size)]
    schedule = make(mine if stages > 1 else mine[0], microbatches, loss_fn=loss_of)
    parameters = {n: p for stage in mine for n, p in stage.submod.named_parameters()}
    optimizer = torch.optim.SGD(parameters.values(), lr=0.1)
    last = rank == size - 1
    for step in range(steps):
        losses = []
        args = (tokens,) if rank == 0 else ()
        result = schedule.step(*args, target=targets if last else None, losses=losses)
        if step == 0:
            for name, parameter in parameters.items():
                error = (parameter.grad - gradients[name]).abs().max().item()
                assert error <= 1e-5, (make.__name__, name, error)
            if last:
                assert len(losses) == microbatches
                assert abs(sum(losses).item() / microbatches - wanted_loss.item()) < 1e-5
                assert (result - wanted_logits).abs().max().item() < 1e-5
            else:
                assert result is None and losses == []
            optimizer.step()
            optimizer.zero_grad()
    error = max((p - whole.get_parameter(n)).abs().max().item() for n, p in parameters.items())
    assert error <= 1e-5, error
    output = schedule.eval(*args)
    if last:
        assert (output - whole(tokens)).abs().max().item() < 1e-5
        assert not output.requires_grad
    return len(parameters)


if size == 2:
    held = [
        check(ScheduleGPipe, 1),
        check(Schedule1F1B, 1),
        check(Schedule1F1B, 1, microbatches=8),
        check(ScheduleInterleaved1F1B, 2),
    ]
else:
    held = [check(Schedule1F1B, 1), check(ScheduleGPipe, 1, microbatches=8)]
for wrong, text in (
    (lambda: PipelineStage(nn.Linear(1, 1), (rank + 1) % size, size, "cpu"), "belongs to rank"),
    (lambda: pipeline(model(), (tokens,), split_spec={"x": SplitPoint.END}), "no submodule x"),
):
    try:
        wrong()
    except ValueError as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
if rank == 0:
    print("the same gradients", held)
dist.destroy_process_group()
