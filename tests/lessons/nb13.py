"""What `notebooks/13_deeper_resnet.ipynb` promises."""

from __future__ import annotations

from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, percent, pictures_of

PACKAGES = ["sklearn", "skimage"]
PROMISES = [r"19 convolutions and one linear layer", r"residual: 13\.78"]

STRICT = """
net = Deep(skip=True).to(device)
logits = net(torch.rand(4, 1, 8, 8, device=device))
F.cross_entropy(logits, torch.tensor([0, 3, 9, 1], device=device)).backward()
assert all(parameter.grad is not None for parameter in net.parameters())
"""


def check(cell_outputs: list[Any]) -> None:
    """The residual network gets a gradient and learns; the plain one gets none and guesses."""
    assert percent(r"the residual one is (\d+) times as large", cell_outputs) >= 10
    residual = percent(r"residual 20: ([\d.]+)% of the test digits", cell_outputs)
    assert residual > 90
    assert residual > percent(r"of the test digits, plain 20: ([\d.]+)%", cell_outputs) + 50
    for index in (0, 1, 2, 4, 5, 7, 8):
        assert percent(rf"without block {index}: (\d+)%", cell_outputs) > 60
    assert ends_with_step(cell_outputs, 224), "8 epochs of 28 batches"
    assert drawn_by_graphviz(cell_outputs) == 5, "two networks, two blocks, and the live view"
    _, with_skip, without, *_ = pictures_of(cell_outputs)
    assert "add" in with_skip and "add" not in without
