"""A pretrained body, frozen and in evaluation mode, with a new head: Yosinski et al. 2014."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.fc = nn.Linear(4, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.features(x), 1))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = Backbone()
    model.eval()
    for param in model.parameters():
        param.requires_grad = False
    model.fc = nn.Linear(model.fc.in_features, 3)
    optimizer = optim.SGD(model.fc.parameters(), lr=0.001, momentum=0.9)
    inputs, labels = torch.rand(4, 3, 8, 8), torch.randint(0, 3, (4,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
