"""MAML, a step of SGD inside each task: Finn et al. 2017, https://arxiv.org/abs/1703.03400."""

import math

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import autograd, nn, optim
from tests.programs import unwatched


class Net(nn.Module):
    def __init__(self, hidden=6):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(1, hidden), nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def functional_forward(self, x, weights):
        x = F.relu(F.linear(x, weights["fc1.weight"], weights["fc1.bias"]))
        x = F.relu(F.linear(x, weights["fc2.weight"], weights["fc2.bias"]))
        return F.linear(x, weights["fc3.weight"], weights["fc3.bias"])


def sample_task(shots=5):
    amplitude, phase = 0.1 + 4.9 * torch.rand(1), math.pi * torch.rand(1)
    x = torch.rand(2 * shots, 1) * 10 - 5
    y = amplitude * torch.sin(x + phase)
    return x[:shots], y[:shots], x[shots:], y[shots:]


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = Net()
    meta_optimizer = optim.Adam(model.parameters(), lr=1e-3)
    tasks, inner_lr = 2, 0.01
    with watch(model):
        for _ in range(steps):
            meta_loss = 0.0
            for _ in range(tasks):
                x_support, y_support, x_query, y_query = sample_task()
                weights = dict(model.named_parameters())
                loss = F.mse_loss(model.functional_forward(x_support, weights), y_support)
                grads = autograd.grad(loss, weights.values(), create_graph=True)
                fast = {
                    name: w - inner_lr * g
                    for (name, w), g in zip(weights.items(), grads, strict=True)
                }
                meta_loss = meta_loss + F.mse_loss(model.functional_forward(x_query, fast), y_query)
            meta_optimizer.zero_grad()
            meta_loss.backward()
            meta_optimizer.step()
