"""Vision Transformer, 12 layers: Dosovitskiy et al. 2020, https://arxiv.org/abs/2010.11929."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, hidden_dim), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(hidden_dim, dim), nn.Dropout(dropout),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, dim, heads, dim_head):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.attend = nn.Softmax(dim=-1)
        self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(heads * dim_head, dim), nn.Dropout(0.1))

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in qkv)
        attn = self.attend(torch.matmul(q, k.transpose(-1, -2)) * self.scale)
        out = torch.matmul(attn, v).transpose(1, 2).reshape(b, n, -1)
        return self.to_out(out)


class ViT(nn.Module):
    def __init__(self, image=8, patch=4, num_classes=5, dim=4, depth=12, heads=2):
        super().__init__()
        self.patch = patch
        self.to_patch_embedding = nn.Linear(3 * patch * patch, dim)
        self.pos_embedding = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList([
            nn.ModuleList([Attention(dim, heads, 2), FeedForward(dim, 2 * dim, 0.1)])
            for _ in range(depth)
        ])  # fmt: skip
        self.norm = nn.LayerNorm(dim)
        self.mlp_head = nn.Linear(dim, num_classes)

    def forward(self, img):
        p = self.patch
        x = img.unfold(2, p, p).unfold(3, p, p)
        x = x.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
        x = self.to_patch_embedding(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        x += self.pos_embedding[:, : x.shape[1]]
        x = self.dropout(x)
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.mlp_head(self.norm(x)[:, 0])


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = ViT()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    img, labels = torch.randn(3, 3, 8, 8), torch.randint(0, 5, (3,))
    with watch(model):
        for _ in range(steps):
            loss = F.cross_entropy(model(img), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
