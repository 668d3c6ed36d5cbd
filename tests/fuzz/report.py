"""Findings and statistics of a run as text."""

from __future__ import annotations

from collections import Counter

from .judge import Finding
from .scripts import script
from .session import Report
from .targets import Target

ORDER = ("hang", "crash", "value", "gradient", "second derivative", "forward mode", "structure",
         "shape", "dtype", "requires_grad", "unclear error", "refused", "accepted")  # fmt: skip
"""The worst first."""

SILENT = ORDER[: ORDER.index("unclear error")]
"""Kinds that a user does not notice, or cannot stop."""


def severity(finding: Finding) -> int:
    return next(
        (i for i, prefix in enumerate(ORDER) if finding.kind.startswith(prefix)), len(ORDER)
    )


def is_silent(finding: Finding) -> bool:
    """Whether a finding is a hang, a crash or something wrong without a word."""
    return finding.kind.startswith(SILENT)


def heading(finding: Finding) -> str:
    return f"{finding.call.path}: {finding.kind}: {finding.detail}"


def format_findings(findings: list[Finding]) -> str:
    """Return findings, the worst first, each with a script."""
    parts = []
    for finding in sorted(findings, key=lambda f: (severity(f), f.call.path)):
        try:
            text = script(finding.call)
        except (ValueError, TypeError) as error:  # the finding stands all the same
            text = f"# {finding.call!r}\n# no script: {error}"
        parts.append(f"# {heading(finding)}\n{text}\n")
    return "\n".join(parts)


def summary(report: Report, targets: list[Target]) -> str:
    """Return how much was tried, what was found by kind, and what was never reached."""
    missed = sorted(t.path for t in targets if not report.valid[t.path])
    counts = Counter(
        ORDER[severity(f)] if severity(f) < len(ORDER) else f.kind for f in report.findings
    )
    lines = [
        f"{report.valid.total()} valid calls of {len(targets) - len(missed)} functions in "
        f"{report.cpu_seconds / 60:.1f} minutes of processor time: "
        f"{report.valid_per_minute:.0f} a minute",
        f"findings: {', '.join(f'{n} {name}' for name, n in counts.most_common()) or 'none'}",
        f"never reached ({len(missed)} of {len(targets)}): {' '.join(missed) or 'none'}",
    ]
    if report.torch_died:
        lines.append(f"PyTorch itself hung or crashed in {len(report.torch_died)} calls: "
                     f"{' '.join(sorted({call.path for call in report.torch_died}))}")  # fmt: skip
    return "\n".join(lines)
