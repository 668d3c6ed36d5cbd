"""Gradients of gradients: WGAN-GP, MAML, a physics-informed network, pictures made by LBFGS."""

import argparse
from collections import OrderedDict

import torch
import torch.autograd as autograd
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call
from repeatable import Dice, same_start, write_losses

parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["wgan_gp", "maml", "pinn", "style"])
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--lbfgs-steps", type=int, default=3, help="for pinn, after Adam")
parser.add_argument("--double", action="store_true", help="compute in float64")
parser.add_argument("--out", default="")
args = parser.parse_args()
if args.double:
    torch.set_default_dtype(torch.float64)
dice = Dice(4)


def compute_gradient_penalty(D, real_samples, fake_samples):
    """Return how far D's slope is from 1 between real and made samples."""
    alpha = dice.rand(real_samples.size(0), 1)
    interpolates = (alpha * real_samples + (1 - alpha) * fake_samples).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = torch.ones_like(d_interpolates, requires_grad=False)
    gradients = autograd.grad(
        outputs=d_interpolates, inputs=interpolates, grad_outputs=fake,
        create_graph=True, retain_graph=True, only_inputs=True,
    )[0]  # fmt: skip
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def wgan_gp():
    def block(a, b, normalize=True):
        layers = [nn.Linear(a, b)]
        if normalize:
            layers.append(nn.LayerNorm(b))
        layers.append(nn.LeakyReLU(0.2, inplace=True))
        return layers

    generator = same_start(nn.Sequential(*block(4, 16), nn.Linear(16, 2)), seed=1)
    discriminator = same_start(nn.Sequential(*block(2, 16, False), nn.Linear(16, 1)), seed=2)
    optimizer_G = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=1e-3)
    d_losses, g_losses = [], []
    for i in range(args.steps):
        optimizer_D.zero_grad()
        real = dice.randn(16, 2) * 0.3 + torch.tensor([2.0, -1.0])
        fake = generator(dice.randn(16, 4))
        penalty = compute_gradient_penalty(discriminator, real.data, fake.data)
        d_loss = -discriminator(real).mean() + discriminator(fake.detach()).mean() + 10 * penalty
        d_loss.backward()
        optimizer_D.step()
        d_losses.append(d_loss.item())
        if i % 5 == 0:
            optimizer_G.zero_grad()
            g_loss = -torch.mean(discriminator(generator(dice.randn(16, 4))))
            g_loss.backward()
            optimizer_G.step()
            g_losses.append(g_loss.item())
    return dict(D=d_losses, G=g_losses)


def maml():
    """Learn a start from which one gradient step fits a new sine wave."""
    model = same_start(
        nn.Sequential(
            OrderedDict(l1=nn.Linear(1, 20), a1=nn.Tanh(), l2=nn.Linear(20, 20), a2=nn.ReLU())
        ).append(nn.Linear(20, 1)),
        seed=1,
    )
    meta = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses, after = [], []
    for _ in range(args.steps):
        meta.zero_grad()
        outer = 0.0
        for _task in range(3):
            amplitude, phase = 1 + dice.rand(1), 3 * dice.rand(1)
            x, x_query = 6 * dice.rand(8, 1) - 3, 6 * dice.rand(8, 1) - 3
            y, y_query = (amplitude * torch.sin(v + phase) for v in (x, x_query))
            weights = dict(model.named_parameters())
            inner = F.mse_loss(functional_call(model, weights, (x,)), y)
            grads = torch.autograd.grad(inner, weights.values(), create_graph=True)
            fast = {n: w - 0.05 * g for (n, w), g in zip(weights.items(), grads)}
            outer = outer + F.mse_loss(functional_call(model, fast, (x_query,)), y_query)
        outer.backward()
        meta.step()
        losses.append(outer.item() / 3)
        after.append(inner.item())
    return dict(outer=losses, inner=after)


def pinn():
    """Solve u'' = -π² sin(πx), u(±1) = 0, by Adam and then LBFGS."""
    net = same_start(
        nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 1)),
        seed=1,
    )
    pi = torch.pi
    x = torch.linspace(-1, 1, 25).view(-1, 1).requires_grad_()
    ends = torch.tensor([[-1.0], [1.0]])

    def residual_loss():
        u = net(x)
        u_x = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
        return (u_xx + pi**2 * torch.sin(pi * x)).square().mean() + 10 * net(ends).pow(2).mean()

    losses = []
    adam = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(args.steps):
        adam.zero_grad()
        loss = residual_loss()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    lbfgs = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")

    def closure():
        lbfgs.zero_grad()
        loss = residual_loss()
        loss.backward()
        return loss

    return dict(adam=losses, lbfgs=[lbfgs.step(closure).item() for _ in range(args.lbfgs_steps)])


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super().__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


def style():
    """Change a picture, not the network, until it has another picture's texture."""
    cnn = same_start(
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1), nn.Softplus(),
        ), seed=1,
    ).requires_grad_(False).eval()  # fmt: skip
    content, texture = dice.rand(1, 3, 16, 16), dice.rand(1, 3, 16, 16)
    target, reference = content, texture
    model, style_losses = nn.Sequential(), []
    i = 0
    for layer in cnn.children():
        i += isinstance(layer, nn.Conv2d)
        model.add_module(f"{type(layer).__name__.lower()}_{len(model)}", layer)
        if isinstance(layer, nn.Conv2d):
            style_losses.append(StyleLoss(model(reference)))
            model.add_module(f"style_loss_{i}", style_losses[-1])
    input_img = target.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS([input_img], lr=0.5)
    run, losses = [0], []
    while run[0] < args.steps:

        def closure():
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            model(input_img)
            style_score = 1e4 * sum(sl.loss for sl in style_losses)
            loss = style_score + F.l1_loss(input_img, target) + 0.01
            loss.backward()
            run[0] += 1
            losses.append(loss.item())
            return style_score

        optimizer.step(closure)
    return dict(loss=losses[: args.steps])


write_losses(args.out, **globals()[args.what]())
