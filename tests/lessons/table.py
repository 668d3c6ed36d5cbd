"""Prints what each notebook took: seconds and megabytes. A pytest plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def record_lesson(record_property: Any) -> Callable[[str, float, int], None]:
    """Return what notes the seconds and the megabytes of a notebook."""

    def record(stem: str, seconds: float, megabytes: int) -> None:
        record_property("lesson", (stem, seconds, megabytes))

    return record


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
    ]
    rows = sorted(
        value
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == "lesson"
    )
    if rows:
        terminalreporter.write_line("| notebook | seconds | MB |\n|:--|--:|--:|")
        for stem, seconds, megabytes in rows:
            terminalreporter.write_line(f"| {stem} | {seconds:.0f} | {megabytes} |")
        total = sum(seconds for _, seconds, _ in rows)
        terminalreporter.write_line(f"| together | {total:.0f} | |")
