"""Twelve small networks, and a training step of each, as programs for a GPU have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import edutorch
from benchmarks import networks
from edutorch import nn, optim
from edutorch.nn import functional

Step = Callable[[], Any]


def training(
    model: nn.Module, loss_of: Callable[[], Any], make: Any = optim.Adam, clip: bool = False
) -> Step:
    """A step that computes the loss, its gradients and an update, and returns the loss."""
    optimizer = make(model.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def classifier(model: nn.Module, *shape: int, classes: int = 5, **settings: Any) -> Step:
    x, y = edutorch.randn(*shape), edutorch.randint(0, classes, shape[:1])
    return training(model, lambda: functional.cross_entropy(model(x), y), **settings)


def mlp() -> Step:
    return classifier(networks.mlp(edutorch, 6, 8, 5), 4, 6)


def cnn() -> Step:
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(),
        nn.Flatten(), nn.Linear(27, 5),
    )  # fmt: skip
    return classifier(model, 4, 1, 8, 8, make=optim.SGD)


def resnet() -> Step:
    model = networks.resnet(edutorch, (4, 6, 8, 10))
    return classifier(model, 2, 3, 8, 8, make=optim.AdamW, clip=True)


class Recurrent(nn.Module):
    """A recurrent layer over packed sequences, and a linear layer of its last state."""

    def __init__(self, layer: type[nn.Module]) -> None:
        super().__init__()
        self.layer = layer(4, 6, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        lengths = edutorch.tensor([5, 4, 2], device="cpu")  # as PyTorch asks for them
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        output, state = self.layer(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        state = state[0] if isinstance(state, tuple) else state
        return self.head(state[-1]) + self.head(padded.mean(1)) + self.head(self.layer(x)[0][:, -1])


def lstm() -> Step:
    return classifier(Recurrent(nn.LSTM), 3, 5, 4)


def gru() -> Step:
    return classifier(Recurrent(nn.GRU), 3, 5, 4, make=optim.RMSprop)


class Gpt(nn.Module):
    """Embeddings of words and positions, causal attention, logits of the next word."""

    def __init__(self, words: int = 11, width: int = 8) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(6, width)
        self.norm, self.attention = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.hidden = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width))
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(width, words)

    def forward(self, index: Any) -> Any:
        rows = edutorch.arange(index.shape[1], device=index.device)
        x = self.drop(self.words(index) + self.positions(rows))
        query, key, value = self.attention(self.norm(x)).chunk(3, -1)
        heads = functional.scaled_dot_product_attention(
            *(part.unflatten(-1, (2, -1)).transpose(1, 2) for part in (query, key, value)),
            is_causal=True, dropout_p=0.1,
        )  # fmt: skip
        x = x + self.drop(heads.transpose(1, 2).flatten(2))
        x = x + edutorch.utils.checkpoint.checkpoint(self.hidden, x, use_reentrant=False)
        return self.head(x)


def gpt() -> Step:
    model = Gpt()
    x, y = edutorch.randint(0, 11, (3, 6)), edutorch.randint(0, 11, (3, 6))

    def loss() -> Any:
        return functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=3)

    return training(model, loss, optim.AdamW, clip=True)


def transformer() -> Step:
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    source, target = edutorch.randn(2, 4, 8), edutorch.randn(2, 3, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(3, device=target.device)
    padding = edutorch.tensor([[False] * 4, [False] * 3 + [True]])

    def loss() -> Any:
        y = model(source, target, tgt_mask=mask, src_key_padding_mask=padding)
        return functional.mse_loss(y, target)

    return training(model, loss)


def vae() -> Step:
    encoder, decoder = nn.Linear(9, 6), nn.Linear(3, 9)
    x = edutorch.rand(4, 9)

    def loss() -> Any:
        mean, log_variance = encoder(x).chunk(2, -1)
        z = mean + edutorch.randn_like(mean) * (0.5 * log_variance).exp()
        rebuilt = functional.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")
        return rebuilt - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()

    return training(nn.ModuleList([encoder, decoder]), loss)


def gan() -> Step:
    make, judge = networks.mlp(edutorch, 3, 8, 4), networks.mlp(edutorch, 4, 8, 1)
    real, ones, zeros = edutorch.randn(5, 4), edutorch.ones(5, 1), edutorch.zeros(5, 1)
    score = nn.BCEWithLogitsLoss()

    def judged() -> Any:
        made = make(edutorch.randn(5, 3)).detach()
        return score(judge(real), ones) + score(judge(made), zeros)

    steps = [
        training(judge, judged, optim.RMSprop),
        training(make, lambda: score(judge(make(edutorch.randn(5, 3))), ones)),
    ]

    def both() -> Any:
        losses = [step() for step in steps]
        return losses[0] + losses[1].detach()

    return both


class UNet(nn.Module):
    """Down by pooling, up by a transposed convolution and by resizing, with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.below = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
        self.norm, self.up = nn.GroupNorm(2, 4), nn.ConvTranspose2d(4, 3, 2, 2)
        self.wider, self.last = nn.Upsample(scale_factor=2), nn.Conv2d(10, 5, 1)

    def forward(self, x: Any) -> Any:
        first = self.first(x).relu()
        below = functional.silu(self.norm(self.below(functional.max_pool2d(first, 2))))
        return self.last(edutorch.cat([first, self.up(below), self.wider(below)], 1))


def unet() -> Step:
    model = UNet()
    x, y = edutorch.randn(2, 1, 8, 8), edutorch.randint(0, 5, (2, 8, 8))
    return training(model, lambda: functional.cross_entropy(model(x), y))


def embedding_bag() -> Step:
    bag, head = nn.EmbeddingBag(9, 6, mode="mean"), nn.Linear(6, 5)
    words, starts = edutorch.randint(0, 9, (8,)), edutorch.tensor([0, 3, 3, 6])
    y = edutorch.randint(0, 5, (4,))

    def loss() -> Any:
        return functional.cross_entropy(head(bag(words, starts)), y)

    return training(nn.ModuleList([bag, head]), loss, optim.Adagrad)


def scaled() -> Step:
    """Autocast and a GradScaler, clipping, and a schedule of the learning rate."""
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 5))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    scaler = edutorch.amp.GradScaler("strict")
    x, y = edutorch.randn(4, 6), edutorch.randint(0, 5, (4,))

    def step() -> Any:
        optimizer.zero_grad()
        with edutorch.autocast("strict", dtype=edutorch.float16):
            loss = functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        return loss

    return step


NETWORKS = {
    "MLP": mlp, "CNN": cnn, "ResNet-18": resnet, "LSTM": lstm, "GRU": gru, "GPT": gpt,
    "Transformer": transformer, "VAE": vae, "GAN": gan, "U-Net": unet,
    "embedding bag": embedding_bag, "autocast and GradScaler": scaled,
}  # fmt: skip
