"""What `notebooks/15_autoencoder_and_vae.ipynb` promises."""

from __future__ import annotations

from typing import Any

from edutorch.viz.render.style import ALARM
from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, percent, pictures_of, shown

PACKAGES = ["skimage"]
PROMISES = [
    r"encoder.weight +no gradient\nencoder.bias +no gradient\ndecoder.weight +has a gradient",
    r"`encoder.weight`, `encoder.bias` get no gradient",
    r"by the formula 3.808, by edutorch 3.808",
    r"sample : False\nrsample: True",
]


def check(cell_outputs: list[Any]) -> None:
    """The ELBO is above that of a constant image, and a walk between codes makes no jumps."""
    assert drawn_by_graphviz(cell_outputs) == 3, "the cut, the path, the VAE"
    pictures = [data["image/svg+xml"] for data in shown(cell_outputs) if "image/svg+xml" in data]
    assert not [picture for picture in pictures if ALARM in picture]
    cut, path, _ = pictures_of(cell_outputs)
    assert {"mul", "add", "exp"} <= set(cut) and "eps" in path and "eps" not in cut
    assert "detached here" in pictures[0] and "detached here" not in pictures[1]
    assert ends_with_step(cell_outputs, 150)

    blind = percent(r"the mean image for all: an error of ([\d.]+)", cell_outputs)
    assert percent(r"two numbers for each image: ([\d.]+)", cell_outputs) < 0.6 * blind
    constant = percent(r"a constant mean image: ELBO (-?[\d.]+)", cell_outputs)
    two = percent(r"VAE, two codes: +ELBO (-?[\d.]+)", cell_outputs)
    eight = percent(r"VAE, eight codes: ELBO (-?[\d.]+)", cell_outputs)
    assert constant + 10 < two < eight

    digit = percent(r"to the nearest digit: ([\d.]+) from a test digit", cell_outputs)
    random = percent(r"test digit, ([\d.]+) from a random code", cell_outputs)
    invented = percent(r"to the nearest digit: ([\d.]+) from an invented one", cell_outputs)
    assert digit < invented < 0.75 * random
    mixed = percent(r"middle of the pixels: ([\d.]+) to the nearest digit", cell_outputs)
    assert percent(r"middle of the codes: +([\d.]+)", cell_outputs) < 0.9 * mixed
    assert percent(r"usually, ([\d.]+) at most", cell_outputs) <= 3
    assert percent(r"noise 1.0: codes cost +([\d.]+)", cell_outputs) < 0.1


STRICT = """
images = torch.rand(6, 64, device=device)
plain, vae = Autoencoder().to(device), VAE(codes=3).to(device)
squared_error(plain(images), images).backward()
loss = loss_of(vae, images)
loss.backward()
assert loss.device.type == vae.encoder[0].weight.grad.device.type == "strict"
"""
