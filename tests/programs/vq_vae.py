"""VQ-VAE, its codebook a buffer that is updated in place: https://arxiv.org/abs/1711.00937."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class VectorQuantizerEMA(nn.Module):
    def __init__(self, codes=5, dim=3, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("embedding", torch.randn(codes, dim))
        self.register_buffer("cluster_size", torch.ones(codes))
        self.register_buffer("ema_w", self.embedding.clone())

    def forward(self, z):
        distances = z.pow(2).sum(1, keepdim=True) + self.embedding.pow(2).sum(1)
        distances -= 2 * z @ self.embedding.t()
        indices = torch.argmin(distances, dim=1)
        encodings = F.one_hot(indices, self.embedding.shape[0]).float()
        quantized = encodings @ self.embedding
        if self.training:
            with torch.no_grad():
                self.cluster_size.mul_(self.decay).add_(encodings.sum(0), alpha=1 - self.decay)
                self.ema_w.mul_(self.decay).add_(encodings.t() @ z, alpha=1 - self.decay)
                self.embedding.copy_(self.ema_w / self.cluster_size.clamp(min=1e-5).unsqueeze(1))
        commitment = F.mse_loss(quantized.detach(), z)
        return z + (quantized - z).detach(), 0.25 * commitment


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        self.quantizer = VectorQuantizerEMA()
        self.decoder = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6))

    def forward(self, x):
        quantized, vq_loss = self.quantizer(self.encoder(x))
        return self.decoder(quantized), vq_loss


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = VQVAE()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    data = torch.randn(10, 6)
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            data_recon, vq_loss = model(data)
            loss = F.mse_loss(data_recon, data) + vq_loss
            loss.backward()
            optimizer.step()
