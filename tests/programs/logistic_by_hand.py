"""Logistic regression and a hidden layer by hand, updated through `.data`, as in old scripts."""

import edutorch as torch
from tests.programs import unwatched


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    X = torch.randn(12, 2)
    y = (X[:, 0] * X[:, 1] > 0).float()
    W1 = torch.randn(2, 5, requires_grad=True)
    b1 = torch.zeros(5, requires_grad=True)
    W2 = torch.randn(5, 1, requires_grad=True)
    b2 = torch.zeros(1, requires_grad=True)
    params = [W1, b1, W2, b2]
    with watch():
        for _ in range(steps):
            h = (X @ W1 + b1).clamp(min=0)
            p = 1 / (1 + torch.exp(-(h @ W2 + b2).squeeze(1)))
            loss = -(y * p.log() + (1 - y) * (1 - p).log()).mean()
            loss.backward()
            for param in params:
                param.data -= 0.5 * param.grad.data
                param.grad = None
