"""Measure how far each model of the zoo is from the real one, and write it into the zoo's list.

    python -m tests.zoo.measure_errors

It takes minutes: all models run here, and what comes out is compared with the golden files, which
the real torchvision and transformers wrote on PyTorch (of GPT-2 and BERT with a small
configuration).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

import edutorch
from edutorch.text import models as text_models
from edutorch.vision import models
from edutorch.zoo import figures
from tests.text import model_cases
from tests.vision.model_runs import GOLDEN, QUICK, REST, WHOLE, difference, run

TEXT = {"gpt2": "GPT2LMHeadModel", "bert_base": "BertModel"}


def vision_errors() -> Iterator[tuple[str, float]]:
    """Yield the largest difference of each model of pictures, relative to the largest output."""
    for name, expected in json.loads(GOLDEN.read_text(encoding="utf-8"))["runs"].items():
        case = (QUICK | WHOLE | REST)[name]
        seed = expected.pop("seed")
        yield name, difference(run(case, case.build(models), seed), expected)["outputs"]


def text_errors() -> Iterator[tuple[str, float]]:
    """Yield the same for GPT-2 and BERT."""
    golden = json.loads((GOLDEN.parents[1] / "text_models.json").read_text(encoding="utf-8"))
    for name, case in TEXT.items():
        result = model_cases.run(edutorch, model_cases.make(text_models, case), case)
        outputs = golden[case]["outputs"]
        yield (
            name,
            max(
                float(
                    np.abs(np.subtract(result["outputs"][key], values)).max() / np.abs(values).max()
                )
                for key, values in outputs.items()
            ),
        )


def main() -> None:
    known = figures.read_figures()
    for errors in (text_errors(), vision_errors()):
        for name, error in errors:
            if name in known:
                known[name] = known[name]._replace(error=error)
                print(name, f"{error:.1e}", flush=True)
                figures.write_figures(known)


if __name__ == "__main__":
    main()
