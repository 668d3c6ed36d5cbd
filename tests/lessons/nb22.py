"""What `notebooks/22_many.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from tests.lessons.outputs import printed, shown

PACKAGES = ["mpi4py"]
PROMISES = [
    r"mean of the halves and the whole differ by [0-9]e-(0[89]|1\d)\n",
    r"rank 0 and rank 1 differ by 0\n.*two ranks and one process differ by [0-9]e-0[5-8]\n",
    r"rank 0 and rank 1 differ by 0\nDDP and one process differ by [0-9]e-0[5-8]\n",
    r"all_reduce(.|\n)*barrier",
    r" {4}8 +24\.0 GB +13\.5 GB +3\.0 GB",
]
STRICT = """
x, y = torch.rand(4, 1, 8, 8, device=device), torch.arange(4, device=device)
F.cross_entropy(network().to(device)(x), y).backward()
"""


def check(cell_outputs: list[Any]) -> None:
    """Both ranks say hello; by hand a step has a box for each parameter, with DDP one."""
    text = printed(cell_outputs)
    said = re.findall(r"rank (\d) of 2, process (\d+): the sum is (\d+)", text)
    assert {(rank, total) for rank, _, total in said} == {("0", "11"), ("1", "11")}
    assert len({process for _, process, _ in said}) == 2
    lanes = [data["image/svg+xml"] for data in shown(cell_outputs) if "image/svg+xml" in data]
    lanes = [svg for svg in lanes if "rank 1" in svg]
    assert len(lanes) == 2
    for svg in lanes:
        titles = re.findall(r"<title>(\w+) of (\d+) float32", svg)
        assert {name for name, _ in titles} >= {"all_reduce"}
    by_hand, by_ddp = ({int(n) for n in re.findall(r"all_reduce of (\d+) ", svg)} for svg in lanes)
    assert by_hand == {4096, 64, 640, 10}
    assert 4096 + 64 + 640 + 10 in by_ddp
