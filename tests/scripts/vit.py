"""A Vision Transformer that tells which way little stripes run."""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import OneCycleLR
from repeatable import Dice, same_start, write_losses


def stripes(dice, count, size=16):
    """Return pictures (count, 3, size, size) and which of four directions their stripes run."""
    direction = dice.randint(0, 4, (count,))
    angle = direction.to(torch.get_default_dtype()) * (math.pi / 4)
    grid = torch.linspace(-1, 1, size)
    y, x = torch.meshgrid(grid, grid, indexing="ij")
    along = x * angle.cos()[:, None, None] + y * angle.sin()[:, None, None]
    images = torch.sin(12 * along + 6.28 * dice.rand(count, 1, 1)).unsqueeze(1).repeat(1, 3, 1, 1)
    return images + 0.3 * dice.randn(*images.shape), direction


class PatchEmbed(nn.Module):
    def __init__(self, img_size=16, patch_size=4, in_chans=3, embed_dim=32):
        super().__init__()
        self.num_patches = (img_size // patch_size) ** 2
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, dim, num_heads=4, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attn = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class DropPath(nn.Module):
    """Leaves out a whole branch of some examples (stochastic depth)."""

    def __init__(self, drop_prob=0.0):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep = 1 - self.drop_prob
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        return x * mask.div_(keep)


class Block(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=2.0, drop_path=0.0, norm_layer=nn.LayerNorm):
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = Attention(dim, num_heads)
        self.drop_path = DropPath(drop_path) if drop_path > 0.0 else nn.Identity()
        self.norm2 = norm_layer(dim)
        hidden = int(dim * mlp_ratio)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x):
        x = x + self.drop_path(self.attn(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    def __init__(self, num_classes=4, embed_dim=32, depth=2, num_heads=4, library_layers=False):
        super().__init__()
        self.patch_embed = PatchEmbed(embed_dim=embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.patch_embed.num_patches + 1, embed_dim))
        if library_layers:
            layer = nn.TransformerEncoderLayer(
                embed_dim, num_heads, 2 * embed_dim, dropout=0.0, activation="gelu",
                batch_first=True, norm_first=True,
            )  # fmt: skip
            self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        else:
            self.blocks = nn.Sequential(*[Block(embed_dim, num_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.trunc_normal_(self.cls_token, std=0.02)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--library-layers", action="store_true")
parser.add_argument("--out", default="")
args = parser.parse_args()
dice = Dice(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = same_start(VisionTransformer(library_layers=args.library_layers), seed=1).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
scheduler = OneCycleLR(optimizer, max_lr=3e-3, total_steps=args.steps, pct_start=0.3)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
losses, rates = [], []
for step in range(args.steps):
    images, labels = (t.to(device) for t in stripes(dice, 16))
    loss = criterion(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    rates.append(scheduler.get_last_lr()[0])
    scheduler.step()
    losses.append(loss.item())
model.eval()
with torch.inference_mode():
    images, labels = stripes(dice, 64)
    logits = model(images)
    top2 = logits.topk(2, dim=1).indices
    correct = top2.eq(labels.view(-1, 1).expand_as(top2))
    print(f"top-1 {correct[:, :1].float().mean():.2%} top-2 {correct.float().sum() / 64:.2%}")
    final = F.cross_entropy(logits, labels)
write_losses(args.out, loss=losses, rate=rates, final=[final])
