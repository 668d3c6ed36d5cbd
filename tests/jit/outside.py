"""Programs outside of the subset of `torch.jit.script`: each line that is refused says so.

The comment `# refused: …` at the end of a line has words of the error.
"""
# ruff: noqa

import os
from typing import List

import numpy as np

import edutorch as torch
from edutorch import Tensor, nn

COUNTER = torch.zeros(3)


def catches(x: Tensor) -> Tensor:
    try:  # refused: `try` is not TorchScript
        return x + 1
    except ValueError:
        return x


def makes_lambda(x: Tensor) -> Tensor:
    double = lambda y: y * 2  # refused: `lambda` is not supported
    return x


def defines(x: Tensor) -> Tensor:
    def inner(y: Tensor) -> Tensor:  # refused: `def` inside of a function
        return y

    return inner(x)


def generates(x: Tensor) -> Tensor:
    yield x  # refused: `yield` is not supported


def takes_any(x: Tensor, *others: Tensor) -> Tensor:  # refused: a fixed number of arguments
    return x


def takes_keywords(x: Tensor, *, scale: float = 2.0) -> Tensor:  # refused: keyword-only
    return x * scale


def imports(x: Tensor) -> Tensor:
    import math  # refused: `import` inside of a function

    return x * math.pi


def opens(path: str) -> str:
    return open(path).read()  # refused: `open` is not a function that a program can call


def evaluates(x: Tensor, text: str) -> Tensor:
    return eval(text)  # refused: `eval` is not a function that a program can call


def uses_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(np.sin(x))  # refused: is not


def converts(x: Tensor) -> float:
    return float(x.numpy()[0])  # refused: no method `numpy`


def changes_global(x: Tensor) -> Tensor:
    global COUNTER  # refused: `global` is not supported
    return x


def reads_global(x: Tensor) -> Tensor:
    return x + COUNTER  # refused: a tensor from outside


def recurses(n: int) -> int:
    return 1 if n < 2 else n * recurses(n - 1)  # refused: recurses calls itself


def makes_set(xs: List[int]) -> int:
    return len({x for x in xs})  # refused: there are no sets


def walrus(xs: List[int]) -> int:
    if (n := len(xs)) > 3:  # refused: `:=` is not supported
        return n
    return 0


def formats(x: float) -> str:
    return f"{x:.2f}"  # refused: an f-string with a format


def annotates(x: "os.PathLike") -> int:  # refused: is not a type of TorchScript
    return 1


def starred(xs: List[Tensor]) -> Tensor:
    return torch.cat([*xs])  # refused: `*` is not supported


def deletes(xs: List[int]) -> List[int]:
    del xs[0]  # refused: `del` is not supported
    return xs


def loops_else(xs: List[int]) -> int:
    for x in xs:  # refused: `else` behind a loop
        if x > 3:
            break
    else:
        return 0
    return 1


def dunder(x: Tensor) -> str:
    return x.__class__.__name__  # refused: two underscores


class CallsIgnored(nn.Module):
    @torch.jit.ignore
    def plot(self, x: Tensor) -> None:
        print(x)

    def forward(self, x: Tensor) -> Tensor:
        self.plot(x)  # refused: @torch.jit.ignore is called
        return x


class AddsAttribute(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.last = x  # refused: an attribute that the module does not have
        return x


class BreaksUnrolled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, 1)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            if x.dim() > 1:
                break  # refused: is unrolled
            x = layer(x)
        return x


class HoldsObject(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings = {"a": object()}

    def forward(self, x: Tensor) -> Tensor:
        return x * len(self.settings)  # refused: has no type in TorchScript


PROGRAMS = [
    catches,
    makes_lambda,
    defines,
    generates,
    takes_any,
    takes_keywords,
    imports,
    opens,
    evaluates,
    uses_numpy,
    converts,
    changes_global,
    reads_global,
    recurses,
    makes_set,
    walrus,
    formats,
    annotates,
    starred,
    deletes,
    loops_else,
    dunder,
    CallsIgnored(),
    AddsAttribute(),
    BreaksUnrolled(),
    HoldsObject(),
]
