"""ResNet-50, with bottlenecks: He et al. 2015, https://arxiv.org/abs/1512.03385."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, self.expansion * planes, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(self.expansion * planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, self.expansion * planes, 1, stride=stride, bias=False),
                nn.BatchNorm2d(self.expansion * planes),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet50(nn.Module):
    def __init__(self, num_blocks=(3, 4, 6, 3), num_classes=5):
        super().__init__()
        self.in_planes = 2
        self.stem = nn.Sequential(
            nn.Conv2d(3, 2, 3, padding=1, bias=False), nn.BatchNorm2d(2), nn.ReLU(inplace=True)
        )
        stages = []
        for i, (planes, blocks) in enumerate(zip((1, 2, 2, 4), num_blocks, strict=True)):
            stages.append(self._make_stage(planes, blocks, 1 if i == 0 else 2))
        self.stages = nn.Sequential(*stages)
        self.linear = nn.Linear(4 * Bottleneck.expansion, num_classes)

    def _make_stage(self, planes, blocks, stride):
        layers = []
        for s in [stride] + [1] * (blocks - 1):
            layers.append(Bottleneck(self.in_planes, planes, s))
            self.in_planes = planes * Bottleneck.expansion
        return nn.Sequential(*layers)

    def forward(self, x):
        out = self.stages(self.stem(x))
        out = F.avg_pool2d(out, 2)
        return self.linear(out.view(out.size(0), -1))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    net = ResNet50()
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    inputs, targets = torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))
    with watch(net):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(inputs), targets)
            loss.backward()
            optimizer.step()
