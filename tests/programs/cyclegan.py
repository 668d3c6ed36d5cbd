"""CycleGAN, two generators and two discriminators: Zhu et al. 2017, https://arxiv.org/abs/1703.10593."""

import itertools

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.block = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels), nn.ReLU(inplace=True),
            nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3), nn.InstanceNorm2d(channels),
        )  # fmt: skip

    def forward(self, x):
        return x + self.block(x)


def generator(width=2, blocks=3):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.InstanceNorm2d(width), nn.ReLU(inplace=True),
        nn.Conv2d(width, 2 * width, 3, 2, 1), nn.InstanceNorm2d(2 * width), nn.ReLU(inplace=True),
        *[ResidualBlock(2 * width) for _ in range(blocks)],
        nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(width),
        nn.ReLU(inplace=True), nn.Conv2d(width, 1, 3, padding=1), nn.Tanh(),
    )  # fmt: skip


def discriminator(width=2):
    return nn.Sequential(
        nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, 2 * width, 4, 2, 1), nn.InstanceNorm2d(2 * width),
        nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(2 * width, 1, 2),
    )  # fmt: skip


def set_requires_grad(nets, requires_grad):
    for net in nets:
        for param in net.parameters():
            param.requires_grad = requires_grad


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    G_A, G_B, D_A, D_B = generator(), generator(), discriminator(), discriminator()
    criterion_gan, criterion_cycle = nn.MSELoss(), nn.L1Loss()
    optimizer_G = optim.Adam(itertools.chain(G_A.parameters(), G_B.parameters()), lr=2e-4)
    optimizer_D = optim.Adam(itertools.chain(D_A.parameters(), D_B.parameters()), lr=2e-4)
    real_A, real_B = torch.rand(2, 1, 8, 8), torch.rand(2, 1, 8, 8)
    with watch(G_A, G_B, D_A, D_B):
        for _ in range(steps):
            fake_B, fake_A = G_A(real_A), G_B(real_B)
            rec_A, rec_B = G_B(fake_B), G_A(fake_A)
            set_requires_grad([D_A, D_B], False)
            optimizer_G.zero_grad()
            pred_A, pred_B = D_A(fake_B), D_B(fake_A)
            loss_gan = criterion_gan(pred_A, torch.ones_like(pred_A)) + criterion_gan(
                pred_B, torch.ones_like(pred_B)
            )
            loss_cycle = criterion_cycle(rec_A, real_A) + criterion_cycle(rec_B, real_B)
            loss_G = loss_gan + 10.0 * loss_cycle
            loss_G.backward()
            optimizer_G.step()
            set_requires_grad([D_A, D_B], True)
            optimizer_D.zero_grad()
            for netD, real, fake in ((D_A, real_B, fake_B), (D_B, real_A, fake_A)):
                pred_real, pred_fake = netD(real), netD(fake.detach())
                loss_D = 0.5 * (
                    criterion_gan(pred_real, torch.ones_like(pred_real))
                    + criterion_gan(pred_fake, torch.zeros_like(pred_fake))
                )
                loss_D.backward()
            optimizer_D.step()
