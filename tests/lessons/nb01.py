"""What `notebooks/01_scalar_autograd.ipynb` promises."""

from __future__ import annotations

PROMISES = [
    r"a\.grad = 4\.0  b\.grad = 2\.0",
    r"yours     (.*)\nedutorch  \1\n",
    r"x\.grad = 18 \+ 6 = 24",
]
STRICT = """
x, w, bias = (torch.ones(3, device=device, requires_grad=True) for _ in range(3))
loss = (harder(x, w) + bias - 1) ** 2
loss.sum().backward()
"""
