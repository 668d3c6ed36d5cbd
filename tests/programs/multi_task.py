"""Two tasks over a shared body, weighted by uncertainty: https://arxiv.org/abs/1705.07115."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
        self.classifier = nn.Linear(8, 3)
        self.regressor = nn.Linear(8, 1)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = self.shared(x)
        return self.classifier(h), self.regressor(h).squeeze(-1)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = MultiTask()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x, labels, targets = torch.randn(6, 5), torch.randint(0, 3, (6,)), torch.randn(6)
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            scores, values = model(x)
            precision = torch.exp(-model.log_vars)
            class_loss = precision[0] * F.cross_entropy(scores, labels) + model.log_vars[0]
            value_loss = precision[1] * F.mse_loss(values, targets) + model.log_vars[1]
            class_loss.backward(retain_graph=True)
            value_loss.backward()
            optimizer.step()
