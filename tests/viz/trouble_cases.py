"""Programs with one mistake each, for every sentence that the diagnostics may say.

Each is written as students write it. `watch(*models)` opens a view, in a script or in a kernel;
`until(view, subject)` yields as often as the loop may run before somebody must have noticed.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import edutorch as torch
from edutorch import nn, optim, viz
from edutorch.nn import functional as F

STEPS, SECONDS = 30, 3.0
"""After so many steps, or so many seconds at full speed, a mistake must have been found."""

LATER = 1.2
"""Seconds after which a loop is settled, and hardly a step is looked at any more."""

Watch = Callable[..., viz.View]


class Case(NamedTuple):
    """A program and what must be said of it: the kind, its line, and a name or word."""

    kind: str
    code: Callable[[Watch], Any]
    line: str
    word: str


CASES: list[Case] = []


def case(finding_kind: str, line: str, word: str) -> Callable[[Callable[[Watch], Any]], Any]:
    """Add a program to the table; it returns its view, or a report."""

    def decorator(code: Callable[[Watch], Any]) -> Callable[[Watch], Any]:
        CASES.append(Case(finding_kind, code, line, word))
        return code

    return decorator


def until(view: viz.View, finding_kind: str) -> Iterator[int]:
    """Count steps until a kind of trouble is found, or it should long have been."""
    start, step = time.perf_counter(), 0
    while step < STEPS or time.perf_counter() < start + SECONDS:
        if step >= 3 and finding_kind in kinds(view):
            return
        yield step
        step += 1


def later(view: viz.View, finding_kind: str) -> Iterator[bool]:
    """Yield False while the loop is still good, then True, until the trouble is found."""
    start = time.perf_counter()
    while time.perf_counter() < start + LATER:
        yield False
    for _ in until(view, finding_kind):
        yield True


def kinds(view: viz.View) -> set[str]:
    """Return the kinds of all that was found."""
    return {finding.kind for finding in view.trouble.findings.values()}


def body(width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(16, 3), torch.randint(0, 2, (16,))


# Numbers ------------------------------------------------------------------------------------


@case("nan", "log = p.log()", "made by log: log of 0")
def a_logarithm_of_zero(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, "nan"):
            optimizer.zero_grad()
            p = F.softmax(net(x) * 1e4, 1)
            log = p.log()
            loss = F.nll_loss(log, y)
            loss.backward()
            optimizer.step()
    return view


@case("nan", "q = p.log()", "made by log: log of 0")
def a_logarithm_that_is_good_for_a_while(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    with watch(net) as view:
        for bad in later(view, "nan"):
            optimizer.zero_grad()
            p = F.softmax(net(x) * (1e4 if bad else 1.0), 1)
            q = p.log()
            loss = -q[range(16), y].mean()
            loss.backward()
            optimizer.step()
    return view


@case("nan", "scores = net(x).exp()", "made by exp: exp of")
def an_infinity_that_begins_late(watch):
    x, _ = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.0001)
    with watch(net) as view:
        for bad in later(view, "nan"):
            optimizer.zero_grad()
            if bad:
                x = x * 1e4
            scores = net(x).exp()
            loss = (scores / scores.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
    return view


@case("nan", "scores.masked_fill(", "made by masked_fill: it was told to")
def a_mask_that_nothing_takes_away(watch):
    x, _ = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.001)
    with watch(net) as view:
        for _ in until(view, "nan"):
            optimizer.zero_grad()
            scores = net(x)
            hidden = scores.masked_fill(torch.tensor([True, False]), float("inf"))
            loss = hidden.mean()
            loss.backward()
            optimizer.step()
    return view


@case("nan-data", "self.layer(x)", "`x` comes in with 1 bad number")
def a_hole_in_the_data(watch):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            return self.layer(x)

    x, y = batch()
    x[3, 1] = float("nan")
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, "nan-data"):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return view


@case("nan-parameter", "loss = F.cross_entropy(net(x), y)", "`0.weight` holds")
def weights_that_were_lost_before(watch):
    x, y = batch()
    net = body()
    with torch.no_grad():
        net[0].weight[0, 0] = float("nan")
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, "nan-parameter"):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return view


@case("nan-gradient", "loss = net(x).square().sum(1).sqrt().sum()", "rule of s")
def a_root_at_zero(watch):
    x, _ = batch()
    net = body()
    nn.init.zeros_(net[-1].weight)  # so begins the last layer of a residual branch
    nn.init.zeros_(net[-1].bias)
    optimizer = optim.SGD(net.parameters(), lr=1e-6)
    with watch(net) as view:
        for _ in until(view, "nan-gradient"):
            optimizer.zero_grad()
            loss = net(x).square().sum(1).sqrt().sum()
            loss.backward()
            optimizer.step()
    return view


@case("bad-grad", "root = w.sqrt()", "`w.grad`")
def a_gradient_that_is_asked_about(watch):
    w = torch.tensor([0.0, 4.0], requires_grad=True)
    with watch():
        root = w.sqrt()
        loss = root.sum()
        loss.backward()
        return viz.trouble(loss)


@case("nan-loss", "", "kept nothing that says why")
def a_hole_that_nobody_has_kept(watch):
    x, _ = batch()
    w = nn.Parameter(torch.zeros(3))
    optimizer = optim.SGD([w], lr=0.1)
    with watch() as view:
        for bad in later(view, "nan-loss"):
            optimizer.zero_grad()
            data = x * float("nan") if bad else x
            loss = (w + data).mean()
            loss.backward()
            optimizer.step()
    return view


# The chain ----------------------------------------------------------------------------------


@case("no-graph", "", "wants a gradient")
def nothing_to_learn(watch):
    x, _ = batch()
    with watch():
        return viz.trouble((x * 2).sum())


@case("cut", "h = net[1](net[0](x)).detach()", "`0.weight`, `0.bias`")
def a_chain_that_is_cut(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, "cut"):
            optimizer.zero_grad()
            h = net[1](net[0](x)).detach()
            loss = F.cross_entropy(net[2](h), y)
            loss.backward()
            optimizer.step()
    return view


class Spare(nn.Module):
    def __init__(self, runs: bool):
        super().__init__()
        self.layer, self.spare, self.runs = nn.Linear(3, 2), nn.Linear(3, 2), runs

    def forward(self, x):
        if self.runs:
            self.spare(x)
        return self.layer(x)


@case("never-called", "loss.backward()", "`spare` never ran")
def a_layer_that_never_runs(watch):
    return spare(watch, Spare(False), "never-called")


@case("unused", "loss.backward()", "`spare.weight`, `spare.bias`")
def a_layer_that_nobody_needs(watch):
    return spare(watch, Spare(True), "unused")


def spare(watch, net, finding_kind):
    x, y = batch()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, finding_kind):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return view


class Listed(nn.Module):
    def __init__(self, holds):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.layers = holds

    def forward(self, x):
        x = self.first(x)
        parts = self.layers.values() if isinstance(self.layers, dict) else self.layers
        for layer in parts:
            x = layer(x) if isinstance(layer, nn.Module) else x @ layer
        return x


def listed(watch, holds):
    x, y = batch()
    net = Listed(holds)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, "unregistered"):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return view


@case("unregistered", "loss.backward()", "`layers` is a plain list")
def layers_in_a_list(watch):
    return listed(watch, [nn.Linear(3, 3), nn.Linear(3, 2)])


@case("unregistered", "loss.backward()", "`layers['last'].weight`")
def layers_in_a_dict(watch):
    return listed(watch, {"last": nn.Linear(3, 2)})


@case("unregistered", "loss.backward()", "`layers[0]`")
def parameters_in_a_tuple(watch):
    return listed(watch, (nn.Parameter(torch.randn(3, 2)),))


@case("double-backward", "loss.backward(create_graph=True)", "create_graph=True")
def a_graph_of_the_gradient(watch):
    x, _ = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, "double-backward"):
            optimizer.zero_grad()
            loss = net(x).tanh().square().mean()
            loss.backward(create_graph=True)
            optimizer.step()
    return view
