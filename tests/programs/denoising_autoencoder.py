"""A convolutional denoising autoencoder: Vincent et al. 2008, https://doi.org/10.1145/1390156.1390294."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(True),
        nn.Conv2d(4, 4, 3, stride=2, padding=1), nn.ReLU(True),
    )  # fmt: skip
    decoder = nn.Sequential(
        nn.ConvTranspose2d(4, 4, 2, stride=2), nn.ReLU(True),
        nn.ConvTranspose2d(4, 1, 2, stride=2), nn.Tanh(),
    )  # fmt: skip
    optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    criterion = nn.MSELoss()
    clean = torch.rand(4, 1, 8, 8) * 2 - 1
    with watch(encoder, decoder):
        for _ in range(steps):
            noisy = clean + 0.3 * torch.randn_like(clean)
            noisy.clamp_(-1, 1)
            loss = criterion(decoder(encoder(noisy)), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
