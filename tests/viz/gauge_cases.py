"""Networks that are ill, for every sentence that the gauges may say: (program, a name in it)."""

import math
import time

import edutorch as torch
from edutorch import nn, optim
from edutorch.viz.live.layer_health import FINE, Gauges, health_messages, rows_of
from tests.viz.trouble_cases import SECONDS, STEPS


def trained(watch, net, lr=1e-3, x=None, scale=1.0, kind=optim.SGD):
    """Train a net inside a view on noise, until the gauges have more than a word of praise."""
    torch.manual_seed(0)
    data = torch.randn(16, 6) if x is None else x
    optimizer = kind(net.parameters(), lr=lr)
    start, step = time.perf_counter(), 0
    with watch(net) as view:
        while step < STEPS or (time.perf_counter() < start + SECONDS and is_fine(view)):
            step += 1
            optimizer.zero_grad()
            loss = (net(data) * scale - torch.randn(16, 1)[: len(data)]).pow(2).mean()
            loss.backward()
            optimizer.step()
    return view


def gauges_of(view):
    return next(part for part in view.parts if isinstance(part, Gauges))


def is_fine(view):
    gauges = gauges_of(view)  # asked behind its back: it counts how often it tells a page
    rows = rows_of([layer for layer in gauges.layers.values() if layer.norms])
    return health_messages(
        rows, [activation for activation in gauges.activations.values() if activation.samples]
    ) == [FINE]


def mlp(activation=nn.ReLU, layers=2, width=8):
    torch.manual_seed(1)
    blocks = [part for _ in range(layers) for part in (nn.Linear(width, width), activation())]
    return nn.Sequential(nn.Linear(6, width), activation(), *blocks, nn.Linear(width, 1))


def climbing(parameters, lr):
    """An optimizer in the wrong direction: the weights grow by the same share in each step."""
    return optim.SGD(parameters, lr=lr, maximize=True)


def without_gradient(watch):
    net = mlp()
    with torch.no_grad():
        net[0].bias.fill_(-1e6)
    return trained(watch, net)


def nowhere(watch):
    net = mlp()
    with torch.no_grad():
        net[-1].weight.zero_()
        net[-1].bias.fill_(1.0)
    net.append(Gate())
    return trained(watch, net)


class Gate(nn.Module):
    """Passes no gradient, though all is connected."""

    def forward(self, x):
        return x * 0 + 3


def saturated(watch, kind):
    net = nn.Sequential(nn.Linear(6, 8), kind(), nn.Linear(8, 1))
    with torch.no_grad():
        net[0].weight *= 1e4
    return trained(watch, net, lr=0.0)


def dead(watch):
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    with torch.no_grad():
        net[0].bias[:6] = -1e6
    return trained(watch, net)


GAUGE_CASES = {
    "lost": (lambda watch: trained(watch, mlp(), x=torch.full((4, 6), math.nan)), "0.weight"),
    "nowhere": (nowhere, ""),
    "vanishing": (lambda watch: trained(watch, mlp(nn.Sigmoid, 12)), "at 0"),
    "exploding": (lambda watch: trained(watch, mlp(nn.Identity), lr=0.0, scale=1e6), "at 6."),
    "missing": (without_gradient, "0.weight"),
    "fast": (lambda watch: trained(watch, nn.Linear(6, 1), lr=0.2, kind=climbing), "most of all "),
    "slow": (lambda watch: trained(watch, mlp(), lr=1e-5), "least of all "),
    "relu": (dead, "1 relu"),
    "tanh": (lambda watch: saturated(watch, nn.Tanh), "1 tanh"),
    "sigmoid": (lambda watch: saturated(watch, nn.Sigmoid), "1 sigmoid"),
    "fine": (lambda watch: trained(watch, mlp(), lr=0.05), ""),
}
