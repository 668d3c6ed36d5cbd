"""MobileNetV2, inverted residuals: Sandler et al. 2018, https://arxiv.org/abs/1801.04381."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched

# expansion, channels, how often, stride
SETTINGS = [
    (1, 1, 1, 1), (6, 2, 2, 2), (6, 2, 3, 2), (6, 3, 4, 2), (6, 3, 3, 1), (6, 4, 3, 1), (6, 4, 1, 1)
]  # fmt: skip


def conv_bn_relu(inp, oup, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inp, oup, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(oup),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand):
        super().__init__()
        hidden = inp * expand
        self.use_res_connect = stride == 1 and inp == oup
        layers = []
        if expand != 1:
            layers.append(conv_bn_relu(inp, hidden, 1))
        layers += [
            conv_bn_relu(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, oup, 1, bias=False),
            nn.BatchNorm2d(oup),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        if self.use_res_connect:
            return x + self.conv(x)
        return self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        inp = 2
        features = [conv_bn_relu(3, inp, 3, 2)]
        for t, c, n, s in SETTINGS:
            for i in range(n):
                features.append(InvertedResidual(inp, c, s if i == 0 else 1, t))
                inp = c
        features.append(conv_bn_relu(inp, 8, 1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, num_classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = MobileNetV2()
    optimizer = optim.RMSprop(model.parameters(), lr=0.005, weight_decay=4e-5)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.98)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 5, (4,))
    with watch(model):
        for _ in range(steps):
            loss = loss_fn(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
