"""Runs the rows of a parametrized test in groups: a pytest plugin.

Most of the 25,000 tests are rows of tables and take less time than pytest needs to set one up and
to report it. Here up to 40 rows of a test are one item, which runs all of them and reports each
row that fails. Rows stay tests of their own where one is chosen (`-k`, or an id with `::`), with
`--no-tables`, and where a row has marks or the test asks for a fixture that has to be made anew
for each row (`tmp_path`, `monkeypatch`, …).
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.python import DirectParamFixtureDef

import edutorch

ROWS_PER_ITEM = 40
SHARED = {
    "_same_start", "warnings_are_errors", "_warnings_are_errors", "torch", "device", "double",
    "fake", "kernels_are_made", "ops_of_pictures",
}  # fmt: skip
"""Fixtures of a test that serve several rows as well as one."""

counts: Counter[str] = Counter()
"""How many rows passed, were skipped or failed in this process."""

skipped: Counter[str] = Counter()
"""The reasons for which rows were skipped, where others of their item ran."""

spent: Counter[str] = Counter()
"""The processor time of each test function, in milliseconds."""


class Rows(pytest.Function):
    """Several rows of one test."""

    rows: list[pytest.Function]

    def runtest(self) -> None:
        """Run every row, and report all that fail."""
        failures, reasons = [], []
        own = {name: value for name, value in self.funcargs.items() if name not in direct(self)}
        for row in self.rows:
            edutorch.manual_seed(0)
            arguments = own | {name: row.callspec.params[name] for name in direct(row)}
            try:
                with warnings.catch_warnings():
                    names = self._fixtureinfo.argnames
                    self.obj(**{name: arguments[name] for name in names})
            except pytest.skip.Exception as skip:
                reasons.append(str(skip))
            # `pytest.fail`, which `pytest.raises` calls, raises no Exception but a BaseException.
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  (reported below)
                shown = self._repr_failure_py(pytest.ExceptionInfo.from_exception(error))
                failures.append(f"{row.name}\n\n{shown}")
        counts["failed"] += len(failures)
        counts["skipped"] += len(reasons)
        counts["passed"] += len(self.rows) - len(failures) - len(reasons)
        if failures:
            text = f"{len(failures)} of {len(self.rows)} rows fail:\n\n"
            pytest.fail(text + "\n\n".join(failures), pytrace=False)
        if len(reasons) == len(self.rows):
            pytest.skip(reasons[0])
        skipped.update(reasons)


def direct(item: pytest.Function) -> list[str]:
    """Return the arguments of a test that stand in its table (others come from fixtures)."""
    definitions = item._fixtureinfo.name2fixturedefs
    return [
        name
        for name in item.callspec.params
        if isinstance(definitions[name][-1], DirectParamFixtureDef)
    ]


def is_row(item: pytest.Item) -> bool:
    """Return whether a test may share an item with others of its function."""
    if type(item) is not pytest.Function or not hasattr(item, "callspec"):
        return False
    if item.callspec.marks or {"request", "monkeypatch"} & set(item._fixtureinfo.argnames):
        return False
    definitions = item._fixtureinfo.name2fixturedefs
    return all(
        name in SHARED
        or name == "monkeypatch"  # of a shared fixture: undone after the last row
        or isinstance(definitions[name][-1], DirectParamFixtureDef)
        or definitions[name][-1].scope != "function"
        for name in item.fixturenames
        if name in definitions
    )


def grouped(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the tests of one function, rows that may run together in one item."""
    groups: dict[tuple[Any, ...], list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and is_row(item):
            in_table = direct(item)
            others = [(n, v) for n, v in item.callspec.params.items() if n not in in_table]
            groups.setdefault((item.originalname, *map(repr, others)), []).append(item)
        else:
            yield item
    for rows in groups.values():
        for start in range(0, len(rows), ROWS_PER_ITEM):
            part = rows[start : start + ROWS_PER_ITEM]
            yield part[0] if len(part) == 1 else rows_item(part, start)


def rows_item(rows: list[pytest.Function], start: int) -> Rows:
    """Make one item of several rows."""
    first = rows[0]
    others = [str(v) for n, v in first.callspec.params.items() if n not in direct(first)]
    label = "-".join([*others, f"rows {start + 1} to {start + len(rows)}"])
    item = Rows.from_parent(
        first.parent,
        name=f"{first.originalname}[{label}]",
        callspec=first.callspec,
        callobj=first.obj,
        fixtureinfo=first._fixtureinfo,
        keywords=None,
        originalname=first.originalname,
    )
    item.rows = rows
    return item


# The plugin --------------------------------------------------------------------------


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--no-tables", action="store_true", help="each row is a test of its own")
    parser.addoption("--spent", action="store_true", help="print the processor time of each test")


def has_choice(config: pytest.Config) -> bool:
    """Return whether single tests are asked for."""
    options = config.option
    return options.no_tables or options.keyword or any("::" in arg for arg in config.args)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> Any:
    made = yield
    if not isinstance(made, list) or len(made) < 2 or has_choice(collector.config):
        return made
    return list(grouped(made))


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has started and awaited."""
    return time.process_time() + sum(os.times()[2:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    start = processor_seconds()
    try:
        return (yield)
    finally:
        spent[item.nodeid.partition("[")[0]] += round(1000 * (processor_seconds() - start))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker of xdist hand its figures to the process that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["rows"], output["skipped"] = dict(counts), dict(skipped)
        output["spent"] = dict(spent)
        output["processor_seconds"] = processor_seconds()


seconds_of_workers: list[float] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", None) or {}
    counts.update(output.get("rows", {}))
    skipped.update(output.get("skipped", {}))
    spent.update(output.get("spent", {}))
    seconds_of_workers.append(output.get("processor_seconds", 0.0))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items() if count)
    # With workers, this process alone: those that it has awaited would count twice.
    own = time.process_time() if seconds_of_workers else processor_seconds()
    if config.option.spent:
        for name, milliseconds in spent.most_common():
            if milliseconds >= 500:
                terminalreporter.write_line(f"{milliseconds / 1000:8.1f} s  {name}")
    if rows:
        terminalreporter.write_line(f"rows of tables: {rows}")
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"SKIPPED [{count}] rows: {reason}")
    terminalreporter.write_line(f"processor time: {(own + sum(seconds_of_workers)) / 60:.1f} min")
