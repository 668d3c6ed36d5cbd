"""EfficientNet, MBConv with squeeze-and-excitation: https://arxiv.org/abs/1905.11946."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class SqueezeExcitation(nn.Module):
    def __init__(self, channels, squeeze):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeeze, 1)
        self.fc2 = nn.Conv2d(squeeze, channels, 1)

    def forward(self, x):
        scale = self.fc2(F.silu(self.fc1(self.avgpool(x)), inplace=True))
        return torch.sigmoid(scale) * x


class MBConv(nn.Module):
    def __init__(self, inp, out, kernel, stride, expand, drop_rate):
        super().__init__()
        hidden = inp * expand
        self.residual = stride == 1 and inp == out
        self.drop_rate = drop_rate
        self.expand = nn.Sequential(
            nn.Conv2d(inp, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU(inplace=True)
        ) if expand > 1 else nn.Identity()  # fmt: skip
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(inplace=True),
        )
        self.se = SqueezeExcitation(hidden, max(1, inp // 4))
        self.project = nn.Sequential(nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        out = self.project(self.se(self.depthwise(self.expand(x))))
        if self.residual:
            if self.training and self.drop_rate > 0:
                keep = 1 - self.drop_rate
                mask = torch.rand(x.shape[0], 1, 1, 1) < keep
                out = out / keep * mask
            out = out + x
        return out


# expansion, channels, how often, stride, kernel
B0 = [
    (1, 1, 1, 1, 3), (6, 2, 2, 2, 3), (6, 2, 2, 2, 5), (6, 3, 3, 2, 3), (6, 3, 3, 1, 5),
    (6, 4, 4, 2, 5), (6, 5, 1, 1, 3),
]  # fmt: skip


class EfficientNet(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        inp = 2
        self.stem = nn.Sequential(
            nn.Conv2d(3, inp, 3, 2, 1, bias=False), nn.BatchNorm2d(inp), nn.SiLU(inplace=True)
        )
        blocks = []
        for t, c, n, s, k in B0:
            for i in range(n):
                blocks.append(MBConv(inp, c, k, s if i == 0 else 1, t, 0.2))
                inp = c
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Conv2d(inp, 8, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU())
        self.classifier = nn.Linear(8, num_classes)

    def forward(self, x):
        x = self.head(self.blocks(self.stem(x)))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.classifier(F.dropout(x, 0.2, self.training))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = EfficientNet()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 5, (4,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
