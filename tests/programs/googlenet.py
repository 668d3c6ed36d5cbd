"""GoogLeNet, nine Inception modules, two auxiliary heads: https://arxiv.org/abs/1409.4842."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class BasicConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, **kwargs):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    def __init__(self, channels, out=2):
        super().__init__()
        self.branch1 = BasicConv2d(channels, out, kernel_size=1)
        self.branch2 = nn.Sequential(
            BasicConv2d(channels, out, kernel_size=1),
            BasicConv2d(out, out, kernel_size=3, padding=1),
        )
        self.branch3 = nn.Sequential(
            BasicConv2d(channels, out, kernel_size=1),
            BasicConv2d(out, out, kernel_size=5, padding=2),
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1), BasicConv2d(channels, out, kernel_size=1)
        )

    def forward(self, x):
        branches = [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]
        return torch.cat(branches, 1)


class Auxiliary(nn.Module):
    def __init__(self, channels, num_classes):
        super().__init__()
        self.conv = BasicConv2d(channels, 4, kernel_size=1)
        self.fc1 = nn.Linear(16, 8)
        self.fc2 = nn.Linear(8, num_classes)

    def forward(self, x):
        x = self.conv(F.adaptive_avg_pool2d(x, (2, 2)))
        x = F.relu(self.fc1(torch.flatten(x, 1)), inplace=True)
        return self.fc2(F.dropout(x, 0.7, training=self.training))


class GoogLeNet(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        self.conv1 = BasicConv2d(3, 4, kernel_size=3, padding=1)
        self.maxpool = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception3a, self.inception3b = Inception(4), Inception(8)
        self.inception4a, self.inception4b = Inception(8), Inception(8)
        self.inception4c, self.inception4d = Inception(8), Inception(8)
        self.inception4e = Inception(8)
        self.inception5a, self.inception5b = Inception(8), Inception(8)
        self.aux1, self.aux2 = Auxiliary(8, num_classes), Auxiliary(8, num_classes)
        self.dropout = nn.Dropout(0.4)
        self.fc = nn.Linear(8, num_classes)

    def forward(self, x):
        x = self.maxpool(self.conv1(x))
        x = self.maxpool(self.inception3b(self.inception3a(x)))
        x = self.inception4a(x)
        aux1 = self.aux1(x)
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        aux2 = self.aux2(x)
        x = self.maxpool(self.inception4e(x))
        x = self.inception5b(self.inception5a(x))
        x = torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1)
        return self.fc(self.dropout(x)), aux2, aux1


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    net = GoogLeNet()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))
    with watch(net):
        for _ in range(steps):
            optimizer.zero_grad()
            logits, aux2, aux1 = net(x)
            loss = F.cross_entropy(logits, y)
            loss = loss + 0.3 * (F.cross_entropy(aux1, y) + F.cross_entropy(aux2, y))
            loss.backward()
            optimizer.step()
