"""DenseNet-121: Huang et al. 2016, https://arxiv.org/abs/1608.06993."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        out = self.conv1(self.relu1(self.norm1(x)))
        out = self.conv2(self.relu2(self.norm2(out)))
        return torch.cat([x, out], 1)


class Transition(nn.Sequential):
    def __init__(self, channels, out):
        super().__init__(
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, out, 1, bias=False),
            nn.AvgPool2d(2),
        )


class DenseNet(nn.Module):
    def __init__(self, blocks=(6, 12, 24, 16), growth=1, num_classes=5):
        super().__init__()
        channels = 2 * growth
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, channels, 3, padding=1, bias=False))
        for i, layers in enumerate(blocks):
            block = nn.Sequential()
            for j in range(layers):
                block.add_module(f"denselayer{j + 1}", DenseLayer(channels, growth))
                channels += growth
            self.features.add_module(f"denseblock{i + 1}", block)
            if i < len(blocks) - 1:
                self.features.add_module(f"transition{i + 1}", Transition(channels, channels // 2))
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, num_classes)

    def forward(self, x):
        features = F.relu(self.features(x), inplace=True)
        out = F.adaptive_avg_pool2d(features, (1, 1))
        return self.classifier(torch.flatten(out, 1))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = DenseNet()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    images, labels = torch.randn(3, 3, 16, 16), torch.randint(0, 5, (3,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
