"""The size of each model: parameters, memory, and the work of one input.

    python -m edutorch.zoo.figures      # measure all, and write figures.json

All of it is known from shapes alone, so large models are built and run on the device "meta", where
a tensor has no elements.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from ..backends.device import device
from ..modes import no_grad
from ..nn import Module
from ..utils.atomic_files import write_atomically
from ..utils.flop_counter import FlopCounterMode
from .catalogue import Entry, list_entries

FILE = Path(__file__).parent / "figures.json"


class Figures(NamedTuple):
    """Sizes of a model.

    Args:
        parameters: how many numbers are learned.
        memory: the bytes of parameters and buffers.
        flops: floating-point operations of a forward with one input: matrix products and
            convolutions, each multiplication and addition counted.
        error: the largest difference of its outputs from those of the library that it is compared
            with, relative to the largest output; the tests measure it.
    """

    parameters: int
    memory: int
    flops: int
    error: float | None = None


def device_of(entry: Entry) -> device:
    """Return where a model is measured: a small one with weights on the CPU, others on "meta"."""
    return device("cpu" if entry.trained else "meta")


def build_to_measure(entry: Entry) -> Module:
    """Return the model of an entry, in evaluation mode."""
    with device_of(entry):
        return entry.build().eval()


def measure(entry: Entry) -> Figures:
    """Return the sizes of a model."""
    model = build_to_measure(entry)
    with device_of(entry), no_grad(), FlopCounterMode(display=False) as counter:
        model(entry.example())
    parameters = list(model.parameters())
    return Figures(
        sum(parameter.numel() for parameter in parameters),
        sum(tensor.numel() * tensor.element_size() for tensor in (*parameters, *model.buffers())),
        counter.get_total_flops(),
    )


def read_figures() -> dict[str, Figures]:
    """Return the sizes of all models, as they were measured."""
    return {
        name: Figures(**figures) for name, figures in json.loads(FILE.read_text("utf-8")).items()
    }


def main() -> None:
    known = read_figures()
    figures = {}
    for entry in list_entries():
        error = known[entry.name].error if entry.name in known else None
        figures[entry.name] = measure(entry)._replace(error=error)
    write_figures(figures)


def write_figures(figures: dict[str, Figures]) -> None:
    """Write figures.json."""
    lines = (f'"{name}": {json.dumps(row._asdict())}' for name, row in figures.items())
    write_atomically(FILE, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


if __name__ == "__main__":
    main()
