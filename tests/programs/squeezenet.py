"""SqueezeNet 1.1, eight fire modules: Iandola et al. 2016, https://arxiv.org/abs/1602.07360."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


class Fire(nn.Module):
    def __init__(self, inplanes, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(inplanes, squeeze, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze, expand, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze, expand, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat([
            self.expand1x1_activation(self.expand1x1(x)),
            self.expand3x3_activation(self.expand3x3(x)),
        ], 1)  # fmt: skip


class SqueezeNet(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 4, kernel_size=3, stride=2), nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            Fire(4, 4, 4), Fire(8, 4, 4),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            Fire(8, 4, 4), Fire(8, 4, 4),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            Fire(8, 4, 4), Fire(8, 4, 4), Fire(8, 4, 6), Fire(12, 4, 6),
        )  # fmt: skip
        final_conv = nn.Conv2d(12, num_classes, kernel_size=1)
        nn.init.constant_(final_conv.bias, 0.5)
        self.classifier = nn.Sequential(
            nn.Dropout(p=0.5), final_conv, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )

    def forward(self, x):
        return torch.flatten(self.classifier(self.features(x)), 1)


def main(steps=2, watch=unwatched):
    torch.manual_seed(3)
    model = SqueezeNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=0.001)
    x, y = torch.randn(8, 3, 32, 32), torch.randint(0, 5, (8,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
