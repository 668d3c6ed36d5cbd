"""Binarized weights by a Function with a straight-through gradient: https://arxiv.org/abs/1602.02830."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from edutorch.autograd import Function
from tests.programs import unwatched


class Binarize(Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.sign()

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input.abs() > 1] = 0
        return grad_input


class LinearFunction(Function):
    @staticmethod
    def forward(ctx, input, weight, bias):
        ctx.save_for_backward(input, weight)
        return input.mm(weight.t()) + bias

    @staticmethod
    def backward(ctx, grad_output):
        input, weight = ctx.saved_tensors
        return grad_output.mm(weight), grad_output.t().mm(input), grad_output.sum(0)


class BinaryLinear(nn.Linear):
    def forward(self, x):
        return LinearFunction.apply(x, Binarize.apply(self.weight), self.bias)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = nn.Sequential(BinaryLinear(4, 6), nn.BatchNorm1d(6), nn.Hardtanh(), BinaryLinear(6, 3))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            for p in model.parameters():
                p.data.clamp_(-1, 1)
