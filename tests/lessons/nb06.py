"""What `notebooks/06_modules_and_state_dict.ipynb` promises."""

from __future__ import annotations

from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, percent

PROMISES = [
    r"cannot assign Linear before Module.__init__\(\) call",
    r"is damaged: the checksum is wrong",
    r"size mismatch for head.weight",
    r"the body has not moved: True",
]
STRICT = """
reader, centre = DigitReader(10).to(device), Centre().to(device)
pixels, labels = torch.rand(20, 64, device=device), torch.arange(20, device=device) % 10
nn.functional.cross_entropy(reader(centre(pixels)), labels).backward()
"""


def check(cell_outputs: list[Any]) -> None:
    assert drawn_by_graphviz(cell_outputs) == 3, "the reader, the live view, the frozen one"
    assert percent(r"trained: ([\d.]+)% of digits it has never seen", cell_outputs) > 93
