"""What `notebooks/18_translating_dates.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, percent, printed, shown

PACKAGES = ["babel"]
PROMISES = [
    r"reads  START     2     0     3",
    r"shares    0\.04  0\.84  0\.11",
    r"on the padding: 0\.0, in all: 1\.000",
    r"after 48 steps, greedy: [\d.]+% exact",
]
STRICT = """
model = Translator(letters=30, width=16).to(device)
texts = torch.tensor([[3, 4, 5, 6, 0, 0], [7, 8, 9, 1, 2, 3]], device=device)
targets = torch.tensor([[1, 9, 8, 7, 10, 0, 4, 10, 0, 3]] * 2, device=device)
scores = model(texts, shifted(targets))
loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
loss.backward()
assert scores.shape == (2, 10, 11) and model.ask.weight.grad.device == device
assert translate(model, texts).shape == (2, 10)
assert (model.shares[0, :, 4:] == 0).all().item()
"""


def check(cell_outputs: list[Any]) -> None:
    """Attention translates what one vector cannot, and what is masked has no gradient."""
    assert percent(r"with attention: +([\d.]+)% exact", cell_outputs) >= 98
    assert percent(r"one vector for all: +([\d.]+)% exact", cell_outputs) <= 20
    assert ends_with_step(cell_outputs, 150)
    assert drawn_by_graphviz(cell_outputs) == 3, "the reverser, without a mask, with one"
    texts = [data.get("text/plain", "") for data in shown(cell_outputs)]
    looks = [text for text in texts if text.startswith("<attention of 1 head")]
    assert len(looks) == 3
    assert "1 looks at f, 2 at e, 3 at d, 4 at c, 5 at b, 6 at a" in looks[0]
    assert "1 looks at 1, 9 at 9, 8 at 8, 7 at 7" in looks[1]
    tables = [re.search(r"padding\.grad +3×4 float32 +mean +([^ ]+)", text) for text in texts]
    unmasked, masked = (table[1] for table in tables if table)
    assert float(unmasked) != 0 and float(masked) == 0
    assert int(re.findall(r"da: (\d+) of 100", printed(cell_outputs))[0]) > 70
