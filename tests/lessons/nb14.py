"""What `notebooks/14_unet.ipynb` promises."""

from __future__ import annotations

from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, percent, pictures_of

PACKAGES = ["stardist", "PIL"]
PROMISES = [r"moved by 1: IoU 0\.39, Dice 0\.56", r"125 nuclei were drawn; areas: 106 in the true"]

STRICT = """
net = UNet(width=2).to(device)
images = torch.rand(2, 1, SIZE, SIZE, device=device)
targets = (images > 0.5).float()
logits = net(images)
assert logits.shape == images.shape
F.binary_cross_entropy_with_logits(logits, targets).backward()
assert all(parameter.grad is not None for parameter in net.parameters())
"""


def check(cell_outputs: list[Any]) -> None:
    """The U-Net is better than brightness, and than the same U without skips."""
    reached = percent(r"U-Net on the unseen quarter: IoU ([\d.]+)", cell_outputs)
    assert reached >= 0.85
    assert reached > percent(r"brightness alone: IoU ([\d.]+)", cell_outputs) + 0.03
    assert reached > percent(r"without skips: IoU ([\d.]+)", cell_outputs)
    assert percent(r"join1: skip cut ([\d.]+)", cell_outputs) < reached - 0.1
    assert ends_with_step(cell_outputs, 100)
    assert drawn_by_graphviz(cell_outputs) == 3, "the U, the live view, the gradients of a step"
    first, _, gradients = pictures_of(cell_outputs)
    for words in (first, gradients):
        assert words.count("cat") == 3, "three skips"
        assert "bottom · Block" in words, "folded: a block is a box"
