"""What `notebooks/16_gan.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from edutorch.viz.render.style import ALARM
from tests.lessons.outputs import (
    drawn_by_graphviz,
    ends_with_step,
    percent,
    pictures_of,
    printed,
    shown,
)

PROMISES = [
    r"undecided +1.386 = 2 ln 2",
    r"generator.0.weight +0\.\d+\n",
    r"through a second time\n +hint: call backward\(retain_graph=True\)",
]


def check(cell_outputs: list[Any]) -> None:
    """Without noise the generator collapses; with it, it draws nearly all digits."""
    assert drawn_by_graphviz(cell_outputs) == 3, "the arrow, the cut, the game"
    pictures = [data["image/svg+xml"] for data in shown(cell_outputs) if "image/svg+xml" in data]
    assert not [picture for picture in pictures if ALARM in picture]
    arrow, cut, game = pictures_of(cell_outputs)
    assert "detach" not in arrow and {"detach", "sigmoid"} <= set(cut)
    assert "detached here" not in pictures[0] and "detached here" in pictures[1]
    assert "detach" in game and ends_with_step(cell_outputs, 80)

    own = percent(r"from its own loss +([\d.]+)", cell_outputs)
    assert percent(r"both added up +([\d.]+)", cell_outputs) < 0.2 * own
    assert percent(r"angle between the two: (-?[\d.]+)", cell_outputs) < -0.9

    assert percent(r"the judge is right about ([\d.]+)% of the digits", cell_outputs) >= 97
    counts = [int(count) for count in re.findall(r": (\d+) of 10 classes", printed(cell_outputs))]
    assert max(counts[:3]) <= 3 and max(counts[:5]) <= 6, "collapse is seen"
    found = r"at least 2% of 1,000 images in (\d+) of 10 classes"
    assert percent(found, cell_outputs) >= 9


STRICT = """
noise = torch.randn(6, NOISE, device=device)
real = torch.rand(6, 64, device=device)
generator, discriminator = make_generator(8).to(device), make_discriminator(8).to(device)
fake = generator(noise)
(as_real(discriminator(real)) + as_drawn(discriminator(fake.detach()))).backward()
assert generator[0].weight.grad is None
as_real(discriminator(fake)).backward()
assert generator[0].weight.grad.device.type == "strict"
F.cross_entropy(Judge().to(device)(real), torch.arange(6, device=device)).backward()
"""
