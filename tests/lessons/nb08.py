"""What `notebooks/08_optimizers_racing.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, shown

STRICT = """
model = new_network().to(device)
pixels, labels = torch.rand(20, 64, device=device), torch.arange(20, device=device) % 10
nn.functional.cross_entropy(model(pixels), labels).backward()
for optimizer in muon(model):
    optimizer.step()
point = torch.tensor([-1.5, 2.0], device=device, requires_grad=True)
(rosenbrock(*point) + saddle(*point)).backward()
"""


def check(cell_outputs: list[Any]) -> None:
    """The film is small, and asks nothing of any other machine; toys leave pictures."""
    assert drawn_by_graphviz(cell_outputs) == 2, "two live views"
    for words in ("toy line: step 20", "loss landscape, from"):
        assert [data for data in shown(cell_outputs) if words in data.get("text/plain", "")], words
    films = [
        data["text/html"]
        for data in shown(cell_outputs)
        if "_anim_img" in data.get("text/html", "")
    ]
    assert len(films) == 1 and len(films[0]) < 2_000_000
    assert "data:image/jpeg;base64" in films[0]
    assert "http" not in re.sub(r"base64,[^\"]*", "", films[0])
