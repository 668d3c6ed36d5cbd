"""Linear regression by hand, as in a first lesson: no module, no optimizer."""

import edutorch as torch
from tests.programs import unwatched


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    true_w, true_b = torch.tensor([2.0, -3.4]), 4.2
    X = torch.normal(0, 1, (10, 2))
    y = torch.matmul(X, true_w) + true_b
    w = torch.normal(0, 0.01, size=(2,), requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    lr = 0.03
    with watch():
        for _ in range(steps):
            y_hat = torch.matmul(X, w) + b
            loss = ((y_hat - y) ** 2 / 2).mean()
            loss.backward()
            with torch.no_grad():
                w -= lr * w.grad
                b -= lr * b.grad
                w.grad.zero_()
                b.grad.zero_()
