"""Other calculations for the judge, where PyTorch's own formula is no judge in float64 either.

`corrected` returns PyTorch with these functions in the place of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .calls import Call

NODES, WEIGHTS = (array / 2 for array in np.polynomial.legendre.leggauss(80))
NODES = NODES + 0.5
"""Gauss and Legendre's: an integral over [0, 1] of eᵗˢ is exact up to t = 40."""


class Corrected:
    """A namespace with some names replaced, at any depth."""

    def __init__(self, namespace: Any, replaced: dict[str, Any]) -> None:
        self._namespace, self._replaced = namespace, replaced

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._namespace, name)
        other = self._replaced.get(name, value)
        return Corrected(value, other) if isinstance(other, dict) else other


def corrected(call: Call, torch: Any) -> Any:
    """Return the PyTorch that judges a call."""
    for path, make in REFERENCES.items():
        if f"{call.path.removeprefix('Tensor.')}.".startswith(f"{path}."):
            replaced = make(call, torch)
            names = path.split(".")
            for name in reversed(["Tensor", *names] if call.path.startswith("Tensor.") else names):
                replaced = {name: replaced}
            return Corrected(torch, replaced)
    return torch


# Distributions -------------------------------------------------------------------------------


def clamp_limit(call: Call) -> float:
    """Return how near to 0 and 1 the probabilities of a call may come."""
    dtype = next(call.specs()).dtype
    if "logits" in call.settings and dtype.endswith("float16"):
        dtype = "float32"  # 16 bits are computed in float32
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}.get(dtype, 2.0**-52)


def continuous_bernoulli(call: Call, torch: Any) -> Any:
    """All from integrals of eᵗˢ over [0, 1], where nothing cancels; see Loaiza-Ganem 2019."""
    eps = clamp_limit(call)
    nodes, weights = torch.from_numpy(NODES), torch.from_numpy(WEIGHTS)

    class Integrated(torch.distributions.ContinuousBernoulli):
        def natural(self) -> Any:
            if "logits" in call.settings:
                return self.logits.clamp(math.log(eps), -math.log(eps))
            probs = call_probs(self).clamp(eps, 1 - eps)
            return probs.log() - torch.log1p(-probs)

        def mean_of(self, function: Callable[[Any], Any]) -> Any:
            scores = self.natural()[..., None] * nodes
            shares = weights * (scores - scores.max(-1, keepdim=True).values.detach()).exp()
            return (shares * function(nodes)).sum(-1) / shares.sum(-1)

        def log_integral(self) -> Any:
            return torch.logsumexp(self.natural()[..., None] * nodes + weights.log(), -1)

        def _cont_bern_log_norm(self) -> Any:
            return torch.nn.functional.softplus(self.natural(), threshold=99) - self.log_integral()

        @property
        def mean(self) -> Any:
            return self.mean_of(lambda s: s)

        @property
        def variance(self) -> Any:
            mean = self.mean[..., None]
            return self.mean_of(lambda s: (s - mean).square())

        def entropy(self) -> Any:
            return self.log_integral() - self.natural() * self.mean

        def cdf(self, value: Any) -> Any:
            if self._validate_args:
                self._validate_sample(value)
            logit, value = torch.broadcast_tensors(self.natural(), value)
            inside = value.clamp(0, 1)
            upto = (weights * (logit * inside)[..., None].mul(nodes).exp()).sum(-1)
            part = inside * upto / self.log_integral().exp()
            return torch.where((value > 0) & (value < 1), part, (value >= 1).to(part.dtype))

        def icdf(self, value: Any) -> Any:
            logit, value = torch.broadcast_tensors(self.natural(), value)
            near = logit.abs() < 1
            small, large = torch.where(near, logit, 0.5), torch.where(near, 1.0, logit)
            whole = (weights * (small[..., None] * nodes).exp()).sum(-1)
            slope = 1 + (value * small * whole)[..., None] * nodes
            integral = value * whole * (weights / slope).sum(-1)
            turned = (large < 0) & (value > 0.5)
            large, part = large.abs().where(turned, large), (1 - value).where(turned, value)
            direct = torch.log1p(part * torch.expm1(large)) / large
            y = torch.where(near, integral, torch.where(turned, 1 - direct, direct))
            return torch.where((value >= 0) & (value <= 1), y, math.nan)

    return Integrated


def call_probs(distribution: Any) -> Any:
    return distribution.__dict__["probs"]


def von_mises(call: Call, torch: Any) -> Any:
    """With the Bessel functions of `torch.special`, which have all their digits."""
    del call
    special = torch.special

    class Precise(torch.distributions.VonMises):
        def log_prob(self, value: Any) -> Any:
            if self._validate_args:
                self._validate_sample(value)
            k = self.concentration
            angle = torch.cos(value - self.loc) - 1
            return k * angle - math.log(2 * math.pi) - special.i0e(k).log()

        @property
        def variance(self) -> Any:
            return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    return Precise


# Functions -----------------------------------------------------------------------------------


def pad(call: Call, torch: Any) -> Any:
    """A negative width cuts off before the ends meet; PyTorch reads what was not written."""
    del call

    def cut_and_pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
        if mode == "circular":
            for axis, (before, behind) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
                first, last = max(-before, 0), input.shape[-axis] + min(behind, 0)
                input = input.narrow(-axis, first, last - first)
            pad = [max(width, 0) for width in pad]
        return torch.nn.functional.pad(input, pad, mode, value)

    return cut_and_pad


def cosine(input1: Any, input2: Any, dim: int, eps: float) -> Any:
    """With lengths that are clamped for derivatives, too."""
    wider = input1 if input1.is_floating_point() else input2
    input1, input2 = (x.to(wider.dtype) for x in (input1, input2))
    lengths = [x.norm(dim=dim).clamp_min(eps) for x in (input1, input2)]
    return (input1 * input2).sum(dim) / (lengths[0] * lengths[1])


def cosine_similarity(call: Call, torch: Any) -> Any:
    del call

    def similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
        return cosine(*torch.broadcast_tensors(x1, x2), dim, eps)

    return similarity


def cosine_module(call: Call, torch: Any) -> Any:
    del call

    class Similarity(torch.nn.CosineSimilarity):
        def forward(self, x1: Any, x2: Any) -> Any:
            return cosine(*torch.broadcast_tensors(x1, x2), self.dim, self.eps)

    return Similarity


def ldexp(call: Call, torch: Any) -> Any:
    """A power of two in float64; PyTorch's is one of float32, or of integers."""
    del call

    def scaled(input: Any, other: Any, **settings: Any) -> Any:
        power = other if other.is_complex() else other.double()
        return torch.mul(input, torch.pow(2.0, power), **settings)

    return scaled


def ldexp_in_place(call: Call, torch: Any) -> Any:
    scaled = ldexp(call, torch)
    return lambda input, other: input.copy_(scaled(input.clone(), other))


def sinc(call: Call, torch: Any) -> Any:
    """Near 0 its series, of which no digits cancel."""
    del call

    def series(input: Any, **settings: Any) -> Any:
        u = math.pi * input
        near = u.abs() < 0.5
        square = torch.where(near, u, 0.0).square()
        y = sum((-1) ** k / math.factorial(2 * k + 1) * square**k for k in range(10))
        far = torch.where(near, 1.0, u)
        return torch.mul(torch.where(near, y, far.sin() / far), 1, **settings)

    return series


def sinc_in_place(call: Call, torch: Any) -> Any:
    series = sinc(call, torch)
    return lambda input: input.copy_(series(input.clone()))


def product_of(factor: Any, upper: bool, torch: Any) -> Any:
    """Return the matrix of a Cholesky factor, of which one triangle is read."""
    if upper:
        factor = torch.triu(factor)
        return factor.mH @ factor
    factor = torch.tril(factor)
    return factor @ factor.mH


def cholesky_inverse(call: Call, torch: Any) -> Any:
    del call

    def inverse(input: Any, upper: bool = False) -> Any:
        return torch.linalg.inv(product_of(input, upper, torch))

    return inverse


def cholesky_solve(call: Call, torch: Any) -> Any:
    del call

    def solve(input: Any, input2: Any, upper: bool = False) -> Any:
        return torch.linalg.solve(product_of(input2, upper, torch), input)

    return solve


def triangular_solve(call: Call, torch: Any) -> Any:
    del call

    def solve(input: Any, A: Any, upper: bool = True, **settings: Any) -> Any:
        part, inside = (torch.triu, 1) if upper else (torch.tril, -1)
        triangle = part(A)
        if settings.get("unitriangular"):  # what stands on the diagonal is not read
            triangle = part(A, inside) + torch.eye(A.shape[-1], dtype=A.dtype)
        solution, shown = torch.triangular_solve(input, triangle, upper=upper, **settings)
        return solution, A.expand(shown.shape).clone()

    return solve


def alignments(scores: Any, labels: Any, torch: Any) -> Any:
    """Return the logarithm of the sum over all walks through blanks and labels (Graves 2006)."""
    never = scores.new_tensor(-1e30)
    states = len(labels)
    if not len(scores):
        return never * (states > 1)
    here = [scores[0, labels[s]] if s < 2 else never for s in range(states)]
    for step in scores[1:]:
        walks = []
        for s in range(states):
            ways = [here[s], *here[max(s - 1, 0) : s]]
            if s > 2 and s % 2 and labels[s] != labels[s - 2]:
                ways.append(here[s - 2])
            walks.append(step[labels[s]] + torch.logsumexp(torch.stack(ways), 0))
        here = walks
    return torch.logsumexp(torch.stack(here[-2:]), 0)


def ctc_loss(call: Call, torch: Any) -> Any:
    """By autograd; PyTorch's gradient forgets a walk where the last label is the blank."""
    usual = 0 if call.path == "ctc_loss" else "mean"

    def loss(
        log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
        reduction: Any = usual, zero_infinity: bool = False,
    ) -> Any:  # fmt: skip
        numbered = {0: "none", 1: "mean", 2: "sum"}
        reduction = numbered.get(reduction, reduction)
        steps = log_probs if log_probs.ndim == 3 else log_probs[:, None]
        times, counts = (
            x.reshape(-1).tolist() if hasattr(x, "tolist") else list(x)
            for x in (input_lengths, target_lengths)
        )
        starts = np.cumsum([0, *counts])
        losses = []
        for n, (time, count) in enumerate(zip(times, counts, strict=True)):
            row = targets[n] if targets.ndim == 2 else targets[starts[n] :]
            labels = [blank] + [x for label in row[:count].tolist() for x in (label, blank)]
            said = steps[:time, n]
            total = alignments(said, labels, torch)
            if float(total) < -1e29:
                losses.append((total * 0).new_tensor(0.0 if zero_infinity else math.inf))
                continue
            weight = said.exp().sum()  # what a log_softmax in front takes out again
            losses.append(weight - weight.detach() - total)
        result = torch.stack(losses)
        if reduction == "mean":
            return (result / result.new_tensor(counts).clamp_min(1)).mean()
        if reduction == "sum":
            return result.sum()
        return result if log_probs.ndim == 3 else result[0]

    return loss


def ctc_module(call: Call, torch: Any) -> Any:
    loss = ctc_loss(call, torch)

    class Loss(torch.nn.CTCLoss):
        def forward(self, *args: Any) -> Any:
            return loss(*args, self.blank, self.reduction, self.zero_infinity)

    return Loss


REFERENCES: dict[str, Callable[[Call, Any], Any]] = {
    "distributions.ContinuousBernoulli": continuous_bernoulli,
    "distributions.VonMises": von_mises,
    "nn.functional.pad": pad,
    "nn.functional.cosine_similarity": cosine_similarity,
    "cosine_similarity": cosine_similarity,
    "nn.CosineSimilarity": cosine_module,
    "nn.functional.ctc_loss": ctc_loss, "ctc_loss": ctc_loss, "nn.CTCLoss": ctc_module,
    "sinc": sinc, "special.sinc": sinc, "sinc_": sinc_in_place,
    "ldexp": ldexp, "ldexp_": ldexp_in_place,
    "cholesky_inverse": cholesky_inverse,
    "cholesky_solve": cholesky_solve, "triangular_solve": triangular_solve,
}  # fmt: skip
