"""What `notebooks/03_shapes.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, printed, shown, words_of

PACKAGES = ["skimage"]
PROMISES = [
    r"views of the same memory: True\nand the mirrored one: False",
    r"view: view size is not compatible",
    r"table\.T\.reshape\(12\) +copy",
    r"stride \(0, 1\) same memory: True",
    r"shape \(3, 3\) mean square 1\.333",
    r"by pencil \[(.*)\]\ng\.sum\(0\)  \[\1\]",
    r"got \[4\] but expected shape compatible with \[4, 1\]",
    r"(?s)(agrees: True.*){8}",
]


def check(cell_outputs: list[Any]) -> None:
    """All gradients equal float64's; the walk stops where a gradient has the wrong shape."""
    text = printed(cell_outputs)
    match = re.search(r"(\d+) of (\d+) gradients equal those of float64", text)
    assert match and match[1] == match[2] and int(match[1]) >= 16
    differences = re.findall(r"shape \(.*\) +largest difference (\S+)", text)
    assert len(differences) == int(match[2]) and max(map(float, differences)) < 1e-5
    assert drawn_by_graphviz(cell_outputs) == 3, "two walks and a live view"
    pictures = [data["image/svg+xml"] for data in shown(cell_outputs) if "image/svg+xml" in data]
    assert {"ForgetfulExpand", "4×3 float32", "4×1 float32"} <= set(words_of(pictures[1]))
    assert ends_with_step(cell_outputs, 200)
    gains = re.search(r"gain \[(.*)\] needed \[(.*)\]", text)
    assert gains
    reached, needed = ([float(gain) for gain in part.split(",")] for part in gains.groups())
    assert all(abs(gain - goal) < 0.1 for gain, goal in zip(reached, needed, strict=True))


STRICT = """
import edutorch as torch

gain = torch.ones(3, 1, 1, device=device, requires_grad=True)
image = torch.randn(3, 5, 4, device=device)
loss = ((gain * image)[:, 1:].transpose(1, 2).reshape(3, -1) ** 2).mean()
loss.backward()
assert gain.grad.shape == (3, 1, 1) and gain.grad.device == loss.device
scores = attention_scores(torch.randn(2, 4, 2, 3, device=device), image.new_ones(2, 4, 2, 3))
total, _ = backward_of_add(image, image.shape, (3,))
ForgetfulExpand.apply(torch.ones(4, 1, device=device), 3)
"""
