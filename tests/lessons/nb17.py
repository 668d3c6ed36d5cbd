"""What `notebooks/17_diffusion.ipynb` promises."""

from __future__ import annotations

from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, percent

PACKAGES = ["sklearn"]
PROMISES = [
    r"always 0: (1\.0|0\.9)\d",
    r"15 steps: mean 0\.[89]\d 1\.[78]\d, deviation 0\.4\d 0\.4\d",
    r"one jump: mean 0\.[89]\d 1\.[78]\d, deviation 0\.4\d 0\.4\d",
]


def check(cell_outputs: list[Any]) -> None:
    """The samples are near the data, and the digits are what was asked for."""
    assert drawn_by_graphviz(cell_outputs) == 3, "a training step, the tiny denoiser, two steps"
    assert ends_with_step(cell_outputs, 60)
    half = percent(r"two halves of the data: ([\d.]+)", cell_outputs)
    samples = percent(r"samples and data: +([\d.]+)", cell_outputs)
    noise = percent(r"noise and data: +([\d.]+)", cell_outputs)
    assert samples <= 3 * half and samples <= noise / 10
    assert percent(r"strength +1: +(\d+)% read as wanted", cell_outputs) >= 90
    assert percent(r"strength +0: +(\d+)% read as wanted", cell_outputs) <= 25


STRICT = """
for model, extra in ((Denoiser(width=16), ()), (DigitDenoiser(width=16), (torch.arange(6),))):
    model = model.to(device)
    width = 64 if extra else 2
    x = torch.randn(6, width, device=device)
    t = torch.randint(1, STEPS + 1, (6,), device=device)
    guess = model(x, t, *(label.to(device) for label in extra))
    F.mse_loss(guess, torch.randn_like(x)).backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
"""
