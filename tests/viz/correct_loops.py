"""Correct training loops of many kinds, of which no trouble may be said.

Each takes `watch(*models)`, which opens a view, and runs some tens of steps.
"""

import copy
from collections.abc import Callable
from typing import Any

import edutorch as torch
from edutorch import nn, optim, viz
from edutorch.nn import functional as F
from edutorch.optim import lr_scheduler

STEPS = 30

Loop = Callable[[Callable[..., viz.View]], Any]
LOOPS: list[Loop] = []


def loop(code: Loop) -> Loop:
    """Add a program to the list; it returns its view."""
    LOOPS.append(code)
    return code


def body(width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))


def batch(count: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(count, 3), torch.randint(0, 2, (count,))


def plain(watch, net, optimizer, loss_of, before=None, after=None):
    with watch(net) as view:
        for step in range(STEPS):
            if before:
                before(step)
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            optimizer.step()
            if after:
                after(step, loss)
    return view


@loop
def adam(watch):
    x, y = batch()
    net = body()
    return plain(
        watch, net, optim.Adam(net.parameters(), lr=1e-3), lambda: F.cross_entropy(net(x), y)
    )


@loop
def momentum_and_a_schedule(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y),
                 after=lambda step, loss: schedule.step())  # fmt: skip


@loop
def zeros_in_place(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    with watch(net) as view:
        for _ in range(STEPS):
            for parameter in net.parameters():
                if parameter.grad is not None:
                    parameter.grad.zero_()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return view


@loop
def zeros_by_the_optimizer(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    with watch(net) as view:
        for _ in range(STEPS):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return view


@loop
def by_hand(watch):
    torch.manual_seed(0)
    w, b = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
    x = torch.randn(16, 3)
    y = x @ torch.tensor([1.0, 2.0, 3.0]) + 1
    with watch() as view:
        for _ in range(STEPS):
            loss = ((x @ w + b - y) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                b -= 0.1 * b.grad
            w.grad = b.grad = None
    return view


@loop
def accumulation(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    with watch(net) as view:
        for step in range(2 * STEPS):
            part = slice(4 * (step % 4), 4 * (step % 4) + 4)
            loss = F.cross_entropy(net(x[part]), y[part]) / 4
            loss.backward()
            if step % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
    return view


def gan(watch, shared: bool, clear: Callable[[Any, Any], None]):
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    critic = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    optimizer_g = optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_d = optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
    with watch(generator, critic) as view:
        for _ in range(STEPS):
            clear(critic, optimizer_d)
            real = torch.randn(8, 3)
            err_real = F.binary_cross_entropy_with_logits(critic(real), ones)
            err_real.backward()
            fake = generator(torch.randn(8, 4))
            err_fake = F.binary_cross_entropy_with_logits(critic(fake.detach()), zeros)
            err_fake.backward()
            optimizer_d.step()
            clear(generator, optimizer_g)
            again = fake if shared else generator(torch.randn(8, 4))
            err_g = F.binary_cross_entropy_with_logits(critic(again), ones)
            err_g.backward()
            optimizer_g.step()
    return view


@loop
def the_usual_gan(watch):
    return gan(watch, True, lambda net, optimizer: net.zero_grad())


@loop
def a_gan_with_two_fakes(watch):
    return gan(watch, False, lambda net, optimizer: optimizer.zero_grad())


@loop
def wasserstein_with_penalty(watch):
    torch.manual_seed(0)
    generator, critic = nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer_g = optim.Adam(generator.parameters(), lr=1e-4)
    optimizer_d = optim.Adam(critic.parameters(), lr=1e-4)
    with watch(generator, critic) as view:
        for _ in range(8):
            for _ in range(5):
                optimizer_d.zero_grad()
                real, fake = torch.randn(8, 3), generator(torch.randn(8, 4)).detach()
                mixed = (0.5 * real + 0.5 * fake).requires_grad_()
                (slope,) = torch.autograd.grad(critic(mixed).sum(), [mixed], create_graph=True)
                penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
                loss_d = critic(fake).mean() - critic(real).mean() + 10 * penalty
                loss_d.backward()
                optimizer_d.step()
            optimizer_g.zero_grad()
            loss_g = -critic(generator(torch.randn(8, 4))).mean()
            loss_g.backward()
            optimizer_g.step()
    return view


@loop
def frozen_layers(watch):
    x, y = batch()
    net = body()
    net[0].requires_grad_(False)
    optimizer = optim.SGD(net[2].parameters(), lr=0.05)
    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y))


@loop
def layers_that_thaw(watch):
    x, y = batch()
    net = body()
    net[0].requires_grad_(False)
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y),
                 before=lambda step: net[0].requires_grad_(step > 10))  # fmt: skip


@loop
def several_optimizers(watch):
    x, y = batch()
    net = body()
    first = optim.SGD(net[0].parameters(), lr=0.05)
    last = optim.Adam(net[2].parameters(), lr=1e-3)
    with watch(net) as view:
        for _ in range(STEPS):
            first.zero_grad()
            last.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            first.step()
            last.step()
    return view


@loop
def optimizers_that_take_turns(watch):
    x, y = batch()
    net = body()
    optimizers = [optim.SGD(net[0].parameters(), 0.05), optim.SGD(net[2].parameters(), 0.05)]
    with watch(net) as view:
        for step in range(STEPS):
            net.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizers[step % 2].step()
    return view


@loop
def optimizers_of_an_object(watch):
    class Trainer:
        def __init__(self):
            self.actor, self.critic = nn.Linear(3, 2), nn.Linear(3, 1)
            self.often = optim.Adam(self.critic.parameters(), lr=1e-3)
            self.seldom = optim.Adam(self.actor.parameters(), lr=1e-3)

    torch.manual_seed(0)
    trainer = Trainer()
    with watch(trainer.actor, trainer.critic) as view:
        for step in range(2 * STEPS):
            x = torch.randn(8, 3)
            trainer.often.zero_grad()
            trainer.actor.zero_grad()
            loss = (trainer.critic(x) - trainer.actor(x).sum(1, keepdim=True)).square().mean()
            loss.backward()
            trainer.often.step()
            if step % 20 == 19:
                trainer.seldom.step()
    return view


@loop
def evaluation_inside(watch):
    x, y = batch()
    net = nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2)
    )
    optimizer = optim.Adam(net.parameters(), lr=1e-3)

    def evaluate(step, loss):
        if step % 5 == 4:
            net.eval()
            with torch.no_grad():
                (net(x).argmax(1) == y).float().mean().item()
            net.train()

    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y), after=evaluate)


@loop
def mixed_precision(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=5)
    with watch(net) as view:
        for _ in range(2 * STEPS):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(net(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    return view


@loop
def a_closure_of_lbfgs(watch):
    x, y = batch()
    net = body()
    optimizer = optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y) + 1e-3 * net[0].weight.square().sum()
        loss.backward()
        return loss

    with watch(net) as view:
        for _ in range(10):
            optimizer.step(closure)
    return view


@loop
def a_target_net(watch):
    torch.manual_seed(0)
    net = body()
    target = copy.deepcopy(net)
    optimizer = optim.Adam(net.parameters(), lr=1e-3)
    with watch(net, target) as view:
        for step in range(STEPS):
            state, after = torch.randn(16, 3), torch.randn(16, 3)
            action, reward = torch.randint(0, 2, (16,)), torch.randn(16)
            with torch.no_grad():
                wanted = reward + 0.9 * target(after).max(1).values
            value = net(state).gather(1, action[:, None]).squeeze(1)
            loss = F.smooth_l1_loss(value, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 9:
                target.load_state_dict(net.state_dict())
    return view


@loop
def a_target_that_is_detached(watch):
    x, _ = batch()
    student, teacher = body(), body()
    optimizer = optim.SGD(student.parameters(), lr=0.05)
    loss_of = lambda: F.mse_loss(student(x), teacher(x).detach())  # noqa: E731
    return plain(watch, student, optimizer, loss_of)


@loop
def moving_average_of_weights(watch):
    x, y = batch()
    net = body()
    average = copy.deepcopy(net).requires_grad_(False)

    def follow(step, loss):
        with torch.no_grad():
            for slow, quick in zip(average.parameters(), net.parameters(), strict=True):
                slow.mul_(0.9).add_(quick, alpha=0.1)

    optimizer = optim.SGD(net.parameters(), lr=0.05)
    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y), after=follow)
