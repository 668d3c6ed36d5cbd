"""Train for thousands of steps and write how much memory is resident on the way."""

import argparse
import gc
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from repeatable import write_losses
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("loop", choices=["mlp", "gru", "cnn", "kept"])
parser.add_argument("--steps", type=int, default=10_000)
parser.add_argument("--out", default="")
args = parser.parse_args()
steps, memory = [], []


def resident():
    """Return the resident megabytes of this process."""
    gc.collect()
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(step):
    if step in (500, args.steps) or step % 2500 == 0:
        steps.append(step)
        memory.append(resident())


def mlp():
    """A classifier with all the trimmings; its losses are kept as numbers."""
    x = torch.randn(512, 16)
    dataset = TensorDataset(x, (x.sum(dim=1) > 0).long())
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    losses, correct, step = [], 0, 0
    while step < args.steps:
        model.train()
        for inputs, targets in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = F.cross_entropy(outputs, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            correct += (outputs.argmax(dim=1) == targets).sum().item()
            step += 1
            measure(step)
            if step == args.steps:
                break
    assert len(losses) == args.steps and sum(losses[-100:]) < sum(losses[:100])


def gru():
    """Truncated backpropagation through time: the state goes on, its past does not."""
    model, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01, momentum=0.9)
    state = torch.zeros(1, 4, 8)
    for step in range(1, args.steps + 1):
        x = torch.randn(4, 3, 4)
        out, state = model(x, state.detach())
        loss = (head(out) - x.sum(-1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        measure(step)


def cnn():
    """Convolution, batch norm and pooling."""
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 3),
    )  # fmt: skip
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    criterion = nn.NLLLoss()
    running = torch.zeros(())
    for step in range(1, args.steps + 1):
        targets = torch.randint(0, 3, (4,))
        loss = criterion(F.log_softmax(model(torch.randn(4, 1, 8, 8)), dim=1), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.detach()
        measure(step)
    assert not running.requires_grad


def kept():
    """Losses are kept as tensors, detached, until the next report."""
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses, reports = [], []
    for step in range(1, args.steps + 1):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if step % 100 == 0:
            reports.append(torch.stack(losses).mean())
            losses.clear()
        measure(step)
    assert reports[-1] < reports[0]


torch.manual_seed(0)
{"mlp": mlp, "gru": gru, "cnn": cnn, "kept": kept}[args.loop]()
write_losses(args.out, step=steps, memory=memory)
