"""`python -m tests.fuzz [--minutes N] [--seed S] [--only PATTERN] [--silent] [--write FILE]`."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from pathlib import Path

# Before NumPy and PyTorch are imported: threads would count as processor time, and a forked
# process has none of them.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ.setdefault("EDUTORCH_KERNELS", "off")

from .judge import Finding  # noqa: E402
from .known import OPEN  # noqa: E402
from .report import format_findings, heading, is_silent, summary  # noqa: E402
from .session import Session  # noqa: E402
from .targets import all_targets  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer and print what it finds; return 1 if that is anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2, help="of processor time")
    parser.add_argument("--blocks", type=int, help="of calls: the same ones on any machine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a pattern for the paths of the targets")
    parser.add_argument("--write", type=Path, help="also write the findings into this file")
    parser.add_argument("--silent", action="store_true", help="only what is wrong without a word")
    asked = parser.parse_args(arguments)
    import torch

    import edutorch

    torch.set_num_threads(1)
    if asked.write:
        asked.write.write_text("")
    targets = [t for t in all_targets(torch) if re.search(asked.only, t.path)]

    def tell(finding: Finding) -> None:
        print(heading(finding), file=sys.stderr, flush=True)
        if asked.write:  # at once: a run may be stopped
            with asked.write.open("a") as file:
                print(format_findings([finding]), file=file)

    session = Session((edutorch, torch), targets, asked.seed)
    report = session.run(60 * asked.minutes, tell, asked.blocks or math.inf)
    findings = [f for f in report.findings if f.key not in OPEN]
    if asked.silent:
        findings = [finding for finding in findings if is_silent(finding)]
    text = format_findings(findings)
    print(text)
    print(summary(report, targets))
    if asked.write:
        asked.write.write_text(f"{text}\n{summary(report, targets)}\n")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
