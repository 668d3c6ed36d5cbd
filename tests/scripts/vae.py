"""A variational autoencoder on little binary pictures, after the well-known example's manner."""

from __future__ import print_function

import argparse
import os
import tempfile

import numpy as np
import torch
import torch.utils.data
from repeatable import Dice, same_start, write_losses
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="VAE Example")
parser.add_argument("--batch-size", type=int, default=16, metavar="N")
parser.add_argument("--epochs", type=int, default=4, metavar="N")
parser.add_argument("--no-cuda", action="store_true", default=False)
parser.add_argument("--seed", type=int, default=1, metavar="S")
parser.add_argument("--log-interval", type=int, default=2, metavar="N")
parser.add_argument("--out", default="")
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()

torch.manual_seed(args.seed)
device = torch.device("cuda" if args.cuda else "cpu")
kwargs = {"num_workers": 1, "pin_memory": True} if args.cuda else {}


def pictures(count, seed):
    """Filled circles on 12 by 12 pixels: 0 or 1."""
    dice = np.random.RandomState(seed)
    ys, xs = np.mgrid[0:12, 0:12]
    cx, cy, r = (
        dice.uniform(3, 9, (count, 1, 1)),
        dice.uniform(3, 9, (count, 1, 1)),
        dice.uniform(2, 4, (count, 1, 1)),
    )
    inside = (xs - cx) ** 2 + (ys - cy) ** 2 < r**2
    return torch.from_numpy(inside.astype(np.float32)).unsqueeze(1)


train_set = TensorDataset(pictures(80, 1), torch.zeros(80, dtype=torch.long))
test_set = TensorDataset(pictures(32, 2), torch.zeros(32, dtype=torch.long))
train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=False, **kwargs)
test_loader = DataLoader(test_set, batch_size=args.batch_size, shuffle=True, **kwargs)
dice = Dice(args.seed)


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(144, 40)
        self.fc21 = nn.Linear(40, 6)
        self.fc22 = nn.Linear(40, 6)
        self.fc3 = nn.Linear(6, 40)
        self.fc4 = nn.Linear(40, 144)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = dice.randn(*std.shape).to(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 144))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


model = same_start(VAE(), seed=5).to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-3)
losses = []


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 144), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def train(epoch):
    model.train()
    train_loss = 0
    for batch_idx, (data, _) in enumerate(train_loader):
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        losses.append(loss.item() / len(data))
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print(
                "Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}".format(
                    epoch,
                    batch_idx * len(data),
                    len(train_loader.dataset),
                    100.0 * batch_idx / len(train_loader),
                    loss.item() / len(data),
                )
            )
    print(
        "====> Epoch: {} Average loss: {:.4f}".format(epoch, train_loss / len(train_loader.dataset))
    )


def test(epoch):
    model.eval()
    test_loss = 0
    with torch.no_grad():
        for i, (data, _) in enumerate(test_loader):
            data = data.to(device)
            mu, logvar = model.encode(data.view(-1, 144))
            test_loss += loss_function(model.decode(mu), data, mu, logvar).item()
            if i == 0:
                n = min(data.size(0), 8)
                comparison = torch.cat(
                    [data[:n], model.decode(mu).view(args.batch_size, 1, 12, 12)[:n]]
                )
                assert comparison.cpu().shape == (2 * n, 1, 12, 12)
    test_loss /= len(test_loader.dataset)
    print("====> Test set loss: {:.4f}".format(test_loss))
    return test_loss


if __name__ == "__main__":
    tested = []
    for epoch in range(1, args.epochs + 1):
        train(epoch)
        tested.append(test(epoch))
        with torch.no_grad():
            sample = torch.randn(64, 6).to(device)
            sample = model.decode(sample).cpu()
            assert sample.view(64, 1, 12, 12).min() >= 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vae.pt")
        torch.save(model.state_dict(), path)
        again = VAE()
        print(again.load_state_dict(torch.load(path, weights_only=True)))
    write_losses(args.out, train=losses, test=tested)
