"""WGAN-GP, five steps of the critic: Gulrajani et al. 2017, https://arxiv.org/abs/1704.00028."""

from itertools import pairwise

import edutorch as torch
from edutorch import autograd, nn, optim
from tests.programs import unwatched


def mlp(sizes):
    layers = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers[:-1])


def compute_gradient_penalty(D, real_samples, fake_samples):
    alpha = torch.rand(real_samples.size(0), 1)
    interpolates = (alpha * real_samples + (1 - alpha) * fake_samples).requires_grad_(True)
    d_interpolates = D(interpolates)
    gradients = autograd.grad(
        outputs=d_interpolates,
        inputs=interpolates,
        grad_outputs=torch.ones_like(d_interpolates),
        create_graph=True,
        retain_graph=True,
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    lambda_gp, n_critic = 10, 5
    generator, critic = mlp([3, 6, 6, 2]), mlp([2, 6, 6, 1])
    optimizer_G = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    optimizer_D = optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    real_imgs = torch.randn(4, 2)
    with watch(generator, critic):
        for _ in range(steps):
            for _ in range(n_critic):
                optimizer_D.zero_grad()
                fake_imgs = generator(torch.randn(4, 3)).detach()
                penalty = compute_gradient_penalty(critic, real_imgs, fake_imgs)
                d_loss = critic(fake_imgs).mean() - critic(real_imgs).mean() + lambda_gp * penalty
                d_loss.backward()
                optimizer_D.step()
            optimizer_G.zero_grad()
            g_loss = -critic(generator(torch.randn(4, 3))).mean()
            g_loss.backward()
            optimizer_G.step()
