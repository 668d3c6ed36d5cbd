"""A DCGAN on small pictures of blobs: two networks, two optimizers, smoothed labels."""

import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.parallel
import torch.backends.cudnn as cudnn
import torch.optim as optim
import torch.utils.data
from repeatable import Dice, same_start, write_losses

parser = argparse.ArgumentParser()
parser.add_argument("--batchSize", type=int, default=8, help="input batch size")
parser.add_argument("--imageSize", type=int, default=16)
parser.add_argument("--nz", type=int, default=12, help="size of the latent z vector")
parser.add_argument("--ngf", type=int, default=8)
parser.add_argument("--ndf", type=int, default=8)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--lr", type=float, default=0.0002)
parser.add_argument("--beta1", type=float, default=0.5)
parser.add_argument("--cuda", action="store_true", default=False)
parser.add_argument("--ngpu", type=int, default=1)
parser.add_argument("--manualSeed", type=int, default=999)
parser.add_argument("--double", action="store_true", help="compute in float64")
parser.add_argument("--out", default="")
opt = parser.parse_args()
print(opt)

if opt.double:
    torch.set_default_dtype(torch.float64)
random.seed(opt.manualSeed)
torch.manual_seed(opt.manualSeed)
cudnn.benchmark = True
if torch.cuda.is_available() and not opt.cuda:
    print("WARNING: You have a CUDA device, so you should probably run with --cuda")
device = torch.device("cuda:0" if opt.cuda and torch.cuda.is_available() else "cpu")
nz, ngf, ndf, nc = int(opt.nz), int(opt.ngf), int(opt.ndf), 3


class Blobs(torch.utils.data.Dataset):
    """Soft blobs at random places, in random colours, in -1 … 1."""

    def __init__(self, count, size, seed=0):
        dice = np.random.RandomState(seed)
        ys, xs = np.mgrid[0:size, 0:size]
        self.images = []
        for _ in range(count):
            cx, cy = dice.uniform(0.25 * size, 0.75 * size, size=2)
            glow = np.exp(-((xs - cx) ** 2 + (ys - cy) ** 2) / (0.1 * size**2))
            colour = dice.uniform(0.3, 1.0, size=(3, 1, 1))
            image = torch.from_numpy(2 * colour * glow - 1)
            self.images.append(image.to(torch.get_default_dtype()))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], 0


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        m.weight.data.normal_(0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        torch.nn.init.constant_(m.weight, 1.0)
        torch.nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self, ngpu):
        super().__init__()
        self.ngpu = ngpu
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        if input.is_cuda and self.ngpu > 1:
            return nn.parallel.data_parallel(self.main, input, range(self.ngpu))
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self, ngpu):
        super().__init__()
        self.ngpu = ngpu
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        if input.is_cuda and self.ngpu > 1:
            output = nn.parallel.data_parallel(self.main, input, range(self.ngpu))
        else:
            output = self.main(input)
        return output.view(-1, 1).squeeze(1)


dataset = Blobs(opt.batchSize * 10, opt.imageSize)
dataloader = torch.utils.data.DataLoader(
    dataset, batch_size=opt.batchSize, shuffle=False, num_workers=0, drop_last=True
)
netG = Generator(opt.ngpu).to(device)
netG.apply(weights_init)
same_start(netG, seed=1)
print(netG)
netD = Discriminator(opt.ngpu).to(device)
netD.apply(weights_init)
same_start(netD, seed=2)
print(netD)

criterion = nn.BCELoss()
dice = Dice(3)
fixed_noise = dice.randn(4, nz, 1, 1).to(device)
real_label, fake_label = 0.9, 0
optimizerD = optim.Adam(netD.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))
D_losses, G_losses = [], []


def train_step(data):
    # (1) D: more log(D(x)) + log(1 - D(G(z)))
    netD.zero_grad()
    real_cpu = data[0].to(device)
    batch_size = real_cpu.size(0)
    label = torch.full((batch_size,), real_label, dtype=real_cpu.dtype, device=device)
    output = netD(real_cpu)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean().item()
    noise = dice.randn(batch_size, nz, 1, 1).to(device)
    fake = netG(noise)
    label.fill_(fake_label)
    output = netD(fake.detach())
    errD_fake = criterion(output, label)
    errD_fake.backward()
    D_G_z1 = output.mean().item()
    errD = errD_real + errD_fake
    optimizerD.step()
    # (2) G: more log(D(G(z)))
    netG.zero_grad()
    label.fill_(real_label)
    output = netD(fake)
    errG = criterion(output, label)
    errG.backward()
    D_G_z2 = output.mean().item()
    optimizerG.step()
    return errD.item(), errG.item(), D_x, D_G_z1, D_G_z2


step = 0
while step < opt.steps:
    for data in dataloader:
        errD, errG, D_x, D_G_z1, D_G_z2 = train_step(data)
        D_losses.append(errD)
        G_losses.append(errG)
        print(
            "[%d/%d] Loss_D: %.4f Loss_G: %.4f D(x): %.4f D(G(z)): %.4f / %.4f"
            % (step, opt.steps, errD, errG, D_x, D_G_z1, D_G_z2)
        )
        step += 1
        if step >= opt.steps:
            break
netG.eval()
with torch.no_grad():
    pictures = netG(fixed_noise).detach().cpu()
assert pictures.shape == (4, nc, opt.imageSize, opt.imageSize)
assert int(netG.state_dict()["main.1.num_batches_tracked"]) == opt.steps
write_losses(opt.out, D=D_losses, G=G_losses, pictures=pictures.flatten()[::97].tolist())
