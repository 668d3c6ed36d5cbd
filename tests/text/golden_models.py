"""Writes golden_models.json: what the real transformers says, on PyTorch.

python -m tests.ecosystem.oracle tests/text/golden_models.py
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers

from tests.text import model_cases

FILE = Path(model_cases.__file__).parents[1] / "golden" / "text_models.json"


def main() -> None:
    golden = {}
    for name in model_cases.MODELS:
        model = model_cases.make(transformers, name)
        golden[name] = model_cases.run(torch, model, name)
    model = model_cases.make(transformers, "GPT2LMHeadModel")
    golden["generate"] = {
        name: model_cases.generate(torch, model, name) for name in model_cases.GENERATE
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in golden.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
