"""What `notebooks/04_a_first_network.ipynb` promises."""

from __future__ import annotations

import math
import re
from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, percent, pictures_of, printed

PACKAGES = ["sklearn"]
PROMISES = [
    r"by hand (\S+)   F\.cross_entropy \1",
    r"agrees: True",
    r"by hand inf\nF\.cross_entropy 1000\.0",
    r"8 bottles: right 0\.00\d\d, with a mistake 0\.55",
    r"factor 1: 60 steps, loss 0\.0",
    r"factor 2: [1-5] steps",
    r"dead after:  16 of 16\nloss .*, largest gradient in the first layer 0\.0",
]


def check(cell_outputs: list[Any]) -> None:
    """The wines are told apart, and the first loss is what was predicted."""
    text = printed(cell_outputs)
    assert percent(r"held-out wines: .* \(([\d.]+)%\)", cell_outputs) >= 95
    assert abs(percent(r"start ([\d.]+), end", cell_outputs) - math.log(3)) < 0.2
    raw = [float(loss) for loss in re.findall(r"raw ([\d.]+)", text)]
    assert sum(loss > 10 for loss in raw) >= 2, "unscaled inputs: far above ln 3"
    sizes = [float(size) for size in re.findall(r"last hidden layer (\S+),", text)]
    assert sizes[0] < 0.1 < sizes[1] < 10 < sizes[2]
    assert percent(r"factor 0\.5: 60 steps, loss ([\d.]+)", cell_outputs) > 1, "it stands still"
    small, fitting, large = re.findall(r"saturated: (.*)", text)
    assert set(small.split()) == {"0%"} and int(large.split("%")[-2]) > 50
    assert max(int(share) for share in re.findall(r"\d+", fitting)) < 10
    assert ends_with_step(cell_outputs, 80) and ends_with_step(cell_outputs, 60)
    assert drawn_by_graphviz(cell_outputs) == 3, "two live views, and the tanh network"
    assert {"7 · Tanh", "cross_entropy"} <= set(pictures_of(cell_outputs)[1])


STRICT = """
import edutorch as torch

torch.manual_seed(0)
x = torch.randn(8, 13, device=device)
targets = torch.randint(0, 3, (8,), device=device)
network = new_network().to(device)
loss = F.cross_entropy(network(x), targets)
loss.backward()
assert network[0].weight.grad.device == loss.device
assert torch.allclose(cross_entropy(network(x), targets), loss, atol=1e-5)
weights = [weight.detach().to(device).requires_grad_() for weight in start_weights(1)]
F.cross_entropy(deep(weights, x)[0], targets).backward()
tanh_network(lambda n: 1.0).to(device)(x).sum().backward()
"""
