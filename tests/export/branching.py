"""Ten programs that branch on data: as Python, which no program can keep, and rewritten.

`plain` has an `if`, a `while`, an `item()` and the like; `rewritten` computes the same with
`torch.cond`, `torch.while_loop` or `torch.scan`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import edutorch as torch
from edutorch import nn


class Function(nn.Module):
    """A module with a layer, whose forward is a function of it and the arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.linear = nn.Linear(4, 4)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self.linear, *args)


class Pair(NamedTuple):
    """A function of (layer, x) twice, and the operator of ONNX that the second one becomes."""

    plain: Callable[..., Any]
    rewritten: Callable[..., Any]
    operator: str


# Choices ------------------------------------------------------------------------------------------


def sign_if(layer, x):
    if x.sum() > 0:
        return layer(x)
    return -x


def sign_cond(layer, x):
    return torch.cond(x.sum() > 0, lambda x: layer(x), lambda x: -x, (x,))


def clip_if(layer, x):
    norm = x.norm()
    if bool(norm > 1):
        x = x / norm
    return x


def clip_cond(layer, x):
    norm = x.norm()
    return torch.cond(norm > 1, lambda x, n: x / n, lambda x, n: x + 0, (x, norm))


def both_if(layer, x):
    if x.mean() > 0 and x.max() > 1:
        return x * 2
    return x.abs()


def both_cond(layer, x):
    test = torch.logical_and(x.mean() > 0, x.max() > 1)
    return torch.cond(test, lambda x: x * 2, lambda x: x.abs(), (x,))


def steps_if(layer, x):
    level = x.mean().item()
    return x if level < 0 else x * 2 if level < 1 else x * 3


def steps_cond(layer, x):
    level = x.mean()

    def above(x):
        return torch.cond(level < 1, lambda x: x * 2, lambda x: x * 3, (x,))

    return torch.cond(level < 0, lambda x: x + 0, above, (x,))


# Loops --------------------------------------------------------------------------------------------


def halve_while(layer, x):
    while x.abs().max() > 1:
        x = x / 2
    return x


def halve_loop(layer, x):
    (result,) = torch.while_loop(lambda x: x.abs().max() > 1, lambda x: (x / 2,), (x,))
    return result


def newton_while(layer, x):
    target, y = x.abs() + 1, x.abs() + 1
    while float((y * y - target).abs().max()) > 1e-3:
        y = (y + target / y) / 2
    return y


def newton_loop(layer, x):
    target = x.abs() + 1
    (y,) = torch.while_loop(
        lambda y: (y * y - target).abs().max() > 1e-3, lambda y: ((y + target / y) / 2,), (target,)
    )
    return y


def power_for(layer, x):
    y = x
    for _ in range(int(x.abs().max().item()) + 1):
        y = torch.tanh(layer(y))
    return y


def power_loop(layer, x):
    times = x.abs().max().long() + 1
    _, y = torch.while_loop(
        lambda i, y: i < times, lambda i, y: (i + 1, torch.tanh(layer(y))),
        (torch.tensor(0), x),
    )  # fmt: skip
    return y


def rows_until(layer, x):
    total, count = torch.zeros(4), 0
    while count < x.shape[0] and total.sum() < 2:
        total, count = total + x[count].abs(), count + 1
    return total


def rows_loop(layer, x):
    length = x.shape[0]
    total, _ = torch.while_loop(
        lambda total, i: torch.logical_and(i < length, total.sum() < 2),
        lambda total, i: (total + x.index_select(0, i.reshape(1)).squeeze(0).abs(), i + 1),
        (torch.zeros(4), torch.tensor(0)),
    )
    return total


# Along an axis ------------------------------------------------------------------------------------


def recurrent_for(layer, x):
    state, states = torch.zeros(4), []
    for row in x.unbind(0):
        state = torch.tanh(layer(state) + row)
        states.append(state)
    return torch.stack(states)


def recurrent_scan(layer, x):
    def step(state, row):
        following = torch.tanh(layer(state) + row)
        return following, following

    return torch.scan(step, torch.zeros(4), x)[1]


def largest_for(layer, x):
    best = x[0]
    for index in range(1, len(x)):
        if x[index].sum() > best.sum():
            best = x[index]
    return best


def largest_scan(layer, x):
    def step(best, row):
        following = torch.cond(row.sum() > best.sum(), lambda a, b: a + 0, lambda a, b: b + 0,
            (row, best))  # fmt: skip
        return following, following.sum()

    return torch.scan(step, x[0], x)[0]


PAIRS: dict[str, Pair] = {
    "sign": Pair(sign_if, sign_cond, "If"), "clip": Pair(clip_if, clip_cond, "If"),
    "both": Pair(both_if, both_cond, "If"), "steps": Pair(steps_if, steps_cond, "If"),
    "halve": Pair(halve_while, halve_loop, "Loop"),
    "newton": Pair(newton_while, newton_loop, "Loop"),
    "power": Pair(power_for, power_loop, "Loop"), "rows": Pair(rows_until, rows_loop, "Loop"),
    "recurrent": Pair(recurrent_for, recurrent_scan, "Scan"),
    "largest": Pair(largest_for, largest_scan, "Scan"),
}  # fmt: skip


def samples() -> list[torch.Tensor]:
    """Return inputs that take every way: of other sizes, signs and magnitudes."""
    torch.manual_seed(0)
    rows = [torch.randn(n, 4) * scale + shift for n, scale, shift in (
        (1, 0.1, 0.0), (3, 1.0, 0.5), (5, 0.3, -1.0), (8, 4.0, 2.0), (2, 0.05, 0.8),
    )]  # fmt: skip
    return rows
