"""Activation functions."""

from __future__ import annotations

from ..table import enter, onnx_op
from ..values import F, Value, positive, rank_of, torch

SELU = (1.6732631921768188, 1.0507010221481323)
SELU_ROUNDED = (1.6732632, 1.050701)


def plain_activation(name: str) -> object:
    """Return the entry that calls a function of `nn.functional`."""
    return lambda X: getattr(F, name)(X)


for op_type, function_name in {
    "Softplus": "softplus", "Softsign": "softsign", "Mish": "mish", "HardSwish": "hardswish",
}.items():  # fmt: skip
    enter(op_type, plain_activation(function_name))  # type: ignore[arg-type]


@onnx_op("LeakyRelu")
def leaky_relu(X: Value, *, alpha: float = 0.01) -> Value:
    """X, or alpha · X where it is negative."""
    return F.leaky_relu(X, alpha)


@onnx_op("PRelu")
def p_relu(X: Value, slope: Value) -> Value:
    """X, or slope · X where it is negative; the slope broadcasts."""
    return torch.where(X < 0, slope * X, X)


@onnx_op("Elu")
def elu(X: Value, *, alpha: float = 1.0) -> Value:
    """X, or alpha · (exp(X) - 1) where it is negative."""
    return F.elu(X, alpha)


@onnx_op("Celu")
def celu(X: Value, *, alpha: float = 1.0) -> Value:
    """max(0, X) + min(0, alpha · (exp(X / alpha) - 1))."""
    return F.celu(X, alpha)


@onnx_op("Selu")
def selu(X: Value, *, alpha: float = SELU[0], gamma: float = SELU[1]) -> Value:
    """gamma · Elu(X, alpha)."""
    if (alpha, gamma) in (SELU, SELU_ROUNDED):
        return F.selu(X)
    return F.elu(X, alpha) * gamma


@onnx_op("Gelu")
def gelu(X: Value, *, approximate: str = "none") -> Value:
    """X · Φ(X)."""
    return F.gelu(X, approximate=approximate)


@onnx_op("HardSigmoid")
def hard_sigmoid(X: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """alpha · X + beta, between 0 and 1."""
    return torch.clamp(X * alpha + beta, 0, 1)


@onnx_op("ThresholdedRelu")
def thresholded_relu(X: Value, *, alpha: float = 1.0) -> Value:
    """X where it is above alpha, else 0."""
    return torch.where(alpha < X, X, torch.zeros_like(X))


@onnx_op("Shrink")
def shrink(input: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    """Move values towards 0 by the bias; those within lambd become 0."""
    outside = torch.where(input > lambd, input - bias, torch.zeros_like(input))
    return torch.where(input < -lambd, input + bias, outside).to(input.dtype)


@onnx_op("Swish")
def swish(X: Value, *, alpha: float = 1.0) -> Value:
    """X · σ(alpha · X)."""
    return F.silu(X) if alpha == 1 else X * torch.sigmoid(X * alpha)


@onnx_op("Softmax", since=13)
def softmax(input: Value, *, axis: int = -1) -> Value:
    """Softmax along an axis."""
    return torch.softmax(input, axis)


@onnx_op("LogSoftmax", since=13)
def log_softmax(input: Value, *, axis: int = -1) -> Value:
    """The logarithm of softmax along an axis."""
    return torch.log_softmax(input, axis)


@onnx_op("Hardmax", since=13)
def hardmax(input: Value, *, axis: int = -1) -> Value:
    """1 at the first largest element along an axis, else 0."""
    best = torch.argmax(input, axis, keepdim=True)
    return torch.scatter(torch.zeros_like(input), axis, best, 1.0)


@onnx_op("Softmax")
def softmax_1(input: Value, *, axis: int = 1) -> Value:
    """Softmax over all axes from `axis` on: what it was up to opset 12."""
    if positive(axis, rank_of(input)) == rank_of(input) - 1:
        return torch.softmax(input, -1)
    return torch.softmax(torch.flatten(input, axis), -1).reshape(input.shape)


@onnx_op("LogSoftmax")
def log_softmax_1(input: Value, *, axis: int = 1) -> Value:
    """Log-softmax over all axes from `axis` on: what it was up to opset 12."""
    if positive(axis, rank_of(input)) == rank_of(input) - 1:
        return torch.log_softmax(input, -1)
    return torch.log_softmax(torch.flatten(input, axis), -1).reshape(input.shape)


@onnx_op("Hardmax")
def hardmax_1(input: Value, *, axis: int = 1) -> Value:
    """Hardmax over all axes from `axis` on: what it was up to opset 12."""
    return hardmax(torch.flatten(input, axis)).reshape(input.shape)
