"""Writes down torchaudio's answers: `python -m tests.audio.golden`, with the second environment."""

from __future__ import annotations

import json

from tests.audio.cases import CASES, GOLDEN, run_case
from tests.ecosystem.oracle import install


def main() -> None:
    install()
    import torch
    import torchaudio

    answers = {name: run_case(name, torch, torchaudio) for name in CASES}
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
